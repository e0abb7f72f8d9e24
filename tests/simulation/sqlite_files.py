"""SQLite on the simulated disk: the part of ``sqlite3`` that a ledger uses, over apsw and a file system of our own."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from tests.simulation.disk import SECTOR, Disk
from tests.simulation.host import Host, Killed

_NAME = "simulated"
_exists, _unlink = os.path.lexists, os.unlink  # the real ones


def _text(name: Any) -> str:
    return str(name.filename() if isinstance(name, apsw.URIFilename) else name)


class Files(apsw.VFS):
    """Files of the operating system, with a turn before every call, and syncs that the simulated disk notes."""

    def __init__(self, host: Host, disk: Disk) -> None:
        self.host, self.disk = host, disk
        super().__init__(_NAME, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's
        path = _text(name)
        self.host.turn(f"open {path}", changes=False)
        new = not _exists(path)
        file = File(self, path, flags)
        if new:
            self.disk.created(path)
            file.unnamed = bool(flags[0] & apsw.SQLITE_OPEN_MAIN_JOURNAL)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self.host.turn(f"delete {filename}") and _exists(filename):
            _unlink(filename)
            if syncdir and self.host.turn(f"sync the directory of {filename}"):
                self.disk.sync(Path(filename).parent)


class File(apsw.VFSFile):
    """A file that SQLite has open. A killed process has no effect on it but to let go of its locks."""

    def __init__(self, files: Files, path: str, flags: list[int]) -> None:
        self.files, self.path = files, path
        self.unnamed = False
        """Whether its name is to be synced with it, as SQLite does for a journal that it has created."""
        super().__init__("", path, flags)

    def _turn(self, call: str, *, changes: bool = True, yielding: bool = False) -> bool:
        return self.files.host.turn(f"{call} {self.path}", changes=changes, yielding=yielding)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        small = len(data) < SECTOR  # numbers and check sums that go with a page of a journal
        if self.files.host.is_alive if small else self._turn(f"write {len(data)} bytes at {offset} of"):
            super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if self._turn(f"truncate to {newsize}"):
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._turn("sync"):
            if _exists(self.path):
                self.files.disk.sync(self.path)
            if self.unnamed:
                self.files.disk.sync(Path(self.path).parent)
                self.unnamed = False

    def xLock(self, level: int) -> None:  # noqa: N802
        if self._turn(f"lock {level}", changes=False):
            try:
                super().xLock(level)
            except apsw.BusyError:
                self._turn("wait for", changes=False, yielding=True)
                raise


class Rows:
    """What a statement returned."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Connection:
    """The part of ``sqlite3.Connection`` that a ledger uses."""

    def __init__(self, host: Host, path: str | Path, *, synchronous: str = "") -> None:
        self._host, self._synchronous = host, synchronous
        with self._translated():
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
            self._connection = apsw.Connection(str(path), flags, vfs=_NAME)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        if self._synchronous and statement.startswith("PRAGMA synchronous"):
            statement = f"PRAGMA synchronous = {self._synchronous}"
        with self._translated():
            return Rows(list(self._connection.execute(statement, tuple(values))))

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._translated():
            self._connection.executemany(statement, [tuple(row) for row in rows])

    def backup(self, target: Connection) -> None:
        with self._translated(), target._connection.backup("main", self._connection, "main") as backup:
            while not backup.done:
                try:
                    backup.step()
                except (apsw.BusyError, apsw.LockedError):  # ``sqlite3`` waits and tries again
                    if not self._host.turn("wait to copy", changes=False, yielding=True):
                        raise

    def close(self) -> None:
        with self._translated():
            self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise what ``sqlite3`` would; or, in a process that was killed meanwhile, what unwinds it."""
        try:
            yield
        except apsw.Error as error:
            if not self._host.is_alive:
                raise Killed from None
            kind: type[sqlite3.DatabaseError] = sqlite3.OperationalError
            if isinstance(error, apsw.CorruptError | apsw.NotADBError):
                kind = sqlite3.DatabaseError
            elif isinstance(error, apsw.ConstraintError):
                kind = sqlite3.IntegrityError
            translated = kind(str(error))
            translated.sqlite_errorcode = error.extendedresult  # type: ignore[attr-defined]
            raise translated from None
        if not self._host.is_alive:
            raise Killed
