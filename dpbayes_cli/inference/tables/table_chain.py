"""A Markov chain on the latent counts of all tables of a network, in several chains at once.

Theta and the probabilities of the rows are integrated out; ``table_layout`` has the density. A sweep makes the
following moves in all tables and all chains at once. Each move leaves the exact posterior of the counts invariant.

- The cells of each row are paired at random. Given the sum of the two counts of a pair, its split is redrawn.
- The rows of each table are paired at random, and cells of one row with cells of the other. In one move, a single
  split across each pair of rows is redrawn with the exact factors of the rows. In another move, several splits are
  redrawn as if these factors were exponential in the row totals; the splits across a pair of rows are then accepted or
  rejected together by the exact factors.
- If the total is not known, single cells are redrawn; the changes in a table are accepted or rejected together.
- Many records are moved at a time (``table_block_moves``), which mixes well if the noise is wide.

A split is redrawn among a few points of a lattice through the current split. The rank of the current split among these
points is uniform, and the spacing depends on nothing that the move changes. Drawing one of the points in proportion to
their probabilities is therefore a Gibbs step. The spacing is random, near the width of the conditional distribution.

All chains pair the same cells; given the pairs, the chains are independent.

Source: Tjelmeland 2004, Using all Metropolis-Hastings proposals (a choice among several proposals).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisyTable
from dpbayes_cli.inference.dirichlet_rows import ranks_within, starts_of
from dpbayes_cli.inference.tables.table_block_moves import TableBlockMoves
from dpbayes_cli.inference.tables.table_layout import TableLayout

_POINTS = 6
_POSITIONS = np.arange(_POINTS, dtype=np.float64)[:, None, None]
_LOG2_SPACING = (-1.5, 1.5)
"""log2(spacing / width) is uniform on this range, so that six points span more than the width of the distribution."""
_EXCHANGE_EVERY, _SCALE_EVERY = 4, 2
"""The moves of many records are made only once in this many sweeps; otherwise they would take most of the time."""
_BATCH_PAIRS = 1 << 9
"""The number of pairs redrawn at a time; their arrays fit into the processor's cache."""


