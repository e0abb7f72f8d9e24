"""Transactions of a ledger on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.ledger.storage import Transaction

if TYPE_CHECKING:
    from typing import LiteralString

    import psycopg


class PostgresTransaction(Transaction):
    """One transaction on one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        row = connection.execute("SELECT to_regclass('terms') IS NOT NULL").fetchone()
        super().__init__(is_indexed=row == (True,))

    def _execute(self, statement: LiteralString, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def _execute_for_each(self, statement: LiteralString, rows: Iterable[tuple[object, ...]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)

    def begin_index(self) -> bool:
        """See ``Transaction.begin_index``."""
        return False  # everyone who charges needs privileges on a new table: ``budget migrate`` creates it
