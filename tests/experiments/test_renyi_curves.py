"""The curves of Geumlek et al. 2017, Figure 1: the asymptote, the constants, and brute force where records may drop."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.experiments.renyi_curves import Curve, RenyiCase
from dpbayes_cli.experiments.results import Results
from dpbayes_cli.experiments.study import build_study
from tests.conftest import ROOT, Cli
from tests.privacy.test_conjugate import dirichlet_divergence

CONFIG = str(ROOT / "configs" / "experiments" / "renyi-curves.yaml")
PAPER = Curve(RenyiCase(alpha=6, beta=12, n=100), "rdp-diffuse", "complete", "1")


def test_direct_sampling_costs_what_is_known_and_ends_at_seven() -> None:
    assert PAPER.order_max == 7.0
    assert PAPER.divergence(2.0) == pytest.approx(0.191290227, abs=1e-9)
    assert replace(PAPER, records="dropped").divergence(2.0) == pytest.approx(0.262364264, abs=1e-9)
    assert math.isinf(PAPER.divergence(7.0))
    assert math.isinf(replace(PAPER, records="dropped").divergence(7.0))
    case = {"alpha": "6", "beta": "12", "n": "100"}
    study = build_study(
        {"study": "renyi-curves", "name": "x", "weights": ["1"], "points": "40", "cases": {"paper": case}}
    )
    curve = study.run(study.grid()[0]).trials
    assert curve["order"] == pytest.approx([1.0 + 0.475 * k for k in range(1, 13)]), "those below seven"


@pytest.mark.parametrize("method", ["rdp-diffuse", "rdp-concentrated"])
@pytest.mark.parametrize("order", [1.5, 3.0])
def test_dropped_records_are_brute_force_over_all_neighbors(method: Any, order: float) -> None:
    n, weight = 3, 0.5
    cell = replace(PAPER, case=RenyiCase(alpha=2.0, beta=3.0, n=n), method=method, records="dropped", weight="0.5")
    r, m = cell.r_and_m
    assert (r, m) == ((weight, 1.0) if method == "rdp-diffuse" else (1.0, weight))
    records = [(1, 0), (0, 1), (0, 0)]
    divergences = [
        dirichlet_divergence(order, *((2 / m + r * (s + z[0]), 3 / m + r * (f + z[1])) for z in (x, y)))
        for s, f in product(range(n), repeat=2)
        if s + f <= n - 1
        for x, y in product(records, repeat=2)
        if x != y
    ]  # fmt: skip
    assert cell.divergence(order) == pytest.approx(max(divergences), rel=1e-6)


@pytest.mark.slow
@pytest.mark.calibration
def test_the_study_of_the_paper_runs_and_all_of_it_holds(dpbayes: Cli, place: Path) -> None:
    done = dpbayes("experiment", CONFIG, "--jobs", "1", "--json", "--out", "out")
    assert [claim["holds"] for claim in done.json["claims"]] == [True, True, True]
    assert "lambda* = 7;" in done.json["claims"][0]["measured"]
    assert "0.262 against 0.191" in done.json["claims"][2]["measured"]
    assert (place / "out" / "curves.svg").exists()
    assert len(done.json["results"]) == 24


def test_an_asymptote_that_is_elsewhere_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    study = build_study(
        {"study": "renyi-curves", "name": "x", "weights": ["1"], "points": "4", "cases": {"c": {"n": "5"}}}
    )
    monkeypatch.setattr(Curve, "order_max", 2.5)
    assert [claim.holds for claim in study.claims(Results())] == [False]
