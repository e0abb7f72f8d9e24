"""A table in PostgreSQL: the server reads one snapshot of it, and only integers leave the server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.base.postgres_address import PostgresAddress
from dpbayes_cli.base.postgres_driver import connect, import_driver
from dpbayes_cli.sources.engine import EngineSource, Kind, Rows, replaced_errors, short_text
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.source import unreadable

if TYPE_CHECKING:
    import psycopg

_CANCEL_TIMEOUT_SECONDS = 5.0
_STATEMENT_TIMEOUT = "12h"
"""After this time the server ends a statement, for example if the connection was lost."""
_SESSION = """
SELECT set_config('search_path', 'pg_catalog, pg_temp', false), set_config('statement_timeout', %s, false),
  set_config('standard_conforming_strings', 'on', false), set_config('extra_float_digits', '1', false),
  set_config('idle_in_transaction_session_timeout', '0', false), current_setting('server_encoding')
"""
_KINDS: dict[str, Kind] = {
    "bool": "boolean", "int2": "integer", "int4": "integer", "int8": "integer", "numeric": "decimal",
    "float8": "double", "text": "text", "varchar": "text", "bpchar": "text", "uuid": "text", "name": "text",
}  # fmt: skip


class PostgresSource(EngineSource):
    """A table or a view; a record is a row of one snapshot, which is taken by ``check`` and kept until the end."""

    dialect = "postgres"

    def __init__(self, address: PostgresAddress, unit: UnitBound | None = None, marks: NumberMarks = POINT) -> None:
        super().__init__(unit, marks)
        self._address = address
        self._connection: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        """Close the connection, which ends the snapshot."""
        if self._connection is not None:
            with suppress(_driver().Error):
                self._connection.close()

    def _kinds(self) -> Mapping[str, Kind | str]:
        connection = self._connected()
        failure = SourceError(
            f"there is no table {self._address.location!r} that this user may read",
            hint="check its name, and GRANT SELECT on it",
        )
        with replaced_errors(failure, _driver().Error):
            cursor = connection.execute(f"SELECT * FROM {self._table} LIMIT 0")
            columns = [(column.name, column.type_code) for column in cursor.description or ()]
            query = "SELECT oid::bigint, typname::text, typtype = 'e' FROM pg_type WHERE oid = ANY(%s)"
            types: dict[int, Kind | str] = {
                oid: "text" if is_enum else _KINDS.get(kind, kind)
                for oid, kind, is_enum in connection.execute(query, [[oid for _, oid in columns]])
            }
        return {name: types[oid] for name, oid in columns}

    def _relation(self, named: Mapping[str, str]) -> str:
        texts = []
        for new, name in named.items():
            cell = f"CAST({_quoted(name)} AS text)"
            texts.append(short_text(cell, f"convert_to({cell}, 'UTF8')", f'{cell} COLLATE "C"') + f" AS {new}")
        return f"SELECT {', '.join(texts)} FROM {self._table}"

    def _rows(self, query: str) -> Rows:
        connection = self._connected()
        with replaced_errors(unreadable(), _driver().Error):
            try:
                return list(connection.execute(query).fetchall())
            except BaseException:
                with suppress(_driver().Error):  # otherwise the server would finish the query
                    connection.cancel_safe(timeout=_CANCEL_TIMEOUT_SECONDS)
                raise

    @property
    def _table(self) -> str:
        return f"{_quoted(self._address.schema)}.{_quoted(self._address.table)}"

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None:
            return self._connection
        where = self._address.location
        hint = "check that the server is running and admits this user; see $PGPASSWORD and $PGPASSFILE"
        with replaced_errors(SourceError(f"cannot connect to the server of {where!r}", hint=hint), _driver().Error):
            self._connection = connect(_driver(), self._address)
            row = self._connection.execute(_SESSION, [_STATEMENT_TIMEOUT]).fetchone()
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if row is None or row[-1] == "SQL_ASCII":
            raise SourceError(
                f"the database of {where!r} states no text encoding (SQL_ASCII)",
                hint="copy the table into a database with an encoding, such as UTF8",
            )
        return self._connection


def _driver() -> Any:
    return import_driver("a table", SourceError)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
