"""The adaptive grid of one parameter's posterior against a grid so dense that nothing has to adapt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.noisy_observation import ScalarLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.sums import one_parameter
from dpbayes_cli.inference.sums.one_parameter import grid_density, scalar_posterior
from tests.inference.sum_cells import EPSILONS, SIZES, Cell, dense_posterior, models, simulate

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

CLOSE = 2e-3
"""Allowed distance of cumulative probabilities: a fifth of what a chain of 100,000 draws can show."""
NAMES = ["beta-geometric", "gamma-exponential", "gamma-poisson", "normal-mean"]


def distances(cell: Cell) -> Floats:
    """Return the largest difference of cumulative probabilities, for each observation."""
    law = require_type(cell.observation.law, ScalarLaw)
    points, cumulative = dense_posterior(cell)
    density = grid_density(cell.observation, law, cell.observed)
    probabilities = np.array([density.cdf(np.full(len(cell.observed), p)) for p in points[:: len(points) // 400]]).T
    return np.asarray(np.abs(probabilities - cumulative[:, :: len(points) // 400]).max(axis=1))


def test_an_observation_that_nothing_explains_leaves_the_prior_and_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = simulate(models()["beta-geometric"], True, 10, "1", 1)
    law = require_type(cell.observation.law, ScalarLaw)
    monkeypatch.setattr(one_parameter, "log_likelihoods", lambda *arguments: np.full(len(arguments[4][0]), np.nan))
    posterior = scalar_posterior(cell.observation, law, 2000, np.random.default_rng(1))
    assert "this is the prior" in posterior.warnings[0]
    prior = law.parameters(law.draw_prior(2000, np.random.default_rng(2)))[:, 0]
    assert stats.ks_2samp(posterior.draws[:, 0], prior).pvalue > 1e-6


FAST = {(100, "0.1"), (1000, "0.1")}


@pytest.mark.slow
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    ("name", "n", "epsilon"),
    [("gamma-exponential", 100, "1"), ("gamma-exponential", 1000, "0.1"), ("normal-mean", 100, "0.1"),
     ("gamma-poisson", 1000, "1")],
)  # fmt: skip
def test_posteriors_of_dropped_numbers_are_those_of_a_dense_grid(
    name: str, n: int, epsilon: str, complete: bool
) -> None:
    cell = simulate(models("drop")[name], complete, n, epsilon, 3)
    assert distances(cell).max() < CLOSE


def cells() -> list[Any]:
    """Return all cells, those that are slow marked."""
    parameters = []
    for case in ((name, n, epsilon) for name in NAMES for n in SIZES for epsilon in EPSILONS):
        parameters.append(pytest.param(*case, marks=() if case[1:] in FAST else pytest.mark.slow))
    return parameters


@pytest.mark.parametrize(("name", "n", "epsilon"), cells())
def test_one_posterior_is_that_of_a_dense_grid(name: str, n: int, epsilon: str) -> None:
    for seed in range(3):
        cell = simulate(models()[name], True, n, epsilon, 1, seed=seed)
        assert distances(cell).max() < CLOSE, f"observation {seed}"


@pytest.mark.parametrize(("name", "n", "epsilon"), cells())
def test_many_posteriors_are_those_of_a_dense_grid(name: str, n: int, epsilon: str) -> None:
    """Twenty observations share one finer grid."""
    cell = simulate(models()[name], True, n, epsilon, 20)
    assert distances(cell).max() < CLOSE
