"""One ledger for a test, on either storage, and ways to tamper with it."""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.limits import amendment_entry
from dpbayes_cli.ledger.place import storage_at
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.ledger.storage import Storage
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.postgres_server import Server


def amend(ledger: Ledger, name: str, changes: dict[str, Decimal], reason: str) -> Account:
    """Change the totals of an account."""
    return ledger.change(name, lambda account: amendment_entry(account, changes, reason))[0]


class Books(ABC):
    """A ledger that is not opened yet."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The value of ``--ledger``."""

    @abstractmethod
    def tamper(self, *statements: str) -> None:
        """Execute SQL without dpbayes, with all privileges."""

    @abstractmethod
    def cut_after(self, sequence: int) -> None:
        """Remove the entries after one, and every trace of them except payloads."""

    @abstractmethod
    def contents(self) -> object:
        """Return everything that is stored, for comparison."""

    @property
    def storage(self) -> Storage:
        """The storage."""
        return storage_at(self.place)

    @property
    def ledger(self) -> Ledger:
        """Return the ledger, with a clock that stands still."""
        return Ledger(self.storage, clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


class SqliteBooks(Books):
    """In a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        return str(self.path)

    def tamper(self, *statements: str) -> None:
        with sqlite3.connect(self.path) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def cut_after(self, sequence: int) -> None:
        self.tamper(*(f"DELETE FROM {table} WHERE sequence > {sequence}" for table in ("entries", "terms")))

    def contents(self) -> object:
        return self.path.read_bytes()


class PostgresBooks(Books):
    """In a database of its own."""

    def __init__(self, server: Server, database: str) -> None:
        self.server, self.database = server, database

    @property
    def place(self) -> str:
        return self.server.url(self.database)

    def tamper(self, *statements: str) -> None:
        with self.server.connect(self.database) as connection:
            connection.execute("SET search_path = dpbayes")
            for change in ("DISABLE TRIGGER", "ENABLE ALWAYS TRIGGER"):
                for table in {*self._tables} & {"entries", "meta", "payloads", "terms"}:
                    connection.execute(f"ALTER TABLE {table} {change} append_only")
                for statement in statements if change == "DISABLE TRIGGER" else ():
                    connection.execute(re.sub(r"x'([0-9a-f]*)'", r"decode('\1', 'hex')", statement))

    def cut_after(self, sequence: int) -> None:
        self.tamper(*(f"DELETE FROM {table} WHERE sequence > {sequence}" for table in ("entries", "terms")))

    def contents(self) -> object:
        return [
            self.server.execute(f"SELECT * FROM dpbayes.{table} ORDER BY 1", self.database) for table in self._tables
        ]

    @property
    def _tables(self) -> list[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'dpbayes' ORDER BY 1"
        return [row[0] for row in self.server.execute(query, self.database)]


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


def walk(ledger: Ledger, asked: Charge) -> str:
    """Take a release from its charge to publication, as a repeated command would; return its ID."""
    release = ledger.reserve(asked).release
    ledger.seal(release, asked.account, f"payload of {release.label}".encode())
    ledger.publish(release, asked.account, {"f": "d"}, f"document of {release.label}".encode())
    return release.release_id
