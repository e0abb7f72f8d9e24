"""Simulation-based calibration: theta from the prior, data, release, posterior; the rank of theta must be uniform.

Each cell is (model, regime, n, epsilon). A cell fails without reason with probability 1e-6. The naive posterior must
fail where noise matters, which shows that the test can see a miscalibration. Long runs have ten times the trials.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from scipy.special import betainc

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.core.plan import Step
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import CountAt
from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.mechanisms.gaussian import Gaussian
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import often, seldom
from tests.plans import plan_of
from tests.statistical import assert_not_uniform, assert_uniform

FALSE_FAIL = 1e-6
TRIALS = 300
DRAWS = 199
SIZES = (10, 100, 1000)
EPSILONS = ("0.01", "0.1", "1")
MODELS: dict[str, BetaBernoulli | DirichletCategorical] = {
    "beta-bernoulli": BetaBernoulli("1", "0", 2.0, 3.0),
    "dirichlet-categorical": DirichletCategorical(("a", "b", "c"), (1.0, 2.0, 3.0)),
}
CELLS = [(m, c, n, e) for m in MODELS for c in (True, False) for n in SIZES for e in EPSILONS]


@cache
def step_of(model: BetaBernoulli | DirichletCategorical, policy: RecordPolicy, epsilon: str, rho: str) -> Step:
    """Plan a release at a cost of epsilon, or of rho."""
    plan = (
        plan_of(Gaussian(), model, policy, rho=Decimal(rho))
        if rho
        else plan_of(Laplace(), model, policy, Decimal(epsilon))
    )
    return plan.final_step


def simulate(
    model: BetaBernoulli | DirichletCategorical,
    complete: bool,
    n: int | None,
    rng: np.random.Generator,
    epsilon: str = "",
    rho: str = "",
) -> tuple[float, NoisyCounts]:
    """Draw theta, the data, and a release; return theta of the first category and the observation.

    If invalid records are dropped, the number of valid ones is uniform on 0..n: the stated law. If no n is public, the
    prior on the number is improper, and the number is drawn uniformly from a wide range.
    """
    if n is None:
        policy = RecordPolicy(Neighbors.ADD_REMOVE)
    else:
        policy = RecordPolicy(Neighbors.REPLACE_ONE, model.columns[0].levels[-1] if complete else None)
    step = step_of(model, policy, epsilon, rho)
    blank = model.observation(policy, [0] * len(step.statistic.names), step.noise, n)
    theta = rng.dirichlet(blank.concentration)
    most = 20 * int(step.noise.scale) + 200 if n is None else n
    counts = rng.multinomial(most if complete else int(rng.integers(0, most, endpoint=True)), theta)
    exact = [int(counts[require_type(expression, CountAt).level]) for expression in step.statistic.expressions]
    released = [value + int(z) for value, z in zip(exact, step.noise.simulate(rng, len(exact)), strict=True)]
    return float(theta[0]), model.observation(policy, released, step.noise, n)


def quantile_of(theta: float, observation: NoisyCounts, rng: np.random.Generator) -> float:
    """Return the posterior probability below theta: exact for the mixture, else by rank among independent draws."""
    if observation.total.kind == "known" and len(observation.concentration) == 2:
        return beta_mixture(observation).cdf(theta)
    draws = infer(observation, "noise-aware", DRAWS, rng, Effort(summary_draws=DRAWS)).draws[:, 0]
    return (float((draws < theta).sum()) + float(rng.random())) / (len(draws) + 1)


def assert_calibrated(
    name: str, complete: bool, n: int | None, epsilon: str = "", rho: str = "", trials: int = TRIALS // 2
) -> None:
    rng = np.random.default_rng(7)
    simulated = (simulate(MODELS[name], complete, n, rng, epsilon, rho) for _ in range(trials))
    assert_uniform([quantile_of(theta, observation, rng) for theta, observation in simulated], FALSE_FAIL)


@pytest.mark.parametrize(
    ("name", "complete", "n", "epsilon"), often([cell for cell in CELLS if cell[2:] == (100, "0.1")], 2, several=True)
)
def test_noise_aware_posteriors_are_calibrated(name: str, complete: bool, n: int, epsilon: str) -> None:
    assert_calibrated(name, complete, n, epsilon)


@pytest.mark.calibration
@pytest.mark.parametrize(("name", "complete", "n", "epsilon"), seldom(CELLS))
def test_noise_aware_posteriors_are_calibrated_in_a_long_run(name: str, complete: bool, n: int, epsilon: str) -> None:
    assert_calibrated(name, complete, n, epsilon, trials=10 * TRIALS)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", list(MODELS))
def test_posteriors_without_a_public_record_count_are_calibrated(name: str, epsilon: str) -> None:
    assert_calibrated(name, False, None, epsilon)


@pytest.mark.parametrize("rho", often(["0.01", "0.0001", "1"], 3))
@pytest.mark.parametrize(
    ("n", "complete"),
    [(10, False), (1000, True), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((10, True), (1000, False)))],
)
@pytest.mark.parametrize("name", often(list(MODELS), 2))
def test_posteriors_under_gaussian_noise_are_calibrated(name: str, n: int, complete: bool, rho: str) -> None:
    assert_calibrated(name, complete, n, rho=rho)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("complete", often([True, False], 2))
def test_naive_posteriors_are_not_calibrated(name: str, complete: bool) -> None:
    """So these tests can see a miscalibration."""
    rng, values = np.random.default_rng(8), []
    for _ in range(TRIALS):
        theta, observation = simulate(MODELS[name], complete, 10, rng, "0.01")
        shape = naive_shape(observation)
        values.append(float(betainc(shape[0], shape.sum() - shape[0], theta)))
    assert_not_uniform(values, FALSE_FAIL)
