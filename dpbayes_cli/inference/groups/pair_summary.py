"""Summarize the posterior of each group's success probability, averaged over draws of the hyperparameters.

Means and standard deviations of the probability and of the number of records are averages over up to 512 draws of the
hyperparameters. Quantiles start from the Beta law with the posterior's mean and standard deviation. The error of its
distribution function, on the scale of normal quantiles, is computed on a grid of probabilities for 16 draws of the
hyperparameters and interpolated; it is then removed. If a group is so large that the grid is too coarse for it, the
quantiles are those of the Beta law. Quantiles of the number of records are those of the gamma law with the
same mean and standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, betaincinv, expit, gammaincinv, logit, ndtr, ndtri

from dpbayes_cli.inference.groups.count_tables import CountLaw, beta_cdf_tables
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS
from dpbayes_cli.inference.groups.noisy_pairs import NoisyPairs

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_FIRST_DRAWS, _MOST_DRAWS, _GRID_DRAWS = 64, 512, 16
_MONTE_CARLO = 0.02
_MOST_POINTS = 48
_SURE = 1e-4
_SIZE_LEVELS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class PairSummary:
    """Summaries for each pair of observed counts; see ``GroupedPosterior``.

    Attributes:
        means: shape (n_pairs,).
        sds: shape (n_pairs,).
        quantiles: shape (n_pairs, 3).
        sizes: shape (n_pairs, 3).
        above: shape (n_pairs,).
        monte_carlo: the largest Monte Carlo error of a mean, as a fraction of the standard deviation.
    """

    means: Floats
    sds: Floats
    quantiles: Floats
    sizes: Floats
    above: Floats
    monte_carlo: float


def summarize_pairs(pairs: NoisyPairs, law: CountLaw, overall: Floats | None) -> PairSummary:
    """Return the summaries.

    Args:
        pairs: the observed counts.
        law: equally probable values of the parameters in random order, at least ``_MOST_DRAWS``.
        overall: the mean over all groups for each value, shape (len(law),); None for the mean of the groups' means.
    """
    first = _moments(pairs, law.part(slice(_FIRST_DRAWS)))
    ratio = float((first.theta_spread / first.theta_sd).max())
    n_draws = min(_MOST_DRAWS, len(law), int((ratio / _MONTE_CARLO) ** 2))
    moments = first
    if n_draws > _FIRST_DRAWS:
        moments = _merged(first, _moments(pairs, law.part(slice(_FIRST_DRAWS, n_draws))), n_draws - _FIRST_DRAWS)
    few = law.part(slice(_GRID_DRAWS))
    if overall is None:
        overall = np.full(len(few), np.average(moments.theta, weights=pairs.numbers))
    few_moments = _moments(pairs, few)
    points = _grid(moments.theta, moments.theta_sd)
    cdf, above = _cdf(pairs, few, points, overall)
    quantiles = _quantiles(moments, few_moments, points, cdf)
    return PairSummary(
        moments.theta,
        moments.theta_sd,
        quantiles,
        _size_summary(moments),
        above,
        float((moments.theta_spread / moments.theta_sd).max()) / np.sqrt(max(n_draws, _FIRST_DRAWS)),
    )


@dataclass(frozen=True, eq=False)
class _Moments:
    """Means of theta, theta^2, E[theta | hyperparameters]^2, n and n^2 over draws, rows of shape (n_pairs,)."""

    rows: Floats
    n_draws: int

    @property
    def theta(self) -> Floats:
        return np.asarray(self.rows[0])

    @property
    def theta_sd(self) -> Floats:
        return np.asarray(np.sqrt(np.maximum(self.rows[1] - self.rows[0] ** 2, 1e-30)))

    @property
    def theta_spread(self) -> Floats:
        """The standard deviation of E[theta | hyperparameters]."""
        return np.asarray(np.sqrt(np.maximum(self.rows[2] - self.rows[0] ** 2, 0.0)))


def _merged(one: _Moments, other: _Moments, n_other: int) -> _Moments:
    total = one.n_draws + n_other
    return _Moments((one.rows * one.n_draws + other.rows * n_other) / total, total)


def _moments(pairs: NoisyPairs, law: CountLaw) -> _Moments:
    s, f = pairs.successes.nodes, pairs.failures.nodes
    n = (s[:, None] + f).astype(np.float64)
    rows = np.zeros((5, len(pairs.numbers)))
    for part in pairs.batches(law):
        values = law.part(part)
        tables, _ = pairs.tables(values)
        total = np.maximum(pairs.sums(tables), 1e-280)
        kappa = (values.a + values.b)[:, None, None] + n
        success = values.a[:, None, None] + s[:, None]
        by_theta = tables * (success / kappa)
        theta = pairs.sums(by_theta) / total
        square = pairs.sums(by_theta * ((success + 1.0) / (kappa + 1.0))) / total
        by_size = tables * n
        size = pairs.sums(by_size) / total
        size_square = pairs.sums(by_size * n) / total
        rows += np.stack([theta, square, theta**2, size, size_square]).sum(axis=1)
    return _Moments(rows / len(law), len(law))


def _grid(means: Floats, sds: Floats) -> Floats:
    """Return ascending probabilities that cover the posteriors of all pairs."""
    center = logit(np.clip(means, 1e-9, 1.0 - 1e-9))
    width = np.minimum(sds / (means * (1.0 - means) + 1e-300), 3.0)
    low, high = float((center - 2.5 * width).min()), float((center + 2.5 * width).max())
    n_points = int(np.clip((high - low) / (0.7 * np.quantile(width, 0.1)), 16, _MOST_POINTS))
    return np.asarray(expit(np.linspace(low, high, n_points)))


def _cdf(pairs: NoisyPairs, law: CountLaw, points: Floats, overall: Floats) -> tuple[Floats, Floats]:
    """Return P(theta <= point), shape (n_points, n_pairs), and P(theta > overall), shape (n_pairs,)."""
    s, f = pairs.successes.nodes, pairs.failures.nodes
    cdf, above = np.zeros((len(points), len(pairs.numbers))), np.zeros(len(pairs.numbers))
    for i in range(len(law)):
        table, _ = pairs.tables(law.part(slice(i, i + 1)))
        total = np.maximum(pairs.sums(table)[0], 1e-280)
        a, b = float(law.a[i]), float(law.b[i])
        for j, point in enumerate([*points, overall[i]]):
            below = pairs.sums(table * beta_cdf_tables(np.array([point]), a, b, s, f))[0] / total
            if j < len(points):
                cdf[j] += below
            else:
                above += 1.0 - below
    return cdf / len(law), np.clip(above / len(law), 0.0, 1.0)


def _beta_shapes(moments: _Moments) -> tuple[Floats, Floats]:
    """Return the parameters of the Beta law with the same mean and standard deviation."""
    mean = np.clip(moments.theta, 1e-12, 1.0 - 1e-12)
    kappa = np.maximum(mean * (1.0 - mean) / moments.theta_sd**2 - 1.0, 1e-3)
    return mean * kappa, (1.0 - mean) * kappa


def _quantiles(moments: _Moments, few: _Moments, points: Floats, cdf: Floats) -> Floats:
    """Return the quantiles, shape (n_pairs, 3)."""
    a, b = _beta_shapes(few)
    rough = betainc(a, b, points[:, None])
    known = (np.minimum(rough, cdf) > _SURE) & (np.maximum(rough, cdf) < 1.0 - _SURE)
    errors = np.where(known, ndtri(np.clip(cdf, _SURE, 1 - _SURE)) - ndtri(np.clip(rough, _SURE, 1 - _SURE)), 0.0)
    places = logit(points)
    a, b = _beta_shapes(moments)
    columns = []
    for level in LEVELS:
        quantile = betaincinv(a, b, level)
        for _ in range(2):
            place = (logit(np.clip(quantile, 1e-300, 1.0 - 1e-16)) - places[0]) / (places[1] - places[0])
            error = _interpolated(errors, known, np.clip(place, 0.0, len(places) - 1.0))
            quantile = betaincinv(a, b, ndtr(ndtri(level) - error))
        columns.append(quantile)
    return np.stack(columns, axis=1)


def _interpolated(values: Floats, known: np.ndarray, place: Floats) -> Floats:
    """Interpolate each column of values linearly at a fractional row, between known values."""
    low = np.minimum(place.astype(np.int64), len(values) - 2)
    share = place - low
    columns = np.arange(values.shape[1])
    weights = [(1.0 - share) * known[low, columns], share * known[low + 1, columns]]
    total = weights[0] * values[low, columns] + weights[1] * values[low + 1, columns]
    return np.asarray(total / np.maximum(weights[0] + weights[1], 1e-9))


def _size_summary(moments: _Moments) -> Floats:
    """Return mean and quantiles of the number of records, shape (n_pairs, 3)."""
    mean = np.maximum(moments.rows[3], 1e-9)
    variance = np.maximum(moments.rows[4] - mean**2, 1e-9)
    shape, scale = mean**2 / variance, variance / mean
    return np.stack([mean, *(np.rint(gammaincinv(shape, level) * scale) for level in _SIZE_LEVELS)], axis=1)
