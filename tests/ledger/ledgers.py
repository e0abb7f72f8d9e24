"""Ledgers for tests, on either storage: their releases, and ways to change them without dpbayes."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.key import LedgerKey
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import amendment_entry, limit_entry
from dpbayes_cli.ledger.place import storage_at
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.ledger.sqlite_journal import has_crash_journal
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.ledger.storage import Storage
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.postgres_server import Server


class StoredLedger(ABC):
    """A ledger that does not exist yet."""

    place: str
    """The value of ``--ledger``."""

    @abstractmethod
    def tamper(self, *statements: str) -> None:
        """Execute SQL without dpbayes, with all privileges."""

    @abstractmethod
    def contents(self) -> object:
        """Return everything that is stored, for comparison."""

    @property
    def storage(self) -> Storage:
        return storage_at(self.place)

    @property
    def ledger(self) -> Ledger:
        """Open the ledger, with a clock that stands still."""
        return Ledger(self.storage, clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


class SqliteLedger(StoredLedger):
    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)

    def tamper(self, *statements: str) -> None:
        change(self.path, *statements)

    def contents(self) -> object:
        return self.path.read_bytes()


class PostgresLedger(StoredLedger):
    """A ledger in a database of its own."""

    def __init__(self, server: Server, database: str) -> None:
        self.server, self.database, self.place = server, database, server.url(database)

    def tamper(self, *statements: str) -> None:
        with self.server.connect(self.database) as connection:
            connection.execute("SET search_path = dpbayes")
            for switch in ("DISABLE TRIGGER", "ENABLE ALWAYS TRIGGER"):
                for table in {*self._tables} & {"entries", "meta", "payloads", "terms"}:
                    connection.execute(f"ALTER TABLE {table} {switch} append_only")
                for statement in statements if switch == "DISABLE TRIGGER" else ():
                    connection.execute(re.sub(r"x'([0-9a-f]*)'", r"decode('\1', 'hex')", statement))

    def contents(self) -> object:
        return [
            self.server.execute(f"SELECT * FROM dpbayes.{table} ORDER BY 1", self.database) for table in self._tables
        ]

    @property
    def _tables(self) -> list[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'dpbayes' ORDER BY 1"
        return [row[0] for row in self.server.execute(query, self.database)]


def open_ledger(path: Path, stated: Path | None = None, key: LedgerKey | None = None) -> Ledger:
    """Open a ledger in a file, with a clock that stands still."""
    clock = lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)  # noqa: E731
    return Ledger(SqliteStorage(path), clock, stated_anchor=stated, key=key)


def charge(epsilon: str = "1", **changes: Any) -> Charge:
    """Return the charge of a release of the account ``clinic``."""
    base = Charge(
        account="clinic",
        label=None,
        fresh=False,
        same_data=False,
        open_account=True,
        request={"model": "m", "epsilon": epsilon},
        request_digest=f"request-{epsilon}",
        question_digest=f"question-{epsilon}",
        source="/data/clinic.csv",
        guarantee=PureDP(Decimal(epsilon)),
        neighbors=Neighbors.REPLACE_ONE,
    )
    return replace(base, **changes)


def labeled(label: str, epsilon: str = "0.1", analyst: str | None = None) -> Charge:
    """Return the charge of a release with a label and a request of its own."""
    digests = {"request_digest": f"request-{label}", "question_digest": f"question-{label}"}
    return charge(epsilon, label=label, request={"label": label}, analyst=analyst, **digests)


def publish(ledger: Ledger, asked: Charge) -> str:
    """Take a release from its charge to publication, as a repeated command would; return its ID."""
    release = ledger.reserve(asked).release
    ledger.seal(release, asked.account, f"payload of {release.label}".encode())
    ledger.publish(release, asked.account, {"f": "d"}, f"document of {release.label}".encode())
    return release.release_id


def amend(ledger: Ledger, name: str, changes: dict[str, Decimal], reason: str = "") -> Account:
    """Change the totals of an account."""
    return ledger.change(name, lambda account: amendment_entry(account, changes, reason))[0]


def limit(ledger: Ledger, **limits: str) -> None:
    """Set the limits of analysts in the account ``clinic``."""
    for analyst, epsilon in limits.items():
        changes = {"epsilon": Decimal(epsilon)}
        ledger.change("clinic", lambda known, a=analyst, c=changes: limit_entry(known, a, c, ""))  # type: ignore[misc]


def spent(path: Path) -> Decimal:
    """Return what the account ``clinic`` has spent, without comparing the anchors."""
    return open_ledger(path).state(compare=False).accounts["clinic"].spent["epsilon"]


def copy_of(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(name)))


def change(path: Path, *statements: str) -> None:
    """Execute SQL on a file without dpbayes."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def damage(path: Path, row: int) -> None:
    """Change the hash of one entry."""
    change(path, f"UPDATE entries SET hash = 'x' || substr(hash, 2) WHERE sequence = {row}")


def marks(anchor: Path) -> list[tuple[int, str]]:
    return [(int(a), b) for a, b in (line.split() for line in anchor.read_text(encoding="ascii").splitlines())]


KILLED = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("PRAGMA cache_spill = ON")
connection.execute("BEGIN IMMEDIATE")
connection.execute("PRAGMA user_version = 1")
connection.execute("UPDATE entries SET hash = 'x' || substr(hash, 2)")
connection.execute("INSERT INTO payloads VALUES ('big', ?)", (bytes(400_000),))
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A process that is killed after some pages of its transaction were written."""


def crash(path: Path, script: str = KILLED) -> None:
    """Leave an incomplete transaction and its journal."""
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert has_crash_journal(path)
