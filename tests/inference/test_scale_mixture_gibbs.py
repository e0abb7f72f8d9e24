"""Markov chains of latent sums: against exact posteriors, by Geweke's joint test, and by calibration.

Geweke 2004, "Getting it right": parameters and noise variances are drawn from the prior, the release from its law given
them; then the sampler's own frozen kernel and new releases alternate. If the kernel leaves the posterior invariant,
every chain stays in the joint law. Thousands of independent chains start in that law, so that independent draws are
compared, and no Monte Carlo error has to be estimated. Each comparison fails without reason with probability 1e-6;
seeds are fixed.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.record_law import RecordLaw
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler
from dpbayes_cli.models.multivariate_normal import MultivariateNormal
from tests.conftest import often, seldom
from tests.inference.sum_cells import (
    EPSILONS,
    FALSE_FAIL,
    SIZES,
    Cell,
    assert_calibrated,
    chain_ranks,
    dense_posterior,
    models,
    simulate,
)
from tests.plugins.staircase import Staircase
from tests.statistical import uniformity_p_value

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.columns import Outside


CLOSE = 0.01


def distance_to_exact(cell: Cell, chains: int) -> float:
    """Return the KS distance of 80 draws of each chain to the posterior of the exact likelihood, on a dense grid."""
    sampler = ScaleMixtureSampler(cell.observation, cell.observed, chains, np.random.default_rng(1))
    points, cumulative = dense_posterior(cell)
    return ks_distance(np.interp(np.sort(sampler.run(80)[0, :, :, 0].ravel()), points, cumulative[0]))


@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean"])
def test_chains_have_the_exact_posterior_of_one_parameter(name: str) -> None:
    """KS <= 0.01; 30,000 independent draws exceed it with probability 0.005 (DKW); the seed is fixed."""
    assert distance_to_exact(simulate(models()[name], True, 1000, "0.01", 1), 500) <= CLOSE


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(1000, "0.1"), (1000, "1"), (100, "0.1"), (10, "0.01")])
@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean", "gamma-poisson", "beta-geometric"])
def test_chains_have_the_exact_posterior_in_other_cells(name: str, n: int, epsilon: str) -> None:
    """100,000 effective draws exceed 0.01 with probability below 1e-8 (DKW)."""
    assert distance_to_exact(simulate(models()[name], True, n, epsilon, 1), 2500) <= CLOSE


@pytest.mark.slow
def test_chains_have_the_exact_posterior_under_noise_of_no_known_shape() -> None:
    """KS <= 0.02 with 40,000 draws of 500 chains, about 20,000 effective ones; seeds are fixed."""
    cell = simulate(models()["gamma-exponential"], True, 1000, "0.01", 1)
    law = Staircase.of(round(3 * cell.observation.noise.scale), Decimal(3))
    assert distance_to_exact(replace(cell, observation=replace(cell.observation, noise=law)), 500) <= 0.02


JOINT_CHAINS = 2000

ALTERNATIONS = 12

GEWEKE = {
    "normal, Laplace, known": ("normal", False, True),
    "normal, Gaussian, known": ("normal", True, True),
    "normal, Laplace, at most": ("normal", False, False),
    "multivariate-normal, Laplace, known": ("multivariate-normal", False, True),
    "normal, Gaussian, at most, uniform": ("normal", True, False),
    "multivariate-normal, Gaussian, at most": ("multivariate-normal", True, False),
    "multivariate-normal, Laplace, at most, perhaps-valid": ("multivariate-normal", False, False),
    "three columns, Laplace, at most: trajectories": ("three columns", False, False),
}

THREE = MultivariateNormal(tuple((name, -10.0, 10.0) for name in "abc"), (0.5, -0.3, 0.1), (0.6, 0.4, 0.5), 2.0, 12.0)
"""Nine coordinates: moved along trajectories."""


class Joint:
    """Many independent chains that start at the joint law, and alternate the sampler's kernel with new releases."""

    def __init__(self, case: str, n: int = 20, seed: int = 1) -> None:
        name, gaussian, complete = GEWEKE[case]
        model = models().get(name, THREE)
        cell = simulate(model, complete, n, "0.5", 1, gaussian)
        prior = case.rpartition(", ")[2]
        if prior in {"uniform", "perhaps-valid"}:
            total = replace(cell.observation.total, prior=prior)  # type: ignore[arg-type]
            cell = replace(cell, observation=replace(cell.observation, total=total))
        self.rng = np.random.default_rng(seed)
        self.observation, self.law = cell.observation, require_type(cell.observation.law, RecordLaw)
        self.sampler = ScaleMixtureSampler(cell.observation, cell.observed, 8, self.rng)
        self.laplace = not gaussian
        chains = JOINT_CHAINS
        points = self.law.draw_prior(chains, self.rng)[None]
        if not complete:
            last = self.rng.uniform(*self.range_of_number, (1, chains, 1))
            points = np.concatenate([points, last], axis=-1)
        shape = (*points.shape[:2], cell.observed.shape[1])
        variance = cell.observation.noise.variance
        variances = variance * self.rng.standard_exponential(shape) if self.laplace else np.full(shape, variance)
        self.sampler._adapt(points)
        self.sampler._factor *= 0.6  # a posterior's spread; any frozen proposal will do
        self.sampler._whitening /= 0.6
        self.release(points, variances)

    @property
    def range_of_number(self) -> tuple[float, float]:
        """The range of the coordinate of the number of records, in which its prior is uniform."""
        n = self.observation.total.n
        most = float(np.log1p(n))
        if self.observation.total.prior == "perhaps-valid":
            return -0.5, n + 0.5 + min(float(n), self.observation.noise.variance**0.5 / self.observation.valid)
        return (-most, most) if self.observation.total.is_mostly_n else (-0.5, n + 0.5)

    def release(self, points: Floats, variances: Floats) -> None:
        """Draw new releases given points and variances."""
        sampler = self.sampler
        coordinates, totals = sampler._split_points(points)
        mean, covariance = self.law.moments(coordinates)
        totals = np.maximum(totals, 0.0)[..., None]
        root = np.linalg.cholesky(covariance + 1e-12 * np.eye(mean.shape[-1]) * self.observation.noise.variance)
        spread = (root @ self.rng.standard_normal((*mean.shape, 1)))[..., 0] * np.sqrt(totals)
        noise = np.sqrt(variances) * self.rng.standard_normal(mean.shape)
        sampler._observed = totals * mean + spread + noise
        sampler._state = sampler._state_at(points, variances)

    def whitened(self) -> Floats:
        """Return the releases, standardized given points and variances: standard normal in the joint law."""
        state = self.sampler._state
        residual, spread = self.sampler._residual(state.points)
        total = spread + (state.variances / self.observation.noise.variance)[..., None] * np.eye(spread.shape[-1])
        return np.asarray(np.linalg.solve(np.linalg.cholesky(total), residual[..., None])[0, ..., 0])

    def p_values(self) -> dict[str, float]:
        """Alternate; compare coordinates with the prior, variances and releases with their laws."""
        for i in range(ALTERNATIONS):
            self.sampler._sweep()
            if i + 1 < ALTERNATIONS:
                self.release(self.sampler._state.points, self.sampler._state.variances)
        state, by_name = self.sampler._state, {}
        fresh = self.law.draw_prior(100_000, self.rng)
        for k in range(self.law.dimension):
            by_name[f"coordinate {k}"] = float(
                stats.ks_2samp(state.points[0, :, k], fresh[:, k], method="asymp").pvalue
            )
        if state.points.shape[-1] > self.law.dimension:
            low, high = self.range_of_number
            shares = (state.points[0, :, -1] - low) / (high - low)
            by_name["number of records"] = uniformity_p_value(shares)
        whitened = self.whitened()
        for k in range(whitened.shape[1]):
            by_name[f"release {k}"] = float(stats.kstest(whitened[:, k], "norm").pvalue)
            if self.laplace:
                scaled = state.variances[0, :, k] / self.observation.noise.variance
                by_name[f"variance {k}"] = float(stats.kstest(scaled, "expon").pvalue)
                by_name[f"size and variance {k}"] = float(stats.spearmanr(np.abs(whitened[:, k]), scaled).pvalue)
        return by_name


