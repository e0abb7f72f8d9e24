"""Connections to a ledger in SQLite, with durable commits; transactions; and the readable entries of a damaged file."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpbayes_cli.base.errors import LedgerError
from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.storage import BEFORE_ALL, Transaction

PATIENCE = 120.0
"""How many seconds to wait while another process locks the file."""
_SLICE = 0.25
"""How many seconds SQLite waits for a lock in one call, during which Python handles no signals."""
_MAX_GAP = 1000
"""How many sequence numbers to try one by one after a page that cannot be read."""
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
INDEX = (
    "CREATE TABLE terms (term TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (term, sequence)) "
    "STRICT, WITHOUT ROWID"
)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection with the settings that make commits durable."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=_SLICE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = EXTRA")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")
    return connection


def integrity_findings(connection: sqlite3.Connection) -> list[str]:
    """Return the defects that SQLite's integrity check finds, one sentence each."""
    rows = [str(row[0]) for row in execute_patiently(connection, "PRAGMA integrity_check(20)")]
    return [] if rows == ["ok"] else [f"the file is damaged: {' '.join(row.split())}" for row in rows]


def refuse_damage(connection: sqlite3.Connection) -> None:
    """Raise ``LedgerError`` if SQLite's integrity check finds damage."""
    if findings := integrity_findings(connection):
        raise LedgerError(
            f"after a crash, {findings[0]}", hint="restore a backup: dpbayes budget restore BACKUP --reason TEXT"
        )


def execute_patiently(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Execute a statement; while another process locks the file, retry for up to ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise


def entry_of(row: tuple[Any, ...]) -> Entry:
    """Return the entry in a row; raise ``sqlite3.DatabaseError`` if the types show that the page is damaged."""
    sequence, body, digest = row
    if not (isinstance(sequence, int) and isinstance(body, str) and isinstance(digest, str)):
        raise sqlite3.DatabaseError(f"the row of entry {sequence!r} is damaged")
    return Entry(sequence, body, digest)


class SqliteTransaction(Transaction):
    """One transaction on one connection."""

    def __init__(self, connection: sqlite3.Connection, *, is_suspect: bool = False) -> None:
        self._connection = connection
        self._has_written = False
        row = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'terms'").fetchone()
        super().__init__(is_indexed=row is not None, is_suspect=is_suspect)

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(statement, values))

    def _execute_for_each(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._connection.executemany(statement, rows)

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        return entry_of(row)

    def begin_index(self) -> bool:
        self._connection.execute(INDEX)
        self.is_indexed = True
        self.add_to_index(self.entries())
        return True

    def append(self, entry: Entry) -> None:
        self._begin_with_page_1()
        super().append(entry)

    def put_payload(self, key: str, payload: bytes) -> None:
        self._begin_with_page_1()
        super().put_payload(key, payload)

    def _begin_with_page_1(self) -> None:
        """Write page 1 before any other page, so that the journal begins with a copy of it; see ``sqlite_journal``."""
        if not self._has_written:
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._connection.execute(f"PRAGMA user_version = {int(version)}")
            self._has_written = True


def readable_entries(connection: sqlite3.Connection) -> tuple[list[Entry], list[str]]:
    """Return every readable entry in order, and one sentence about each gap of missing or unreadable entries.

    After a damaged page, each sequence number is tried. Numbers below 1, which dpbayes never writes, come last.
    """
    entries: list[Entry] = []
    misnumbered: list[Entry] = []
    lost: list[str] = []
    last, expected = BEFORE_ALL, 1
    while True:
        try:
            row = connection.execute(
                "SELECT * FROM entries WHERE sequence > ? ORDER BY sequence LIMIT 1", (last,)
            ).fetchone()
        except _UNREADABLE:
            row = _one_by_one(connection, max(last, 0))
            if row is None:
                lost.append(f"the entries after entry {max(last, 0)} cannot be read")
                break
        if row is None:
            break
        last = row[0] if isinstance(row[0], int) else max(last, 0) + 1
        if last > expected:
            lost.append(_missing(expected, last - 1))
        expected = max(expected, last + 1)
        try:
            (misnumbered if last < 1 else entries).append(entry_of(row))
        except sqlite3.DatabaseError:
            lost.append(_missing(last, last))
    return [*entries, *misnumbered], lost


def _one_by_one(connection: sqlite3.Connection, last: int) -> tuple[object, ...] | None:
    """Return the row of the next readable entry after ``last``; None if the next ``_MAX_GAP`` are unreadable."""
    for sequence in range(last + 1, last + 1 + _MAX_GAP):
        try:
            rows = connection.execute("SELECT * FROM entries WHERE sequence = ?", (sequence,)).fetchall()
        except _UNREADABLE:
            continue
        for row in rows:
            return tuple(row)
    return None


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"entry {first} is missing or cannot be read"
    return f"entries {first} to {last} are missing or cannot be read"
