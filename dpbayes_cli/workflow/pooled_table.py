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
from dpbayes_cli.workflow.table_cells import TableCells
from dpbayes_cli.workflow.table_quantities import NamedQuantity

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
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
        SpecError: the cells of the quantity do not have the same noise, or something else is known about them.
    """
    quantity, noisy = named.quantity, cells.noisy
    order = quantity.cells[np.argsort(quantity.slots, kind="stable")]
    try:
        if len(order) != quantity.n_groups * quantity.n_terms:
            raise ValueError("each of its counts must be one cell of the table")
        if np.isin(order, quantity.links.cells()).any() or np.isfinite(noisy.suppressed_below[order]).any():
            raise ValueError("its columns cannot have known totals or suppressed_below")
        law = _noise(cells, order)
    except ValueError as error:
        raise SpecError(f"partial pooling: {error}", where=f"infer: {named.name}", hint="pooling: none") from None
    observed = np.rint(noisy.observed[order]).astype(np.int64).reshape(quantity.n_groups, quantity.n_terms)
    outcome = GroupedCounts((1.0,) * quantity.n_terms)
    posterior = infer_groups(NoisyGroups(outcome, observed, law), "partial", samples, rng)
    names = [_named(name, named.results) for name in posterior.hyperparameters]
    shared = zip(names, posterior.draws.T, strict=True)
    hyperparameters = {name: _four(draws, level) for name, draws in shared}
    summary = _summary(posterior, len(named.results), samples, level, rng)
    return PooledQuantity(summary, hyperparameters, posterior.method, posterior.warnings)


def _noise(cells: TableCells, order: np.ndarray) -> NoiseLaw:
    """Return the law of the noise that all these cells have; raise ``ValueError`` if they differ."""
    columns = {cells.spec.counts[cell // cells.n_rows] for cell in order.tolist()}
    laws = {cells.spec.noise_at(column).law for column in columns}
    scales = np.unique(cells.noisy.scale[order])
    if len(laws) > 1 or len(scales) > 1:
        raise ValueError("all its cells must have the same law and scale of noise")
    (law,) = laws
    if law not in _INTEGER_LAWS:
        raise ValueError(f"its noise must be one of {', '.join(_INTEGER_LAWS)}")
    return noise_law_type(_INTEGER_LAWS[law]).parse(float(scales[0]), {})


def _named(name: str, categories: tuple[str, ...]) -> str:
    """Return the name of a hyperparameter, with the category in place of its index."""
    word, _, index = name.partition(" ")
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