@pytest.mark.parametrize("case", often(GEWEKE, 4))
def test_the_kernel_keeps_the_joint_law(case: str) -> None:
    p_values = Joint(case).p_values()
    assert min(p_values.values()) >= FALSE_FAIL / len(p_values), p_values


@pytest.mark.parametrize(("epsilon", "share"), [("0.5", 0.4), ("0.01", 0.5)])
def test_all_records_are_perhaps_valid(epsilon: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise has a scale of 18 or 900 records. 20,000 draws differ by .02 with probability 1e-7."""
    cell = simulate(models()["multivariate-normal"], False, 40, epsilon, 1, False)
    total = replace(cell.observation.total, prior="perhaps-valid")
    monkeypatch.setattr(ScaleMixtureSampler, "_start", lambda *_: None)
    sampler = ScaleMixtureSampler(replace(cell.observation, total=total), cell.observed, 1, np.random.default_rng(1))
    numbers = sampler._split_points(sampler._draw_prior(1, 20_000))[1]
    assert float((numbers == 40.0).mean()) == pytest.approx(share, abs=0.02)
    assert float(numbers[numbers < 40.0].mean()) == pytest.approx(20.0, abs=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["normal, Laplace, at most", "three columns, Laplace, at most: trajectories"])
def test_the_kernel_moves(case: str) -> None:
    """A kernel that never moves would pass Geweke's test, so most chains must have moved in every part."""
    joint = Joint(case)
    before, variances = joint.sampler._state.points.copy(), joint.sampler._state.variances.copy()
    for _ in range(ALTERNATIONS):
        joint.sampler._sweep()
    after = joint.sampler._state
    assert float((after.points != before).any(axis=-1).mean()) > 0.9
    assert float((after.variances != variances).mean()) > 0.99


RHOS = ("0.0001", "0.01", "1")
OF_CHAINS: list[tuple[str, Outside]] = [
    ("normal", "clamp"), ("normal", "drop"), ("multivariate-normal", "clamp"), ("gamma-exponential", "drop"),
    ("normal-mean", "drop"), ("gamma-poisson", "drop"), ("beta-geometric", "drop"),
]  # fmt: skip


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("name", "outside", "complete", "n", "epsilon"),
    seldom((*model, *cell) for model in OF_CHAINS for cell in itertools.product((True, False), SIZES, EPSILONS)),
)
def test_chains_are_calibrated_in_every_cell(name: str, outside: Outside, complete: bool, n: int, epsilon: str) -> None:
    """1,000 trials."""
    assert_calibrated(chain_ranks(simulate(models(outside)[name], complete, n, epsilon, 1000)))


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("name", "outside", "complete", "rho"),
    seldom((*model, *cell) for model in OF_CHAINS for cell in itertools.product((True, False), RHOS)),
)
def test_chains_are_calibrated_under_gaussian_noise(name: str, outside: Outside, complete: bool, rho: str) -> None:
    assert_calibrated(chain_ranks(simulate(models(outside)[name], complete, 300, rho, gaussian=True)))


@pytest.mark.slow
def test_chains_are_calibrated() -> None:
    """60 trials; all cells, all policies and 1,000 trials are in the slow tests."""
    assert_calibrated(chain_ranks(simulate(models()["normal"], False, 100, "0.1", 60)))
