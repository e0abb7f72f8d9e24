"""The threshold of found keys: its delta against the exact laws of all outputs, and against exact tail probabilities.

On small domains, the law of the output is enumerated for all neighbors: which keys are published, and with which noisy
integers. The largest hockey-stick divergence at the epsilon of the noise must not exceed the delta of the threshold,
and must reach it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest
from mpmath import mp, mpf

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy import key_threshold
from dpbayes_cli.privacy.composition import Failure, compose, parse_guarantee
from dpbayes_cli.privacy.key_threshold import KeyThreshold, largest_failure
from dpbayes_cli.privacy.kinds import PureDP, ZeroConcentrated
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.noise import NoiseLaw

Table = tuple[int, ...]
"""The exact integers of the keys, key by key."""


def law_of_key(counts: Table, threshold: KeyThreshold) -> Floats:
    """Return the probabilities that a key is not published, and that it is with each of its noisy integers."""
    reach = threshold.noise.radius(10.0)
    axis = np.arange(-reach, reach + threshold.contributions + 2)
    noisy = np.array([*itertools.product(axis, repeat=len(counts))])
    shown, published = np.zeros(len(noisy)), threshold.passes(noisy)
    if any(counts):  # otherwise the key is not in the data
        shown[published] = np.exp(threshold.noise.log_pmf(noisy[published] - np.array(counts)).sum(axis=1))
    return np.append(1.0 - shown.sum(), shown)


def law_of_output(table: Table, n_keys: int, threshold: KeyThreshold) -> Floats:
    """Return the probabilities of all outputs."""
    keys = np.split(np.array(table), n_keys)
    laws = [law_of_key(tuple(counts.tolist()), threshold) for counts in keys]
    return functools.reduce(lambda one, other: np.multiply.outer(one, other).ravel(), laws)


def contributions(n_cells: int, most: int) -> list[Table]:
    """Return the tables of all units with at most this many records."""
    return [
        tuple(cells.count(cell) for cell in range(n_cells))
        for size in range(most + 1)
        for cells in itertools.combinations_with_replacement(range(n_cells), size)
    ]


def neighbors(n_cells: int, most: int, relation: str) -> Iterator[tuple[Table, Table]]:
    """Yield all neighbors, in both directions, beside no other record, and beside one in the first key."""
    units = contributions(n_cells, most)
    for others in ((0,) * n_cells, (1, *(0,) * (n_cells - 1))):
        for one, other in itertools.permutations(units, 2):
            if relation == "replace-one" or not any(one) or not any(other):
                yield tuple(map(sum, zip(one, others, strict=True))), tuple(map(sum, zip(other, others, strict=True)))


CASES = [
    ("replace-one", DiscreteLaplace(1.0), 2.0, 2, 2, 1), ("add-remove", DiscreteLaplace(0.8), 1.25, 2, 2, 1),
    ("replace-one", DiscreteLaplace(3.0), 4.0 / 3.0, 3, 1, 2),
    ("add-remove", DiscreteLaplace(0.9), 2.0 / 0.9, 3, 1, 2), ("add-remove", DiscreteLaplace(4.0), 0.75, 3, 1, 3),
    ("add-remove", DiscreteGaussian(1.5), 30.0, 3, 1, 2),
]  # fmt: skip
"""Relation, noise, epsilon of the noise, number of keys, integers of a key, and records of a unit."""


@pytest.mark.parametrize(("relation", "noise", "epsilon", "n_keys", "size", "most"), CASES)
@pytest.mark.parametrize("delta", ["0.01", pytest.param("0.2", marks=pytest.mark.slow)])
def test_delta_is_attained_by_neighbors_and_never_exceeded(
    relation: str, noise: NoiseLaw, epsilon: float, n_keys: int, size: int, most: int, delta: str
) -> None:
    threshold = KeyThreshold.calibrate(noise, size, 1, most, Decimal(delta))
    assert threshold.failure <= float(delta)
    worst, laws = 0.0, dict[Table, Floats]()
    for one, other in neighbors(n_keys * size, most, relation):
        for table in (one, other):
            if table not in laws:
                laws[table] = law_of_output(table, n_keys, threshold)
        loss = laws[one] - math.exp(epsilon) * laws[other]
        worst = max(worst, float(loss[loss > 0.0].sum()))
    assert worst <= threshold.failure * (1.0 + 1e-8)
    assert worst >= 0.99 * threshold.failure


def exact_tail(noise: NoiseLaw, number: int, t: int) -> float:
    """Return P(sum of noises >= t) by summation with 40 digits."""
    mp.dps = 40
    reach = noise.radius(100.0)
    single = [mpf(float(p)) for p in np.exp(noise.log_pmf(np.arange(-reach, reach + 1)))]
    total = sum(single)
    sums = [p / total for p in single]
    for _ in range(number - 1):
        longer = [mpf(0)] * (len(sums) + 2 * reach)
        for i, p in enumerate(sums):
            for j, q in enumerate(single):
                longer[i + j] += p * q / total
        sums = longer
    return float(sum(sums[max(t + number * reach, 0) :]))


@pytest.mark.parametrize("noise", [DiscreteLaplace(0.7), DiscreteGaussian(1.2), RoundedGaussian(0.9)])
@pytest.mark.parametrize("delta", ["0.1", "1e-6", "1e-25"])
def test_the_threshold_is_the_smallest_with_this_delta(noise: NoiseLaw, delta: str) -> None:
    for number in (1, 2):
        threshold = KeyThreshold.calibrate(noise, number, 1, 1, Decimal(delta))
        exact, before = (exact_tail(noise, number, threshold.value - less) for less in (1, 2))
        assert exact <= float(delta) < before
        assert exact <= threshold.failure <= exact * (1.0 + 1e-8)


def test_coarse_noise_has_a_slightly_larger_threshold_than_needed() -> None:
    """For one Laplace noise, P(noise >= t) = p^t / (1 + p) with p = exp(-1 / scale)."""
    scale, delta = 3e6, 1e-6
    threshold = KeyThreshold.calibrate(DiscreteLaplace(scale), 1, 1000, 1, Decimal(str(delta)))
    exact = math.exp(-(threshold.value - 1000) / scale) / (1.0 + math.exp(-1.0 / scale))
    assert exact <= threshold.failure <= delta
    assert exact >= 0.99 * delta


def test_the_failure_is_the_largest_over_all_ways_to_divide_records() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        tails = np.sort(rng.random(5)) ** 3
        ways = [
            1.0 - math.prod(1.0 - tails[m - 1] for m in parts)
            for n in range(1, 6)
            for parts in itertools.combinations_with_replacement(range(1, 6), n)
            if sum(parts) <= 5
        ]
        assert largest_failure(tails) == pytest.approx(max(ways), rel=1e-12)
    many = 1e-9 * np.exp(np.arange(2000) / 500.0)
    assert 1.99e-6 < largest_failure(many) < 1e-3


def test_most_groups_of_the_stated_number_of_records_are_published() -> None:
    """The share among 20,000 keys has a false-fail rate below 1e-6."""
    threshold = KeyThreshold.calibrate(DiscreteLaplace(2.0), 2, 1, 1, Decimal("1e-6"))
    noise = DiscreteLaplace(2.0).simulate(np.random.default_rng(4), (20_000, 2))
    for records, least, most in ((threshold.sure_records, 0.942, 1.0), (round(threshold.records), 0.48, 0.62)):
        counts = noise + np.array([records, 0])
        assert least < len(threshold.passes(counts)) / 20_000 < most


def test_a_failure_adds_its_delta_alone() -> None:
    for inner in (PureDP(Decimal("0.5")), ZeroConcentrated(Decimal("0.1"))):
        whole = compose([inner, Failure(Decimal("1e-6"))])
        assert (whole.epsilon, whole.delta, whole.rho) == (inner.epsilon, Decimal("1e-6"), inner.rho)
        assert not whole.mu.is_finite()
        assert whole.rdp(Decimal(8)) == inner.rdp(Decimal(8))
        assert parse_guarantee(whole.serialize()) == whole
        assert not whole.statement(Decimal("1e-7")).epsilon.is_finite()


def test_at_most_a_million_keys_are_published_the_first_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_threshold, "MAX_KEYS", 2)
    threshold = KeyThreshold.calibrate(DiscreteLaplace(2.0), 1, 1, 1, Decimal("1e-6"))
    assert threshold.passes(np.array([[100], [0], [200], [300]])).tolist() == [0, 2]
