"""Summarize the posterior of each group's success probability, averaged over draws of the hyperparameters.

Means and standard deviations of the probability and of the number of records are averages over 64 to 512 draws of the
hyperparameters. Quantiles start from the Beta law with the posterior's mean and standard deviation. The error of its
distribution function, on the scale of normal quantiles, is computed on a grid of probabilities for 16 to 512 draws of
the hyperparameters (``rate_cells``) and interpolated; it is then removed. The grid is where a mixture of Beta laws,
one for each of 16 draws, has its quantiles: averaged over wide hyperparameters, a posterior may be far from any Beta
law. If the table of a block has more than 4,096 records (``group_blocks``), its groups keep the Beta law's quantiles.

In simulations with hyperparameters from their priors, the intervals contained 90 % of the probabilities on average, to
within 0.3 %. An interval that ends at 0 or 1 has no tail there, and contained 95 %.

Quantiles of the number of records are those of the gamma law with the same mean and standard deviation, rounded. Their
intervals covered 89 % to 99 % of the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc, betaincinv, expit, gammaincinv, logit, ndtri

from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS
from dpbayes_cli.inference.groups.noisy_pairs import NoisyPairs
from dpbayes_cli.inference.groups.rate_cells import distribution_functions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats

_FIRST_DRAWS, _MOST_DRAWS = 64, 512
_MONTE_CARLO, _CDF_MONTE_CARLO = 0.02, 0.03
_POINTS = (16, 48)
"""The smallest and largest number of points of the grid."""
_GRID_LEVELS = np.array([0.02, 0.05, 0.1, 0.35, 0.5, 0.65, 0.9, 0.95, 0.98])
_LOWER, _UPPER = 1, 7
_PART_LEVELS = np.array([0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995])
_PLACE_PAIRS, _PLACE_DRAWS = 64, 16
_STEPS, _ABOVE_POINTS = 5, 6
_ENDS = (-600.0, 36.0)
"""The logits of probabilities beyond which doubles hardly tell probabilities from 0 or 1."""
_SURE = 1e-4
_SIZE_LEVELS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class PairSummary:
    """Summaries for each pair of observed counts, or for each group; see ``GroupedPosterior``.

    Attributes:
        means: shape (n,).
        sds: shape (n,).
        quantiles: shape (n, 3).
        sizes: shape (n, 3).
        above: shape (n,).
        monte_carlo: the largest Monte Carlo error of a mean, as a fraction of the standard deviation.
    """

    means: Floats
    sds: Floats
    quantiles: Floats
    sizes: Floats
    above: Floats
    monte_carlo: float


def join_summaries(parts: Sequence[PairSummary]) -> dict[str, Any]:
    """Return the summaries of several parameters of the same groups, as arguments of ``GroupedPosterior``."""
    names = "means", "sds", "quantiles", "above"
    joined: dict[str, Any] = {name: np.stack([getattr(each, name) for each in parts], axis=1) for name in names}
    return joined | {"sizes": parts[0].sizes, "monte_carlo": max(each.monte_carlo for each in parts)}


def summarize_pairs(pairs: NoisyPairs, law: CountLaw, overall: Floats) -> PairSummary:
    """Return the summaries.

    Args:
        pairs: the observed counts.
        law: equally probable values of the parameters in random order, at least ``_MOST_DRAWS``.
        overall: the mean over all groups for each value, shape (len(law),).
    """
    first = _moments(pairs, law.part(slice(_FIRST_DRAWS)))
    ratio = float((first.theta_spread / first.theta_sd).max())
    n_draws = min(_MOST_DRAWS, len(law), int((ratio / _MONTE_CARLO) ** 2))
    moments = first
    if n_draws > _FIRST_DRAWS:
        moments = _merged(first, _moments(pairs, law.part(slice(_FIRST_DRAWS, n_draws))), n_draws - _FIRST_DRAWS)
    places = _grid(first, _by_draw(pairs, law.part(slice(_PLACE_DRAWS))))
    few = law.part(slice(int(np.clip((ratio / _CDF_MONTE_CARLO) ** 2, _PLACE_DRAWS, moments.n_draws))))
    if pairs.grid.is_small:
        cdf, above = distribution_functions(pairs, few, places, overall[: len(few)])
        quantiles = _quantiles(moments, _moments(pairs, few), places, cdf)
    else:
        a, b = _beta_shapes(moments)
        quantiles, above = _beta_quantiles(a, b), _above(a, b, overall)
    return _summary(moments, quantiles, above)


@dataclass(frozen=True, eq=False)
class DistributionFunctions:
    """Distribution functions of the success probabilities for a few draws of the hyperparameters.

    Attributes:
        rows: the moments for these draws; see ``summarize_rows``.
        places: ascending logits, shape (n_points,).
        cdf: the probabilities below them, shape (n_points, n).
    """

    rows: Floats
    places: Floats
    cdf: Floats


def quantile_places(rows: Floats) -> Floats:
    """Return ascending logits where most of the posteriors' quantiles lie, given moments; see ``summarize_rows``."""
    return _grid(_Moments(rows, 1), rows[:, None])


