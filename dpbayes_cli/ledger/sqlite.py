"""The ledger in one SQLite file: rollback journal, every commit on disk before it is believed.

``synchronous=EXTRA`` also syncs the directory after the journal is unlinked, without which a power cut right after a
commit could bring the journal back and roll the charge away. The write-ahead log is not used.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dpbayes_cli.atomic_file import new_file
from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.sqlite_salvage import readable_entries
from dpbayes_cli.ledger.sqlite_transaction import SqliteTransaction
from dpbayes_cli.ledger.storage import Storage, Transaction
from dpbayes_cli.mounts import network_of

SCHEMA_VERSION = 1
MIGRATIONS: dict[int, tuple[str, ...]] = {}
"""For each older version the statements that lead to the next one; they leave the entries' bodies and hashes alone."""
_APPLICATION_ID = 0x44504259  # "DPBY"
_PATIENCE = 120.0
_SLICE = 0.25
"""Seconds that SQLite waits by itself for a lock; signals are not heard meanwhile."""
_TABLES = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE TABLE payloads (release_id TEXT PRIMARY KEY, payload BLOB NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class SqliteStorage(Storage):
    """A ledger in a file; single host, any number of processes."""

    def __init__(self, path: Path, *, anywhere: bool = False) -> None:
        self._path = path.absolute()
        self._anywhere = anywhere  # a copy that one process writes, and that nobody else uses yet

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self._path)

    @property
    def exists(self) -> bool:
        """Whether there is a ledger file.

        Raises:
            LedgerError: it cannot be told, or what is there is no regular file with something in it.
        """
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise LedgerError(f"cannot look for the ledger {self.location!r}: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{self.location!r} is not a regular file")
        if not status.st_size:
            raise LedgerError(
                f"the ledger {self.location!r} is empty: it was truncated",
                hint="restore it from a backup; remove it only if it never held a charge",
            )
        return True

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """See ``Storage.writing``."""
        self._check_place()
        with self._translated():
            self._create()
            with self._patient() as connection:
                _begin(connection)
                try:
                    self._check_schema(connection)
                    yield SqliteTransaction(connection)
                    _persist(connection, "COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """See ``Storage.reading``."""
        if not self.exists:
            raise self._missing()
        self._check_place()
        with self._translated(), self._patient() as connection:
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield SqliteTransaction(connection)

    @property
    def directory(self) -> Path:
        """See ``Storage.directory``."""
        return self._path.parent

    def settle(self) -> bool:
        """See ``Storage.settle``; SQLite rolls back a journal that a crash left, when the file is opened next."""
        if not self.exists:
            raise self._missing()
        journal = self._path.with_name(f"{self._path.name}-journal")
        left = journal.exists()
        with self.writing():
            return left and not journal.exists()

    def _missing(self) -> LedgerError:
        return LedgerError(f"there is no ledger at {self.location!r}", hint="a first release opens one")

    def damage(self) -> list[str]:
        """See ``Storage.damage``; SQLite's own check of pages, order and indexes."""
        with self._translated(), self._patient() as connection:
            rows = [str(row[0]) for row in _persist(connection, "PRAGMA integrity_check(20)")]
        return [] if rows == ["ok"] else [f"the file is damaged: {' '.join(row.split())}" for row in rows]

    def copy_to(self, target: Path) -> None:
        """See ``Storage.copy_to``; through SQLite's backup, so that it is of one moment."""
        with self._translated(), self._patient() as connection, closing(_connected(target)) as copy:
            connection.execute("BEGIN")
            self._version(connection)  # holds the lock of a reader from now on
            connection.backup(copy)

    def salvage(self) -> tuple[list[Entry], list[str]]:
        """See ``Storage.salvage``; entry by entry, so that a damaged page costs no other."""
        with self._translated(), self._patient() as connection:
            _persist(connection, "SELECT name FROM sqlite_master").fetchall()
            return readable_entries(connection)

    def salvage_payload(self, release_id: str) -> bytes | None:
        """See ``Storage.salvage_payload``."""
        try:
            with self._patient() as connection:
                return SqliteTransaction(connection).payload(release_id)
        except (sqlite3.Error, LedgerError, UnicodeDecodeError):
            return None

    def migrate(self) -> tuple[int, Path] | None:
        """See ``Storage.migrate``."""
        if not self.exists:
            raise self._missing()
        self._check_place()
        with self._translated(), self._patient() as connection:
            _begin(connection)
            try:
                version = self._version(connection)
                if version == SCHEMA_VERSION:
                    return None
                steps = [MIGRATIONS.get(step) for step in range(version, SCHEMA_VERSION)]
                if not steps or None in steps:
                    self._check_schema(connection)
                backup = self._copy_beside(version)
                before = SqliteTransaction(connection).entries()
                for statements in steps:
                    for statement in statements or ():
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                if SqliteTransaction(connection).entries() != before:
                    raise LedgerError("migrating would change the chain; nothing was changed")
                _persist(connection, "COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return version, backup

    def _copy_beside(self, version: int) -> Path:
        """Back the ledger up beside itself under a free name."""
        for number in range(1, 1000):
            path = self._path.with_name(f"{self._path.name}.v{version}" + (f".{number}" if number > 1 else ""))
            with suppress(FileExistsError):
                with new_file(path) as partial:
                    self.copy_to(partial)
                return path
        raise LedgerError(f"there are too many backups beside {self.location!r}", hint="move some away")

    def _check_place(self) -> None:
        kind = "" if self._anywhere else network_of(self._path)
        if kind:
            raise LedgerError(
                f"the ledger {self.location!r} would be on a network's file system ({kind}), whose locks a ledger in "
                "a file cannot rely on",
                hint="keep it on a disk of this host, or, where several hosts share it, in PostgreSQL: "
                "--ledger postgresql://HOST/DATABASE; an anchor may be on a network",
            )

    def _create(self) -> None:
        """Create the ledger whole, beside its place and for its owner alone, and link it there."""
        if self.exists:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError), new_file(self._path) as partial:  # where another process was first
                begin_ledger(partial)
        except OSError as error:
            raise LedgerError(f"cannot create the ledger {self.location!r}: {error.strerror}") from None

    def _connect(self) -> sqlite3.Connection:
        return _connected(self._path)

    @contextmanager
    def _patient(self) -> Iterator[sqlite3.Connection]:
        """Connect, waiting in short slices for another writer, so that a signal is heard meanwhile."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            connection = None
            try:
                connection = self._connect()
                break
            except sqlite3.OperationalError as error:
                if connection is not None:
                    connection.close()
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
        try:
            yield connection
        finally:
            connection.close()

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the version of the schema, of what is a ledger."""
        (application_id,) = _persist(connection, "PRAGMA application_id").fetchone()
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if application_id != _APPLICATION_ID:
            raise LedgerError(f"{self.location!r} is not a dpbayes ledger")
        return version

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self.location!r} has schema version {version}; this dpbayes reads {SCHEMA_VERSION}",
                hint="use the version of dpbayes that wrote it"
                if version > SCHEMA_VERSION
                else "dpbayes budget migrate makes a backup beside it and brings it to this version",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's own message may hold a damaged text
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            damaged = code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
            what = "its text is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
            raise LedgerError(
                f"the ledger {self.location!r} cannot be used: {what}",
                hint="restore a backup, or save what verifies: dpbayes budget recover --to FILE"
                if damaged
                else "another process may hold it, or the disk may be full or read-only",
            ) from None


def begin_ledger(path: Path) -> None:
    """Make an empty file a ledger without entries."""
    with closing(_connected(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("COMMIT")


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_SLICE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = EXTRA")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")
    return connection


def _begin(connection: sqlite3.Connection) -> None:
    """Begin a transaction that excludes all others."""
    _persist(connection, "BEGIN IMMEDIATE")


def _persist(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Execute a statement again while another process holds the file, up to the patience."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise


def default_path() -> Path:
    """Return the path of a ledger that is not named: in the user's state directory.

    Raises:
        LedgerError: the user has no home directory.
    """
    state_home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state_home.is_absolute():
        try:
            state_home = Path.home() / ".local" / "state"
        except RuntimeError:
            raise LedgerError("no ledger is named, and this user has no home", hint="set DPBAYES_LEDGER") from None
    return state_home / "dpbayes" / "ledger.sqlite"
