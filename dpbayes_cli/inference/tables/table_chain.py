"""A Markov chain on the latent counts of all tables of a network, in several chains at once.

Theta and the shares of the rows are integrated out (see ``table_layout`` for what remains). A sweep makes these moves,
every one at all tables and all chains at once, and each leaves the exact law of the counts invariant:

- cells of a row in random pairs: the split of a pair's sum is redrawn;
- rows of a table in random pairs, and cells across each pair of rows: one split is redrawn; and some are redrawn as if
  the factors of the rows were exponential in their totals, and all of a pair of rows are accepted or rejected together
  by what the factors really are;
- where the total is not known, single cells, accepted or rejected together in a table likewise;
- moves of many records at a time (see ``table_block_moves``), which go far where the noise says little.

A split is redrawn among a few points of a randomly placed lattice through the current one: the position of the current
point on the lattice is uniform and the spacing depends on nothing that the move changes, so that choosing among the
points by their probability is a Gibbs step. The spacing is random, near the width that noise and prior leave.

Which cells are paired is the same for all chains: given that, the chains are independent.

Source: Tjelmeland 2004, Using all Metropolis-Hastings proposals (several proposals, one of which is chosen).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.dirichlet_rows import starts_of
from dpbayes_cli.inference.tables.table_block_moves import TableBlockMoves
from dpbayes_cli.inference.tables.table_layout import TableLayout

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.noisy_observation import NoisyTable

_POINTS = 6
_POSITIONS = np.arange(_POINTS, dtype=np.float64)[:, None, None]
_SPACING = (-1.5, 1.5)
"""Spacings are 2^u widths, u uniform here: six points then span the width, or several of it."""
_EXCHANGE_EVERY, _SCALE_EVERY = 4, 2
"""Sweeps between the dearer moves, which would take most of the time."""
_AT_ONCE = 1 << 9
"""So many pairs are redrawn at once: their arrays stay in the processor's cache."""


