"""Data drawn from the prior, ranks of true parameters among posterior draws, and distances between posteriors.

The distance is the maximum mean discrepancy under the kernel exp(-|x - y|^2 / 2). If all draws lie close together, the
sum of the kernel over all pairs is computed from sums over single draws. With x and y measured from a common center,

    exp(-|x - y|^2 / 2) = sum over multi-indices a of f_a(x) f_a(y),  f_a(x) = exp(-|x|^2 / 2) x^a / sqrt(a!),

and the terms of total degree k sum to at most r^(2 * k) / k!, where r is the largest distance of a draw from the
center. For small r a dozen degrees give all digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import Model
from dpbayes_cli.mechanisms.samplers.simulated_draws import simulate_conjugate
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.capabilities import ConjugatePosterior

INTERVAL = 0.9
"""The nominal probability of the intervals whose coverage is measured."""
_NEGLIGIBLE = 1e-17


def complete_policy(model: Model) -> RecordPolicy:
    """Return the policy for complete records: replace-one neighbors, and a value of the domain for invalid cells."""
    column = model.columns[0]
    if not isinstance(column, NumericColumn):
        return RecordPolicy(Neighbors.REPLACE_ONE, column.levels[-1])
    return RecordPolicy(Neighbors.REPLACE_ONE, str(int(column.lower)) if column.integers else repr(column.lower))


def prior_predictive(
    model: ConjugatePosterior, n_records: int, trials: int, seed: np.random.SeedSequence
) -> tuple[Floats, Integers]:
    """Return the parameters and exact statistics of all trials, drawn from the prior and the model.

    Equal seeds give equal records before clamping, whatever the bounds of the domain.
    """
    rng = np.random.default_rng(seed)
    drawn = [model.simulate(n_records, rng) for _ in range(trials)]
    return np.array([theta for theta, _ in drawn]), np.array([value for _, value in drawn], dtype=np.int64)


def non_private_draws(
    model: ConjugatePosterior, values: Integers, n_records: int, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Return draws from the posterior of each trial's exact statistics, shape (n_trials, n_draws, n_parameters)."""
    family, drawn = model.family(n_records), []
    for row in values.tolist():
        points = simulate_conjugate(family, model.sums(row, n_records), n_draws, rng)
        drawn.append([model.reported(tuple(point)) for point in points.tolist()])
    return np.array(drawn)


def ranks_among(thetas: Floats, draws: Floats, rng: np.random.Generator) -> Floats:
    """Return the ranks of true parameters among posterior draws, between 0 and 1, shape (n_trials, n_parameters).

    A rank is (b + u) / (n_draws + 1), where b is the number of draws below the true parameter, and u is drawn uniformly
    from [0, 1). It is exactly uniform if the true parameter and the draws are independent draws from one posterior.

    Args:
        thetas: the true parameters, shape (n_trials, n_parameters).
        draws: posterior draws, shape (n_trials, n_draws, n_parameters).
    """
    below = (draws < thetas[:, None, :]).sum(axis=1)
    return np.asarray((below + rng.random(below.shape)) / (draws.shape[1] + 1))


def measure(ranks: Floats, sds: Floats, distances: Floats | None) -> dict[str, float | None]:
    """Return the measures of a grid point, by name.

    ``ks`` is the Kolmogorov-Smirnov distance between the law of the ranks and the uniform law. ``mean_sd`` is the mean
    standard deviation of the posteriors. ``mmd_squared`` is an unbiased estimate of the mean squared distance to the
    non-private posterior.

    Args:
        ranks: the ranks of the parameter that is studied, shape (n_trials,).
        sds: the standard deviations of this parameter under the posteriors, shape (n_trials,).
        distances: squared distances to the non-private posterior, shape (n_trials,); None if they are not measured.
    """
    from scipy import stats

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
    """Return the quantile of the KS distance of uniform ranks: they stay below it with the given probability."""
    from scipy import stats

    return float(stats.kstwo.ppf(probability, trials))


def squared_mmds(draws: Floats, reference: Floats) -> Floats:
    """Return an unbiased estimate of the squared maximum mean discrepancy of two posteriors for every trial.

    The estimate is the mean of k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) over all pairs i != j. It is
    exactly zero for identical samples, and can be negative.

    Args:
        draws: independent draws x of the one posterior, shape (n_trials, n_draws, n_parameters).
        reference: independent draws y of the other posterior; surplus draws of either array are ignored.

    Source: Gretton et al. 2012, eq. 4; Bernstein and Sheldon 2018, sec. 4 (the kernel).
    """
    size = min(draws.shape[1], reference.shape[1])
    x, y = draws[:, :size], reference[:, :size]
    degree = _degree(x, y)
    n_terms = math.comb(degree + x.shape[2], x.shape[2])
    total = _by_series(x, y, degree) if n_terms <= 4 * size else _by_pairs(x, y)
    paired = 2.0 * size - 2.0 * np.exp(-0.5 * np.square(x - y).sum(axis=2)).sum(axis=1)
    return np.asarray((total - paired) / (size * (size - 1)))


def _degree(x: Floats, y: Floats) -> int:
    """Return the total degree at which the terms of the series become negligible."""
    center = _center(x, y)
    reach = max(float(np.square(part - center).sum(axis=2).max()) for part in (x, y))
    degree, term = 0, 1.0
    while term > _NEGLIGIBLE and degree < 1000:
        degree += 1
        term *= reach / degree
    return degree


def _center(x: Floats, y: Floats) -> Floats:
    return np.asarray((x.mean(axis=1, keepdims=True) + y.mean(axis=1, keepdims=True)) / 2.0)


def _by_series(x: Floats, y: Floats, degree: int) -> Floats:
    """Return the sum of k(x_i, x_j) + k(y_i, y_j) - 2 * k(x_i, y_j) over all pairs (i, j), shape (n_trials,)."""
    center, total = _center(x, y), np.zeros(len(x))
    both = np.moveaxis(np.stack([x - center, y - center]), 3, 0).copy()
    for sums in _feature_sums(np.exp(-0.5 * np.square(both).sum(axis=0)), both, degree):
        total += np.square(sums[0] - sums[1])
    return total


def _feature_sums(feature: Floats, coordinates: Floats, degree: int) -> Iterator[Floats]:
    """Yield the sum of f_a over the draws, for every multi-index a up to a total degree; the module defines f_a.

    Args:
        feature: the factor of f_a from the coordinates that are already multiplied, shape (2, n_trials, n_draws).
        coordinates: the draws in the remaining coordinates, shape (n_left, 2, n_trials, n_draws).
        degree: the remaining degree.
    """
    for power in range(degree + 1):
        if len(coordinates) > 1:
            yield from _feature_sums(feature, coordinates[1:], degree - power)
        else:
            yield feature.sum(axis=2)
        feature = feature * coordinates[0] / math.sqrt(power + 1.0)


def _by_pairs(x: Floats, y: Floats) -> Floats:
    """Return what ``_by_series`` returns, but sum pair by pair, which suits draws that lie far apart."""
    from scipy.spatial.distance import cdist

    def kernel(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.exp(-0.5 * cdist(a, b, "sqeuclidean")))

    return np.array([(kernel(a, a) + kernel(b, b) - 2.0 * kernel(a, b)).sum() for a, b in zip(x, y, strict=True)])
