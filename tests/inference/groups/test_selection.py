"""Found groups: the posterior knows that groups with few records are missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.selection import PublishedSizes, mean_of_nonempty
from dpbayes_cli.privacy.key_threshold import KeyThreshold
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw

MEAN, SHAPE = 20.0, 1.0
"""Parameters of the law of the sizes, of which empty groups are left out."""
TRUE_RECORDS = float(mean_of_nonempty(np.array(MEAN), np.array(SHAPE)))
N_GROUPS = 100


@pytest.mark.parametrize(
    ("noise", "n_counts", "step"),
    [(DiscreteLaplace(2.0), 2, 1), (DiscreteGaussian(5.0), 3, 1), (DiscreteLaplace(60.0), 1, 20)],
)
def test_the_probability_that_a_group_is_published(noise: NoiseLaw, n_counts: int, step: int) -> None:
    threshold = KeyThreshold.calibrate(noise, n_counts, step, 1, Decimal("1e-6"))
    reach = noise.radius(40.0)
    mass = single = np.exp(noise.log_pmf(np.arange(-reach, reach + 1)))
    for _ in range(n_counts - 1):
        mass = np.convolve(mass, single)
    sums = np.arange(-n_counts * reach, n_counts * reach + 1)
    mean, shape = (each.ravel() for each in np.meshgrid([0.3, 5.0, 40.0, 400.0], [0.1, 1.0, 30.0]))
    rng, size = np.random.default_rng(1), 4000
    sizes = np.arange(1, 20_000)
    published = np.array([mass[sums >= threshold.value - step * n].sum() for n in sizes[:2000]])
    published = np.concatenate([published, np.ones(len(sizes) - 2000)])
    computed = PublishedSizes(threshold).log_probability(mean, shape)
    for m, r, log_probability in zip(mean, shape, computed, strict=True):
        steps = np.log((r + sizes - 1.0) / sizes) - np.log1p(r / m)
        law = np.exp(np.cumsum(steps) - r * np.log1p(m / r))
        assert np.exp(log_probability) == pytest.approx(float(law @ published), rel=1e-3)
    draws = rng.poisson(rng.gamma(SHAPE, MEAN / SHAPE, size * 10))
    assert draws[draws > 0].mean() == pytest.approx(TRUE_RECORDS, rel=0.05)


@dataclass
class Study:
    """How often intervals cover what was simulated, on average over the published groups of all data sets."""

    groups: float
    mean: float
    sd: float
    records: float
    ratio: float  # of the median estimate of the mean number of records to the truth


def simulate(trials: int, seed: int, *, knows: bool = True) -> Study:
    """Simulate releases of groups with Beta(8, 12) rates; without ``knows``, inference takes them for all groups."""
    rng, noise = np.random.default_rng(seed), DiscreteLaplace(2.0)
    threshold = KeyThreshold.calibrate(noise, 2, 1, 1, Decimal("1e-6"))
    truths = 0.4, np.sqrt(0.24 / 21.0), TRUE_RECORDS
    inside, n_published, ratios, covered = 0.0, 0, [], []
    for _ in range(trials):
        sizes = rng.poisson(rng.gamma(SHAPE, MEAN / SHAPE, 3 * N_GROUPS))
        sizes = sizes[sizes > 0][:N_GROUPS]
        theta = rng.beta(8.0, 12.0, len(sizes))
        successes = rng.binomial(sizes, theta)
        counts = np.stack([successes, sizes - successes], axis=1)
        noisy = counts + noise.simulate(rng, counts.shape)
        published = threshold.passes(noisy)
        observation = NoisyGroups(GroupedCounts((1.0, 1.0)), noisy[published], noise, threshold)
        posterior = infer_groups(observation if knows else replace(observation, threshold=None), "partial", 400, rng)
        low, high = posterior.quantiles[:, 0, 0], posterior.quantiles[:, 0, 2]
        inside += ((low <= theta[published]) & (theta[published] <= high)).sum()
        n_published += len(published)
        ends = np.quantile(posterior.draws, [0.05, 0.95], axis=0)
        covered.append((ends[0] <= truths) & (truths <= ends[1]))
        ratios.append(float(np.median(posterior.draws[:, 2])) / TRUE_RECORDS)
    mean, sd, records = np.mean(covered, axis=0).tolist()
    return Study(inside / n_published, mean, sd, records, float(np.median(ratios)))


@pytest.mark.slow
def test_found_groups_are_not_taken_for_all_groups() -> None:
    """The estimate of two data sets is below half of that of the published groups with a false-fail rate of 1e-4."""
    known, unknown = simulate(2, 5), simulate(2, 5, knows=False)
    assert unknown.ratio > 2.0
    assert 0.3 < known.ratio < 1.7


@pytest.mark.slow
@pytest.mark.calibration
def test_published_groups_are_calibrated() -> None:
    """In 150 studies; each share has a false-fail rate below 1e-4."""
    study = simulate(150, 6)
    assert 0.87 <= study.groups <= 0.93
    assert min(study.mean, study.sd, study.records) >= 0.79
    assert 0.7 < study.ratio < 1.3
    wrong = simulate(15, 6, knows=False)
    assert wrong.records < 0.5
