"""The ledger in one SQLite file: rollback journal, every commit on disk before it is believed.

``synchronous=EXTRA`` also syncs the directory after the journal is unlinked, without which a power cut right after a
commit could bring the journal back and roll the charge away. The write-ahead log is not used.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbayes_cli.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.storage import Storage, Transaction

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x44504259  # "DPBY"
_PATIENCE = 120.0
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
        self._path = path

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self._path)

    @property
    def exists(self) -> bool:
        """Whether the file is there and holds something."""
        with suppress(OSError):
            return self._path.stat().st_size > 0
        return False

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """See ``Storage.writing``."""
        with self._translated():
            self._create_file()
            connection = self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._check_schema(connection, create=True)
                    yield _SqliteTransaction(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            finally:
                connection.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """See ``Storage.reading``."""
        if not self.exists:
            raise LedgerError(f"there is no ledger at {self.location!r}", hint="a first release opens one")
        with self._translated():
            connection = self._connect()
            try:
                connection.execute("BEGIN")
                self._check_schema(connection, create=False)
                yield _SqliteTransaction(connection)
            finally:
                connection.close()

    def _create_file(self) -> None:
        """Create the file for its owner alone, before SQLite could create it for others."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerError(f"cannot create the ledger {self.location!r}: {error.strerror}") from None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=_PATIENCE)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync = ON")
        return connection

    def _check_schema(self, connection: sqlite3.Connection, *, create: bool) -> None:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if create and (application_id, version, tables) == (0, 0, 0):
            for statement in _TABLES:
                connection.execute(statement)
            return
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
