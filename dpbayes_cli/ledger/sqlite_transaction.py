"""The rows of a ledger in SQLite: entries, and payloads compressed."""

from __future__ import annotations

import sqlite3

from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.storage import Transaction, packed, unpacked


def entry_of(row: tuple[object, ...]) -> Entry:
    """Return the entry that a row holds; of a damaged page SQLite may give back other types than the table's."""
    sequence, body, digest = row
    if not (isinstance(sequence, int) and isinstance(body, str) and isinstance(digest, str)):
        raise sqlite3.DatabaseError(f"the row of entry {sequence!r} is damaged")
    return Entry(sequence, body, digest)


class SqliteTransaction(Transaction):
    """What happens on one connection between its BEGIN and its end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def entries(self) -> list[Entry]:
        """See ``Transaction.entries``."""
        rows = self._connection.execute("SELECT sequence, body, hash FROM entries ORDER BY sequence")
        return [entry_of(row) for row in rows]

    def append(self, entry: Entry) -> None:
        """See ``Transaction.append``."""
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (entry.sequence, entry.body, entry.hash))

    def put_payload(self, release_id: str, payload: bytes) -> None:
        """See ``Transaction.put_payload``."""
        self._connection.execute("INSERT INTO payloads VALUES (?, ?)", (release_id, packed(payload)))

    def payload(self, release_id: str) -> bytes | None:
        """See ``Transaction.payload``."""
        row = self._connection.execute("SELECT payload FROM payloads WHERE release_id = ?", (release_id,)).fetchone()
        return None if row is None else unpacked(row[0], release_id)

    def payload_ids(self) -> list[str]:
        """See ``Transaction.payload_ids``."""
        return [str(row[0]) for row in self._connection.execute("SELECT release_id FROM payloads ORDER BY release_id")]
