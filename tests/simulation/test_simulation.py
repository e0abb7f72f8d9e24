"""Seeds of the simulator: no seed loses anything, and planted bugs are found.

``DPBAYES_SEEDS=FIRST:COUNT`` runs others than the slow test's. A failure names its seed, and prints what happened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.restore import restore
from tests.conftest import often
from tests.simulation.calls import Blindness
from tests.simulation.world import TROUBLES, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names what is open by /proc")
FAST, BLOCK = 15, 500
FIRST, COUNT = map(int, os.environ.get("DPBAYES_SEEDS", "1000:2500").split(":"))


def put_back(ledger: Ledger, backup: Path) -> None:
    """Restore a backup, as ``dpbayes budget restore`` does."""
    restore(ledger, backup, "it looked wrong")


def failure(
    seeds: Iterable[int], place: Path, troubles: frozenset[str] = TROUBLES, **world: Any
) -> tuple[int, str] | None:
    """Return the first seed with a violation, and the violation; None if there is none."""
    for seed in seeds:
        wrong, events = run(seed, place, troubles, **world)
        if wrong:
            shown = [event for event in events if event.startswith("--")] + ["...", *events[-60:]]
            return seed, "\n".join([f"seed {seed} with {sorted(troubles)}, {world}", *wrong, *shown]).replace(
                f"{place}/", ""
            )
    return None


@pytest.mark.parametrize("troubles", often([TROUBLES, frozenset({"outages"})], 2), ids=["all troubles", "outages"])
def test_no_seed_loses_anything(troubles: frozenset[str], tmp_path: Path) -> None:
    failed = failure(range(FAST), tmp_path / "root", troubles, restore=put_back)
    assert failed is None, failed[1]


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, BLOCK), marks=[pytest.mark.faults, pytest.mark.slow])], ids=len
)
def test_no_seed_of_a_schedule_loses_anything(seeds: range, tmp_path: Path) -> None:
    failed = failure(seeds, tmp_path / "root", restore=put_back, scheduled=True)
    assert failed is None, failed[1]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BLOCK))
def test_no_seed_of_many_loses_anything(first: int, tmp_path: Path) -> None:
    seeds = range(first, min(first + BLOCK, FIRST + COUNT))
    failed = failure(seeds, tmp_path / "root", restore=put_back)
    assert failed is None, failed[1]


def test_a_seed_determines_the_history(tmp_path: Path) -> None:
    first, second = (run(7, tmp_path / "root", troubles=TROUBLES) for _ in range(2))
    assert first == second


@dataclass(frozen=True)
class Planted:
    """A bug that the simulator must find.

    Attributes:
        trouble: what brings it to light.
        seed: the first seed to try; it finds the bug, unless the simulated calls have changed since.
        blind: the checks that do not see.
        plant: changes the code.
    """

    trouble: str
    seed: int
    blind: Blindness = field(default_factory=Blindness)
    plant: Callable[[pytest.MonkeyPatch], None] = lambda _: None


def _seal_again(patch: pytest.MonkeyPatch) -> None:
    """Let the last draw win."""
    seal = Ledger.seal

    def overwrite(self: Ledger, release: Any, account: str, payload: bytes) -> bytes:
        if seal(self, release, account, payload) != payload:
            with self.storage.writing() as transaction:
                rows: Any = transaction
                rows._connection.execute("DELETE FROM payloads WHERE release_id = ?", (release.release_id,))
                transaction.put_payload(release.release_id, payload)
        return payload

    patch.setattr(Ledger, "seal", overwrite)


PLANTED = {
    "a second name that nobody sees": Planted("names", 46, Blindness(links=True)),
    "a backup that is copied beside a journal": Planted("restores", 30),
    "partial directories that nobody holds": Planted("namespaces", 11, Blindness(locks=True)),
    "SQLite that syncs nothing": Planted("outages", 5, Blindness(synchronous="OFF")),
    "SQLite that does not sync the names of journals": Planted("outages", 12, Blindness(synchronous="FULL")),
    "a bundle whose names are not synced": Planted("outages", 0, Blindness(syncs="/out")),
    "a draw that is overwritten": Planted("kills", 2, plant=_seal_again),
}


@pytest.mark.parametrize("name", often(PLANTED, 2))
def test_a_planted_bug_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    planted.plant(monkeypatch)
    seeds = range(planted.seed, planted.seed + 200)
    failed = failure(seeds, tmp_path / "root", frozenset({planted.trouble}), blind=planted.blind)
    assert failed is not None
    print(f"{name}: seed {failed[0]}")
