"""The rows of a ledger in SQLite: entries, the index of their terms, and payloads compressed."""

from __future__ import annotations

import sqlite3

from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.records import terms_of
from dpbayes_cli.ledger.storage import Transaction, compress_payload, decompress_payload

_BEFORE_ALL = -(1 << 63)
INDEX = (
    "CREATE TABLE terms (term TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (term, sequence)) "
    "STRICT, WITHOUT ROWID"
)


def entry_of(row: tuple[object, ...]) -> Entry:
    """Return the entry in a row; raise ``sqlite3.DatabaseError`` if the types show that the page is damaged."""
    sequence, body, digest = row
    if not (isinstance(sequence, int) and isinstance(body, str) and isinstance(digest, str)):
        raise sqlite3.DatabaseError(f"the row of entry {sequence!r} is damaged")
    return Entry(sequence, body, digest)


class SqliteTransaction(Transaction):
    """One transaction on one connection."""

    def __init__(self, connection: sqlite3.Connection, *, is_suspect: bool = False) -> None:
        self._connection = connection
        self._is_suspect = is_suspect
        self._has_written = False
        row = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'terms'").fetchone()
        self._indexed = row is not None

    def entries(self, after: int = 0) -> list[Entry]:
        """See ``Transaction.entries``."""
        return self._entries("sequence > ? ORDER BY sequence", after or _BEFORE_ALL)

    def entry(self, sequence: int) -> Entry | None:
        """See ``Transaction.entry``."""
        return next(iter(self._entries("sequence = ?", sequence)), None)

    def _entries(self, condition: str, *values: object) -> list[Entry]:
        query = f"SELECT sequence, body, hash FROM entries WHERE {condition}"  # noqa: S608 - conditions are ours
        rows = self._connection.execute(query, values)
        return [entry_of(row) for row in rows]

    @property
    def is_suspect(self) -> bool:
        """See ``Transaction.is_suspect``."""
        return self._is_suspect

    @property
    def is_indexed(self) -> bool:
        """See ``Transaction.is_indexed``."""
        return self._indexed

    def begin_index(self) -> bool:
        """See ``Transaction.begin_index``."""
        self._connection.execute(INDEX)
        self._indexed = True
        for entry in self.entries():
            self._index(entry)
        return True

    def indexed(self) -> list[tuple[str, int]]:
        """See ``Transaction.indexed``."""
        return list(self._connection.execute("SELECT term, sequence FROM terms ORDER BY term, sequence"))

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """See ``Transaction.find``."""
        if not self._indexed:
            return super().find(term, last)
        matching = "SELECT sequence FROM terms WHERE term = ? ORDER BY sequence DESC LIMIT ?"
        return self._entries(f"sequence IN ({matching}) ORDER BY sequence", term, -1 if last is None else last)

    def append(self, entry: Entry) -> None:
        """See ``Transaction.append``."""
        self._begin_with_page_1()
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.sequence, entry.body, entry.hash))
        if self._indexed:
            self._index(entry)

    def _begin_with_page_1(self) -> None:
        """Write page 1 before any other page, so that the journal always shows which file it belongs to."""
        if not self._has_written:
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._connection.execute(f"PRAGMA user_version = {int(version)}")
            self._has_written = True

    def _index(self, entry: Entry) -> None:
        rows = [(term, entry.sequence) for term in terms_of(entry.fields)]
        self._connection.executemany("INSERT INTO terms VALUES (?, ?)", rows)

    def put_payload(self, key: str, payload: bytes) -> None:
        """See ``Transaction.put_payload``."""
        self._begin_with_page_1()
        self._connection.execute("INSERT INTO payloads VALUES (?, ?)", (key, compress_payload(payload)))

    def payload(self, key: str) -> bytes | None:
        """See ``Transaction.payload``."""
        row = self._connection.execute("SELECT payload FROM payloads WHERE release_id = ?", (key,)).fetchone()
        return None if row is None else decompress_payload(row[0], key)

    def payload_ids(self) -> list[str]:
        """See ``Transaction.payload_ids``."""
        return [str(row[0]) for row in self._connection.execute("SELECT release_id FROM payloads ORDER BY release_id")]
