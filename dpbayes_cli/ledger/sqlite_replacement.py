"""Replace the content of a ledger's file while other processes wait; the old content is kept in a copy.

The file keeps its inode. Otherwise, a process that still has the old file open would mistake the new file's journal for
its own. So the old content is copied to another file, the ledger's file is emptied, and SQLite writes the new content
in one transaction.

During the replacement, a marker file exists and is locked, and other processes wait for its lock. A marker without a
lock shows that a replacement was interrupted. Then every command is refused until the same restore is repeated.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from dpbayes_cli.base.atomic_file import locked_directory, make_directories, new_file, rename_without_replacing, sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.ledger_file import file_identity, retry_while_locked
from dpbayes_cli.ledger.sqlite_connection import SqliteTransaction, connect, readable_entries
from dpbayes_cli.ledger.sqlite_journal import has_crash_journal, journal_belongs, journal_of, lock_exclusively

_LOCK_TIMEOUT_SECONDS = 120.0
_DOUBTFUL = "/"
"""The marker file holds the name of the copy, followed by this character if the old file may not be the ledger."""


@dataclass
class Leftover:
    """The readable part of the ledger that will be replaced.

    Attributes:
        entries: every readable entry, verified or not.
        is_the_ledger: False if the file has a journal of another file, so that it may not be the ledger.
    """

    entries: list[Entry] = field(default_factory=list)
    is_the_ledger: bool = True
    _connection: sqlite3.Connection | None = None

    def reads_on_from(self, sequence: int) -> bool:
        """Return whether all entries after ``sequence`` can be read, up to the last one in the table or the index."""
        if self._connection is None or not self.is_the_ledger:
            return False
        try:
            rows = self._connection.execute("SELECT sequence FROM entries WHERE sequence > ?", (sequence,)).fetchall()
            sequences = {number for (number,) in rows}
            if self._connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'terms'").fetchone():
                (last_indexed,) = self._connection.execute("SELECT max(sequence) FROM terms").fetchone()
                if last_indexed is not None and last_indexed > max(sequences, default=sequence):
                    return False
        except (sqlite3.Error, UnicodeDecodeError, TypeError):
            return False
        return sequences == {entry.sequence for entry in self.entries if entry.sequence > sequence}

    def payload(self, key: str) -> bytes | None:
        """Return a payload, or None if it cannot be read."""
        if self._connection is None:
            return None
        with suppress(sqlite3.Error, LedgerError, UnicodeDecodeError):
            return SqliteTransaction(self._connection).payload(key)
        return None


@dataclass
class Replacement:
    """A new ledger that will replace the content of the ledger's file.

    Attributes:
        partial: the temporary file in which the caller writes the new ledger.
        left: the readable part of the old ledger.
        suffix: the end of the names under which the old files are kept.
        lock: the descriptor that holds an exclusive lock of the old file; None if there is no old file.
    """

    ledger: Path
    partial: Path
    left: Leftover
    suffix: str
    lock: int | None = None

    def place(self) -> None:
        """Keep a copy of the old files, and write the new ledger in their place.

        Raises:
            OSError: a file cannot be written; the same replacement can be run again, and then continues.
        """
        sync(self.partial)
        marker, journal = restore_marker(self.ledger), journal_of(self.ledger)
        if not marker.read_text():
            doubtful = "" if self.left.is_the_ledger else _DOUBTFUL
            marker.write_text(self._keep_aside(journal) + doubtful)
            sync(marker)
            sync(self.ledger.parent)
        journal.unlink(missing_ok=True)
        if self.lock is None:
            rename_without_replacing(self.partial, self.ledger)  # keeps a file that was created meanwhile
            return
        os.ftruncate(self.lock, 0)
        os.fsync(self.lock)
        sync(self.ledger.parent)
        self.unlock()
        with closing(sqlite3.connect(self.partial)) as new, closing(sqlite3.connect(self.ledger)) as place:
            place.execute("PRAGMA synchronous = EXTRA")
            new.backup(place)

    def unlock(self) -> None:
        """Release the lock of the old file, if it is locked."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def _keep_aside(self, journal: Path) -> str:
        """Copy the old ledger and journal if they exist; return the name of the ledger's copy, which may be missing."""
        aside = _free_name(self.ledger, self.suffix)
        for path in (self.ledger, journal):
            if path.exists():
                with new_file(_free_name(path, self.suffix)) as copy:
                    shutil.copyfile(path, copy)
        sync(self.ledger.parent)
        return aside.name


