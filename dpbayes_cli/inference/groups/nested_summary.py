"""Summarize the posteriors of groups that belong to parents, and of the parents' means.

All moments are averages over draws of the hyperparameters of exact moments given these, with the parents' means summed
out on their grid (``nested``). Quantiles of groups are those of Beta laws with the same mean and standard deviation,
corrected by distribution functions for about 12 draws of the hyperparameters (``pair_summary``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from dpbayes_cli.inference.groups.count_tables import beta_cdf_tables
from dpbayes_cli.inference.groups.grouped_posterior import (
    LEVELS,
    GroupedPosterior,
    ParentSummary,
)
from dpbayes_cli.inference.groups.pair_summary import (
    DistributionFunctions,
    PairSummary,
    moments_by_value,
    quantile_places,
    summarize_rows,
)

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.nested import NestedGroups

_DRAWS, _GRID_DRAWS, _GRID_POINTS = 96, 12, 12
_FEW_ESS = 100.0
_CHUNK = 1 << 16


def nested_posterior(groups: NestedGroups, samples: int, rng: np.random.Generator) -> GroupedPosterior:
    """Return the posterior of groups that belong to parents; see ``infer_groups``."""
    points = groups.hyperparameters.thin(_DRAWS, rng)
    summary, parents = summarize_nested(groups, points)
    drawn = groups.hyperparameters.resample(samples, rng)
    phi, nu, kappa = expit(drawn[:, 0]), np.exp(-drawn[:, 1]), np.exp(-drawn[:, 2])
    spread = np.sqrt(phi * (1.0 - phi))
    columns = (phi, spread / np.sqrt(1.0 + kappa), spread / np.sqrt(1.0 + nu), np.exp(drawn[:, 3]))
    parent = np.clip(rng.beta(phi * nu, (1.0 - phi) * nu), 1e-12, 1.0 - 1e-12)
    ess = groups.hyperparameters.ess
    return GroupedPosterior(
        means=summary.means[:, None],
        sds=summary.sds[:, None],
        quantiles=summary.quantiles[:, None],
        sizes=summary.sizes,
        above=summary.above[:, None],
        hyperparameters=("mean", "sd", "sd parents", "records"),
        draws=np.stack(columns, axis=1),
        new_group=rng.beta(parent * kappa, (1.0 - parent) * kappa)[:, None],
        method="each group's latent counts and each parent's mean are summed out given the common mean, the spreads of "
        "parents and groups and a learned law of group sizes; these hyperparameters are drawn with importance weights",
        monte_carlo=summary.monte_carlo,
        sampler=lambda size, generator: groups.draw(size, generator)[1][:, :, None],
        warnings=() if ess >= _FEW_ESS else (f"the draws of the hyperparameters are worth {ess:.0f} independent ones",),
        parents=parents,
    )


def summarize_nested(groups: NestedGroups, points: Floats) -> tuple[PairSummary, ParentSummary]:
    """Return summaries of all groups and of their parents, for equally probable hyperparameters, shape (n, 5)."""
    rows, mass = _moments(groups, points)
    few = points[:: max(1, len(points) // _GRID_DRAWS)]
    places = quantile_places(rows)
    places = places[:: max(1, len(places) // _GRID_POINTS)]
    functions = DistributionFunctions(_moments(groups, few)[0], places, _cdf(groups, few, expit(places)))
    return summarize_rows(rows, len(points), expit(points[:, 0]), functions), _parent_summary(groups, mass)


def _moments(groups: NestedGroups, points: Floats) -> tuple[Floats, Floats]:
    """Return the moments of the groups, shape (5, n_groups), and the posterior of the parents' means on the grid."""
    rows = np.zeros((5, len(groups.parents)))
    mass = np.zeros((len(groups.grid.fine), int(groups.parents.max()) + 1))
    for point in points:
        weights = groups.parent_weights(point)
        mass += weights / len(points)
        law = groups.law_at_nodes(point)
        for members, pairs in zip(groups.blocks.members, groups.blocks.pairs, strict=True):
            parts = [moments_by_value(pairs, law.part(part)) for part in pairs.batches(law)]
            found = _averages(groups, weights, members, np.concatenate(parts, axis=1), pairs.pair_of)
            theta, square, size, size_square = found
            rows[:, members] += np.stack([theta, square, theta**2, size, size_square])
    return rows / len(points), mass


def _cdf(groups: NestedGroups, points: Floats, thresholds: Floats) -> Floats:
    """Return the probabilities of the groups' success probabilities below thresholds, (n_thresholds, n_groups)."""
    result = np.zeros((len(thresholds), len(groups.parents)))
    for point in points:
        weights, law = groups.parent_weights(point), groups.law_at_nodes(point)
        for members, pairs in zip(groups.blocks.members, groups.blocks.pairs, strict=True):
            s, f = pairs.successes.nodes, pairs.failures.nodes
            below = np.empty((len(thresholds), len(law), len(pairs.numbers)))
            for t in range(len(law)):
                table, _ = pairs.grid.tables(law.part(slice(t, t + 1)))
                total = np.maximum(pairs.sums(table)[0], 1e-280)
                for i, threshold in enumerate(thresholds):
                    beta = beta_cdf_tables(np.array([threshold]), float(law.a[t]), float(law.b[t]), s, f)
                    below[i, t] = np.clip(pairs.sums(table * beta)[0] / total, 0.0, 1.0)
            result[:, members] += _averages(groups, weights, members, below, pairs.pair_of)
    return np.asarray(np.clip(result / len(points), 0.0, 1.0))


def _averages(groups: NestedGroups, weights: Floats, members: Integers, by_pair: Floats, pair_of: Integers) -> Floats:
    """Return averages over the parents' means of values at nodes by pair, shape (n_values, n_members)."""
    at_nodes = weights.T @ groups.grid.basis
    result = np.empty((len(by_pair), len(members)))
    for start in range(0, len(members), _CHUNK):
        chosen = slice(start, start + _CHUNK)
        own = at_nodes[groups.parents[members[chosen]]]
        for k, values in enumerate(by_pair):
            result[k, chosen] = np.einsum("gt,tg->g", own, values[:, pair_of[chosen]])
    return result


def _parent_summary(groups: NestedGroups, mass: Floats) -> ParentSummary:
    """Return the summaries of the parents' means, given their posteriors on the fine grid, shape (n_fine, n)."""
    fine = groups.grid.fine
    means = expit(fine) @ mass
    sds = np.sqrt(np.maximum(expit(fine) ** 2 @ mass - means**2, 0.0))
    ends = np.append(fine, 2.0 * fine[-1] - fine[-2]) - (fine[1] - fine[0]) / 2.0
    cumulated = np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])
    quantiles = np.stack([np.interp(LEVELS, column, ends) for column in cumulated.T])
    return ParentSummary(means[:, None], sds[:, None], expit(quantiles)[:, None])
