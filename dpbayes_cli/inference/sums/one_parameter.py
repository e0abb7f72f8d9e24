"""The exact likelihood and posterior of one parameter given one noisy sum, on a grid refined around the posterior.

The first grid covers the range of the prior; each later grid covers only the part with posterior mass. If the range is
wide, the first grid may miss the posterior. A second search then begins where the expected sum equals the observed one,
and the results of both searches may be combined. Between grid points the log density is interpolated by monotone
cubics. If the number of records is not known, the likelihood is a sum over possible numbers, weighted by their
probabilities and by the likelihood of the noisy record count.

Source: Bernstein and Sheldon 2018; the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.record_law import ScalarLaw
from dpbayes_cli.inference.dirichlet_rows import ranks_within
from dpbayes_cli.inference.posterior import QUANTILES, Marginal, Posterior
from dpbayes_cli.inference.sums.density import FINE_POINTS, GridDensity
from dpbayes_cli.inference.sums.record_numbers import numbers_of_records
from dpbayes_cli.inference.sums.sum_table import SumTable, frequencies_for, moments_of_one, reindex
from dpbayes_cli.privacy.noise import NoiseLaw

_FIRST_LEVEL, _LAST_LEVEL = 5, 48
"""The levels of the coarsest and the finest grid; the grid of level k divides the range of the prior into 2^k
intervals."""
_MAX_FIRST_INTERVAL = 1.0
"""If the intervals of the first grid are longer than this, the posterior may lie unnoticed between two grid points, and
there is a second search."""
_MIN_GAIN_NATS, _MIN_NARROWING = 0.1, 4.0
"""The second grid is used if its largest log density exceeds that of the first grid by more than 0.1, or if it is
narrower by more than a factor of 4."""
_CANDIDATES = 4096
"""The number of coordinates among which the start of the second search is selected."""
_MIN_RELEVANT_INTERVALS = 20
"""A grid is refined until the relevant part of the posterior covers this many intervals."""
_GRID_INTERVALS = 256
"""The number of intervals of the final grid; at least half of them are relevant. It is a power of two, so that the
final grid stays within the range of the prior."""
_SEARCH_EFFORT = 0.5
"""The share of the usual number of frequencies that is used while the posterior is being located."""
_RELEVANT_NATS = 16.0
"""Points with a density below exp(-16) = 1e-7 times the largest density are left out."""
_BATCH_PAIRS = 1 << 9
"""The number of pairs of a point and an observation computed at a time; their arrays fit into the processor's cache."""
_IMPOSSIBLE = -1e300
"""The log density at points whose log likelihood is not a finite float."""
_UNEXPLAINED = (
    "no parameter value explains the released statistic, so this posterior is the prior: check the bounds and the prior"
)


