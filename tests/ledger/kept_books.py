"""Small ledgers for tests: finished releases, copies, and rows that were changed without the ledger."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from dpbayes_cli.ledger.charging import Charge
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.neighbors import Neighbors


def open_book(path: Path, stated: Path | None = None) -> Ledger:
    return Ledger(SqliteStorage(path), lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), stated_anchor=stated)


def charge(label: str, epsilon: str = "0.1") -> Charge:
    return Charge(
        account="clinic",
        label=label,
        fresh=False,
        same_data=False,
        open_account=True,
        request={"label": label},
        request_digest=f"request-{label}",
        question_digest=f"question-{label}",
        source="/data/clinic.csv",
        guarantee=PureDP(Decimal(epsilon)),
        neighbors=Neighbors.REPLACE_ONE,
    )


def finish(ledger: Ledger, label: str, epsilon: str = "0.1", analyst: str | None = None) -> None:
    """Reserve, seal and publish: three entries, after one that opens the account the first time."""
    release = ledger.reserve(replace(charge(label, epsilon), analyst=analyst)).release
    ledger.seal(release, "clinic", b"payload of " + label.encode())
    ledger.publish(release, "clinic", {"f": "d"}, b"document of " + label.encode())


def kept(path: Path, name: str) -> Path:
    return Path(shutil.copy(path, path.with_name(name)))


def put_back(copy: Path, path: Path) -> None:
    shutil.copy(copy, path)


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def lines(anchor: Path) -> list[tuple[int, str]]:
    return [(int(a), b) for a, b in (line.split() for line in anchor.read_text(encoding="ascii").splitlines())]
