"""The cost of a command on a ledger of 100,000 entries, and of many commands at once."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.ledger.long_books import write_long_ledger

pytestmark = pytest.mark.slow
SHORT, LONG = 100, 100_000
TIMES = 5


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    place = tmp_path_factory.mktemp("long")
    for entries in (SHORT, LONG):
        write_long_ledger(place / f"{entries}.sqlite", entries)
    shutil.copy(ROOT / "sample_data" / "relapse.csv", place / "relapse.csv")
    return {entries: place / f"{entries}.sqlite" for entries in (SHORT, LONG)}


def begun(ledger: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dpbayes_cli", *arguments, "--ledger", str(ledger)]
    quiet = subprocess.DEVNULL
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ledger.parent, stdout=quiet, stderr=quiet, env=path)


def asked(name: str) -> list[str]:
    question = ["--model", "beta-bernoulli", "--eps", "0.01", "--dataset", "a0"]
    return ["release", "relapse.csv", *question, "--release-id", name, "--out", name]


def cpu(ledger: Path, arguments: list[str]) -> float:
    """Return the CPU time of a command, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert begun(ledger, *arguments).wait() == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("command", ["release", "show"])
def test_the_cost_of_a_command_does_not_grow_with_the_ledger(command: str, ledgers: dict[int, Path]) -> None:
    costs: dict[int, list[float]] = {entries: [] for entries in ledgers}
    for number in range(TIMES):
        for entries, ledger in ledgers.items():
            release = asked(f"{entries}-{number}")
            costs[entries].append(cpu(ledger, release if command == "release" else ["budget", "show", "a0"]))
    print(f"{command}: CPU seconds {costs}")
    assert min(costs[LONG]) <= 1.2 * min(costs[SHORT])


def test_64_releases_at_once_on_a_long_ledger_all_succeed(ledgers: dict[int, Path]) -> None:
    running = [begun(ledgers[LONG], *asked(f"at-once-{number}")) for number in range(64)]
    assert [each.wait() for each in running] == [0] * 64
    assert begun(ledgers[LONG], "budget", "verify").wait() == 0
