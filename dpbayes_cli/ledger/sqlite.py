"""The ledger in one SQLite file with a rollback journal; a transaction ends only when its commit is on disk.

``synchronous=EXTRA`` also syncs the directory after the journal is unlinked. Otherwise a power cut right after a commit
could bring the journal back, which would undo the charge. The write-ahead log is not used.
"""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from dpbayes_cli.base.atomic_file import make_directories, new_file, sync
from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger import sqlite_connection
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.ledger_file import check_local, check_one_name, file_identity
from dpbayes_cli.ledger.sqlite_connection import SqliteTransaction, connect, execute_patiently
from dpbayes_cli.ledger.sqlite_journal import has_crash_journal, journal_belongs, journal_of
from dpbayes_cli.ledger.sqlite_replacement import is_being_replaced, wait_for_replacement
from dpbayes_cli.ledger.storage import Storage, Transaction

SCHEMA_VERSION = 1
MIGRATIONS: dict[int, tuple[str, ...]] = {}
"""By schema version, the SQL that migrates a ledger to the next version; it must not change any entry."""
_APPLICATION_ID = 0x44504259  # "DPBY"
_TABLES = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE TABLE payloads (release_id TEXT PRIMARY KEY, payload BLOB NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class SqliteStorage(Storage):
    """A ledger in a file, which any number of processes of one host can use."""

    def __init__(self, path: Path, *, anywhere: bool = False) -> None:
        self.path = path.absolute()
        self._anywhere = anywhere  # for a copy that only this process uses

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        """Whether there is a ledger file; raise ``LedgerError`` if it is empty, not a regular file or inaccessible."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if not self._anywhere:
                wait_for_replacement(self.path)
            return self.path.exists()
        except OSError as error:
            raise LedgerError(f"cannot access the ledger {self.location!r}: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{self.location!r} is not a regular file")
        if not status.st_size and not self._anywhere:
            wait_for_replacement(self.path)
            status = self.path.stat()
        if not status.st_size:
            raise LedgerError(
                f"the ledger {self.location!r} is empty: it was truncated",
                hint="dpbayes budget restore BACKUP --reason TEXT; remove the file only if it never held a charge",
            )
        return True

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """See ``Storage.writing``; if a crash left a journal, the pages and the chain are checked first."""
        self._check_place()
        with self._translated():
            self._create()
            with self._patient("BEGIN IMMEDIATE") as (connection, rolled_back):
                try:
                    if rolled_back:
                        sqlite_connection.refuse_damage(connection)
                    yield SqliteTransaction(connection, is_suspect=rolled_back)
                    execute_patiently(connection, "COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        self.require()
        self._check_place()
        with self._translated(), self._patient("BEGIN") as (connection, rolled_back):
            yield SqliteTransaction(connection, is_suspect=rolled_back)

    @property
    def directory(self) -> Path:
        return self.path.parent

    def settle(self) -> bool:
        """See ``Storage.settle``; SQLite itself undoes the transaction when the file is opened."""
        self.require()
        with self.writing() as transaction:
            return transaction.is_suspect

    def damage(self) -> list[str]:
        """See ``Storage.damage``; runs SQLite's integrity check."""
        with self._translated(), self._patient() as (connection, _):
            return sqlite_connection.integrity_findings(connection)

    def copy_to(self, target: Path) -> None:
        """Copy the ledger into an empty file; changes that are made meanwhile are not copied."""
        with self._translated(), self._patient() as (connection, _), closing(connect(target)) as copy:
            connection.execute("BEGIN")
            self._version(connection)  # its queries take a reader's lock, which is held until the end
            connection.backup(copy)

    def salvage(self) -> tuple[list[Entry], list[str]]:
        """Return every readable entry, verified or not, and one sentence about each gap of unreadable entries."""
        with self._translated(), self._patient() as (connection, _):
            execute_patiently(connection, "SELECT name FROM sqlite_master").fetchall()  # fails if nothing is readable
            return sqlite_connection.readable_entries(connection)

    def salvage_payload(self, key: str) -> bytes | None:
        """Return a payload, or None if it cannot be read."""
        try:
            with self._patient() as (connection, _):
                return SqliteTransaction(connection).payload(key)
        except (sqlite3.Error, LedgerError, UnicodeDecodeError):
            return None

    def check_path(self) -> None:
        """Raise ``LedgerError`` if the file is on a network file system, has several names, or is mounted singly."""
        check_local(self.path)
        check_one_name(self.path)

    def migrate(self) -> tuple[int, Path] | None:
        self.require()
        self._check_place()
        with self._translated(), self._patient() as (connection, _):
            execute_patiently(connection, "BEGIN IMMEDIATE")
            try:
                version = self._version(connection)
                if version == SCHEMA_VERSION:
                    return None
                steps = [MIGRATIONS.get(step) for step in range(version, SCHEMA_VERSION)]
                if not steps or None in steps:
                    self._check_schema(connection)
                backup = self._copy_beside(version)
                before = SqliteTransaction(connection).entries()
                for statement in (statement for statements in steps for statement in statements or ()):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                if SqliteTransaction(connection).entries() != before:
                    raise LedgerError("migrating would change the chain; nothing was changed")
                execute_patiently(connection, "COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return version, backup

    def _copy_beside(self, version: int) -> Path:
        for number in range(1, 1000):
            path = self.path.with_name(f"{self.path.name}.v{version}" + (f".{number}" if number > 1 else ""))
            with suppress(FileExistsError):
                with new_file(path) as partial:
                    self.copy_to(partial)
                return path
        raise LedgerError(f"there are too many backups beside {self.location!r}", hint="move some of them away")

    def _check_place(self) -> None:
        if not self._anywhere:
            self.check_path()
            wait_for_replacement(self.path)

    def _create(self) -> None:
        """Create the ledger, accessible to its owner only, if there is none."""
        if self.exists:
            return
        try:
            make_directories(self.path.parent)
            with suppress(FileExistsError), new_file(self.path) as partial:  # another process may have created it
                begin_ledger(partial)
        except OSError as error:
            raise LedgerError(f"cannot create the ledger {self.location!r}: {error.strerror}") from None

    @contextmanager
    def _patient(self, begin: str = "") -> Iterator[tuple[sqlite3.Connection, bool]]:
        """Yield a connection, and whether SQLite undid a transaction after a crash; ``begin`` starts a transaction.

        Wait for other writers in short intervals, so that Python can handle signals.
        """
        deadline = time.monotonic() + sqlite_connection.PATIENCE
        while True:
            if not self._anywhere:
                wait_for_replacement(self.path)  # before connecting: a replacement waits for all connections
            before, rolled_back = file_identity(self.path), self._has_crash_journal()
            with ExitStack() as opened:
                try:
                    connection = opened.enter_context(closing(connect(self.path)))
                    if begin:
                        execute_patiently(connection, begin)
                        connection.execute("PRAGMA schema_version").fetchone()  # takes a reader's lock
                except sqlite3.DatabaseError as error:
                    busy = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY
                    if not self._was_replaced(before) and (not busy or time.monotonic() > deadline):
                        raise
                    continue
                if self._was_replaced(before):
                    continue
                if begin:
                    self._check_schema(connection)
                    if not self._anywhere:
                        self._sync_names()
                yield connection, rolled_back
                return

    def _sync_names(self) -> None:
        """Sync the removal of the last journal, because a commit that any process has seen must survive a power cut."""
        try:
            sync(journal_of(self.path).parent)
        except OSError as error:
            raise LedgerError(f"cannot sync the directory of {self.location!r}: {error.strerror}") from None

    def _was_replaced(self, before: tuple[int, int] | None) -> bool:
        """Return whether the ledger is being replaced, or has another device or inode than ``before``."""
        return not self._anywhere and (is_being_replaced(self.path) or file_identity(self.path) != before)

    def _has_crash_journal(self) -> bool:
        """Return whether a crash left a journal that SQLite will play back; refuse it if it belongs to another file."""
        try:
            if not has_crash_journal(self.path):
                return False
            if journal_belongs(self.path):
                return True
        except FileNotFoundError:  # another process has played it back
            return False
        except OSError as error:
            raise LedgerError(f"cannot read the journal of the ledger {self.location!r}: {error.strerror}") from None
        raise LedgerError(
            f"the ledger {self.location!r} has a journal that does not belong to it: "
            "another file was put in the ledger's place",
            hint="move that file away, then restore from it: dpbayes budget restore FILE --reason TEXT",
        )

    def _version(self, connection: sqlite3.Connection) -> int:
        (application_id,) = execute_patiently(connection, "PRAGMA application_id").fetchone()
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if application_id != _APPLICATION_ID:
            raise LedgerError(f"{self.location!r} is not a dpbayes ledger", hint="name the ledger: --ledger FILE")
        return version

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        version = self._version(connection)
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self.location!r} has schema version {version}; this dpbayes reads {SCHEMA_VERSION}",
                hint="use the version of dpbayes that wrote it"
                if version > SCHEMA_VERSION
                else "dpbayes budget migrate makes a backup beside it and migrates it to this version",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's message may quote text that cannot be decoded
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            damaged = code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
            reason = "a text in the file is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
            raise LedgerError(
                f"the ledger {self.location!r} cannot be used: {reason}",
                hint="restore a backup, or save what verifies: dpbayes budget recover --to FILE"
                if damaged
                else "another process may hold it, or the disk may be full or read-only",
            ) from None


def begin_ledger(path: Path) -> None:
    """Turn an empty file into a ledger without entries."""
    with closing(connect(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*_TABLES, sqlite_connection.INDEX):
            connection.execute(statement)
        connection.execute("COMMIT")


def file_of(storage: Storage) -> SqliteStorage:
    """Return the storage of a ledger in a file; raise ``LedgerError`` for a ledger on a server."""
    if isinstance(storage, SqliteStorage):
        return storage
    raise LedgerError(
        f"the ledger {storage.location!r} is on a database server, which has its own tools for this",
        hint="with PostgreSQL: pg_dump and pg_restore; then dpbayes budget verify",
    )
