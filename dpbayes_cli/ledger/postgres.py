"""The ledger on a PostgreSQL server, which several hosts can use; each commit is durable.

A writer locks the table ``meta`` in the first statement of its transaction. ``LOCK TABLE`` needs no snapshot, so the
transaction's snapshot is taken after the lock is held, and shows the commit of the previous writer. If a program wrote
without the lock, ``SERIALIZABLE`` and the primary key would still let only one of two writers commit.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, LiteralString

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.base.postgres_address import PostgresAddress
from dpbayes_cli.base.postgres_driver import connect, import_driver
from dpbayes_cli.ledger.storage import Storage, Transaction

if TYPE_CHECKING:
    import psycopg

SCHEMA_VERSION = 1
_LOCK_ATTEMPT_SECONDS = 10.0
"""How long one attempt waits for the lock; attempts are repeated until ``_LOCK_TIMEOUT_SECONDS`` have passed."""
_LOCK_TIMEOUT_SECONDS = 120.0
_IDLE_TIMEOUT_SECONDS = 300.0
"""The server ends a stalled transaction after this time, so that other processes can write."""
_SESSION_TIMEOUT_SECONDS = 600.0
"""This process closes a connection after this time, even if the server does not answer."""
_TABLES = {"meta", "entries", "payloads"}
_INDEX = "terms"
"""The table of the index; ledgers of earlier versions lack it until ``budget migrate`` creates it."""
_CREATE = """
CREATE TABLE {schema}.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE {schema}.entries (sequence bigint PRIMARY KEY, body text NOT NULL, hash text NOT NULL);
CREATE TABLE {schema}.payloads (release_id text PRIMARY KEY, payload bytea NOT NULL);
ALTER TABLE {schema}.payloads ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation'; END $$;
INSERT INTO {schema}.meta VALUES ('application', 'dpbayes'), ('schema_version', '{version}')
"""
_ADD_INDEX = """
CREATE TABLE {schema}.terms (term text, sequence bigint, PRIMARY KEY (term, sequence));
DO $$ DECLARE held record; BEGIN
  FOR held IN SELECT DISTINCT grantee, privilege_type FROM information_schema.role_table_grants
      WHERE table_schema = '{name}' AND table_name = 'entries' AND privilege_type IN ('SELECT', 'INSERT') LOOP
    EXECUTE format('GRANT %s ON {schema}.terms TO %s', held.privilege_type,
      CASE held.grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(held.grantee) END);
  END LOOP;
END $$
"""
_APPEND_ONLY = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.{table}
  FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse();
ALTER TABLE {schema}.{table} ENABLE ALWAYS TRIGGER append_only
"""
_SESSION = """
SELECT set_config('search_path', 'pg_catalog, ' || %s || ', pg_temp', false),
  set_config('synchronous_commit', 'on', false), set_config('lock_timeout', %s, false),
  set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
  current_setting('fsync'), pg_is_in_recovery()
"""
_NOT_COMMITTED = {"23", "25", "40"}
"""The classes of SQLSTATE by which a server reports that it did not commit."""
_REASONS = {
    "08": ("the connection was lost", "run the same command again"),
    "23": ("another program wrote at the same time; nothing was written", "run the same command again"),
    "23001": ("the server refuses to change existing entries", ""),
    "25P03": ("this process had stalled, and nothing was written", "run the same command again"),
    "25": ("the server does not allow writing", "check that it is neither a standby nor read-only"),
    "28": ("the server rejects this user", "check the user and the password ($PGPASSWORD or $PGPASSFILE)"),
    "40": ("another program made a change at the same time; nothing was written", "run the same command again"),
    "42501": (
        "this user lacks a privilege on its tables",
        "docs/how-to/two-hosts.md lists the privileges that a ledger needs",
    ),
    "42": (
        "the schema does not hold the tables of a ledger",
        "check that the address names the right database and schema",
    ),
    "53": ("the server has no disk space, memory or connections left", "free some, then run the same command again"),
    "55P03": ("another process holds the lock", "run the same command again"),
    "57014": ("the server canceled the statement", "run the same command again"),
    "57": ("the server ended the session", "run the same command again"),
}
"""The reason and the hint to print, by SQLSTATE or its class; the driver's texts are never printed."""


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
        return False  # everyone who charges needs privileges on a new table: ``budget migrate`` creates it