class TableChain:
    """Several chains as one array of integer counts, shape (chains, n_cells)."""

    def __init__(self, tables: Sequence[NoisyTable], chains: int, rng: np.random.Generator) -> None:
        self.layout = TableLayout(tables)
        self._rng = rng
        self.counts = self.layout.start(chains, rng)
        # the left cells of all pairs in an array of cells that are shuffled within their rows; rows alike
        self._left_position = _pair_starts(self.layout.row_start, self.layout.row_size)
        self._pair_position = _pair_starts(self.layout.table_row, self.layout.table_rows)
        self._pair_size = self.layout.row_size[self._pair_position]
        self._pair_uncoupled = ~self.layout.coupled[self.layout.row_table[self._pair_position]]
        by_observed = np.lexsort((-self.layout.observed, self.layout.row))
        self._top_cell = by_observed[self.layout.row_start]
        self._open_tables = np.flatnonzero(~self.layout.known)
        self._block_moves = TableBlockMoves(self.layout, rng)
        self._sweeps = 0

    def sweep(self) -> None:
        """Redraw every cell about once."""
        order = self._shuffled(self.layout.row, self.layout.table_size.sum())
        self._redraw_within_rows(order)
        if len(self._pair_size):
            first, second = self._pair_rows()
            self._redraw_across_rows(order, first, second)
            if not self._pair_uncoupled.all():
                self._redraw_one_across_rows(order, *self._pair_rows())
            if self._sweeps % _EXCHANGE_EVERY == 0:
                self.counts = self._block_moves.exchange(self.counts, first, second)
        if len(self._open_tables):
            self._redraw_single_cells()
            if self._sweeps % _SCALE_EVERY == 0:
                self.counts = self._block_moves.scale(self.counts)
        self._sweeps += 1

    def _shuffled(self, groups: Integers, size: int) -> Integers:
        """Return the indices 0..size-1 sorted by group, and shuffled within each group."""
        return np.argsort(groups + self._rng.random(size))

    def _redraw_within_rows(self, order: Integers) -> None:
        left, right = order[self._left_position], order[self._left_position + 1]
        for i in range(0, len(left), _BATCH_PAIRS):
            batch_left, batch_right = left[i : i + _BATCH_PAIRS], right[i : i + _BATCH_PAIRS]
            increase = self._draw_splits(batch_left, batch_right, None)
            self.counts[:, batch_left] += increase
            self.counts[:, batch_right] -= increase

    def _pair_rows(self) -> tuple[Integers, Integers]:
        """Return the first and the second rows of random pairs of rows of the same table."""
        order = self._shuffled(self.layout.row_table, len(self.layout.row_table))
        return order[self._pair_position], order[self._pair_position + 1]

    def _redraw_across_rows(self, order: Integers, first: Integers, second: Integers) -> None:
        """Redraw a random number of splits across each pair of rows; ``order`` are cells shuffled within their rows."""
        layout = self.layout
        size = _draw_sizes(self._pair_size, self._rng)
        size[self._pair_uncoupled] = self._pair_size[self._pair_uncoupled]  # these are never rejected
        pair, rank = np.repeat(np.arange(len(size)), size), ranks_within(size)
        left, right = order[layout.row_start[first][pair] + rank], order[layout.row_start[second][pair] + rank]
        tilt = layout.row_tilt[first] - layout.row_tilt[second]
        increase = np.empty((len(self.counts), len(left)))
        for i in range(0, len(left), _BATCH_PAIRS):
            some = slice(i, i + _BATCH_PAIRS)
            increase[:, some] = self._draw_splits(left[some], right[some], partial(np.multiply, tilt[pair[some]]))
        if not self._pair_uncoupled.all():
            change = np.add.reduceat(increase, starts_of(size), axis=1)
            totals = layout.row_totals(self.counts)
            log_ratio = -tilt * change
            for rows, sign in ((first, 1.0), (second, -1.0)):
                before = totals[:, rows]
                log_ratio += layout.log_rows(before + sign * change, rows) - layout.log_rows(before, rows)
            increase *= (log_ratio > -self._rng.standard_exponential(change.shape))[:, pair]
        self.counts[:, left] += increase
        self.counts[:, right] -= increase

    def _redraw_one_across_rows(self, order: Integers, first: Integers, second: Integers) -> None:
        """Redraw one split across each pair of rows, with the exact factors of the rows."""
        layout = self.layout
        coupled = ~self._pair_uncoupled
        first, second = first[coupled], second[coupled]
        totals = layout.row_totals(self.counts)
        for i in range(0, len(first), _BATCH_PAIRS):
            rows, others = first[i : i + _BATCH_PAIRS], second[i : i + _BATCH_PAIRS]
            left, right = self._choose_cell(order, rows), self._choose_cell(order, others)
            log_row_factors = partial(self._log_row_factors, rows, others, totals[:, rows], totals[:, others])
            increase = self._draw_splits(left, right, log_row_factors)
            self.counts[:, left] += increase
            self.counts[:, right] -= increase

    def _log_row_factors(self, first: Integers, second: Integers, here: Floats, there: Floats, moved: Floats) -> Floats:
        """Return log R summed over the rows of each pair, after ``moved`` records go from the second to the first."""
        return self.layout.log_rows(here + moved, first) + self.layout.log_rows(there - moved, second)

    def _choose_cell(self, order: Integers, rows: Integers) -> Integers:
        """Return the cell of each row with the largest observed count or, with probability 1/2, a random one."""
        take_top = self._rng.random(len(rows)) < 0.5
        return np.where(take_top, self._top_cell[rows], order[self.layout.row_start[rows]])

    def _draw_splits(
        self, left: Integers, right: Integers, log_row_factors: Callable[[Floats], Floats] | None
    ) -> Floats:
        """Redraw the splits of disjoint pairs of cells; return the changes of the left counts, shape (chains, n_pairs).

        ``log_row_factors`` maps these changes to the log factors of the rows. It is None if row totals do not change.
        """
        layout = self.layout
        current = self.counts[:, left]
        sums = current + self.counts[:, right]
        a, b = layout.concentration[left], layout.concentration[right]
        share = a * b / ((a + b) ** 2 * (a + b + 1.0))
        prior = sums * (sums + (a + b)) * share  # the variance of a beta-binomial count
        width = 1.0 / np.sqrt(1.0 / layout.variance[left] + 1.0 / layout.variance[right] + 1.0 / (prior + 1e-3))
        if log_row_factors is not None:
            precision = layout.margin_precision
            width /= np.sqrt(1.0 + width**2 * (precision[layout.row[left]] + precision[layout.row[right]]))
        uniform = self._rng.random((3, *current.shape))
        points = _lattice(current, width, uniform)
        size = sums + 1.0
        turns = points / size
        np.floor(turns, out=turns)
        turns *= size
        points -= turns  # the lattice continues at 0 beyond the sum, and the other way round
        log_density = layout.log_cells(points, left) + layout.log_cells(sums - points, right)
        if log_row_factors is not None:
            log_density += log_row_factors(points - current)
        return _choose(points, log_density, uniform[2]) - current

    def _redraw_single_cells(self) -> None:
        layout, tables = self.layout, self._open_tables
        order = self._shuffled(layout.table, len(layout.table))
        size = _draw_sizes(layout.table_size[tables], self._rng)
        slot = np.repeat(np.arange(len(tables)), size)
        cells = order[layout.table_start[tables][slot] + ranks_within(size)]
        current = self.counts[:, cells]
        uniform = self._rng.random((3, *current.shape))
        # a cell has no upper bound here, so widths of all magnitudes up to that of the noise are tried
        width = layout.variance[cells] ** (0.5 * self._rng.random(len(cells)))
        points = _lattice(current, np.broadcast_to(width, current.shape), uniform)
        tilt = layout.row_tilt[layout.row[cells]] + layout.total_tilt[layout.table[cells]]
        log_density = layout.log_cells(np.maximum(points, 0.0), cells) + tilt * points
        log_density[points < 0.0] = -np.inf
        increase = _choose(points, log_density, uniform[2]) - current
        proposed = self.counts.copy()
        proposed[:, cells] += increase
        log_ratio = -np.add.reduceat(tilt * increase, starts_of(size), axis=1)
        log_ratio += (layout.log_tables(proposed) - layout.log_tables(self.counts))[:, tables]
        increase *= (log_ratio > -self._rng.standard_exponential(log_ratio.shape))[:, slot]
        self.counts[:, cells] += increase


def _pair_starts(starts: Integers, sizes: Integers) -> Integers:
    """Return the positions of the first members of all pairs of neighbors within groups."""
    half = sizes // 2
    return np.repeat(starts, half) + 2 * ranks_within(half)


def _draw_sizes(sizes: Integers, rng: np.random.Generator) -> Integers:
    """Return a random integer from 1 to each size, with a roughly uniform logarithm."""
    return np.minimum(np.floor((sizes + 1.0) ** rng.random(len(sizes))).astype(np.int64), sizes)


def _lattice(current: Floats, width: Floats, uniform: Floats) -> Floats:
    """Return the points of randomly placed lattices through the current points, shape (n_points, ...)."""
    low, high = _LOG2_SPACING
    spacing = np.maximum(np.rint(width * np.exp2(low + (high - low) * uniform[0])), 1.0)
    return np.asarray(current - np.floor(uniform[1] * _POINTS) * spacing + _POSITIONS * spacing)


def _choose(points: Floats, log_density: Floats, uniform: Floats) -> Floats:
    """Draw a point of each lattice in proportion to the densities; overwrite the log densities."""
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
