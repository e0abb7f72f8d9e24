"""Simulation-based calibration: theta from the prior, data, release, posterior; the rank of theta must be uniform.

Each cell is (model, regime, n, epsilon). A cell fails without reason with probability 1e-6. The naive posterior must
fail where noise matters, which shows that the test can see a miscalibration. ``-m slow`` runs ten times the trials.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from scipy.special import betainc

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
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
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import plan_of
from tests.statistical import assert_not_uniform, assert_uniform, uniformity_p_value

FALSE_FAIL = 1e-6
TRIALS = 300
LONG = [pytest.mark.slow, pytest.mark.calibration]
DRAWS = 199
SIZES = (10, 100, 1000)
EPSILONS = ("0.01", "0.1", "1")
MODELS: dict[str, BetaBernoulli | DirichletCategorical] = {
    "beta-bernoulli": BetaBernoulli("1", "0", 2.0, 3.0),
    "dirichlet-categorical": DirichletCategorical(("a", "b", "c"), (1.0, 2.0, 3.0)),
}
CELLS = [(m, c, n, e) for m in MODELS for c in (True, False) for n in SIZES for e in EPSILONS]


def simulate(
    model: BetaBernoulli | DirichletCategorical,
    policy: RecordPolicy,
    n: int,
    epsilon: str,
    rng: np.random.Generator,
) -> tuple[float, NoisyCounts]:
    """Draw theta, the data, and a release; return theta of the first category and the observation.

    Where invalid records are dropped, the number of valid ones is uniform on 0..n: the stated law.
    """
    plan = plan_of(Laplace(), model, policy, Decimal(epsilon))
    (step,) = plan.steps
    blank = model.observation(policy, [0] * len(step.statistic.names), step.noise, n)
    theta = rng.dirichlet(blank.concentration)
    valid = n if policy.complete else int(rng.integers(0, n, endpoint=True))
    counts = rng.multinomial(valid, theta)
    exact = [int(counts[require_type(expression, CountAt).level]) for expression in step.statistic.expressions]
    noise = step.noise.simulate(rng, len(exact))
    released = [value + int(z) for value, z in zip(exact, noise, strict=True)]
    return float(theta[0]), model.observation(policy, released, step.noise, n)


def quantile_of(theta: float, observation: NoisyCounts, rng: np.random.Generator) -> float:
    """Return the posterior probability below theta: exact for the mixture, else by rank among independent draws."""
    if observation.total.kind == "known" and len(observation.concentration) == 2:
        return beta_mixture(observation).cdf(theta)
    draws = infer(observation, "noise-aware", DRAWS, rng, Effort(summary_draws=DRAWS)).draws[:, 0]
    return (float((draws < theta).sum()) + float(rng.random())) / (len(draws) + 1)


def naive_quantile_of(theta: float, observation: NoisyCounts) -> float:
    shape = naive_shape(observation)
    return float(betainc(shape[0], shape.sum() - shape[0], theta))


def policy_for(model: BetaBernoulli | DirichletCategorical, complete: bool) -> RecordPolicy:
    return RecordPolicy(Neighbors.REPLACE_ONE, model.columns[0].levels[-1] if complete else None)


@cache
def trials(name: str, complete: bool, n: int, epsilon: str, count: int) -> tuple[tuple[float, NoisyCounts], ...]:
    rng = np.random.default_rng([n, int(Decimal(epsilon) * 100), int(complete), len(name)])
    model = MODELS[name]
    return tuple(simulate(model, policy_for(model, complete), n, epsilon, rng) for _ in range(count))


def ranks(name: str, complete: bool, n: int, epsilon: str, count: int) -> list[float]:
    rng = np.random.default_rng(1)
    return [quantile_of(theta, observation, rng) for theta, observation in trials(name, complete, n, epsilon, count)]


@pytest.mark.parametrize(
    ("name", "complete", "n", "epsilon"), [cell for cell in CELLS if cell[2:] in {(10, "1"), (100, "0.1")}]
)
def test_noise_aware_posteriors_are_calibrated(name: str, complete: bool, n: int, epsilon: str) -> None:
    assert_uniform(ranks(name, complete, n, epsilon, TRIALS), FALSE_FAIL)


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(("name", "complete", "n", "epsilon"), CELLS)
def test_noise_aware_posteriors_are_calibrated_in_a_long_run(name: str, complete: bool, n: int, epsilon: str) -> None:
    assert_uniform(ranks(name, complete, n, epsilon, 10 * TRIALS), FALSE_FAIL)


@pytest.mark.parametrize(
    ("name", "complete", "n", "epsilon"),
    [
        cell if cell[2] == 10 else pytest.param(*cell, marks=LONG)
        for cell in CELLS
        if cell[2:] in {(10, "0.01"), (100, "0.1"), (100, "0.01"), (1000, "0.01")}
    ],
)
def test_naive_posteriors_are_not_calibrated(name: str, complete: bool, n: int, epsilon: str) -> None:
    values = [
        naive_quantile_of(theta, observation) for theta, observation in trials(name, complete, n, epsilon, TRIALS)
    ]
    assert_not_uniform(values, FALSE_FAIL)


@pytest.mark.parametrize(
    ("name", "complete"),
    [
        pytest.param(name, complete, marks=[] if (name, complete) == ("beta-bernoulli", True) else LONG)
        for name in MODELS
        for complete in (True, False)
    ],
)
def test_assuming_a_third_of_the_noise_is_caught(name: str, complete: bool) -> None:
    rng = np.random.default_rng(3)
    values = []
    for theta, observation in trials(name, complete, 1000, "0.05", 2 * TRIALS):
        smaller = replace(observation, noise=DiscreteLaplace(observation.noise.scale / 3))
        values.append(quantile_of(theta, smaller, rng))
    assert_not_uniform(values, FALSE_FAIL)


def test_the_known_total_formula_is_wrong_where_values_are_missing() -> None:
    """With 20 % of the values dropped, the number of rows is not the record count: the reason for the second regime."""
    values = []
    rng = np.random.default_rng(4)
    model = MODELS["beta-bernoulli"]
    for _ in range(TRIALS):
        theta = float(rng.beta(2.0, 3.0))
        successes = int(rng.binomial(800, theta))
        noise = plan_of(Laplace(), model, policy_for(model, False), Decimal(1)).steps[0].noise
        released = successes + int(noise.simulate(rng, 1)[0])
        values.append(
            beta_mixture(NoisyCounts((2.0, 3.0), (released, None), noise, RecordCount("known", 1000))).cdf(theta)
        )
    assert uniformity_p_value(values) < FALSE_FAIL


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", list(MODELS))
def test_add_remove_is_calibrated_given_a_total_far_from_zero(name: str, epsilon: str) -> None:
    """The uniform prior on all totals is improper, so the test draws the total uniformly from a wide range."""
    model, rng, values = MODELS[name], np.random.default_rng(6), []
    policy = RecordPolicy(Neighbors.ADD_REMOVE)
    (step,) = plan_of(Laplace(), model, policy, Decimal(epsilon)).steps
    blank = model.observation(policy, [0] * len(step.statistic.names), step.noise, None)
    widest = 20 * int(step.noise.scale) + 200
    for _ in range(TRIALS // 2):
        theta = rng.dirichlet(blank.concentration)
        counts = rng.multinomial(int(rng.integers(0, widest)), theta)
        released = [int(c) for c in counts + step.noise.simulate(rng, len(counts))]
        values.append(quantile_of(float(theta[0]), model.observation(policy, released, step.noise, None), rng))
    assert_uniform(values, FALSE_FAIL)


@pytest.mark.parametrize("rho", [pytest.param("0.0001", marks=LONG), "0.01", pytest.param("1", marks=LONG)])
@pytest.mark.parametrize(("n", "complete"), [(10, True), (10, False), (1000, True), (1000, False)])
@pytest.mark.parametrize("name", list(MODELS))
def test_gaussian_noise_is_calibrated_too_and_a_third_of_it_is_not(name: str, n: int, complete: bool, rho: str) -> None:
    model, rng = MODELS[name], np.random.default_rng(7)
    policy = policy_for(model, complete)
    (step,) = plan_of(Gaussian(), model, policy, rho=Decimal(rho)).steps
    blank = model.observation(policy, [0] * len(step.statistic.names), step.noise, n)
    values, wrong = [], []
    for _ in range(TRIALS // 2):
        theta = rng.dirichlet(blank.concentration)
        valid = n if complete else int(rng.integers(0, n, endpoint=True))
        counts = rng.multinomial(valid, theta)
        exact = np.array([counts[require_type(e, CountAt).level] for e in step.statistic.expressions])
        released = [int(v) for v in exact + step.noise.simulate(rng, len(exact))]
        observation = model.observation(policy, released, step.noise, n)
        values.append(quantile_of(float(theta[0]), observation, rng))
        if (n, rho) == (1000, "0.0001"):
            smaller = replace(observation, noise=DiscreteGaussian(step.noise.scale / 4))
            wrong.append(quantile_of(float(theta[0]), smaller, rng))
    assert_uniform(values, FALSE_FAIL)
    if wrong:
        assert_not_uniform(wrong, FALSE_FAIL)
