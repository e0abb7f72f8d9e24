"""The posterior of the number of valid records, against direct sums over all counts."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisyTable, NoisyTables, RecordCount
from dpbayes_cli.inference.valid_count import CountSummary, count_valid_records
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.derivatives.derivative_studies import Cell, simulated

LAWS = [DiscreteLaplace(1.3), DiscreteGaussian(2.1), RoundedGaussian(2.1)]


def of_counts(observed: tuple[int, ...], law: NoiseLaw, total: RecordCount) -> CountSummary | None:
    return count_valid_records(NoisyCounts((1.0,) * len(observed), observed, law, total), total)


def sum_mass(law: NoiseLaw, terms: int, z: np.ndarray) -> np.ndarray:
    """Return P(sum of noise = z) by direct convolution."""
    support = np.arange(-200, 201)
    single = np.exp(law.log_pmf(support))
    mass = single
    for _ in range(terms - 1):
        mass = np.convolve(mass, single)
    return np.asarray(np.interp(z, np.arange(-200 * terms, 200 * terms + 1), mass, left=0.0, right=0.0))


def summary_of(weight: np.ndarray) -> tuple[float, int, int]:
    below = np.cumsum(weight) / weight.sum()
    low, tenth, high = (int(np.searchsorted(below, p)) for p in (0.05, 0.1, 0.95))
    if weight[-1] > weight[tenth]:
        low, high = tenth, len(weight) - 1
    return float(np.arange(len(weight)) @ weight / weight.sum()), low, high


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("observed", [(12, 20), (-3, 2), (31, 30), (4, 9, 11)])
def test_the_number_has_a_uniform_prior_up_to_the_public_number(law: NoiseLaw, observed: tuple[int, ...]) -> None:
    n = 40
    expected = summary_of(sum_mass(law, len(observed), sum(observed) - np.arange(n + 1)))
    summary = of_counts(observed, law, RecordCount("at-most", n))
    assert summary is not None
    assert (summary.q05, summary.q95) == expected[1:]
    assert summary.mean == pytest.approx(expected[0], rel=1e-5)


@pytest.mark.parametrize("law", LAWS)
def test_of_several_tables_the_one_with_the_fewest_records_counts(law: NoiseLaw) -> None:
    n, observed = 25, ((9, 8), (20, 3), (10, 12))
    mass = [sum_mass(law, 2, sum(each) - np.arange(n + 1)).tolist() for each in observed]
    weight = np.zeros(n + 1)
    for numbers in itertools.product(range(n + 1), repeat=3):
        likelihood = math.prod(each[m] for each, m in zip(mass, numbers, strict=True))
        fewest = min(numbers)  # it is uniform; each other number is n, or uniform from there to n
        for holder in (k for k in range(3) if numbers[k] == fewest):
            others = [m for k, m in enumerate(numbers) if k != holder]
            weight[fewest] += likelihood * math.prod(0.5 * (m == n) + 0.5 / (n + 1.0 - fewest) for m in others)
    tables = tuple(
        NoisyTable(np.ones((1, 2)), np.ones(1), np.array([each], dtype=np.float64), law, RecordCount("at-most", n))
        for each in observed
    )
    summary = count_valid_records(NoisyTables(tables), RecordCount("at-most", n))
    assert summary is not None
    assert (summary.mean, summary.q05, summary.q95) == pytest.approx(summary_of(weight), rel=1e-6)


def test_noise_that_hides_everything_leaves_the_prior() -> None:
    summary = of_counts((500_000, -900_000), DiscreteLaplace(1e9), RecordCount("at-most", 1000))
    assert summary is not None
    assert (summary.mean, summary.q05, summary.q95) == pytest.approx((500, 50, 950), abs=1)


@pytest.mark.parametrize(
    ("law", "all_valid"), [*((law, False) for law in (*LAWS, DiscreteLaplace(3000.0))), *((law, True) for law in LAWS)]
)
def test_the_interval_covers_the_number_as_often_as_it_states(law: NoiseLaw, all_valid: bool) -> None:
    """400 intervals of at least 90 % cover below 85 % with probability 0.001.

    Numbers are drawn from the prior, or all records are valid: then a central interval would never cover.
    """
    rng, n = np.random.default_rng(7), 2000
    covered, truths = 0, np.full(400, n) if all_valid else rng.integers(0, n + 1, 400)
    for true, noise in zip(truths, law.simulate(rng, (400, 2)), strict=True):
        summary = of_counts((int(true + noise[0]), int(noise[1])), law, RecordCount("at-most", n))
        assert summary is not None
        covered += (summary.q05 < true if all_valid else summary.q05 <= true) and true <= summary.q95
    assert covered >= 0.85 * 400


def test_a_private_number_of_records_has_no_upper_limit() -> None:
    summary = of_counts((10**7, 5), DiscreteLaplace(2.0), RecordCount("unbounded"))
    assert summary is not None
    assert abs(summary.mean - 10**7 - 5) < 5
    assert summary.q95 - summary.q05 < 20


def test_the_first_round_of_a_regression_counts_the_valid_records() -> None:
    """Of 60 intervals, at most 44 hold the number with probability 2e-4."""
    total, covered = RecordCount("at-most", 300), []
    for seed in range(60):
        _, observation = simulated(Cell("mixed", 3, 100, 1.0), np.random.default_rng(seed), total)
        summary = count_valid_records(observation, total)
        assert summary is not None
        covered.append(summary.q05 <= 100 <= summary.q95)
    assert sum(covered) > 44
    unbounded = RecordCount("unbounded")
    assert count_valid_records(replace(observation, points=observation.points + 0.1), total) is None
    assert count_valid_records(replace(observation, total=unbounded), unbounded) is None
