"""Posteriors of quantities of a table: counts, sums, differences, rates and shares, for each group of rows.

A quantity is a function of sums of cells, its terms. A probability of a category has a flat prior, independent of other
groups; given the counts c_1..c_K of the categories, the probabilities are Dirichlet(1 + c_1, ..., 1 + c_K).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.cells.count_lattices import NoisyCells, lattices
from dpbayes_cli.inference.cells.draw_cells import Links, draw_cells

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_NUMBERS = 1 << 24
_STRATA = 20
"""The number of values of an uncertain exponent for which draws are made."""

Transform = Callable[["Floats", np.random.Generator], "Floats"]
"""A function from draws of terms, shape (n, n_groups, n_terms), to draws of results, shape (n, n_groups, n_results)."""


def unchanged(terms: Floats, _rng: np.random.Generator) -> Floats:
    """Return the terms themselves."""
    return terms


def difference(terms: Floats, _rng: np.random.Generator) -> Floats:
    """Return the first term less the second."""
    return terms[..., :1] - terms[..., 1:]


def proportions(counts: Floats, _rng: np.random.Generator) -> Floats:
    """Return the shares of counts in their sum; NaN if the sum is 0."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, counts / np.maximum(total, 1), np.nan))


def probabilities(counts: Floats, rng: np.random.Generator) -> Floats:
    """Draw the probabilities of categories given their counts, under a flat prior."""
    gammas = rng.standard_gamma(counts + 1.0)
    return np.asarray(gammas / gammas.sum(axis=-1, keepdims=True))


def rate(shares: Transform, *, of_whole: bool) -> Transform:
    """Return a transform whose only result is the share of the first term.

    Args:
        shares: ``proportions`` or ``probabilities``.
        of_whole: whether the second term is the whole, and not the rest.
    """

    def transform(terms: Floats, rng: np.random.Generator) -> Floats:
        rest = terms[..., 1:] - terms[..., :1] if of_whole else terms[..., 1:]
        return shares(np.concatenate([terms[..., :1], rest], axis=-1), rng)[..., :1]

    return transform


@dataclass(frozen=True, eq=False)
class Quantity:
    """A quantity of a table, for each group.

    Attributes:
        transform: the function of the terms.
        n_groups: the number of groups.
        n_terms: the number of terms that the function takes for each group.
        cells: the cells that the terms add up, shape (n_entries,).
        slots: for each of them, group * n_terms + term, shape (n_entries,).
        links: the exact constraints between the cells.
    """

    transform: Transform
    n_groups: int
    n_terms: int
    cells: Integers
    slots: Integers
    links: Links


@dataclass(frozen=True, eq=False)
class Summary:
    """The posterior of a quantity; arrays of shape (n_groups, n_results).

    Attributes:
        mean, sd: posterior mean and standard deviation.
        low, high: the ends of the central interval.
        is_exact: whether nothing was sampled.
    """

    mean: Floats
    sd: Floats
    low: Floats
    high: Floats
    is_exact: bool


def summarize(cells: NoisyCells, quantity: Quantity, samples: int, level: float, rng: np.random.Generator) -> Summary:
    """Return the posterior of a quantity: exactly for single counts, otherwise from independent draws.

    Args:
        samples: the number of draws.
        level: the probability of the intervals.
    """
    tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    is_linked = np.isin(quantity.cells, quantity.links.cells()).any()
    if quantity.transform is unchanged and not is_linked and len(quantity.cells) == quantity.n_groups:
        return _exact_counts(cells, quantity, tails)
    parts = [_summary(draws, tails) for draws in draw_quantity(cells, quantity, samples, rng)]
    mean, sd, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Summary(mean, sd, low, high, is_exact=False)


