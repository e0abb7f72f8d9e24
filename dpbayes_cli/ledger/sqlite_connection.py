"""Connections to a ledger in SQLite: settings that make a commit durable, patience with others, damage."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

from dpbayes_cli.base.errors import LedgerError

PATIENCE = 120.0
"""Seconds for which another process may hold the file."""
_SLICE = 0.25
"""Seconds that SQLite waits by itself for a lock; signals are not heard meanwhile."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection with the settings that make a commit durable."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=_SLICE)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA synchronous = EXTRA")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")
    return connection


def integrity_findings(connection: sqlite3.Connection) -> list[str]:
    """Return what SQLite's own check of pages, order and indexes finds, one sentence each."""
    rows = [str(row[0]) for row in execute_patiently(connection, "PRAGMA integrity_check(20)")]
    return [] if rows == ["ok"] else [f"the file is damaged: {' '.join(row.split())}" for row in rows]


def refuse_damage(connection: sqlite3.Connection) -> None:
    """Refuse a file whose pages do not hold together.

    Raises:
        LedgerError: they do not.
    """
    if found := integrity_findings(connection):
        raise LedgerError(
            f"after a crash, {found[0]}", hint="restore a backup: dpbayes budget restore BACKUP --reason TEXT"
        )


def execute_patiently(connection: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Execute a statement again while another process holds the file, up to the patience."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
