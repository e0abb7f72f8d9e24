"""Estimates: errors against exact expectations, what every method sees and pays, and what the paper shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from dpbayes_cli.experiments.estimation import Estimation, EstimationCase
from dpbayes_cli.experiments.results import PointOutcome
from dpbayes_cli.experiments.study import COMPLETE, build_study
from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
from tests.conftest import ROOT, Cli
from tests.experiments.studies import results_of

CONFIG = ROOT / "configs" / "experiments" / "estimation.yaml"
CASE = EstimationCase(theta=0.3, n=(20,), support=(0.2, 0.8))


def run(method: Any, epsilon: str = "1", trials: int = 200) -> PointOutcome:
    """Compute the one point of a study of one method."""
    study = Estimation(
        study="estimation", name="x", seed=7, epsilon=(epsilon,), methods=(method,), trials=trials, cases={"coin": CASE}
    )
    (point,) = study.grid()
    return study.run(point)


def test_the_error_of_the_posterior_mean_is_its_expectation() -> None:
    """Within six standard errors: false fail 2e-9."""
    measures = run("non-private", trials=20_000).measures
    counts = np.arange(21)
    expected = stats.binom.pmf(counts, 20, 0.3) @ np.abs((1.0 + counts) / 22.0 - 0.3)
    assert abs(float(str(measures["l1_mean"])) - expected) < 6.0 * float(str(measures["l1_mean_se"]))
    assert measures["rdp_2"] is None


def test_all_methods_see_the_same_records_and_both_readings_the_same_release() -> None:
    """Enough budget shows the records; at a small one naive and noise-aware read the same noisy count."""
    exact = run("non-private").trials["mean"]
    for method in ("laplace", "laplace-naive", "laplace-paper"):
        assert run(method, "900").trials["mean"] == pytest.approx(exact)
    aware, naive = (run(method).trials for method in ("laplace", "laplace-naive"))
    assert aware["released"].tolist() == naive["released"].tolist()
    assert naive["mean"] == pytest.approx((1.0 + np.clip(naive["released"], 0, 20)) / 22.0)
    step = CASE.step("laplace", "1", 20)
    assert step is not None
    law = beta_mixture(CASE.model.observation(COMPLETE, (int(aware["released"][0]),), step.noise, 20))
    assert aware["mean"][0] == pytest.approx(law.mean)


def test_the_paper_pays_for_two_counts_and_this_project_for_one() -> None:
    """Half the sensitivity, half the noise."""
    steps = [CASE.step(method, "1", 20) for method in ("laplace-paper", "laplace-naive", "laplace")]
    assert [step.noise.scale for step in steps if step is not None] == pytest.approx([2.0, 1.0, 1.0])


def test_a_posterior_sample_stays_on_its_support_and_costs_less_than_its_range_implies() -> None:
    result = run("ops")
    assert 0.2 <= result.trials["draw"].min() < result.trials["draw"].max() <= 0.8
    measures = {name: float(str(value)) for name, value in result.measures.items() if value is not None}
    assert measures["charged"] <= 1.0
    assert 0.0 < measures["rdp_2"] < 0.5 * measures["rdp_2_bound"] < 0.126
    assert "l1_mean" not in measures, "a draw has no posterior mean"


@pytest.mark.slow
def test_the_posteriors_of_the_paper_are_drawn(dpbayes: Cli, place: Path) -> None:
    done = dpbayes(
        "experiment", str(CONFIG), "--case", "figure-1", "--trials", "40", "--jobs", "1", "--json", "--out", "out"
    )
    assert [(claim["source"], claim["holds"]) for claim in done.json["claims"]] == [("[F] Figure 1", True)] * 2
    assert (place / "out" / "posteriors-figure-1.svg").exists()
    assert not (place / "out" / "l1.svg").exists(), "one n makes no curve"
    trials = pd.read_csv(place / "out" / "trials.csv")
    assert trials.loc[trials["method"] == "ops", "mean"].isna().all()


def curve(n: list[str], epsilon: str = "0.1") -> Any:
    document = yaml.load(CONFIG.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    case = document["cases"]["figure-2"] | {"n": n, "epsilon": [epsilon]}
    study: Any = build_study(document | {"trials": "1000", "cases": {"curve": case}})
    return study, results_of(study)


@pytest.mark.slow
def test_laplace_noise_overtakes_where_the_paper_says() -> None:
    """At n = 1 the errors differ by 0.01, at 30 by 0.09, with standard errors of 0.01: false fail 1e-8, seed fixed."""
    study, results = curve(["1", "30", "300"])
    claims = {each.says.split(": ", 1)[1].split(";")[0]: each for each in study.claims(results)}
    assert len(claims) == 6
    overtakes = next(iter(claims.values()))
    assert overtakes.holds
    assert "by 3 standard errors from n = 30 on" in overtakes.measured
    converges = "as n grows, the error under Laplace noise converges to the error of the true posterior."
    assert not claims[converges].holds, "n is small"
    charge = "the exact Renyi divergence of one posterior draw is below the bound that epsilon alone implies."
    assert claims[charge].holds
    assert {"l1", "charge"} == set(study.figures(results))


@pytest.mark.slow
def test_samples_that_are_never_overtaken_are_told() -> None:
    study, results = curve(["30", "60"])
    for each in results:
        if each["method"] == "ops":
            each.trials["l1"] = [1e-6 * k for k in range(1000)]
    claim = next(iter(study.claims(results)))
    assert not claim.holds
    assert "from n = inf on" in claim.measured


@pytest.mark.slow
@pytest.mark.calibration
def test_the_study_of_the_paper_runs(dpbayes: Cli, place: Path) -> None:
    done = dpbayes("experiment", str(CONFIG), "--trials", "300", "--json", "--out", "out")
    held = {claim["says"].split(": ", 1)[1]: claim["holds"] for claim in done.json["claims"]}
    assert held["as n grows, the error under Laplace noise converges to the error of the true posterior."]
    assert held["one draw of the tempered posterior has the error of a draw of the true posterior given fewer records."]
