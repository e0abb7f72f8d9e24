"""Connections to a ledger in SQLite: settings for durable commits, waiting for locks, and checks for damage."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError

PATIENCE = 120.0
"""Seconds for which another process may hold the file."""
_SLICE = 0.25
"""Seconds that SQLite itself waits for a lock; signals are not handled meanwhile."""


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
    """Return the findings of SQLite's own check of pages, order and indexes, one sentence each."""
    rows = [str(row[0]) for row in execute_patiently(connection, "PRAGMA integrity_check(20)")]
    return [] if rows == ["ok"] else [f"the file is damaged: {' '.join(row.split())}" for row in rows]


def refuse_damage(connection: sqlite3.Connection) -> None:
    """Refuse a damaged file.

    Raises:
        LedgerError: SQLite's check finds damage.
    """
    if findings := integrity_findings(connection):
        raise LedgerError(
            f"after a crash, {findings[0]}", hint="restore a backup: dpbayes budget restore BACKUP --reason TEXT"
        )


def execute_patiently(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Execute a statement; retry while another process holds the file, up to ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
