"""Data drawn from the prior, ranks of true parameters among posterior draws, and distances between posteriors.

The distance is the maximum mean discrepancy under the kernel exp(-|x - y|^2 / 2). Sums of the kernel over all pairs
need no pairs if the samples lie close together: around a common center

    exp(-|x - y|^2 / 2) = sum over multi-indices a of f_a(x) f_a(y),  f_a(x) = exp(-|x|^2 / 2) x^a / sqrt(a!),

whose terms of total degree k are at most reach^(2 k) / k!, so that a dozen degrees give all digits.
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
"""The probability of the intervals whose coverage is measured."""
_NEGLIGIBLE = 1e-17


def complete_policy(model: Model) -> RecordPolicy:
    """Return the policy of complete records under replace-one neighbors, with a value of the domain as stand-in."""
    column = model.columns[0]
    if not isinstance(column, NumericColumn):
        return RecordPolicy(Neighbors.REPLACE_ONE, column.levels[-1])
    return RecordPolicy(Neighbors.REPLACE_ONE, str(int(column.lower)) if column.integers else repr(column.lower))


def prior_predictive(
    model: ConjugatePosterior, n_records: int, trials: int, seed: np.random.SeedSequence
) -> tuple[Floats, Integers]:
    """Return parameters and exact statistics of all trials; equal seeds draw equal records on any bounds."""
    rng = np.random.default_rng(seed)
    drawn = [model.simulate(n_records, rng) for _ in range(trials)]
    return np.array([theta for theta, _ in drawn]), np.array([value for _, value in drawn], dtype=np.int64)


def non_private_draws(
    model: ConjugatePosterior, values: Integers, n_records: int, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Draw from the conjugate posteriors of exact statistics, shape (n_trials, n_draws, n_parameters)."""
    family, drawn = model.family(n_records), []
    for row in values.tolist():
        points = simulate_conjugate(family, model.sums(row, n_records), n_draws, rng)
        drawn.append([model.reported(tuple(point)) for point in points.tolist()])
    return np.array(drawn)


def ranks_among(thetas: Floats, draws: Floats, rng: np.random.Generator) -> Floats:
    """Return (number of draws below theta + a uniform number) / (number of draws + 1), shape (n_trials, n_parameters).

    The rank is exactly uniform if theta and the draws are independent draws from one posterior.

    Args:
        thetas: the true parameters, shape (n_trials, n_parameters).
        draws: posterior draws, shape (n_trials, n_draws, n_parameters).
        rng: the generator of the uniform numbers.
    """
    below = (draws < thetas[:, None, :]).sum(axis=1)
    return np.asarray((below + rng.random(below.shape)) / (draws.shape[1] + 1))


def measure(ranks: Floats, sds: Floats, distances: Floats | None) -> dict[str, float | None]:
    """Return the measures of a point.

    ``ks`` is the Kolmogorov-Smirnov distance of the ranks from the uniform law; ``mean_sd`` the mean standard deviation
    of the posteriors; ``mmd_squared`` the unbiased estimate of the mean squared distance to the non-private posterior.

    Args:
        ranks: the ranks of the parameter that is studied, shape (n_trials,).
        sds: the standard deviations of its posteriors, the same shape.
        distances: squared distances, the same shape; None if they are not measured.
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
    """Return the KS distance that the ranks of calibrated posteriors stay below with a probability."""
    from scipy import stats

    return float(stats.kstwo.ppf(probability, trials))


def squared_mmds(draws: Floats, reference: Floats) -> Floats:
    """Return an unbiased estimate of the squared maximum mean discrepancy of two posteriors for every trial.

    The mean of k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) over i != j is exactly zero for identical samples,
    and can be negative.

    Args:
        draws: independent draws, shape (n_trials, n_draws, n_parameters).
        reference: draws of the other posterior; the longer array is cut to the length of the shorter one.

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
    """Return the sums of k(x, x) + k(y, y) - 2 k(x, y) over all pairs, shape (n_trials,)."""
    center, total = _center(x, y), np.zeros(len(x))
    both = np.moveaxis(np.stack([x - center, y - center]), 3, 0).copy()
    for sums in _feature_sums(np.exp(-0.5 * np.square(both).sum(axis=0)), both, degree):
        total += np.square(sums[0] - sums[1])
    return total


def _feature_sums(feature: Floats, coordinates: Floats, degree: int) -> Iterator[Floats]:
    """Yield the sums over the draws of every f_a up to a total degree; see the module.

    Args:
        feature: the factor of f_a from the coordinates before these, shape (2, n_trials, n_draws).
        coordinates: the remaining coordinates, shape (n_left, 2, n_trials, n_draws).
        degree: the remaining degree.
    """
    for power in range(degree + 1):
        if len(coordinates) > 1:
            yield from _feature_sums(feature, coordinates[1:], degree - power)
        else:
            yield feature.sum(axis=2)
        feature = feature * coordinates[0] / math.sqrt(power + 1.0)


def _by_pairs(x: Floats, y: Floats) -> Floats:
    """Return the same sums as ``_by_series``, pair by pair: for draws that lie far apart."""
    from scipy.spatial.distance import cdist

    def kernel(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.exp(-0.5 * cdist(a, b, "sqeuclidean")))

    return np.array([(kernel(a, a) + kernel(b, b) - 2.0 * kernel(a, b)).sum() for a, b in zip(x, y, strict=True)])