class TableChain:
    """Several chains as one array of counts.

    Attributes:
        layout: the tables as arrays.
        counts: the current counts, whole numbers, shape (chains, n_cells).
    """

    def __init__(self, tables: Sequence[NoisyTable], chains: int, rng: np.random.Generator) -> None:
        self.layout = TableLayout(tables)
        self._rng = rng
        self.counts = self.layout.start(chains, rng)
        self._plan_rows()
        self._plan_row_pairs()
        self._open = np.flatnonzero(~self.layout.known)
        self._urns = TableBlockMoves(self.layout, rng)
        self._sweeps = 0

    def sweep(self) -> None:
        """Redraw every cell about once."""
        order = self._shuffled(self.layout.row, self.layout.table_size.sum())
        self._within_rows(order)
        if len(self._pair_size):
            first, second = self._match_rows()
            self._across_rows(order, first, second)
            if not self._pair_free.all():
                self._one_across_rows(order, *self._match_rows())
            if self._sweeps % _EXCHANGE_EVERY == 0:
                self.counts = self._urns.exchange(self.counts, first, second)
        if len(self._open):
            self._single_cells()
            if self._sweeps % _SCALE_EVERY == 0:
                self.counts = self._urns.scale(self.counts)
        self._sweeps += 1

    def _plan_rows(self) -> None:
        """Note which positions of the cells, shuffled within rows, make pairs."""
        half = self.layout.row_size // 2
        rank = np.arange(half.sum()) - np.repeat(starts_of(half), half)
        self._left_position = np.repeat(self.layout.row_start, half) + 2 * rank

    def _plan_row_pairs(self) -> None:
        """Note which positions of the rows, shuffled within tables, make pairs, and the sizes of those rows."""
        half = self.layout.table_rows // 2
        rank = np.arange(half.sum()) - np.repeat(starts_of(half), half)
        self._pair_position = np.repeat(self.layout.table_row, half) + 2 * rank
        self._pair_size = self.layout.row_size[self._pair_position]
        by_observed = np.lexsort((-self.layout.observed, self.layout.row))
        self._top = by_observed[self.layout.row_start]
        self._pair_free = ~self.layout.coupled[self.layout.row_table[self._pair_position]]

    def _shuffled(self, groups: Integers, size: int) -> Integers:
        """Return 0..size-1, groups in order and shuffled within."""
        return np.argsort(groups + self._rng.random(size))

    def _within_rows(self, order: Integers) -> None:
        left, right = order[self._left_position], order[self._left_position + 1]
        for i in range(0, len(left), _AT_ONCE):
            some, others = left[i : i + _AT_ONCE], right[i : i + _AT_ONCE]
            moved = self._split(some, others, None)
            self.counts[:, some] += moved
            self.counts[:, others] -= moved

    def _match_rows(self) -> tuple[Integers, Integers]:
        """Return the rows of random pairs of rows, each of one table."""
        order = self._shuffled(self.layout.row_table, len(self.layout.row_table))
        return order[self._pair_position], order[self._pair_position + 1]

    def _across_rows(self, order: Integers, first: Integers, second: Integers) -> None:
        """Redraw splits across pairs of rows, as many a pair as is randomly chosen.

        Args:
            order: the cells, shuffled within their rows.
            first, second: the rows of each pair.
        """
        layout = self.layout
        size = _fraction(self._pair_size, self._rng)
        size[self._pair_free] = self._pair_size[self._pair_free]  # nothing is ever rejected there
        start = starts_of(size)
        pair = np.repeat(np.arange(len(size)), size)
        rank = np.arange(size.sum()) - start[pair]
        left, right = order[layout.row_start[first][pair] + rank], order[layout.row_start[second][pair] + rank]
        tilt = layout.row_tilt[first] - layout.row_tilt[second]
        moved = np.empty((len(self.counts), len(left)))
        for i in range(0, len(left), _AT_ONCE):
            some = slice(i, i + _AT_ONCE)
            moved[:, some] = self._split(left[some], right[some], partial(np.multiply, tilt[pair[some]]))
        if not self._pair_free.all():
            change = np.add.reduceat(moved, start, axis=1)
            totals = layout.row_totals(self.counts)
            log_ratio = -tilt * change
            for rows, sign in ((first, 1.0), (second, -1.0)):
                before = totals[:, rows]
                log_ratio += layout.log_rows(before + sign * change, rows) - layout.log_rows(before, rows)
            moved *= (log_ratio > -self._rng.standard_exponential(change.shape))[:, pair]
        self.counts[:, left] += moved
        self.counts[:, right] -= moved

    def _one_across_rows(self, order: Integers, first: Integers, second: Integers) -> None:
        """Redraw one split across each pair of rows by what the factors of the rows really are."""
        layout = self.layout
        coupled = ~self._pair_free
        first, second = first[coupled], second[coupled]
        totals = layout.row_totals(self.counts)
        for i in range(0, len(first), _AT_ONCE):
            rows, others = first[i : i + _AT_ONCE], second[i : i + _AT_ONCE]
            left, right = self._some_cell(order, rows), self._some_cell(order, others)
            here, there = totals[:, rows], totals[:, others]

            def log_rows(
                grown: Floats,
                rows: Integers = rows,
                others: Integers = others,
                here: Floats = here,
                there: Floats = there,
            ) -> Floats:
                return layout.log_rows(here + grown, rows) + layout.log_rows(there - grown, others)

            moved = self._split(left, right, log_rows)
            self.counts[:, left] += moved
            self.counts[:, right] -= moved

    def _some_cell(self, order: Integers, rows: Integers) -> Integers:
        """Return a cell of each row: often the one where most was observed, on which alone its total may hang."""
        often = self._rng.random(len(rows)) < 0.5
        return np.where(often, self._top[rows], order[self.layout.row_start[rows]])

    def _split(self, left: Integers, right: Integers, further: Callable[[Floats], Floats] | None) -> Floats:
        """Redraw the splits of pairs' sums; return by how much the left counts grow, shape (chains, pairs).

        Args:
            left, right: the cells of each pair; no cell twice.
            further: log factors of the rows, given by how much the left counts grow; None where they stay.
        """
        layout = self.layout
        current = self.counts[:, left]
        sums = current + self.counts[:, right]
        a, b = layout.concentration[left], layout.concentration[right]
        share = a * b / ((a + b) ** 2 * (a + b + 1.0))
        prior = sums * (sums + (a + b)) * share  # the variance of a beta-binomial count
        width = 1.0 / np.sqrt(1.0 / layout.variance[left] + 1.0 / layout.variance[right] + 1.0 / (prior + 1e-3))
        if further is not None:  # the totals of rows move, too
            precision = layout.margin_precision
            width /= np.sqrt(1.0 + width**2 * (precision[layout.row[left]] + precision[layout.row[right]]))
        uniform = self._rng.random((3, *current.shape))
        points, current = _lattice(current, width, uniform)
        size = sums + 1.0
        turns = points / size
        np.floor(turns, out=turns)
        turns *= size
        points -= turns  # the lattice is closed to a circle
        log_density = layout.log_cells(points, left) + layout.log_cells(sums - points, right)
        if further is not None:
            log_density += further(points - current)
        return _chosen(points, log_density, uniform[2]) - current

    def _single_cells(self) -> None:
        """Redraw some cells of every table whose total is not known."""
        layout, tables = self.layout, self._open
        order = self._shuffled(layout.table, len(layout.table))
        size = _fraction(layout.table_size[tables], self._rng)
        slot = np.repeat(np.arange(len(tables)), size)
        cells = order[layout.table_start[tables][slot] + np.arange(len(slot)) - starts_of(size)[slot]]
        current = self.counts[:, cells]
        uniform = self._rng.random((3, *current.shape))
        # no sum bounds the width here: every width up to that of the noise must be tried
        width = layout.variance[cells] ** (0.5 * self._rng.random(len(cells)))
        points, _ = _lattice(current, np.broadcast_to(width, current.shape), uniform)
        tilt = layout.row_tilt[layout.row[cells]] + layout.total_tilt[layout.table[cells]]
        log_density = layout.log_cells(np.maximum(points, 0.0), cells) + tilt * points
        log_density[points < 0.0] = -np.inf
        moved = _chosen(points, log_density, uniform[2]) - current
        proposed = self.counts.copy()
        proposed[:, cells] += moved
        log_ratio = -np.add.reduceat(tilt * moved, starts_of(size), axis=1)
        log_ratio += (layout.log_tables(proposed) - layout.log_tables(self.counts))[:, tables]
        moved *= (log_ratio > -self._rng.standard_exponential(log_ratio.shape))[:, slot]
        self.counts[:, cells] += moved


def _fraction(sizes: Integers, rng: np.random.Generator) -> Integers:
    """Return random whole numbers from 1 to each size, of every magnitude alike."""
    return np.minimum(np.floor((sizes + 1.0) ** rng.random(len(sizes))).astype(np.int64), sizes)


def _lattice(current: Floats, width: Floats, uniform: Floats) -> tuple[Floats, Floats]:
    """Return the points of randomly placed lattices through the current ones, shape (points, ...), and the latter."""
    low, high = _SPACING
    spacing = np.maximum(np.rint(width * np.exp2(low + (high - low) * uniform[0])), 1.0)
    return current - np.floor(uniform[1] * _POINTS) * spacing + _POSITIONS * spacing, current


def _chosen(points: Floats, log_density: Floats, uniform: Floats) -> Floats:
    """Choose a point of each lattice by its probability; overwrites the log densities."""
    weights = log_density
    weights -= log_density.max(axis=0)
    np.exp(weights, out=weights)
    for i in range(1, len(weights)):
        weights[i] += weights[i - 1]
    level = uniform * weights[-1]
    chosen: Floats = points[-1].copy()
    for i in range(len(points) - 2, -1, -1):
        np.copyto(chosen, points[i], where=weights[i] > level)
    return np.asarray(chosen)
