"""Hidden Markov models from the shell: released, inferred again, drawn and scored."""

from __future__ import annotations

import csv
import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.conftest import ROOT, SAMPLE_DATA, Cli

REGIONS, MONTHS = ["N", "S", "E"], [f"m{i}" for i in range(8)]
KINDS, HARM = ["a", "b", "c"], ["0", "1"]
N = 2400
SWITCHES = [3, 4, 5]
"""The month in which the state of each region changes."""
SPEC = {
    "model": "hmm",
    "domain": {
        "sequence": {"column": "region", "values": REGIONS},
        "time": {"column": "month", "values": MONTHS},
        "features": {"kind": {"values": KINDS}, "harm": {"values": HARM, "weight": 2.0}},
        "states": 2,
    },
    "prior": {"stay": 2.0},
    "inference": {"mcmc_sweeps": 50},
    "privacy": {"epsilon": 3},
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Events of two states: every region changes once."""
    rng = np.random.default_rng(1)
    region, month = rng.integers(0, 3, N), rng.integers(0, 8, N)
    late = month >= np.array(SWITCHES)[region]
    kind = np.where(rng.random(N) < 0.8, np.where(late, 2, 0), 1)
    harm = (rng.random(N) < np.where(late, 0.2, 0.6)).astype(int)
    rows = [
        f"{REGIONS[r]},{MONTHS[m]},{KINDS[k]},{HARM[h]}" for r, m, k, h in zip(region, month, kind, harm, strict=True)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["region,month,kind,harm", *rows]) + "\n")
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    return path


def test_a_log_is_released_and_its_regimes_are_found(dpbayes: Cli, log: Path) -> None:
    spec = log.parent / "spec.yaml"
    dpbayes("budget", "open", "log", "--epsilon", "5")
    done = dpbayes("release", log, "--spec", spec, "--out", "out", "--json").exits(0)
    assert done.json["guarantee"]["epsilon"] == 3
    scales = {s["name"].split("[")[1].split("=")[0]: s["noise_scale"] for s in done.json["statistics"]}
    assert scales == pytest.approx({"kind": 2 / (3 / 3), "harm": 2 / (6 / 3)}, rel=1e-6)  # by their weights
    with Path("out", "states.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    for r, region in enumerate(REGIONS):
        states = [row["state"] for row in rows if row["sequence"] == region]
        changes = [i for i in range(1, 8) if states[i] != states[i - 1]]
        assert len(changes) == 1
        assert abs(changes[0] - SWITCHES[r]) <= 1
    assert dpbayes("release", log, "--spec", spec, "--out", "out", "--json").json["replayed"]
    assert dpbayes("budget", "show", "log", "--json").json["accounts"][0]["spent"] == {"epsilon": "3"}
    assert dpbayes("predict", "out", log).code == 3


@pytest.mark.slow
def test_held_out_records_are_scored_by_the_state_they_belong_to(dpbayes: Cli, log: Path) -> None:
    spec = log.parent / "spec.yaml"
    assert dpbayes("release", log, "--spec", spec, "--out", "out", "-q").code == 0
    evaluation = dpbayes("evaluate", "out", log, "--json").json
    assert (evaluation["records"], evaluation["scored"]) == (N, N)
    # in nats per record: larger than without states, and near the likelihood under the true parameters
    kinds = sum(p * math.log(p) for p in (0.2, 0.8))
    harms = 0.5 * sum(p * math.log(p) for p in (0.6, 0.4, 0.2, 0.8))
    assert evaluation["log_likelihood"] == pytest.approx(kinds + harms, abs=0.06)
    assert evaluation["log_likelihood"] > evaluation["without_states"] + 0.2
    wrong = log.parent / "wrong.csv"
    wrong.write_text("region,month,kind,harm\nN,m1,a,1\nX,m1,a,1\nN,m1,?,?\nN,m1,?,1\n")
    evaluation = dpbayes("evaluate", "out", wrong, "--json").json
    assert (evaluation["records"], evaluation["scored"], evaluation["without_place"]) == (4, 2, 2)
    assert "NOT PRIVATE" in dpbayes("evaluate", "out", wrong).out
    for more in (["--inference", "naive"], ["--state-sampler", "collapsed"], ["--prior", "stay=0"]):
        assert dpbayes("infer", "out", *more, "--json").code == 0


@pytest.mark.slow
def test_the_planted_change_of_the_sample_data_is_found(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 5, within a month, in nine of ten regions."""
    monkeypatch.syspath_prepend(SAMPLE_DATA)
    truth = importlib.import_module("event_log").switch_months()
    dpbayes("budget", "open", "events", "--epsilon", "5")
    assert dpbayes("release", "--spec", ROOT / "configs/releases/events-hmm.yaml", "--out", "out", "-q").code == 0
    with Path("out", "states.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    right = 0
    for region, month in truth.items():
        course = [(row["step"], row["state"]) for row in rows if row["sequence"] == region]
        months, states = zip(*course, strict=True)
        last = max((i for i in range(1, len(states)) if states[i] != states[i - 1]), default=0)
        right += abs(last - months.index(month)) <= 1
    assert right >= 0.9 * len(truth)
