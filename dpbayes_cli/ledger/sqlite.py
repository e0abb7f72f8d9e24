"""The ledger in one SQLite file: rollback journal, every commit on disk before it is believed.

``synchronous=EXTRA`` also syncs the directory after the journal is unlinked, without which a power cut right after a
commit could bring the journal back and roll the charge away. The write-ahead log is not used.
"""

from __future__ import annotations

import glob
import os
import secrets
import sqlite3
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.storage import Storage, Transaction

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x44504259  # "DPBY"
_PATIENCE = 120.0
_SLICE = 0.25
"""Seconds that SQLite waits by itself for a lock; signals are not heard meanwhile."""
_LARGEST_PAYLOAD = 256 << 20
_TABLES = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE TABLE payloads (release_id TEXT PRIMARY KEY, payload BLOB NOT NULL) STRICT",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class SqliteStorage(Storage):
    """A ledger in a file; single host, any number of processes."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

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
        with self._translated():
            self._create()
            with self._patient() as connection:
                _begin(connection)
                try:
                    self._check_schema(connection)
                    yield _SqliteTransaction(connection)
                    _persist(connection, "COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """See ``Storage.reading``."""
        if not self.exists:
            raise LedgerError(f"there is no ledger at {self.location!r}", hint="a first release opens one")
        with self._translated(), self._patient() as connection:
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield _SqliteTransaction(connection)

    def _create(self) -> None:
        """Create the ledger whole, beside its place and for its owner alone, and link it there."""
        if self.exists:
            return
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_dead()
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
            try:
                with closing(self._connect(partial)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    for statement in _TABLES:
                        connection.execute(statement)
                    connection.execute("COMMIT")
                with suppress(FileExistsError):  # another process was first
                    os.link(partial, self._path)
                _sync(self._path.parent)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise LedgerError(f"cannot create the ledger {self.location!r}: {error.strerror}") from None

    def _remove_dead(self) -> None:
        """Remove what killed creators left behind."""
        for path in self._path.parent.glob(f".{glob.escape(self._path.name)}.*.partial*"):
            pid = path.name.removeprefix(f".{self._path.name}.").partition("-")[0]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                path.unlink(missing_ok=True)

    def _connect(self, path: Path | None = None) -> sqlite3.Connection:
        connection = sqlite3.connect(path or self._path, isolation_level=None, timeout=_SLICE)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")
        return connection

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

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        (application_id,) = _persist(connection, "PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application_id != _APPLICATION_ID:
            raise LedgerError(f"{self.location!r} is not a dpbayes ledger")
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self.location!r} has schema version {version}; this dpbayes reads {SCHEMA_VERSION}",
                hint="use the version of dpbayes that wrote it",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger {self.location!r} cannot be used: {error}",
                hint="another process may hold it, or the disk may be full or read-only",
            ) from None


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


class _SqliteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def entries(self) -> list[Entry]:
        rows = self._connection.execute("SELECT sequence, body, hash FROM entries ORDER BY sequence")
        return [Entry(*row) for row in rows]

    def append(self, entry: Entry) -> None:
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.sequence, entry.body, entry.hash))

    def put_payload(self, release_id: str, payload: bytes) -> None:
        compressed = zlib.compress(payload, 6)
        if len(compressed) > _LARGEST_PAYLOAD:
            raise LedgerError(f"the payload is larger than {_LARGEST_PAYLOAD >> 20} MiB")
        self._connection.execute("INSERT INTO payloads VALUES (?, ?)", (release_id, compressed))

    def payload(self, release_id: str) -> bytes | None:
        row = self._connection.execute("SELECT payload FROM payloads WHERE release_id = ?", (release_id,)).fetchone()
        try:
            return None if row is None else zlib.decompress(row[0])
        except zlib.error:
            raise LedgerError(f"the sealed payload of release {release_id} is damaged") from None

    def payload_ids(self) -> list[str]:
        return [row[0] for row in self._connection.execute("SELECT release_id FROM payloads ORDER BY release_id")]


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
