"""Summarize the posteriors of groups within larger groups, and of the means of the larger groups.

All moments are averages over draws of the hyperparameters of moments given these, in which the means of the larger
groups are summed out on their grid (``nested``). Quantiles of groups are those of Beta laws with the same mean and
standard deviation, corrected by distribution functions for a few draws of the hyperparameters (``pair_summary``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from dpbayes_cli.inference.groups.count_tables import beta_cdf_tables
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS, LargerSummary
from dpbayes_cli.inference.groups.pair_summary import (
    DistributionFunctions,
    PairSummary,
    moments_by_value,
    quantile_places,
    summarize_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.count_tables import CountLaw
    from dpbayes_cli.inference.groups.nested import LocationGrid, NestedSample
    from dpbayes_cli.inference.groups.nested_counts import NestedCounts

_FIRST_DRAWS, _MOST_DRAWS, _GRID_DRAWS = 16, 64, 4
_MONTE_CARLO = 0.03
_LEAST_WEIGHT = 1e-5
_CHUNK = 1 << 16


def summarize_nested(
    groups: NestedCounts, sample: NestedSample, rng: np.random.Generator
) -> tuple[PairSummary, LargerSummary]:
    """Return summaries of all groups and of the means of the larger groups."""
    points = rng.permutation(sample.points.thin(_MOST_DRAWS, rng))
    weights = [sample.location_weights(point) for point in points]
    rows, n_draws = _moments(groups, points[:_FIRST_DRAWS], weights), _FIRST_DRAWS
    few = _moments(groups, points[:_GRID_DRAWS], weights)
    spread = np.sqrt(np.maximum(rows[2] - rows[0] ** 2, 0.0) / np.maximum(rows[1] - rows[0] ** 2, 1e-30)).max()
    if (more := min(_MOST_DRAWS, int((spread / _MONTE_CARLO) ** 2)) - n_draws) > 0:
        rest = slice(n_draws, n_draws + more)
        rows = (rows * n_draws + _moments(groups, points[rest], weights[rest]) * more) / (n_draws + more)
        n_draws += more
    places = quantile_places(rows)
    functions = DistributionFunctions(few, places, _cdf(groups, points[:_GRID_DRAWS], weights, expit(places)))
    summary = summarize_rows(rows, n_draws, expit(points[:_FIRST_DRAWS, 0]), functions)
    return summary, summarize_locations(groups.grid, weights, expit, points[:, 0])


def summarize_locations(
    grid: LocationGrid, weights: list[Floats], parameter: Callable[[Floats], Floats], overall: Floats
) -> LargerSummary:
    """Return the summaries of the parameters at the locations of larger groups.

    Args:
        grid: the grid of locations.
        weights: the posteriors of the locations for some draws of the hyperparameters, each (n_fine, n_larger).
        parameter: the increasing function from locations to parameters.
        overall: the location of the mean over all larger groups in these draws, shape (n_draws,).
    """
    mass, values = np.mean(weights, axis=0), parameter(grid.fine)
    means = values @ mass
    sds = np.sqrt(np.maximum(values**2 @ mass - means**2, 0.0))
    below = np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])
    quantiles = np.stack([np.interp(LEVELS, column, grid.edges) for column in below.T])
    beyond = np.clip((grid.edges[1:] - overall[:, None]) / np.diff(grid.edges), 0.0, 1.0)
    above = np.mean([share @ each for share, each in zip(beyond, weights, strict=True)], axis=0)
    return LargerSummary(means[:, None], sds[:, None], parameter(quantiles)[:, None], above[:, None])


def _moments(groups: NestedCounts, points: Floats, weights: list[Floats]) -> Floats:
    """Return the moments of the groups, shape (5, n_groups); see ``summarize_rows``."""
    rows = np.zeros((5, len(groups.parents)))
    for point, weight in zip(points, weights, strict=False):
        law, at_nodes = _laws(groups, point, weight)
        for members, pairs in zip(groups.blocks.members, groups.blocks.pairs, strict=True):
            parts = [moments_by_value(pairs, law.part(part)) for part in pairs.batches(law)]
            by_pair = np.concatenate(parts, axis=1)
            theta, square, size, size_square = _averages(at_nodes[groups.parents[members]], by_pair, pairs.pair_of)
            theta, square = np.clip(theta, 0.0, 1.0), np.clip(square, 0.0, 1.0)
            rows[:, members] += np.stack([theta, square, theta**2, size, size_square])
    return rows / len(points)


def _cdf(groups: NestedCounts, points: Floats, weights: list[Floats], thresholds: Floats) -> Floats:
    """Return the probabilities of the groups' success probabilities below thresholds, (n_thresholds, n_groups)."""
    result = np.zeros((len(thresholds), len(groups.parents)))
    for point, weight in zip(points, weights, strict=False):
        law, at_nodes = _laws(groups, point, weight)
        for members, pairs in zip(groups.blocks.members, groups.blocks.pairs, strict=True):
            s, f = pairs.successes.nodes, pairs.failures.nodes
            below = np.empty((len(thresholds), len(law), len(pairs.numbers)))
            for t in range(len(law)):
                table, _ = pairs.grid.tables(law.part(slice(t, t + 1)))
                total = np.maximum(pairs.sums(table)[0], 1e-280)
                tables = table * beta_cdf_tables(thresholds, float(law.a[t]), float(law.b[t]), s, f)
                below[:, t] = np.clip(pairs.sums(tables) / total, 0.0, 1.0)
            result[:, members] += _averages(at_nodes[groups.parents[members]], below, pairs.pair_of)
    return np.asarray(np.clip(result / len(points), 0.0, 1.0))


def _laws(groups: NestedCounts, point: Floats, weights: Floats) -> tuple[CountLaw, Floats]:
    """Return the laws of counts at the nodes that matter, and the weights of these nodes, shape (n_larger, n_nodes)."""
    at_nodes = np.asarray((groups.grid.basis.T @ weights).T)
    used = np.abs(at_nodes).max(axis=0) > _LEAST_WEIGHT
    return groups.law_at(groups.grid.nodes[used], point[groups.n_upper :]), at_nodes[:, used]


def _averages(weights: Floats, by_pair: Floats, pair_of: Integers) -> Floats:
    """Return weighted sums over the nodes for each group of a block, shape (n_values, n_members).

    Args:
        weights: shape (n_members, n_nodes).
        by_pair: values at the nodes, shape (n_values, n_nodes, n_pairs).
        pair_of: the pair of each group of the block.
    """
    result = np.empty((len(by_pair), len(pair_of)))
    for start in range(0, len(pair_of), _CHUNK):
        chosen = slice(start, start + _CHUNK)
        for k, values in enumerate(by_pair):
            result[k, chosen] = np.einsum("gt,tg->g", weights[chosen], values[:, pair_of[chosen]])
    return result