@contextmanager
def replacing(ledger: Path, suffix: str, is_done: Callable[[], bool]) -> Iterator[Replacement | None]:
    """Lock a ledger exclusively until a new ledger has replaced it; yield None if it was replaced already.

    Args:
        ledger: the file, which may be missing or damaged.
        suffix: see ``Replacement``.
        is_done: a function that returns whether an interrupted replacement has written the new ledger completely.

    Raises:
        LedgerError: other processes lock the ledger for too long, or a file cannot be written.
    """
    real = Path(os.path.realpath(ledger))
    try:
        make_directories(real.parent)  # a new disk lacks the ledger's directory
        with ExitStack() as held:
            marker = held.enter_context(_held_marker(real))
            kept, doubtful, _ = marker.read_text().partition(_DOUBTFUL)
            if kept and is_done():
                yield None
                return
            if not kept:
                _roll_back(real)
            partial = held.enter_context(locked_directory(real)) / "file"
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            replacement = Replacement(real, partial, Leftover(), suffix)
            held.callback(replacement.unlock)
            with suppress(FileNotFoundError):
                replacement.lock = lock_exclusively(real, _LOCK_TIMEOUT_SECONDS)
            replacement.left = _read_left_file(real.with_name(kept) if kept else real, held)
            replacement.left.is_the_ledger = not doubtful if kept else _has_own_journal(real)
            yield replacement
    except BlockingIOError:
        raise LedgerError(f"another process holds the ledger {str(real)!r}", hint="wait, then try again") from None
    except sqlite3.Error as error:
        raise LedgerError(f"cannot replace the ledger {str(ledger)!r}: {error}") from None
    except OSError as error:
        raise LedgerError(f"cannot replace the ledger {str(ledger)!r}: {error.strerror}") from None


def restore_marker(ledger: Path) -> Path:
    """Return the path of the marker file, which exists while a ledger is replaced and names the old ledger's copy."""
    real = Path(os.path.realpath(ledger))
    return real.with_name(f"{real.name}.restoring")


def wait_for_replacement(ledger: Path) -> None:
    """Wait while a ledger is replaced; raise ``LedgerError`` if this takes too long, or was interrupted."""
    try:
        retry_while_locked(lambda: _refuse_interrupted(ledger), _LOCK_TIMEOUT_SECONDS)
    except BlockingIOError:
        raise LedgerError(
            f"another process is still restoring the ledger {str(ledger)!r}", hint="wait, then try again"
        ) from None


def _refuse_interrupted(ledger: Path) -> None:
    """Refuse a ledger whose replacement was interrupted; raise ``BlockingIOError`` while a process replaces it."""
    try:
        descriptor = os.open(restore_marker(ledger), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LedgerError(f"the ledger {str(ledger)!r} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if is_being_replaced(ledger):
            raise LedgerError(
                f"a restore of the ledger {str(ledger)!r} was interrupted",
                hint="give its command again: dpbayes budget restore BACKUP --reason TEXT",
            )
    finally:
        os.close(descriptor)


def is_being_replaced(ledger: Path) -> bool:
    """Return whether a replacement has changed files and has not ended, so that its marker is not empty."""
    try:
        return restore_marker(ledger).stat().st_size > 0
    except OSError:
        return False


@contextmanager
def _held_marker(ledger: Path) -> Iterator[Path]:
    """Create and lock the marker file; at the end, remove it unless files were changed and an error was raised."""
    marker = restore_marker(ledger)
    while True:
        descriptor = os.open(marker, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        status = os.fstat(descriptor)
        if file_identity(marker) == (status.st_dev, status.st_ino):
            break
        os.close(descriptor)  # another replacement has ended, and removed the marker that this one locked
    try:
        begun = marker.read_text()
        try:
            yield marker
        except BaseException:
            if not begun and not marker.read_text():
                marker.unlink()
            raise
        sync(ledger.parent)
        marker.unlink()
        sync(ledger.parent)
    finally:
        os.close(descriptor)


def _roll_back(ledger: Path) -> None:
    """Undo the incomplete transaction of a crash, if possible; no command has reported that it succeeded."""
    with suppress(sqlite3.Error, OSError):
        if has_crash_journal(ledger) and journal_belongs(ledger):
            with closing(connect(ledger)) as connection:
                connection.execute("BEGIN IMMEDIATE")


def _read_left_file(path: Path, held: ExitStack) -> Leftover:
    """Read a file without playing back its journal; the caller's lock keeps other processes from changing it."""
    with suppress(sqlite3.Error, UnicodeDecodeError):
        uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        connection = held.enter_context(closing(sqlite3.connect(uri, uri=True, isolation_level=None)))
        entries, _ = readable_entries(connection)
        return Leftover(entries, True, connection)
    return Leftover()


def _has_own_journal(ledger: Path) -> bool:
    """Return whether a file has no journal, or its journal belongs to it."""
    with suppress(OSError):
        return not journal_of(ledger).exists() or journal_belongs(ledger)
    return True


def _free_name(path: Path, suffix: str) -> Path:
    names = (path.with_name(f"{path.name}.{suffix}{'' if i == 1 else f'-{i}'}") for i in range(1, 1000))
    return next(name for name in names if not os.path.lexists(name))
