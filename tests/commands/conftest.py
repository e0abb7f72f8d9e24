"""A bundle that several tests of commands read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dpbayes_cli as dpb
from tests.commands.networks import naive_bayes, people


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of naive Bayes on 400 records."""
    place = tmp_path_factory.mktemp("naive-bayes")
    ledger = dpb.Ledger(place / "ledger.sqlite")
    dpb.release(people(place / "people.csv", 400), naive_bayes(), ledger=ledger, out=place / "out")
    return place / "out"


@pytest.fixture
def bundle(released: Path, place: Path) -> Path:
    """A copy of that release, beside 200 new records."""
    people(place / "new.csv", 200, seed=2)
    shutil.copytree(released, "out")
    return Path("out")
