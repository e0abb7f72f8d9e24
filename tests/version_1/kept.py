"""Releases and specs that were made by dpbayes 0.1.0, whose specs and bundles are of version 1, with their ledger.

``reserved`` was killed before its draw was sealed and ``sealed`` after; the others are published. All read from a
stream, whose records are stated below.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dpbayes_cli.spec.migrate import migrate_text

DATA = Path(__file__).parent / "data"
PUBLISHED = ("chain", "hmm", "laplace", "minami", "network", "ops", "walk")
SPECS = (*PUBLISHED, "reserved", "sealed")
COIN = ("x\n" + "1\n" * 12 + "0\n" * 27 + "\n").encode()
"""What ``reserved`` is about."""


def todays_spec(name: str) -> str:
    """Return the text of a kept spec with the names of today."""
    text, _ = migrate_text((DATA / f"{name}.yaml").read_text(encoding="utf-8"))
    return text


@pytest.fixture
def kept(place: Path, ledger_path: Path) -> Path:
    """Copy everything into the test's directory, specs with the names of today, and the ledger into its place."""
    for name in SPECS:
        (place / f"{name}.yaml").write_text(todays_spec(name), encoding="utf-8")
    for name in PUBLISHED:
        shutil.copytree(DATA / name, place / name)
    shutil.copy(DATA / "ledger.sqlite", ledger_path)
    ledger_path.chmod(0o600)
    return place