def summarize_rows(
    rows: Floats,
    n_draws: int,
    overall: Floats,
    few: DistributionFunctions | None = None,
    corrected: NDArray[np.bool_] | None = None,
) -> PairSummary:
    """Return the summaries of groups.

    Args:
        rows: means of theta, theta^2, E[theta | hyperparameters]^2, n and n^2 over draws, shape (5, n).
        n_draws: the number of draws.
        overall: draws of the mean over all groups.
        few: distribution functions for a few draws of the hyperparameters; they correct the quantiles of Beta laws.
        corrected: the groups to which ``few`` belongs; None if these are all.
    """
    moments = _Moments(rows, n_draws)
    a, b = _beta_shapes(moments)
    chosen = np.full(len(a), few is not None) if corrected is None else corrected
    quantiles = np.empty((len(a), len(LEVELS)))
    quantiles[~chosen] = _beta_quantiles(a[~chosen], b[~chosen])
    if few is not None:
        some = _Moments(rows[:, chosen], n_draws)
        quantiles[chosen] = _quantiles(some, _Moments(few.rows, 1), few.places, few.cdf)
    return _summary(moments, quantiles, _above(a, b, overall))


def _beta_quantiles(a: Floats, b: Floats) -> Floats:
    return np.stack([betaincinv(a, b, level) for level in LEVELS], axis=1)


def _summary(moments: _Moments, quantiles: Floats, above: Floats) -> PairSummary:
    error = float((moments.theta_spread / moments.theta_sd).max()) / np.sqrt(moments.n_draws)
    return PairSummary(moments.theta, moments.theta_sd, quantiles, _size_summary(moments), above, float(error))


def _above(a: Floats, b: Floats, overall: Floats) -> Floats:
    """Return the probabilities of Beta laws above the mean over all groups, averaged over a few quantiles of it."""
    few = np.quantile(overall, (np.arange(_ABOVE_POINTS) + 0.5) / _ABOVE_POINTS)
    return np.asarray(1.0 - np.mean([betainc(a, b, each) for each in few], axis=0))


def mean_probability(pairs: NoisyPairs, law: CountLaw) -> Floats:
    """Return the posterior means of the success probabilities, shape (n_pairs,)."""
    return _moments(pairs, law).theta


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
    return _Moments(moment_rows(pairs, law), len(law))


def moment_rows(pairs: NoisyPairs, law: CountLaw) -> Floats:
    """Return the moments of each pair for some values of the parameters; see ``summarize_rows``."""
    rows = np.zeros((5, len(pairs.numbers)))
    for part in pairs.batches(law):
        theta, square, size, size_square = moments_by_value(pairs, law.part(part))
        rows += np.stack([theta, square, theta**2, size, size_square]).sum(axis=1)
    return rows / len(law)


def moments_by_value(pairs: NoisyPairs, law: CountLaw) -> Floats:
    """Return the posterior means of theta, theta^2, n and n^2, shape (4, n_values, n_pairs)."""
    s, f = pairs.successes.nodes, pairs.failures.nodes
    n = (s[:, None] + f).astype(np.float64)
    tables, _ = pairs.grid.tables(law)
    total = np.maximum(pairs.sums(tables), 1e-280)
    kappa = (law.a + law.b)[:, None, None] + n
    success = law.a[:, None, None] + s[:, None]
    by_theta, by_size = tables * (success / kappa), tables * n
    square = by_theta * ((success + 1.0) / (kappa + 1.0))
    most = float(n[-1, -1])
    parts = ((by_theta, 1.0), (square, 1.0), (by_size, most), (by_size * n, most**2))
    return np.stack([np.clip(pairs.sums(table) / total, 0.0, limit) for table, limit in parts])


def _by_draw(pairs: NoisyPairs, law: CountLaw) -> Floats:
    """Return the posterior means of theta and theta^2, shape (2, n_values, n_pairs)."""
    return np.concatenate([moments_by_value(pairs, law.part(part))[:2] for part in pairs.batches(law)], axis=1)


def _grid(moments: _Moments, by_draw: Floats) -> Floats:
    """Return ascending logits where most of the posteriors' quantiles lie, shape (n_points,).

    Args:
        moments: of the posteriors.
        by_draw: means of theta and theta^2 for a few draws of the hyperparameters, shape (2 or more, n_draws, n_pairs).
    """
    order = np.argsort(moments.theta)
    few = order[np.unique(np.linspace(0, len(order) - 1, _PLACE_PAIRS).astype(np.int64))]
    a, b = _beta_shapes(_Moments(by_draw[:, :, few], 1))
    parts = _logit(betaincinv(a[..., None], b[..., None], _PART_LEVELS)).swapaxes(0, 1).reshape(len(few), -1)
    places = np.quantile(parts, _GRID_LEVELS, axis=1)
    width = np.quantile(places[_UPPER] - places[_LOWER], 0.1)
    n_points = int(np.clip(np.ptp(places) / max(0.4 * width, 1e-9), *_POINTS))
    return np.unique([*_ENDS, *np.quantile(places, np.linspace(0.0, 1.0, n_points))])


