"""Draw the counts of a table from their joint posterior, given exact totals, and parts that cannot exceed their whole.

Counts are independent a posteriori, except those that share a known total, and the two counts of a part and its whole.
All draws are independent, and exact up to the resolution of the lattices; no Markov chain is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.inference.cells.count_lattices import NoisyCells, lattices, log_masses
from dpbayes_cli.inference.counts.independent_draws import find_tilt
from dpbayes_cli.inference.counts.integer_laws import draw_given_totals, suffix_sums, tilt_law

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers

_LEAST_DRAWS = 100
_WIDENINGS = (1, 4, 16)
_MAX_PRODUCTS = 2e10
"""The largest product of the number of draws and the number of counts in all windows of a known total; this many take
some minutes."""


@dataclass(frozen=True, eq=False)
class KnownTotal:
    """An exact total of some cells.

    Attributes:
        cells: the indices of the cells.
        total: the sum of their counts.
        name: words that name the total in messages.
    """

    cells: Integers
    total: int
    name: str


@dataclass(frozen=True, eq=False)
class Links:
    """Known totals, and parts of a whole: exact constraints between counts. Every cell is in at most one.

    Attributes:
        totals: the known totals.
        parts: the cells that cannot exceed another cell, shape (n_pairs,).
        wholes: these other cells, shape (n_pairs,).
    """

    totals: tuple[KnownTotal, ...]
    parts: Integers
    wholes: Integers

    def cells(self) -> Integers:
        """Return the cells that are linked with others."""
        return np.concatenate([*(each.cells for each in self.totals), self.parts, self.wholes]).astype(np.int64)


def draw_cells(cells: NoisyCells, links: Links, index: Integers, size: int, rng: np.random.Generator) -> Integers:
    """Draw the counts of some cells, shape (size, len(index)).

    Raises:
        SourceError: noise of the stated law cannot explain the noisy counts and what is known exactly.
    """
    column = np.full(len(cells.observed), -1)
    column[index] = np.arange(len(index))
    counts = np.empty((size, len(index)), dtype=np.int64)

    def keep(drawn_cells: Integers, drawn: Integers) -> None:
        wanted = column[drawn_cells] >= 0
        counts[:, column[drawn_cells][wanted]] = drawn[:, wanted]

    is_linked = np.zeros(len(column), dtype=bool)
    is_linked[links.cells()] = True
    single = index[~is_linked[index]]
    for batch in cells.batches(single):
        keep(single[batch], lattices(cells, single[batch]).draw(size, rng))
    for total in links.totals:
        if (column[total.cells] >= 0).any():
            keep(total.cells, _draw_given_total(cells, total, size, rng))
    (wanted,) = np.nonzero((column[links.parts] >= 0) | (column[links.wholes] >= 0))
    for k in wanted:
        pair = np.array([links.parts[k], links.wholes[k]])
        keep(pair, _draw_pair(cells, pair, size, rng))
    return counts


def _draw_given_total(cells: NoisyCells, known: KnownTotal, size: int, rng: np.random.Generator) -> Integers:
    """Draw the counts of a known total, by forward filtering and backward sampling on tilted laws."""
    index = known.cells
    for widening in _WIDENINGS:
        low, high = cells.windows(index, widening)
        if cells.non_negative:
            high = np.minimum(high, known.total)
            low = np.minimum(low, high)
        if not low.sum() <= known.total <= high.sum():
            continue
        if (affordable := int(_MAX_PRODUCTS / (high - low + 1).sum())) < size:
            raise SourceError(
                f"the noise is too wide for {size:,} draws given {known.name}",
                hint=f"--samples {affordable}" if affordable >= _LEAST_DRAWS else "leave the total out",
            )
        _, log_mass = log_masses(cells, index, (low, high), np.ones(len(index), dtype=np.int64))
        logs = [row[: width + 1] for row, width in zip(log_mass, high - low, strict=True)]
        tilt = find_tilt(logs, low, known.total)
        laws = [tilt_law(log, int(first), tilt) for log, first in zip(logs, low, strict=True)]
        suffixes = suffix_sums(laws)
        if not suffixes[0].low <= known.total < suffixes[0].low + len(suffixes[0].mass):
            continue
        counts = draw_given_totals(laws, suffixes, np.full(size, known.total), rng)
        is_cut = (high > low) & ((low > 0) | (not cells.non_negative)), (high > low) & (high < known.total)
        if not ((counts == low) & is_cut[0]).any() and not ((counts == high) & is_cut[1]).any():
            return counts
    raise SourceError(
        f"noise of the stated law cannot explain how far the noisy counts are from {known.name}, {known.total}",
        hint="check the law and the scale of the noise, and the known total",
    )


def _draw_pair(cells: NoisyCells, pair: Integers, size: int, rng: np.random.Generator) -> Integers:
    """Draw the counts of a part and its whole, shape (size, 2)."""
    (low_part, low), (high_part, high) = cells.windows(pair)
    step = np.full(2, cells.steps(pair).max() if (cells.law[pair] >= 0).all() else 1)
    window = np.array([min(low_part, low), low]), np.array([high_part, max(high, high_part)])
    first, log_mass = log_masses(cells, pair, window, step)
    part, whole = np.exp(log_mass)
    # the whole in the same point of the lattice as the part is at least as large in (step + 1) / (2 step) of the cases
    same_share = (step[0] + 1.0) / (2.0 * step[0])
    from_top = np.concatenate([[0.0], np.cumsum(whole[::-1])])
    offset = int(first[0] - first[1]) // int(step[0])
    same = np.arange(len(part)) + offset
    above = from_top[np.clip(len(whole) - 1 - same, 0, len(whole))]
    inside = (same >= 0) & (same < len(whole))
    room = above + same_share * np.where(inside, whole[np.clip(same, 0, len(whole) - 1)], 0.0)
    cumulative = np.cumsum(part * room)
    if not cumulative[-1] > 0.0:
        raise SourceError(
            "a part exceeds its whole by more than noise of the stated law can explain",
            hint="check the law and the scale of the noise, and the column `of`",
        )
    point = np.minimum(np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right"), len(part) - 1)
    mass = rng.random(size) * room[point]
    from_top_point = len(whole) - np.searchsorted(from_top, mass, side="left")
    whole_point = np.where(mass <= above[point], from_top_point, same[point])
    counts = first + np.column_stack([point, whole_point]) * step + rng.integers(0, step, (size, 2))
    return np.where((whole_point == same[point])[:, None], np.sort(counts, axis=1), counts)
