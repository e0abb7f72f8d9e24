"""Read the entries of a damaged ledger in SQLite: in order while the pages allow it, else one number at a time."""

from __future__ import annotations

import sqlite3

from dpbayes_cli.ledger.chain import Entry
from dpbayes_cli.ledger.sqlite_connection import entry_of

_BEFORE_ALL = -(1 << 63)
_MAX_GAP = 1000
"""Entry numbers to try, one by one, after a page that cannot be read."""
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)

Row = tuple[object, ...]


def readable_entries(connection: sqlite3.Connection) -> tuple[list[Entry], list[str]]:
    """Return every readable entry, whatever its number, and the unreadable or missing ones, one sentence each.

    Entries with numbers below 1, which no ledger writes, come last.
    """
    entries: list[Entry] = []
    misnumbered: list[Entry] = []
    lost: list[str] = []
    last, expected = _BEFORE_ALL, 1
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


def _one_by_one(connection: sqlite3.Connection, last: int) -> Row | None:
    """Return the next entry that can be read by its number; None if there is none within ``_MAX_GAP``."""
    for sequence in range(last + 1, last + 1 + _MAX_GAP):
        try:
            row: Row | None = connection.execute("SELECT * FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        except _UNREADABLE:
            continue
        if row is not None:
            return row
    return None


def _missing(first: int, last: int) -> str:
    if first == last:
        return f"entry {first} is missing or cannot be read"
    return f"entries {first} to {last} are missing or cannot be read"
