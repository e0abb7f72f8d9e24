"""Simulation-based calibration of groups: hyperparameters from their prior, groups, records, noise, posterior.

The ranks of phi, of the spread over groups and of one group's probability are uniform, if the posterior is right. Each
test of uniformity fails without reason with probability 1e-6. The mean number of records is fixed, so that its rank is
not tested. Coverage of 90 % intervals is averaged over all groups and data sets. Two posteriors that are not calibrated
must fail: one with hyperparameters fitted to the noisy counts as if they were exact, and one with a flat prior of the
number of records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dpbayes_cli.inference.groups.binary import BinaryGroups, BinaryPrior, infer_binary
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.group_blocks import group_blocks
from dpbayes_cli.inference.groups.hyperparameters import WeightedPoints, sample_density
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.groups.group_cells import SimulatedGroups, simulate_groups
from tests.statistical import assert_uniform

FALSE_FAIL = 1e-6
DRAWS = 99
CELLS = [(size, factor / eps) for size in (5.0, 20.0, 100.0) for eps in (0.1, 0.5, 1.0, 3.0) for factor in (2.0, 1.0)]
"""Mean sizes, and noise scales under replace-one and add-remove neighbors."""


@dataclass
class Ranks:
    """Ranks of what was simulated among posterior draws, and the coverage of draws in each data set."""

    phi: list[float]
    spread: list[float]
    theta: list[float]
    coverage: list[float]


def rank(draws: np.ndarray, truth: float, rng: np.random.Generator) -> float:
    """Return the rank of the truth as a number in [0, 1]; ties are broken at random."""
    ties = float((draws == truth).sum()) + 1.0
    return (float((draws < truth).sum()) + float(rng.random()) * ties) / (len(draws) + 1)


def simulate_ranks(size: float, scale: float, trials: int, n_groups: int, seed: int, n_categories: int = 2) -> Ranks:
    ranks = Ranks([], [], [], [])
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        simulated = simulate_groups(n_groups, size, scale, rng, n_categories=n_categories)
        posterior = infer_groups(simulated.observation, "partial", DRAWS, rng)
        phi, n_parameters = float(simulated.phi[0]), posterior.means.shape[1]
        spread = float(np.sqrt(phi * (1.0 - phi) / (1.0 + simulated.kappa)))
        ranks.phi.append(rank(posterior.draws[:, 0], phi, rng))
        ranks.spread.append(rank(posterior.draws[:, n_parameters], spread, rng))
        draws, theta = posterior.draw(DRAWS // 2, rng)[:, :, 0], simulated.theta[:, 0]
        places = np.array([rank(draws[:, g], float(theta[g]), rng) for g in range(n_groups)])
        ranks.theta.append(float(places[0]))
        ranks.coverage.append(float(((places > 0.05) & (places < 0.95)).mean()))
    return ranks


def assert_calibrated(ranks: Ranks, margin: float) -> None:
    for values in (ranks.phi, ranks.spread, ranks.theta):
        assert_uniform(values, FALSE_FAIL)
    error = max(float(np.std(ranks.coverage)), 0.08) / np.sqrt(len(ranks.coverage))
    assert abs(np.mean(ranks.coverage) - 0.9) < margin + 5.0 * error, f"coverage {np.mean(ranks.coverage):.3f}"


@pytest.mark.slow
def test_groups_are_calibrated() -> None:
    assert_calibrated(simulate_ranks(20.0, 2.0, 10, 30, 1), 0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "scale"), CELLS)
def test_groups_are_calibrated_in_a_long_run(size: float, scale: float) -> None:
    assert_calibrated(simulate_ranks(size, scale, 60, 60, 2), 0.02)


@pytest.mark.calibration_full
@pytest.mark.parametrize(("size", "scale"), CELLS)
def test_groups_are_calibrated_in_the_full_study(size: float, scale: float) -> None:
    assert_calibrated(simulate_ranks(size, scale, 600, 60, 3), 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("n_categories", [3, 6])
def test_categories_are_calibrated_in_a_long_run(n_categories: int) -> None:
    ranks = simulate_ranks(20.0, 2.0, 40, 60, 4, n_categories)
    assert_uniform(ranks.phi, FALSE_FAIL)
    assert_uniform(ranks.theta, FALSE_FAIL)
    assert 0.86 < np.mean(ranks.coverage) < 0.94


def misjudged(kind: str, simulated: SimulatedGroups, rng: np.random.Generator) -> float:
    """Return the coverage of 90 % intervals given hyperparameters that were inferred with a mistake."""
    observation = simulated.observation
    noises = (component_noise(observation.noise, 1),) * 2
    prior = BinaryPrior(1.0, 1.0, True)
    blocks = group_blocks(observation.observed, noises)
    if kind == "plug-in":
        exact = (component_noise(DiscreteLaplace(0.02), 1),) * 2
        fitted = infer_binary(np.maximum(observation.observed, 0), exact, prior, rng).hyperparameters
        sample = WeightedPoints(fitted.weights[None, :] @ fitted.points, np.ones(1))
    else:

        def extended(points: np.ndarray) -> np.ndarray:
            """Add a size law that gives nearly the same probability to all numbers of records."""
            return np.column_stack([points, np.full(len(points), np.log(1e6)), np.zeros(len(points))])

        def log_density(points: np.ndarray) -> np.ndarray:
            law = prior.law(extended(points))
            return np.asarray(prior.log_density(extended(points)) + blocks.log_likelihood(law))

        fitted = sample_density(log_density, np.array([[-1.0, -3.0]]), 64, 50, rng)
        sample = WeightedPoints(extended(fitted.points), fitted.weights)
    quantiles = BinaryGroups(blocks, prior, sample).summarize(rng).quantiles
    return float(((quantiles[:, 0] <= simulated.theta[:, 0]) & (simulated.theta[:, 0] <= quantiles[:, 2])).mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plug-in", "flat sizes"])
def test_wrong_hyperparameters_lose_coverage(kind: str) -> None:
    """So coverage shows a miscalibration."""
    rng, found = np.random.default_rng(5), []
    for _ in range(4):
        simulated = simulate_groups(300, 5.0, 4.0, rng, phi=np.array([0.1, 0.9]), kappa=5.0)
        found.append(misjudged(kind, simulated, rng))
    assert abs(np.mean(found) - 0.9) > 0.04, found