def grid_density(observation: NoisySums, law: ScalarLaw, observed: Floats) -> GridDensity:
    """Return the posterior densities given observations that differ only in their observed values.

    All grids are parts of one grid, which repeatedly halves the range of the prior. A point that several observations
    need is therefore computed once.

    Args:
        observation: the noise and the record count; its observed values are not read.
        law: the law of a record.
        observed: the noisy statistics, shape (n_observations, n_components).
    """
    shared = _SharedGrid(observation, law, observed)
    level = np.full(len(observed), _FIRST_LEVEL)
    ends, densities = _search(shared, np.zeros_like(level), level)
    density = _interpolate(law, ends, densities)
    begin, end = law.prior_range
    finer = math.ceil(math.log2((end - begin) / _MAX_FIRST_INTERVAL))
    if finer > _FIRST_LEVEL:
        width, level = 1 << _FIRST_LEVEL, np.full(len(observed), finer)
        middle = np.floor((_likely_coordinates(observation, law, observed) - begin) / (end - begin) * (1 << finer))
        start = np.clip(middle.astype(np.int64) - width // 2, 0, (1 << finer) - width)
        second_ends, second_densities = _search(shared, start, level, 4 * _GRID_INTERVALS)
        higher = second_densities.max(axis=1) > densities.max(axis=1) + _MIN_GAIN_NATS
        narrower = np.diff(second_ends, axis=1)[:, 0] < np.diff(ends, axis=1)[:, 0] / _MIN_NARROWING
        for i in np.flatnonzero(higher | narrower).tolist():
            first_grid = np.linspace(ends[i, 0], ends[i, 1], densities.shape[1])
            second_grid = np.linspace(second_ends[i, 0], second_ends[i, 1], second_densities.shape[1])
            points, kept = np.unique(np.concatenate([first_grid, second_grid]), return_index=True)
            density.replace(i, points, np.concatenate([densities[i], second_densities[i]])[kept])
    return density


def _likely_coordinates(observation: NoisySums, law: ScalarLaw, observed: Floats) -> Floats:
    """Return for each observation the coordinate whose expected sum is nearest to the observed sum.

    An observed sum outside the range of expected sums is first moved inside, by one noise scale if possible, to where
    the expected sum varies with the coordinate.
    """
    candidates = np.linspace(*law.prior_range, _CANDIDATES)
    with np.errstate(all="ignore"):
        means = np.nan_to_num(moments_of_one(law, candidates[:, None], observation.noise)[:, 0])
    n = np.full(len(observed), float(observation.total.n))
    if observation.valid:
        n = np.maximum(observed[:, -1] / observation.valid, 1.0)
    order = np.argsort(means, kind="stable")
    lowest, highest = means.min() * n + observation.noise.scale, means.max() * n - observation.noise.scale
    sums = np.clip(observed[:, 0], lowest, np.maximum(lowest, highest))
    place = np.searchsorted(means[order], sums / n)
    return np.asarray(candidates[order[np.minimum(place, _CANDIDATES - 1)]])


def _search(
    shared: _SharedGrid, first: Integers, level: Integers, intervals: int = _GRID_INTERVALS
) -> tuple[Floats, Floats]:
    """Find the part of the grid with posterior mass, for each observation.

    Args:
        first, level: the index of the first point of the grid to begin with, and its level, shape (n_observations,).
        intervals: the number of intervals of the final grids.

    Returns:
        The ends of the final grids, shape (n_observations, 2), and log densities, shape (n_observations, n_points).
    """
    level, last, everything = level.copy(), first + (1 << _FIRST_LEVEL), np.arange(len(first))
    first, unfinished = first.copy(), everything
    while len(unfinished):
        rows = shared.log_densities(unfinished, first[unfinished], last[unfinished], level[unfinished], _SEARCH_EFFORT)
        for i, row in zip(unfinished, rows, strict=True):
            (above,) = np.nonzero(row >= row.max() - _RELEVANT_NATS)
            last[i] = first[i] + min(above[-1] + 1, len(row) - 1)
            first[i] += max(above[0] - 1, 0)
        too_coarse = (last - first)[unfinished] < _MIN_RELEVANT_INTERVALS
        unfinished = unfinished[too_coarse & (level[unfinished] < _LAST_LEVEL)]
        finer = _halvings((last - first)[unfinished], 2 << _FIRST_LEVEL)
        level[unfinished] += finer
        first[unfinished] <<= finer
        last[unfinished] <<= finer
    finer = _halvings(last - first, intervals)
    level, first = level + finer, first << finer
    first = np.minimum(first, (1 << level) - intervals)
    last = first + intervals
    densities = np.array(shared.log_densities(everything, first, last, level, 1.0))
    return np.stack([shared.coordinate(end, level) for end in (first, last)], axis=1), densities


def _halvings(intervals: Integers, most: int) -> Integers:
    """Return how often each number of intervals can be doubled before it exceeds ``most``."""
    return np.asarray(np.floor(np.log2(most / intervals)), dtype=np.int64)


@dataclass(frozen=True)
class _SharedGrid:
    """Log posterior densities of several observations on parts of one grid."""

    observation: NoisySums
    law: ScalarLaw
    observed: Floats

    def coordinate(self, index: Integers, level: Integers) -> Floats:
        """Return the coordinates of grid points, given their indices and levels, elementwise."""
        low, high = self.law.prior_range
        return np.asarray(low + (high - low) * np.ldexp(index.astype(np.float64), -level))

    def log_densities(
        self, chosen: Integers, first: Integers, last: Integers, level: Integers, effort: float
    ) -> list[Floats]:
        """Return the unnormalized log densities of chosen observations, each from its first to its last grid point."""
        n_points = last - first + 1
        row = np.repeat(chosen, n_points)
        index = ranks_within(n_points) + np.repeat(first, n_points)
        finest = int(level.max())
        coordinates, point = np.unique(index << np.repeat(finest - level, n_points), return_inverse=True)
        points = self.coordinate(coordinates, np.full_like(coordinates, finest))[:, None]
        with np.errstate(all="ignore"):
            values = log_likelihoods(self.observation, self.law, self.observed, points, (point, row), effort)
            values = values + self.law.log_prior(points)[point]
        values = np.nan_to_num(values, nan=_IMPOSSIBLE, neginf=_IMPOSSIBLE, posinf=_IMPOSSIBLE)
        return np.split(values, np.cumsum(n_points)[:-1])


def _interpolate(law: ScalarLaw, ends: Floats, log_densities: Floats) -> GridDensity:
    """Return the densities on finer grids, by monotone cubics, which do not overshoot at kinks."""
    fine = np.linspace(0.0, 1.0, FINE_POINTS)
    coarse = np.linspace(0.0, 1.0, log_densities.shape[1])
    explained = log_densities.max(axis=1) > _IMPOSSIBLE
    if not explained.all():
        points = ends[~explained, :1] + (ends[~explained, 1:] - ends[~explained, :1]) * coarse
        log_densities[~explained] = law.log_prior(points[..., None])
    log_fine = PchipInterpolator(coarse, log_densities, axis=1)(fine)
    weights = np.exp(log_fine - log_fine.max(axis=1, keepdims=True))
    weights[:, [0, -1]] /= 2.0
    weights /= weights.sum(axis=1, keepdims=True)
    points = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * fine
    return GridDensity(law, points, weights, explained)


def scalar_posterior(observation: NoisySums, law: ScalarLaw, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the posterior of the one parameter given a noisy sum."""
    density = grid_density(observation, law, np.array([observation.observed], dtype=np.float64))
    weights, points = density.weights[0], density.grid[0][:, None]
    values = law.parameters(points)[:, 0]
    mean = float(weights @ values)
    variance = float(weights @ (values - mean) ** 2)
    n = float(observation.total.n)
    if observation.valid:
        n = max(observation.observed[-1] / observation.valid, 0.0)
        n = n if observation.total.kind == "unbounded" else min(n, float(observation.total.n))
    data = min(float(weights @ law.complete_data_sd(points, np.full(len(points), n))[:, 0] ** 2), variance)
    quantiles = density.quantiles(np.array(list(QUANTILES.values())))[0]
    marginal = Marginal(
        mean,
        variance**0.5,
        dict(zip(QUANTILES, map(float, quantiles), strict=True)),
        data**0.5,
        (variance - data) ** 0.5,
    )
    priors = {"known": "", "at-most": "; uniform prior on the number of valid records, 0 to n"}
    prior_on_count = priors.get(observation.total.kind, "; uniform prior on the number of valid records")
    prior_on_count = observation.total.prior_in_words or prior_on_count
    return Posterior(
        (marginal,),
        density.draw(n_draws, rng)[0][:, None],
        f"exact likelihood by inverting characteristic functions, on a grid over the parameter{prior_on_count}",
        exact=True,
        warnings=() if density.explained[0] else (_UNEXPLAINED,),
    )


def log_likelihoods(
    observation: NoisySums,
    law: ScalarLaw,
    observed: Floats,
    points: Floats,
    pairs: tuple[Integers, Integers],
    effort: float = 1.0,
) -> Floats:
    """Return log p(observed | theta) of pairs of a point and an observation, up to a constant, shape (n_pairs,).

    Args:
        observation: the noise and the record count; its observed values are not read.
        law: the law of a record.
        observed: noisy statistics, shape (n_observations, n_components).
        points: coordinates of parameters, shape (n_points, 1).
        pairs: the indices of the point and of the observation of each pair, shape (n_pairs,) each.
        effort: the share of the usual number of frequencies to use.
    """
    point, row = pairs
    if observation.total.kind == "known" and law.counts_all:
        n_records = np.full(len(points), float(observation.total.n))
        cases = points, np.arange(len(points)), n_records
        return _case_likelihoods(observation.noise, law, cases, effort, (point, observed[row, 0]))
    result, order = np.empty(len(point)), np.argsort(point, kind="stable")
    typical = moments_of_one(law, points, observation.noise)
    for start in range(0, len(point), _BATCH_PAIRS):
        batch = order[start : start + _BATCH_PAIRS]
        values = observed[row[batch]]
        numbers = numbers_of_records(observation, law, points[point[batch]], typical[point[batch]], values)
        result[batch] = _sum_over_numbers(observation, law, points, point[batch], values[:, 0], numbers, effort)
    return result


def _sum_over_numbers(
    observation: NoisySums,
    law: ScalarLaw,
    points: Floats,
    point: Integers,
    y: Floats,
    numbers: tuple[Floats, Floats],
    effort: float,
) -> Floats:
    """Return the log likelihoods of pairs of a point and an observed sum y, summed over weighted numbers of records.

    ``numbers`` are the numbers and their log weights, shape (n_pairs, n_nodes) each. A point and a number of records
    form a case, which is computed once even if several pairs need it.
    """
    n_records, log_terms = numbers
    (pair, _) = kept = np.nonzero(log_terms > -np.inf)
    order = np.lexsort((n_records[kept], point[pair]))
    of_point, of_number = point[pair][order], n_records[kept][order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(of_point) != 0) | (np.diff(of_number) != 0)
    case = np.empty(len(order), dtype=np.int64)
    case[order] = np.cumsum(new) - 1
    cases = points, of_point[new], of_number[new]
    log_terms[kept] += _case_likelihoods(observation.noise, law, cases, effort, (case, y[pair]))
    largest = log_terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(log_terms - largest[:, None]).sum(axis=1)))


def _case_likelihoods(
    noise: NoiseLaw,
    law: ScalarLaw,
    cases: tuple[Floats, Integers, Floats],
    effort: float,
    pairs: tuple[Integers, Floats],
) -> Floats:
    """Return the log likelihoods of observed sums, shape (n_pairs,); cases with similar record counts share a table.

    ``cases`` holds the points, shape (n_points, 1), the index of the point of each case, and the number of records of
    each case. ``pairs`` holds the index of the case of each observed sum, and the observed sums.
    """
    points, of_point, n_records = cases
    case, y = pairs
    result = np.empty(len(case))
    octave = np.floor(np.log2(np.maximum(n_records, 1.0)))
    for value in np.unique(octave):
        similar = octave == value
        within = similar[case]
        if within.any():
            frequencies = round(frequencies_for(float(n_records[similar].min())) * effort)
            occurs, index_of_point = reindex(of_point[similar], len(points))
            table = SumTable(noise, law, points[occurs], index_of_point, n_records[similar], frequencies)
            result[within] = table.log_likelihoods((np.cumsum(similar) - 1)[case[within]], y[within])
    return result
