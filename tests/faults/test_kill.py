"""SIGKILL and SIGTERM at every step of a release, and SIGKILL at every step after any number of kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli, often
from tests.faults.summary import summary_of


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["single", "terminate", "anchored", "bounds", "tree", "network", "groups", "hmm", "gibbs"]
)
def test_a_release_ended_at_any_step_is_finished_by_the_same_command(kind: str, tmp_path: Path) -> None:
    summary = summary_of("harness", kind, tmp_path / "faults")
    assert summary["steps"] >= 40
    assert summary["violations"] == []


@pytest.mark.faults
@pytest.mark.slow
def test_a_release_killed_any_number_of_times_is_finished_too(tmp_path: Path) -> None:
    summary = summary_of("harness", "repeated", tmp_path / "faults")
    assert summary["violations"] == []
    assert summary["states"] >= 10


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("kind", ["adopt", "anchor", "move", "backup", "salvage"])
def test_upkeep_ended_at_any_step_is_finished_by_the_same_command(kind: str, tmp_path: Path) -> None:
    summary = summary_of("keeping", kind, tmp_path / "faults")
    assert summary["steps"] >= 8
    assert summary["violations"] == []


@pytest.mark.faults
@pytest.mark.slow
def test_publishing_before_sealing_is_caught(tmp_path: Path) -> None:
    """The planted bug writes the bundle first and seals when it is published. The sweep must find it."""
    script = tmp_path / "planted.py"
    script.write_text(
        """
import sys
from pathlib import Path
from typing import Any
import tests.faults.harness as harness
from dpbayes_cli.ledger.ledger import Ledger

def not_yet(self, record, account, payload):
    self.late = payload
    return payload

def seal_late(self, record, account, files, document):
    seal(self, record, account, self.late)
    return publish(self, record, account, files, document)

seal, publish = Ledger.seal, Ledger.publish
Ledger.seal, Ledger.publish = not_yet, seal_late
summary = harness.sweep(Path(sys.argv[1]), 9, patience=1)
print(summary["losses"])
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path / "faults")],
        cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert int(done.stdout.splitlines()[-1]) > 0


@pytest.mark.parametrize("pipe", often(["2>&1 | true", "--json | true"], 2))
def test_a_reader_that_goes_away_leaves_a_finished_release(pipe: str, coin: Path, dpbayes: Cli) -> None:
    command = f"{sys.executable} -m dpbayes_cli release {coin} --model beta-bernoulli --eps 1 --out out {pipe}"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 141}
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    again = dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--json", "--out", "out")
    assert again.json["replayed"] or "2>&1" in pipe
    assert again.json["remaining"] == {"epsilon": "2"}


@pytest.mark.faults
@pytest.mark.slow
def test_a_schedule_killed_at_any_step_is_charged_once_and_draws_each_release_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.faults.schedules", str(tmp_path / "schedules")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    opening, running = summary["steps"]
    print(f"schedule open: {opening} steps, schedule run: {running} steps")
    assert opening >= 20
    assert running >= 100
    assert summary["violations"] == []


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("nights", [3, 60])
def test_a_schedule_whose_runs_are_killed_releases_each_night_once(nights: int, tmp_path: Path) -> None:
    summary = summary_of("nights", tmp_path / "nights", nights)
    assert summary["violations"] == []
    assert summary["kills"] > nights / 4
    assert (summary["bundles"], summary["charged"], summary["opened"]) == (nights, nights, 1)
    assert summary["spent"] == {"epsilon": "3", "delta": "0.000001"}
