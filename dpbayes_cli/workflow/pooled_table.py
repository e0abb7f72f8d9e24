"""Partially pooled rates and shares of a published table, by the inference of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.inference.cells.quantities import Summary
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS, GroupedPosterior
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.rates_with_noises import infer_rates_with_noises
from dpbayes_cli.workflow.table_cells import TableCells
from dpbayes_cli.workflow.table_quantities import NamedQuantity

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.privacy.noise import NoiseLaw

_MAX_DRAWN = 1 << 26
_INTEGER_LAWS = {
    "discrete-laplace": "discrete-laplace",
    "discrete-gaussian": "discrete-gaussian",
    "gaussian": "rounded-gaussian",
}
"""The laws of releases by the laws of tables; a rounded count with Gaussian noise has rounded Gaussian noise."""


@dataclass(frozen=True)
class PooledQuantity:
    """The posterior of a pooled quantity.

    Attributes:
        summary: the posteriors of the groups.
        hyperparameters: mean, sd and the ends of the interval of what the groups have in common, by name.
        method: how the posterior was computed.
        warnings: what a reader must know.
    """

    summary: Summary
    hyperparameters: dict[str, tuple[float, float, float, float]]
    method: str
    warnings: tuple[str, ...]


def infer_pooled(
    cells: TableCells, named: NamedQuantity, samples: int, level: float, rng: np.random.Generator
) -> PooledQuantity:
    """Return the posterior of a rate or share whose groups have similar probabilities.

    Raises:
        SpecError: the noise of the cells does not allow it, or something else is known about them.
    """
    quantity, noisy = named.quantity, cells.noisy
    order = quantity.cells[np.argsort(quantity.slots, kind="stable")]
    try:
        if len(order) != quantity.n_groups * quantity.n_terms:
            raise ValueError("each of its counts must be a single cell of the table")
        if np.isin(order, quantity.links.cells()).any() or np.isfinite(noisy.suppressed_below[order]).any():
            raise ValueError("its columns cannot have known totals or suppressed_below")
        posterior = _infer(cells, order.reshape(quantity.n_groups, quantity.n_terms), samples, rng)
    except ValueError as error:
        raise SpecError(f"partial pooling: {error}", where=f"infer: {named.name}", hint="pooling: none") from None
    names = [_named(name, named.results) for name in posterior.hyperparameters]
    shared = zip(names, posterior.draws.T, strict=True)
    hyperparameters = {name: _four(draws, level) for name, draws in shared}
    summary = _summary(posterior, len(named.results), samples, level, rng)
    return PooledQuantity(summary, hyperparameters, posterior.method, posterior.warnings)


def _infer(cells: TableCells, index: Integers, samples: int, rng: np.random.Generator) -> GroupedPosterior:
    """Return the posterior of groups, a row of cells each; raise ``ValueError`` if their noise does not allow it."""
    observed = np.rint(cells.noisy.observed[index]).astype(np.int64)
    kinds = np.stack([index // cells.n_rows, cells.noisy.scale[index]], axis=-1)
    kinds, kind_of = np.unique(kinds.reshape(len(index), -1), axis=0, return_inverse=True)
    laws = [[_law(cells, int(column), scale) for column, scale in kind.reshape(-1, 2)] for kind in kinds]
    if index.shape[1] == 2:
        return infer_rates_with_noises(observed, [(s, f) for s, f in laws], kind_of.ravel(), samples, rng)
    if len({law for kind in laws for law in kind}) > 1:
        raise ValueError("with three or more categories, all cells must have the same law and scale of noise")
    outcome = GroupedCounts((1.0,) * index.shape[1])
    return infer_groups(NoisyGroups(outcome, observed, laws[0][0]), "partial", samples, rng)


def _law(cells: TableCells, column: int, scale: float) -> NoiseLaw:
    law = cells.spec.noise_at(cells.spec.counts[column]).law
    if law not in _INTEGER_LAWS:
        raise ValueError(f"its noise must be one of {', '.join(_INTEGER_LAWS)}")
    return noise_law_type(_INTEGER_LAWS[law]).parse(scale, {})


def _named(name: str, categories: tuple[str, ...]) -> str:
    """Return the name of a hyperparameter, with the category in place of its index."""
    word, _, index = name.partition(" ")
    if len(categories) == 2 and word != "records":
        index = "0"  # the only parameter is the probability of the first category
    return f"{word} {categories[int(index)]}" if index else word


def _four(draws: Floats, level: float) -> tuple[float, float, float, float]:
    low, high = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(draws.mean()), float(draws.std()), float(low), float(high)


def _summary(
    posterior: GroupedPosterior, n_results: int, samples: int, level: float, rng: np.random.Generator
) -> Summary:
    """Return the posteriors of the groups; with two categories, the second is the complement of the first."""
    mean, sd = posterior.means, posterior.sds
    if np.isclose(level, LEVELS[-1] - LEVELS[0]):
        low, high = posterior.quantiles[..., 0], posterior.quantiles[..., -1]
    else:
        draws = posterior.draw(max(100, min(samples, _MAX_DRAWN // mean.size)), rng)
        low, high = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    if mean.shape[1] == 1 and n_results == 2:
        mean, sd = np.hstack([mean, 1.0 - mean]), np.hstack([sd, sd])
        low, high = np.hstack([low, 1.0 - high]), np.hstack([high, 1.0 - low])
    return Summary(mean, sd, low, high, is_exact=False)
