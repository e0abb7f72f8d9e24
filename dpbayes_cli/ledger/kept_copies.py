"""Whether a file is what a backup or a salvage would write: then a command that was killed at its very end was done."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from dpbayes_cli.base.atomic_file import remove_dead, sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry, broken_links
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import describe_change
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.state import State

_APPLICATION = slice(68, 72)
"""Where SQLite keeps the number of the application, by which a file is known without being opened as a database."""


def existing_backup(ledger: Ledger, target: Path) -> State | None:
    """Return the state of a backup that is there already and holds all of the ledger; None if there is none.

    Raises:
        LedgerError: the ledger is not to be trusted, or the file is a backup of it that lacks entries.
    """
    if not _may_be_a_copy(target, ledger):
        return None
    state = ledger.state()
    try:
        findings, copied = Ledger(SqliteStorage(target, anywhere=True)).findings(compare=False)
    except LedgerError:
        return None
    if findings or not copied.last or not state.holds(copied.mark):
        return None
    if copied.mark != state.mark:
        raise LedgerError(
            f"{str(target)!r} exists already: a backup up to entry {copied.mark.sequence}, and the ledger holds "
            f"{state.mark.sequence}",
            hint="name another file: nothing is replaced",
        )
    _finish(target)
    return copied


def existing_salvage(
    ledger: Ledger, target: Path, entries: list[Entry], kept: int, payloads: Iterable[tuple[str, bytes]]
) -> State | None:
    """Return the state of a file that holds what was salvaged, but for when and by whom; None if there is none.

    Args:
        ledger: the damaged ledger.
        target: the file.
        entries: those of the new ledger, of which the first ``kept`` are those of the damaged one.
        kept: how many.
        payloads: those of the new ledger, by their keys.
    """
    if not _may_be_a_copy(target, ledger):
        return None
    try:
        with SqliteStorage(target, anywhere=True).reading() as transaction:
            written = transaction.entries()
            if broken_links(written) or written[:kept] != entries[:kept] or _said(written) != _said(entries):
                return None
            left = set(transaction.payload_ids())
            for key, payload in payloads:
                if transaction.payload(key) != payload:
                    return None
                left.remove(key)
            if left:
                return None
    except (LedgerError, ValueError):
        return None
    _finish(target)
    return replay(written)


def _said(entries: list[Entry]) -> list[tuple[str, str]]:
    return [describe_change(entry.fields) for entry in entries]


def _may_be_a_copy(target: Path, ledger: Ledger) -> bool:
    """Return whether a file is a ledger by its first bytes, and not the one that is to be copied."""
    try:
        if not stat.S_ISREG(target.lstat().st_mode) or target.samefile(ledger.location):
            return False
        with target.open("rb") as file:
            return file.read(_APPLICATION.stop)[_APPLICATION] == b"DPBY"
    except OSError:
        return False


def _finish(target: Path) -> None:
    try:
        remove_dead(target.absolute().parent)
        sync(target.absolute().parent)
    except OSError as error:
        raise LedgerError(f"cannot write {str(target)!r}: {error.strerror}") from None