def draw_quantity(cells: NoisyCells, quantity: Quantity, size: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield draws of a quantity for consecutive groups, shape (size, n_groups_of_the_part, n_results)."""
    from scipy.sparse import csr_matrix

    strata = [*_strata(cells, quantity, size, rng)]
    order = np.argsort(quantity.slots, kind="stable")
    slots, members = quantity.slots[order], quantity.cells[order]
    n_groups = max(1, _MAX_NUMBERS // (size * quantity.n_terms))
    for start in range(0, quantity.n_groups, n_groups):
        stop = min(start + n_groups, quantity.n_groups)
        first, last = np.searchsorted(slots, [start * quantity.n_terms, stop * quantity.n_terms])
        index, position = np.unique(members[first:last], return_inverse=True)
        width = (stop - start) * quantity.n_terms
        entries = (np.ones(last - first), (position, slots[first:last] - start * quantity.n_terms))
        sums = csr_matrix(entries, shape=(len(index), width))
        terms = np.zeros((size, width))
        for part in _parts(index, quantity.links, max(1, _MAX_NUMBERS // size)):
            for draws, conditions in strata:
                terms[draws] += (
                    draw_cells(conditions, quantity.links, index[part], draws.stop - draws.start, rng) @ sums[part]
                )
        yield quantity.transform(terms.reshape(size, stop - start, quantity.n_terms), rng)


def _strata(
    cells: NoisyCells, quantity: Quantity, size: int, rng: np.random.Generator
) -> Iterator[tuple[slice, NoisyCells]]:
    """Yield consecutive draws with the cells, given a value of each uncertain exponent, which all cells share."""
    if (cells.prior[quantity.cells] < 0).all():
        yield slice(0, size), cells
        return
    levels = [(rng.permutation(_STRATA) + rng.random(_STRATA)) / _STRATA for _ in cells.priors]
    ends = np.linspace(0, size, _STRATA + 1).astype(int).tolist()
    for k, (start, stop) in enumerate(pairwise(ends)):
        priors = tuple(prior.at(level[k]) for prior, level in zip(cells.priors, levels, strict=True))
        yield slice(start, stop), replace(cells, priors=priors)


def _parts(index: Integers, links: Links, most: int) -> Iterator[Integers]:
    """Yield the positions of cells in parts of about ``most`` cells that separate no linked cells."""
    unit = index.copy()
    for each in links.totals:
        unit[np.isin(index, each.cells)] = each.cells[0]
    whole_of = dict(zip(links.wholes.tolist(), links.parts.tolist(), strict=True))
    if whole_of:
        unit = np.array([whole_of.get(each, each) for each in unit.tolist()])
    order = np.argsort(unit, kind="stable")
    start = 0
    while start < len(order):
        last = unit[order[min(start + most, len(order)) - 1]]
        stop = int(np.searchsorted(unit[order], last, side="right"))
        yield order[start:stop]
        start = stop


def _exact_counts(cells: NoisyCells, quantity: Quantity, tails: tuple[float, float]) -> Summary:
    index = quantity.cells[np.argsort(quantity.slots, kind="stable")]
    result = np.empty((4, len(index)))
    for batch in cells.batches(index):
        each = lattices(cells, index[batch])
        result[:, batch] = [*each.moments(), each.quantile(tails[0]), each.quantile(tails[1])]
    mean, sd, low, high = result[:, :, None]
    return Summary(mean, sd, low, high, is_exact=True)


def _summary(draws: Floats, tails: tuple[float, float]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return mean, sd and the ends of the interval; draws that are NaN are left out."""
    if not np.isnan(draws).any():
        low, high = np.quantile(draws, tails, axis=0, method="inverted_cdf")
        return draws.mean(axis=0), draws.std(axis=0), low, high
    defined = np.ma.masked_invalid(draws)
    low, high = np.nanquantile(np.where(np.isnan(draws).all(axis=0), 0.0, draws), tails, axis=0, method="inverted_cdf")
    empty = np.isnan(draws).all(axis=0)
    mean, sd = (np.ma.filled(each, np.nan) for each in (defined.mean(axis=0), defined.std(axis=0)))
    return mean, sd, np.where(empty, np.nan, low), np.where(empty, np.nan, high)
