"""Simulate data from the prior, rank true parameters among posterior draws, and measure posterior distances."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import Model
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_conjugate
from dpbayes_cli.models.families.capabilities import ConjugatePosterior
from dpbayes_cli.privacy.neighbors import Neighbors

INTERVAL = 0.9  # the nominal probability of the central posterior intervals whose coverage is measured
_NEGLIGIBLE_TERM = 1e-17


def complete_policy(model: Model) -> RecordPolicy:
    """Return the policy for complete records: replace-one neighbors, and a value of the domain for invalid cells."""
    column = model.columns[0]
    if not isinstance(column, NumericColumn):
        return RecordPolicy(Neighbors.REPLACE_ONE, column.levels[-1])
    return RecordPolicy(Neighbors.REPLACE_ONE, str(int(column.lower)) if column.integers else repr(column.lower))


def prior_predictive(
    model: ConjugatePosterior, n_records: int, trials: int, seed: np.random.SeedSequence
) -> tuple[Floats, Integers]:
    """Draw the parameters and exact statistics of all trials; equal seeds give equal records before clamping."""
    rng = np.random.default_rng(seed)
    drawn = [model.simulate(n_records, rng) for _ in range(trials)]
    return np.array([theta for theta, _ in drawn]), np.array([value for _, value in drawn], dtype=np.int64)


def non_private_draws(
    model: ConjugatePosterior, values: Integers, n_records: int, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Draw from the posterior given each trial's exact statistics, shape (n_trials, n_draws, n_parameters)."""
    family, drawn = model.family(n_records), []
    for row in values.tolist():
        points = simulate_conjugate(family, model.sums(row, n_records), n_draws, rng)
        drawn.append([model.reported(tuple(point)) for point in points.tolist()])
    return np.array(drawn)


def ranks_among(thetas: Floats, draws: Floats, rng: np.random.Generator) -> Floats:
    """Return the ranks of true parameters among posterior draws, between 0 and 1, shape (n_trials, n_parameters).

    A rank is (b + u) / (n_draws + 1), where b is the number of draws below the true parameter, and u is uniform on
    [0, 1). The rank is exactly uniform if the true parameter and the draws are independent draws from one posterior.
    """
    below = (draws < thetas[:, None, :]).sum(axis=1)
    return np.asarray((below + rng.random(below.shape)) / (draws.shape[1] + 1))


def measure(ranks: Floats, sds: Floats, distances: Floats | None) -> dict[str, float | None]:
    """Return the measures of a point from ranks, posterior sds and squared distances, each of shape (n_trials,)."""
    uniform = stats.kstest(ranks, "uniform")
    low, high = (1.0 - INTERVAL) / 2.0, (1.0 + INTERVAL) / 2.0
    mean = error = None
    if distances is not None:
        mean, error = float(distances.mean()), float(distances.std(ddof=1) / math.sqrt(len(distances)))
    return {
        "ks": float(uniform.statistic),
        "ks_p_value": float(uniform.pvalue),
        "coverage": float(np.mean((ranks > low) & (ranks < high))),
        "mean_sd": float(sds.mean()),
        "mmd": None if mean is None else math.sqrt(max(0.0, mean)),
        "mmd_squared": mean,
        "mmd_squared_error": error,
    }


def ks_band(trials: int, probability: float = 0.95) -> float:
    """Return the quantile of the KS distance of uniform ranks at this probability."""
    return float(stats.kstwo.ppf(probability, trials))


def squared_mmds(draws: Floats, reference: Floats) -> Floats:
    """Return an unbiased estimate of the squared maximum mean discrepancy of two posteriors for every trial.

    The kernel is k(x, y) = exp(-|x - y|^2 / 2). The estimate is the mean of k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) -
    k(x_j, y_i) over all pairs i != j. The estimate is exactly zero for identical samples, and can be negative. If all
    draws lie close together, a series of sums over single draws is faster. With x and y measured from a center,

        k(x, y) = sum over multi-indices a of f_a(x) f_a(y),  f_a(x) = exp(-|x|^2 / 2) x^a / sqrt(a!),

    and the terms of total degree m sum to at most r^(2 * m) / m!, where r is the largest distance of a draw from the
    center.

    Args:
        draws, reference: independent draws x and y, shape (n_trials, n_draws, n_parameters). Surplus draws of the
            longer sample are ignored.

    Source: Gretton et al. 2012, eq. 4; Bernstein and Sheldon 2018, sec. 4 (the kernel).
    """
    size = min(draws.shape[1], reference.shape[1])
    x, y = draws[:, :size], reference[:, :size]
    center = (x.mean(axis=1, keepdims=True) + y.mean(axis=1, keepdims=True)) / 2.0
    both = np.moveaxis(np.stack([x - center, y - center]), 3, 0).copy()
    degree = _degree(float(np.square(both).sum(axis=0).max()))
    n_terms = math.comb(degree + x.shape[2], x.shape[2])
    total = _by_series(both, degree) if n_terms <= 4 * size else _by_pairs(x, y)
    paired = 2.0 * size - 2.0 * np.exp(-0.5 * np.square(x - y).sum(axis=2)).sum(axis=1)
    return np.asarray((total - paired) / (size * (size - 1)))


def _degree(squared_radius: float) -> int:
    degree, term = 0, 1.0
    while term > _NEGLIGIBLE_TERM and degree < 1000:
        degree += 1
        term *= squared_radius / degree
    return degree


def _by_series(both: Floats, degree: int) -> Floats:
    """Return the sum of k(x_i, x_j) + k(y_i, y_j) - 2 * k(x_i, y_j) over all pairs (i, j), shape (n_trials,).

    ``both`` holds the coordinates of x and y from the center, shape (n_parameters, 2, n_trials, n_draws).
    """
    total = np.zeros(both.shape[2])
    for sums in _feature_sums(np.exp(-0.5 * np.square(both).sum(axis=0)), both, degree):
        total += np.square(sums[0] - sums[1])
    return total


def _feature_sums(feature: Floats, coordinates: Floats, degree: int) -> Iterator[Floats]:
    """Yield the sum of f_a over the draws for every multi-index a up to a total degree, shape (2, n_trials).

    ``feature`` is the product of the factors of f_a for all earlier coordinates, shape (2, n_trials, n_draws).
    ``coordinates`` holds the remaining coordinates of the draws, shape (n_left, 2, n_trials, n_draws).
    """
    for power in range(degree + 1):
        if len(coordinates) > 1:
            yield from _feature_sums(feature, coordinates[1:], degree - power)
        else:
            yield feature.sum(axis=2)
        feature = feature * coordinates[0] / math.sqrt(power + 1.0)


def _by_pairs(x: Floats, y: Floats) -> Floats:
    def kernel(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.exp(-0.5 * cdist(a, b, "sqeuclidean")))

    return np.array([(kernel(a, a) + kernel(b, b) - 2.0 * kernel(a, b)).sum() for a, b in zip(x, y, strict=True)])