def _logit(probability: NDArray[np.floating[Any]]) -> Floats:
    """Return the logits, without infinite ones."""
    return np.asarray(logit(np.clip(probability, 1e-300, 1.0 - 1e-16)))


def _beta_shapes(moments: _Moments) -> tuple[Floats, Floats]:
    """Return the parameters of the Beta law with the same mean and standard deviation."""
    mean = np.clip(moments.theta, 1e-12, 1.0 - 1e-12)
    kappa = np.maximum(mean * (1.0 - mean) / moments.theta_sd**2 - 1.0, 1e-3)
    return mean * kappa, (1.0 - mean) * kappa


def beta_cdf(rows: Floats, places: Floats) -> Floats:
    """Return distribution functions of Beta laws, shape (n_points, n), at logits, given moments."""
    return np.asarray(betainc(*_beta_shapes(_Moments(rows, 1)), expit(places)[:, None]))


def _quantiles(moments: _Moments, few: _Moments, places: Floats, cdf: Floats) -> Floats:
    """Return the quantiles, shape (n_pairs, 3).

    Args:
        moments: of the posteriors.
        few: moments given the few draws for which the distribution functions were computed.
        places: ascending logits, shape (n_points,).
        cdf: the distribution functions there, shape (n_points, n_pairs).
    """
    points, sought = expit(places), _normal(cdf)
    (a, b), (few_a, few_b) = _beta_shapes(moments), _beta_shapes(few)
    last, ends = len(places) - 1, np.array([[-1], [0]])
    columns = []
    for level in LEVELS:
        target = ndtri(level)
        cell = np.clip((sought < target).sum(axis=0), 1, last)
        errors, known = np.empty((2, 2, len(a)))
        rows = np.arange(len(a))
        while len(rows):  # most quantiles are in the cell of the distribution function, or next to it
            at = cell[rows] + ends
            errors[:, rows] = sought[at, rows] - _normal(betainc(few_a[rows], few_b[rows], points[at]))
            known[:, rows] = _normal(betainc(a[rows], b[rows], points[at])) + errors[:, rows]
            moved = np.where(known[1, rows] < target, 1, np.where(known[0, rows] >= target, -1, 0)) + cell[rows]
            rows, moved = rows[(inside := (moved != cell[rows]) & (moved > 0) & (moved <= last))], moved[inside]
            cell[rows] = moved
        place = _root(a, b, places[cell + ends], errors, known, target)
        columns.append(np.where(known[0] >= target, 0.0, np.where(known[1] < target, 1.0, expit(place))))
    return np.sort(np.stack(columns, axis=1), axis=1)


def _root(a: Floats, b: Floats, cell: Floats, errors: Floats, known: Floats, target: float) -> Floats:
    """Return the logits in cells at which normal quantiles of Beta laws plus their interpolated errors have a value.

    Args:
        a: first parameters of the Beta laws, shape (n_pairs,).
        b: second parameters.
        cell: logits at both ends of each cell, shape (2, n_pairs).
        errors: the errors there.
        known: normal quantiles there, the sums of those of the Beta laws and of the errors.
        target: the value.
    """
    slope = (errors[1] - errors[0]) / (cell[1] - cell[0])
    (low, high), (below, above) = cell, known - target
    for _ in range(_STEPS):  # false position
        place = np.clip(low - below * (high - low) / np.maximum(above - below, 1e-12), low, high)
        value = _normal(betainc(a, b, expit(place))) + errors[0] + slope * (place - cell[0]) - target
        left = value < 0.0
        low, below = np.where(left, place, low), np.where(left, value, below)
        high, above = np.where(left, high, place), np.where(left, above, value)
    return np.asarray(place)


def _normal(probability: NDArray[np.floating[Any]]) -> Floats:
    """Return the normal quantiles of probabilities that are not too close to 0 or 1."""
    return np.asarray(ndtri(np.clip(probability, _SURE, 1.0 - _SURE)))


def _size_summary(moments: _Moments) -> Floats:
    """Return mean and quantiles of the number of records, shape (n_pairs, 3)."""
    mean = np.maximum(moments.rows[3], 1e-9)
    variance = np.maximum(moments.rows[4] - mean**2, 1e-9)
    shape, scale = mean**2 / variance, variance / mean
    return np.stack([mean, *(np.rint(gammaincinv(shape, level) * scale) for level in _SIZE_LEVELS)], axis=1)
