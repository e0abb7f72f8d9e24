"""The cost of a command on a ledger of 100,000 entries, and of many commands at once."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.ledger.budgets import PureBudget
from dpbayes_cli.ledger.ledger import Ledger
from dpbayes_cli.ledger.payloads import document_key
from dpbayes_cli.ledger.sqlite import SqliteStorage
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import ROOT
from tests.ledger.ledgers import charge

pytestmark = pytest.mark.slow
SHORT, LONG = 100, 100_000
TIMES = 5


def write_long_ledger(path: Path, entries: int, accounts: int = 1) -> Ledger:
    """Return a ledger of at least this many entries: published releases of accounts in turn, and checkpoints."""
    ledger = Ledger(SqliteStorage(path))
    for number in range(accounts):
        ledger.open_account(f"a{number}", PureBudget(Decimal(1000)), Neighbors.REPLACE_ONE)
    ledger.reserve(charge("0.001", account="a0", source="-"))
    reserved = ledger.entries()[-1].fields
    number, written = 0, 0
    while written < entries:
        with ledger.writing() as (transaction, state):
            for _ in range(50):
                name, release_id = f"a{number % accounts}", f"{number:016d}"
                about = {"account": name, "release_id": release_id}
                data = {"label": f"n{number}", "question_digest": f"q{number}", "source": f"/data/{name}-{number}.csv"}
                ledger.append(transaction, state, {**reserved, **about, **data})
                draw = str(number).encode()
                ledger.append(transaction, state, {**about, "kind": "sealed", "payload": digest("payload", draw)})
                published = {"kind": "published", "files": {"f": "d"}, "document": digest("payload", draw)}
                ledger.append(transaction, state, {**about, **published})
                transaction.put_payload(release_id, draw)
                transaction.put_payload(document_key(release_id), draw)
                number += 1
            written = state.mark.sequence
    return ledger


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
    request = ["--model", "beta-bernoulli", "--eps", "0.01", "--dataset", "a0"]
    return ["release", "relapse.csv", *request, "--release-id", name, "--out", name]


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
