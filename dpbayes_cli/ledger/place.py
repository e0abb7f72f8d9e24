"""Find the storage of a ledger from the text that names it: a file, or an address on a PostgreSQL server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.storage import Storage


def storage_at(stated: str | None = None) -> Storage:
    """Return the storage of the stated ledger, else of the one that ``$DPBAYES_LEDGER`` names, else of the default one.

    Raises:
        LedgerError: the address is malformed, or is not a PostgreSQL address.
    """
    stated = stated or os.environ.get("DPBAYES_LEDGER")
    if not stated:
        return SqliteStorage(default_path())
    from dpbayes_cli.base.postgres_address import is_address, parse_address

    if is_address(stated):
        from dpbayes_cli.ledger.postgres import PostgresStorage

        return PostgresStorage(parse_address(stated))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", stated):
        raise LedgerError("unknown kind of ledger address", hint="name a file, or postgresql://USER@HOST:PORT/DATABASE")
    return SqliteStorage(Path(stated))


def default_path() -> Path:
    """Return the path of the default ledger, in the user's state directory."""
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state_home.is_absolute():
        try:
            state_home = Path.home() / ".local" / "state"
        except RuntimeError:
            raise LedgerError(
                "no ledger is named, and this user has no home directory", hint="set DPBAYES_LEDGER"
            ) from None
    return state_home / "dpbayes" / "ledger.sqlite"
