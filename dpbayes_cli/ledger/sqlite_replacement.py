"""Put another file in the place of a ledger: whoever works with it waits, and nothing that was there is lost.

The file that is there is locked against all readers and writers and read as it lies, without its journal being played
back. A mark stands beside it from before the first change of names until after the last: a replacement that is cut off
leaves a ledger that is refused until the same command is given again.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from dpbayes_cli.atomic_file import sync
from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.ledger_file import file_identity, restoring_mark
from dpbayes_cli.ledger.sqlite_journal import journal_of, lock_out
from dpbayes_cli.ledger.sqlite_salvage import readable_entries
from dpbayes_cli.ledger.sqlite_transaction import SqliteTransaction

_PATIENCE = 120.0


@dataclass
class Leftover:
    """What can be read of the file that is to be replaced.

    Attributes:
        entries: every entry that can be read, verified or not.
        is_walkable: whether the entries can be walked to the last one without an error.
    """

    entries: list[Entry] = field(default_factory=list)
    is_walkable: bool = False
    _connection: sqlite3.Connection | None = None

    def payload(self, key: str) -> bytes | None:
        """Return a payload that can still be read, or None."""
        if self._connection is None:
            return None
        with suppress(sqlite3.Error, LedgerError, UnicodeDecodeError):
            return SqliteTransaction(self._connection).payload(key)
        return None


@dataclass
class Replacement:
    """A file that is to take the place of a ledger.

    Attributes:
        ledger: the place.
        partial: the file, empty at first.
        left: what is left of the file that is there; None if there is none.
        suffix: what is added to the names of the file and the journal that were there, which are kept.
    """

    ledger: Path
    partial: Path
    left: Leftover | None
    suffix: str

    def place(self) -> None:
        """Set the old file and its journal aside, and give the new one the name.

        Raises:
            OSError: a name cannot be changed; the same replacement, made again, goes on from there.
        """
        mark, journal = restoring_mark(self.ledger), journal_of(self.ledger)
        sync(self.partial)
        os.close(os.open(mark, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        sync(self.ledger.parent)
        if self.left is not None:
            os.link(self.ledger, _free_name(self.ledger, self.suffix))
        if os.path.lexists(journal):
            journal.rename(_free_name(journal, self.suffix))
        sync(self.ledger.parent)
        if self.left is not None:
            self.partial.replace(self.ledger)
        else:
            os.link(self.partial, self.ledger)  # nothing that has appeared meanwhile is replaced
            self.partial.unlink()
        sync(self.ledger.parent)
        mark.unlink()
        sync(self.ledger.parent)


@contextmanager
def replacing(ledger: Path, suffix: str) -> Iterator[Replacement]:
    """Hold a ledger against all others while a file is made that takes its place.

    Args:
        ledger: the file, which may be missing or damaged.
        suffix: see ``Replacement``.

    Raises:
        LedgerError: others hold it for long, or a file cannot be written.
    """
    real = Path(os.path.realpath(ledger))
    partial = real.with_name(f".{real.name}.{secrets.token_hex(4)}.restored")
    try:
        with ExitStack() as held:
            exists = _locked(real, held)
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            held.callback(partial.unlink, missing_ok=True)
            yield Replacement(real, partial, _left(real, held) if exists else None, suffix)
    except OSError as error:
        raise LedgerError(f"cannot replace the ledger {str(ledger)!r}: {error.strerror}") from None


def _locked(ledger: Path, held: ExitStack) -> bool:
    """Lock the file that has the name; return whether there is one."""
    deadline = time.monotonic() + _PATIENCE
    while (before := file_identity(ledger)) is not None:
        with suppress(FileNotFoundError):
            try:
                descriptor = lock_out(ledger)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LedgerError(f"another process holds the ledger {str(ledger)!r}") from None
                time.sleep(0.05)
                continue
            if file_identity(ledger) == before:
                held.callback(os.close, descriptor)
                return True
            os.close(descriptor)
    return False


def _left(ledger: Path, held: ExitStack) -> Leftover:
    """Read the file as it lies; the lock keeps all others out."""
    try:
        place = f"file:{quote(str(ledger))}?mode=ro&immutable=1"
        connection = held.enter_context(closing(sqlite3.connect(place, uri=True, isolation_level=None)))
        entries, _ = readable_entries(connection)
    except (sqlite3.Error, UnicodeDecodeError):
        return Leftover()
    try:
        walked = sum(1 for _ in connection.execute("SELECT sequence, body, hash FROM entries ORDER BY sequence DESC"))
    except (sqlite3.Error, UnicodeDecodeError):
        walked = -1
    return Leftover(entries, walked == len(entries), connection)


def _free_name(path: Path, suffix: str) -> Path:
    names = (path.with_name(f"{path.name}.{suffix}{'' if i == 1 else f'-{i}'}") for i in range(1, 1000))
    return next(name for name in names if not os.path.lexists(name))