class PostgresStorage(Storage):
    """A ledger in a schema of a database, which any number of hosts and processes can use."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    @property
    def location(self) -> str:
        """The address without the password."""
        return self._address.location

    @property
    def exists(self) -> bool:
        """Whether the schema holds a ledger; raise ``LedgerError`` if it holds only some of a ledger's tables."""
        with self._connected() as connection:
            return self._has_tables(connection)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with self._connected() as connection:
            if not self._has_tables(connection):
                self._create(connection)
            self._begin(connection)
            with self._committed(connection):
                yield PostgresTransaction(connection)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._connected() as connection:
            if not self._has_tables(connection):
                raise self._missing()
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._check_schema(connection)
            yield PostgresTransaction(connection)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        psycopg = _driver()
        try:
            connection = connect(psycopg, self._address, tcp_user_timeout=30_000)
        except psycopg.Error as error:
            raise self._unreachable(error) from None
        try:
            with _bounded(connection):
                self._prepare(connection)
                yield connection
        except psycopg.Error as error:
            raise self._translated(error) from None
        except UnicodeError:
            raise LedgerError(f"the ledger {self.location!r} holds a text that is not valid Unicode") from None
        finally:
            connection.close()

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Make commits durable and bound all waits, whatever the server's configuration says."""
        timeouts = (_LOCK_ATTEMPT_SECONDS, _LOCK_TIMEOUT_SECONDS, _IDLE_TIMEOUT_SECONDS)
        milliseconds = [str(int(seconds * 1000)) for seconds in timeouts]
        row = connection.execute(_SESSION, [self._schema, *milliseconds]).fetchone()
        *_, fsync, standby = row or ("off", True)
        if fsync != "on":
            raise LedgerError(
                f"the server of the ledger {self.location!r} runs with fsync = {fsync}: a charge could be lost",
                hint="set fsync = on in the server's configuration",
            )
        if standby:
            raise LedgerError(
                f"the server of the ledger {self.location!r} is a standby, which may lag behind the primary",
                hint="name the primary server",
            )

    def _has_tables(self, connection: psycopg.Connection[Any]) -> bool:
        rows = connection.execute(
            "SELECT relname, has_schema_privilege(pg_namespace.oid, 'USAGE') FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relname = ANY(%s)",
            [self._address.schema, sorted(_TABLES)],
        ).fetchall()
        if not all(allowed for _, allowed in rows):
            raise _driver().errors.InsufficientPrivilege
        tables = {name for name, _ in rows}
        if tables and tables != _TABLES:
            raise LedgerError(
                f"{self.location!r} is not a dpbayes ledger, or an incomplete one",
                hint="restore it from a backup, or name an empty schema: ?schema=NAME",
            )
        return bool(tables)

    def _create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the ledger in one transaction, unless another process has just created it."""
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        with self._committed(connection):
            alone = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
            connection.execute(alone, [f"dpbayes {self._address.schema}"])
            if not self._has_tables(connection):
                named = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
                if connection.execute(named, [self._address.schema]).fetchone() is None:
                    connection.execute(f"CREATE SCHEMA {self._schema}")
                connection.execute(_CREATE.format(schema=self._schema, version=SCHEMA_VERSION))
                self._add_index(connection)
                for table in sorted(_TABLES):
                    connection.execute(_APPEND_ONLY.format(schema=self._schema, table=table))

    @property
    def _schema(self) -> str:
        return f'"{self._address.schema}"'

    def _add_index(self, connection: psycopg.Connection[Any]) -> None:
        name = self._address.schema.replace("'", "''")
        connection.execute(_ADD_INDEX.format(schema=self._schema, name=name))
        connection.execute(_APPEND_ONLY.format(schema=self._schema, table=_INDEX))

    def migrate(self) -> tuple[int, None] | None:
        """See ``Storage.migrate``; this creates the index, with the same privileges as the table of entries."""
        with self._connected() as connection:
            self._begin(connection)
            transaction = PostgresTransaction(connection)
            if transaction.is_indexed:
                _roll_back(connection)
                return None
            with self._committed(connection):
                self._add_index(connection)
                transaction.add_to_index(transaction.entries())
        return SCHEMA_VERSION, None

    def _begin(self, connection: psycopg.Connection[Any]) -> None:
        """Begin a transaction that excludes other writers; retry if it fails before it has read anything."""
        psycopg = _driver()
        known = psycopg.errors
        transient = (known.LockNotAvailable, known.SerializationFailure, known.DeadlockDetected)
        deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
        while True:
            try:
                connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE")
                connection.execute("LOCK TABLE meta IN EXCLUSIVE MODE")
                self._check_schema(connection)
                return
            except transient:
                _roll_back(connection)
                if time.monotonic() > deadline:
                    raise

    @contextmanager
    def _committed(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Commit after the ``with`` block, or roll back after an error; the server must confirm the commit."""
        try:
            yield
        except BaseException:
            _roll_back(connection)
            raise
        psycopg = _driver()
        warnings: list[str | None] = []  # e.g. if an administrator told the server not to wait for its standby
        connection.add_notice_handler(lambda notice: warnings.append(notice.severity_nonlocalized))
        try:
            committed = connection.execute("COMMIT").statusmessage == "COMMIT"
        except psycopg.Error as error:
            if not connection.closed and (error.sqlstate or "")[:2] in _NOT_COMMITTED:
                raise
            committed = False
        if not committed or "WARNING" in warnings:
            raise LedgerError(
                f"the server of the ledger {self.location!r} did not confirm a commit: "
                "the change may or may not have been written",
                hint="run the same command again: it finishes a charged release, and does not charge it twice",
            )

    def _check_schema(self, connection: psycopg.Connection[Any]) -> None:
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        if meta.get("application") != "dpbayes":
            raise LedgerError(f"{self.location!r} is not a dpbayes ledger", hint="name an empty schema: ?schema=NAME")
        version = meta.get("schema_version")
        if version != str(SCHEMA_VERSION):
            raise LedgerError(
                f"the ledger {self.location!r} has schema version {version}; this dpbayes reads {SCHEMA_VERSION}",
                hint="use the version of dpbayes that wrote it",
            )

    def _unreachable(self, error: psycopg.Error) -> LedgerError:
        attempt = error.pgconn
        hint = "check that the server is running and accepts this user from this host"
        if attempt is not None and (attempt.needs_password or attempt.used_password):
            hint = "check the password: it is read from $PGPASSWORD, or from the file that $PGPASSFILE names"
        return LedgerError(
            f"the server of the ledger {self.location!r} cannot be reached, or refuses the connection", hint=hint
        )

    def _translated(self, error: psycopg.Error) -> LedgerError:
        state = error.sqlstate or "08000"
        unknown = (f"the server answered with SQLSTATE {state}", "see the server's log")
        reason, hint = next((_REASONS[key] for key in (state, state[:2]) if key in _REASONS), unknown)
        return LedgerError(f"the ledger {self.location!r} cannot be used: {reason}", hint=hint)


def _driver() -> Any:
    return import_driver("a ledger", LedgerError)


@contextmanager
def _bounded(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Close a connection from this side if the server stops answering; the driver itself would wait forever."""
    connected = socket.socket(fileno=os.dup(connection.fileno()))
    timer = threading.Timer(_SESSION_TIMEOUT_SECONDS, connected.shutdown, [socket.SHUT_RDWR])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        connected.close()


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    """Undo a transaction; if the connection is lost or busy, the server undoes it when the connection closes."""
    with suppress(_driver().Error):
        connection.execute("ROLLBACK")
