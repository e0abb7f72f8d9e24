"""Many processes, one budget."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

LOOP = """
import subprocess, sys
worker, mode = sys.argv[1], sys.argv[2]
succeeded = 0
for attempt in range(100):
    name = ["--fresh"] if mode == "fresh" else ["--release-id", f"{worker}-{attempt}"]
    done = subprocess.run(
        [sys.executable, "-m", "dpbayes_cli", "release", "coin.csv", "--model", "beta-bernoulli", "--eps", "0.02",
         "--samples", "1", "-q", *name, "--out", f"out-{worker}-{attempt}"], capture_output=True)
    if done.returncode == 5:
        break
    assert done.returncode == 0, done.stderr
    succeeded += 1
print(succeeded)
"""


@pytest.fixture
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the ledger of the test in a file or on a server, by its parameter."""
    if request.param == "postgres":
        server, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")
        monkeypatch.setenv("DPBAYES_LEDGER", server.url(database))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["named", "fresh"])
@pytest.mark.parametrize("on", ["sqlite", "postgres"], indirect=True)
@pytest.mark.usefixtures("on")
def test_eight_processes_share_a_budget(mode: str, dpbayes: Cli, coin: Path, place: Path) -> None:
    releases = 24
    dpbayes("budget", "open", "coin", "--eps", f"{releases * 0.02:.2f}")
    workers = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(i), mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for i in range(8)
    ]
    results = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8, results
    assert sum(int(out) for out, _ in results) == releases
    assert len(list(place.glob("out-*"))) == releases
    account = dpbayes("budget", "show", "coin", "--json").json["accounts"][0]
    assert account["remaining"] == {"epsilon": "0"}
    assert len(account["releases"]) == releases
    assert dpbayes("budget", "verify").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("on", ["sqlite", "postgres"], indirect=True)
@pytest.mark.usefixtures("on")
def test_racing_for_the_same_release_draws_it_once(coin: Path, place: Path, dpbayes: Cli) -> None:
    command = [sys.executable, "-m", "dpbayes_cli", "release", coin.name, "--model", "beta-bernoulli", "--eps", "1",
               "--json", "-q", "--out"]  # fmt: skip
    racers = [subprocess.Popen([*command, f"out-{i % 3}"], stdout=subprocess.PIPE) for i in range(8)]
    outputs = [json.loads(racer.communicate(timeout=120)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 8
    assert [output["posterior"] for output in outputs] == [outputs[0]["posterior"]] * 8
    bundles = [{path.name: path.read_bytes() for path in bundle.iterdir()} for bundle in sorted(place.glob("out-*"))]
    assert len(bundles) == 3
    assert bundles[0] == bundles[1] == bundles[2]
    assert dpbayes("budget", "show", "coin", "--json").json["accounts"][0]["remaining"] == {"epsilon": "2"}
