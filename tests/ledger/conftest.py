"""Tests of the ledger that ask for ``stored`` run on both storages, unless their module has a fixture of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbayes_cli.ledger.ledger import Ledger
from tests.ledger.ledgers import PostgresLedger, SqliteLedger, StoredLedger, charge, publish


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> StoredLedger:
    """A ledger that does not exist yet."""
    if request.param == "sqlite":
        return SqliteLedger(tmp_path / "ledgers" / "ledger.sqlite")
    return PostgresLedger(request.getfixturevalue("postgres"), request.getfixturevalue("database"))


@pytest.fixture
def ledger(stored: StoredLedger) -> Ledger:
    """The ledger of the test."""
    return stored.ledger


@pytest.fixture
def used(ledger: Ledger) -> Ledger:
    """A ledger of two published releases."""
    for epsilon in ("1", "0.5"):
        publish(ledger, charge(epsilon))
    return ledger
