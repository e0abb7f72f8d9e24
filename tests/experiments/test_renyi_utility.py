"""Utility at Renyi prices: known constants, closed forms against quadrature and simulation, what the paper shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import integrate, stats

from dpbayes_cli.experiments.renyi_utility import (
    RenyiUtility,
    UtilityCase,
    beta_divergence,
    divergence,
    log_loss,
    mixing_of,
    plan_of,
)
from dpbayes_cli.experiments.study import COMPLETE, build_study
from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.conftest import ROOT, Cli
from tests.experiments.studies import results_of

CONFIG = ROOT / "configs" / "experiments" / "renyi-utility.yaml"
PAPER = UtilityCase(alpha=6, beta=12, n=100, successes=38, theta=0.5)
SMALL = UtilityCase(alpha=2, beta=3, n=6, successes=2, theta=0.4)


def study_of(method: Any, order: str = "2") -> RenyiUtility:
    return RenyiUtility(
        study="renyi-utility", name="x", orders=(order,), epsilon=("0.1",), methods=(method,), cases={"paper": PAPER}
    )


def measured(method: Any, order: str = "2") -> Mapping[str, float | None]:
    study = study_of(method, order)
    (point,) = study.grid()
    return study.run(point).measures


def test_direct_sampling_has_its_own_cost_below_lambda_star_and_none_beyond() -> None:
    assert measured("rdp-direct")["cost"] == pytest.approx(0.191290227, abs=1e-9)
    beyond = measured("rdp-direct", "15")
    assert (beyond["cost"], beyond["kl"]) == (None, 0.0)


def test_noise_costs_what_was_asked_for() -> None:
    def guarantee(method: str) -> float:
        plan = plan_of(PAPER, method, "2", "0.1")
        assert plan is not None
        return float(plan.guarantee.rdp(2))  # type: ignore[arg-type]

    assert guarantee("gaussian") == pytest.approx(0.1, rel=1e-9)
    assert guarantee("gaussian-paper") == pytest.approx(0.05, rel=1e-9), "the paper charges twice what it costs"
    assert 0.0999 < guarantee("laplace") <= 0.1
    assert isinstance(plan_of(PAPER, "laplace", "2", "0.1").guarantee, PureDP)  # type: ignore[union-attr]
    scales = [float(str(measured(method)["parameter"])) for method in ("gaussian-paper", "gaussian-naive")]
    assert scales[0] == pytest.approx(math.sqrt(2.0) * scales[1], rel=1e-6)


def test_the_divergence_of_beta_laws_is_an_integral() -> None:
    first, second = stats.beta(4.0, 7.0), stats.beta(2.5, 3.0)
    expected, _ = integrate.quad(lambda x: first.pdf(x) * (first.logpdf(x) - second.logpdf(x)), 0, 1)
    assert beta_divergence(4.0, 7.0, 2.5, 3.0) == pytest.approx(expected, rel=1e-9)
    assert beta_divergence(4.0, 7.0, 4.0, 7.0) == 0.0
    shapes = np.full(3, 8.0), np.full(3, 9.0)
    mixed = divergence(PAPER, np.array([0.2, 0.3, 0.5]), *shapes)
    assert mixed == pytest.approx(beta_divergence(44.0, 74.0, 8.0, 9.0), rel=1e-9), "a mixture of equals is one law"


def test_the_mixing_is_the_mean_over_the_noise() -> None:
    noise, counts = DiscreteLaplace(1.5), np.arange(7)
    means = (SMALL.alpha + counts) / (SMALL.alpha + SMALL.beta + SMALL.n)
    seen = np.arange(-80, 87)
    posterior = [
        beta_mixture(SMALL.model.observation(COMPLETE, (int(y),), noise, SMALL.n)).mean for y in seen
    ]  # fmt: skip
    for aware, at in ((True, np.array(posterior)), (False, means[np.clip(seen, 0, 6)])):
        mixing = mixing_of(noise, SMALL, aware=aware)
        assert mixing.sum(axis=1) == pytest.approx(1.0)
        for s in counts:
            weights = np.exp(noise.log_pmf(seen - s))
            assert mixing[s] @ means == pytest.approx(float(weights @ at), abs=1e-9)


@pytest.mark.parametrize("aware", [True, False])
def test_the_log_loss_is_that_of_simulated_draws(aware: bool) -> None:
    """Mean and variance within six standard errors: false fail 4e-9."""
    trials, counts = 200_000, np.arange(SMALL.n + 1)
    mixing = mixing_of(DiscreteLaplace(1.5), SMALL, aware=aware)
    shapes: Any = SMALL.alpha + counts, SMALL.beta + SMALL.n - counts
    mean, sd = log_loss(SMALL, mixing, *shapes)
    rng = np.random.default_rng(5)
    data, held = rng.binomial(SMALL.n, SMALL.theta, (2, trials))
    chosen = (rng.random((trials, 1)) > np.cumsum(mixing, axis=1)[data]).sum(axis=1).clip(0, SMALL.n)
    theta = rng.beta(SMALL.alpha + chosen, SMALL.beta + SMALL.n - chosen)
    loss = -(held * np.log(theta) + (SMALL.n - held) * np.log1p(-theta))
    assert abs(loss.mean() - mean) < 6.0 * sd / math.sqrt(trials)
    squares = (loss - mean) ** 2
    assert abs(squares.mean() - sd**2) < 6.0 * squares.std() / math.sqrt(trials)


@pytest.mark.slow
@pytest.mark.calibration
def test_what_the_paper_shows_holds_at_a_few_costs(dpbayes: Cli, place: Path) -> None:
    document = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    document["epsilon"] = ["0.00001", "0.1", "0.2", "10"]
    Path("few.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    done = dpbayes("experiment", "few.yaml", "--jobs", "1", "--json", "--out", "out")
    claims = {claim["says"]: claim for claim in done.json["claims"]}
    assert len(claims) == 12
    assert all(claim["holds"] for claim in claims.values() if claim["source"] == "[G] Figure 2")
    assert [says for says, claim in claims.items() if not claim["holds"]] == [
        says for says in claims if "noise-aware inference" in says
    ], "draws that know the noise are spread by it twice"
    assert not (place / "out" / "trials.csv").exists(), "nothing is simulated"


def test_algorithms_that_miss_direct_sampling_are_told() -> None:
    """The verdict follows from the numbers."""
    document = yaml.load(CONFIG.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    methods = ["rdp-direct", "rdp-diffuse", "rdp-concentrated"]
    study: Any = build_study(document | {"orders": ["2"], "epsilon": ["0.1", "1"], "methods": methods})
    results = results_of(study)
    assert next(iter(study.claims(results))).holds
    results.one(method="rdp-diffuse", epsilon="1").measures["kl"] = 0.1  # type: ignore[index]
    assert not next(iter(study.claims(results))).holds
