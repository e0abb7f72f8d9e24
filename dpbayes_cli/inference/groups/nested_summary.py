"""Summarize the posteriors of groups that belong to parents, and of the parents' means.

All moments are averages over draws of the hyperparameters of exact moments given these, with the parents' means summed
out on their grid (``nested``). Quantiles of groups are those of Beta laws with the same mean and standard deviation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from dpbayes_cli.inference.groups.grouped_posterior import (
    LEVELS,
    GroupedPosterior,
    ParentSummary,
)
from dpbayes_cli.inference.groups.pair_summary import PairSummary, moments_by_value, summarize_rows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.inference.groups.nested import NestedGroups

_DRAWS = 96
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
    rows = np.zeros((5, len(groups.parents)))
    mass = np.zeros((len(groups.grid.fine), int(groups.parents.max()) + 1))
    for point in points:
        weights = groups.parent_weights(point)
        mass += weights / len(points)
        at_nodes = weights.T @ groups.grid.basis
        law = groups.law_at_nodes(point)
        for members, pairs in zip(groups.blocks.members, groups.blocks.pairs, strict=True):
            parts = [moments_by_value(pairs, law.part(part)) for part in pairs.batches(law)]
            by_pair = np.concatenate(parts, axis=1)
            for start in range(0, len(members), _CHUNK):
                chosen = slice(start, start + _CHUNK)
                own = at_nodes[groups.parents[members[chosen]]]
                found = np.einsum("gt,ktg->kg", own, by_pair[:, :, pairs.pair_of[chosen]])
                theta, square, size, size_square = found
                rows[:, members[chosen]] += np.stack([theta, square, theta**2, size, size_square])
    summary = summarize_rows(rows / len(points), len(points), expit(points[:, 0]))
    return summary, _parent_summary(groups, mass)


def _parent_summary(groups: NestedGroups, mass: Floats) -> ParentSummary:
    """Return the summaries of the parents' means, given their posteriors on the fine grid, shape (n_fine, n)."""
    fine = groups.grid.fine
    means = expit(fine) @ mass
    sds = np.sqrt(np.maximum(expit(fine) ** 2 @ mass - means**2, 0.0))
    ends = np.append(fine, 2.0 * fine[-1] - fine[-2]) - (fine[1] - fine[0]) / 2.0
    cumulated = np.concatenate([np.zeros((1, mass.shape[1])), np.cumsum(mass, axis=0)])
    quantiles = np.stack([np.interp(LEVELS, column, ends) for column in cumulated.T])
    return ParentSummary(means[:, None], sds[:, None], expit(quantiles)[:, None])
