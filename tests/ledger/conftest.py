"""Every test of the ledger runs on both storages."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbayes_cli.ledger.ledger import Ledger
from tests.ledger.books import Books, PostgresBooks, SqliteBooks, charge


@pytest.fixture(params=["sqlite", "postgres"])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Books:
    """A ledger that is not opened yet."""
    if request.param == "sqlite":
        return SqliteBooks(tmp_path / "books" / "ledger.sqlite")
    return PostgresBooks(request.getfixturevalue("postgres"), request.getfixturevalue("database"))


@pytest.fixture
def ledger(books: Books) -> Ledger:
    """The ledger of the test."""
    return books.ledger


@pytest.fixture
def used(ledger: Ledger) -> Ledger:
    """A ledger of two published releases."""
    for epsilon in ("1", "0.5"):
        release = ledger.reserve(charge(epsilon)).release
        ledger.seal(release, "clinic", b"payload of " + epsilon.encode())
        ledger.publish(release, "clinic", {"f": "d"}, b"document of " + epsilon.encode())
    return ledger
