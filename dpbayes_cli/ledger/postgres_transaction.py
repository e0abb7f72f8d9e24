"""The rows of a ledger in PostgreSQL: entries, the index of their terms, and payloads compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.records import terms_of
from dpbayes_cli.ledger.storage import Transaction, compress_payload, decompress_payload

if TYPE_CHECKING:
    from typing import LiteralString

    import psycopg

_BEFORE_ALL = -(1 << 63)


class PostgresTransaction(Transaction):
    """One transaction on one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._is_indexed = connection.execute("SELECT to_regclass('terms') IS NOT NULL").fetchone() == (True,)

    def entries(self, after: int = 0) -> list[Entry]:
        """See ``Transaction.entries``."""
        return self._entries("sequence > %s ORDER BY sequence", after or _BEFORE_ALL)

    def entry(self, sequence: int) -> Entry | None:
        """See ``Transaction.entry``."""
        return next(iter(self._entries("sequence = %s", sequence)), None)

    def _entries(self, condition: LiteralString, *values: object) -> list[Entry]:
        query: LiteralString = "SELECT sequence, body, hash FROM entries WHERE " + condition  # noqa: S608 - ours
        rows = self._connection.execute(query, values)
        return [Entry(*row) for row in rows]

    @property
    def is_indexed(self) -> bool:
        """See ``Transaction.is_indexed``."""
        return self._is_indexed

    def begin_index(self) -> bool:
        """See ``Transaction.begin_index``."""
        return False  # everyone who charges needs privileges on a new table: ``budget migrate`` creates it

    def indexed(self) -> list[tuple[str, int]]:
        """See ``Transaction.indexed``."""
        rows = self._connection.execute("SELECT term, sequence FROM terms").fetchall()
        return sorted(rows)

    def find(self, term: str, last: int | None = None) -> list[Entry]:
        """See ``Transaction.find``."""
        if not self._is_indexed:
            return super().find(term, last)
        matching: LiteralString = "SELECT sequence FROM terms WHERE term = %s ORDER BY sequence DESC LIMIT %s"
        return self._entries("sequence IN (" + matching + ") ORDER BY sequence", term, last)

    def append(self, entry: Entry) -> None:
        """See ``Transaction.append``."""
        row = [entry.sequence, entry.body, entry.hash]
        self._connection.execute("INSERT INTO entries VALUES (%s, %s, %s)", row)
        if self._is_indexed:
            index_entries(self._connection, [entry])

    def put_payload(self, key: str, payload: bytes) -> None:
        """See ``Transaction.put_payload``."""
        self._connection.execute("INSERT INTO payloads VALUES (%s, %b)", [key, compress_payload(payload)])

    def payload(self, key: str) -> bytes | None:
        """See ``Transaction.payload``."""
        query = "SELECT payload FROM payloads WHERE release_id = %s"
        row = self._connection.execute(query, [key], binary=True).fetchone()
        return None if row is None else decompress_payload(row[0], key)

    def payload_ids(self) -> list[str]:
        """See ``Transaction.payload_ids``."""
        rows = self._connection.execute("SELECT release_id FROM payloads")
        return sorted(row[0] for row in rows)


def index_entries(connection: psycopg.Connection[Any], entries: list[Entry]) -> None:
    """Add entries to the index of terms."""
    rows = [(term, entry.sequence) for entry in entries for term in terms_of(entry.fields)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO terms VALUES (%s, %s)", rows)
