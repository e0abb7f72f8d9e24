"""Recognize a file that an earlier backup or salvage wrote, so that a command killed at its very end counts as done."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from dpbayes_cli.base.atomic_file import remove_abandoned, sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry, broken_links
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import describe_change
from dpbayes_cli.ledger.replay import replay
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.state import State

_APPLICATION_ID_BYTES = slice(68, 72)
"""Where SQLite stores the application ID, by which a ledger is recognized without opening a database."""


def existing_backup(ledger: Ledger, target: Path) -> State | None:
    """Return the state of a file that is already a complete backup of the ledger; None if it is not.

    Raises:
        LedgerError: the ledger is not trusted, or the file is a backup of it that lacks entries.
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
            f"{str(target)!r} exists already: it is a backup up to entry {copied.mark.sequence}, and the ledger has "
            f"{state.mark.sequence} entries",
            hint="name another file: nothing is replaced",
        )
    _finish(target)
    return copied


def existing_salvage(
    ledger: Ledger, target: Path, entries: list[Entry], kept: int, payloads: Iterable[tuple[str, bytes]]
) -> State | None:
    """Return the state of a file that already holds the same salvage, apart from its time and user; else None.

    Args:
        ledger: the damaged ledger.
        target: the file.
        entries: the entries of the new ledger.
        kept: how many of them, counted from the first, are entries of the damaged ledger.
        payloads: the keys and payloads of the new ledger.
    """
    if not _may_be_a_copy(target, ledger):
        return None
    try:
        with SqliteStorage(target, anywhere=True).reading() as transaction:
            written = transaction.entries()
            if broken_links(written) or written[:kept] != entries[:kept] or _contents(written) != _contents(entries):
                return None
            unmatched = set(transaction.payload_ids())
            for key, payload in payloads:
                if transaction.payload(key) != payload:
                    return None
                unmatched.remove(key)
            if unmatched:
                return None
    except (LedgerError, ValueError):
        return None
    _finish(target)
    return replay(written)


def _contents(entries: list[Entry]) -> list[tuple[str, str]]:
    return [describe_change(entry.fields) for entry in entries]


def _may_be_a_copy(target: Path, ledger: Ledger) -> bool:
    """Return whether the first bytes of a file are a ledger's, and the file is not the ledger itself."""
    try:
        if not stat.S_ISREG(target.lstat().st_mode) or target.samefile(ledger.location):
            return False
        with target.open("rb") as file:
            return file.read(_APPLICATION_ID_BYTES.stop)[_APPLICATION_ID_BYTES] == b"DPBY"
    except OSError:
        return False


def _finish(target: Path) -> None:
    try:
        remove_abandoned(target.absolute().parent)
        sync(target.absolute().parent)
    except OSError as error:
        raise LedgerError(f"cannot write {str(target)!r}: {error.strerror}") from None
