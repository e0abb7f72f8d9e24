"""Moves of many records at a time, for tables whose noise is wide.

Given the total of a row, its records are exchangeable. If a random record is removed, the counts have the prior of a
row with one record less. If a record is added by a Polya urn (to value k with probability proportional to a_k + c_k),
the counts have the prior of a row with one record more. With such removals and additions, the priors of the cells
cancel in the acceptance ratio, so that only the probabilities of the noise remain.

Source: Blackwell and MacQueen 1973 (the urn); Green 1995 (acceptance of moves).
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.tables.table_layout import TableLayout

_MAX_COUNT = 5e8
"""If a row may have more records than this, no records are exchanged: numpy draws hypergeometric numbers only from
fewer than 1e9 records."""
_MIN_THINNING_SHARE = 1e-9
_SIZE_CLASS_OCTAVES = 3.01
"""Rows of similar size are handled together: rows of at most 8 cells, rows of 9 to 64 cells, and so on."""


class TableBlockMoves:
    """Moves of records between rows, and into and out of tables."""

    def __init__(self, layout: TableLayout, rng: np.random.Generator) -> None:
        self._layout = layout
        self._rng = rng
        self._reach = np.sqrt(np.add.reduceat(layout.variance, layout.row_start))
        self._table_reach = np.sqrt(np.add.reduceat(layout.variance, layout.table_start))
        self._sums = np.add.reduceat(layout.row_sums, layout.table_row)
        self._open_cells = np.flatnonzero(~layout.known[layout.table])

    def exchange(self, counts: Floats, first: Integers, second: Integers) -> Floats:
        """Move records between the two rows of each pair, by the urn; return the new counts."""
        layout = self._layout
        coupled = layout.coupled[layout.row_table[first]]  # in other tables single splits mix as well as this move
        if not coupled.any() or counts.max() * layout.row_size.max() > _MAX_COUNT:
            return counts
        counts = counts.copy()
        first, second = first[coupled], second[coupled]
        size_class = np.log2(layout.row_size[first]) // _SIZE_CLASS_OCTAVES  # limits the padding of shorter rows
        for value in np.unique(size_class):
            chosen = size_class == value
            self._exchange_in_class(counts, first[chosen], second[chosen])
        return counts

    def _exchange_in_class(self, counts: Floats, first: Integers, second: Integers) -> None:
        """Exchange records between rows of similar sizes, in place; arrays have the axes (chain, pair, cell)."""
        layout, rng = self._layout, self._rng
        longest_first = np.argsort(-layout.row_size[first], kind="stable")
        first, second = first[longest_first], second[longest_first]
        sizes = layout.row_size[first]
        ranks = np.minimum(np.arange(sizes[0]), sizes[:, None] - 1)
        real = np.arange(sizes[0]) < sizes[:, None]
        left, right = (layout.row_start[rows][:, None] + ranks for rows in (first, second))
        here, there = counts[:, left] * real, counts[:, right] * real
        totals, others = here.sum(axis=2), there.sum(axis=2)
        both = totals + others
        forward = rng.random(both.shape) < 0.5
        reach = self._reach[first] * np.exp2(rng.uniform(-3.0, 2.0, both.shape))
        moved = np.ceil(np.minimum(reach, both) * rng.random(both.shape))
        source = np.where(forward[..., None], here, there)
        target = np.where(forward[..., None], there, here)
        possible = moved <= source.sum(axis=2)
        moved = np.where(possible, moved, 0.0)
        concentration = layout.concentration
        prior = np.where(forward[..., None], concentration[right], concentration[left]) * real
        taken, added = _draw_removed(source, moved, sizes, rng), _draw_added(target + prior, moved, sizes, rng)
        change = np.where(forward[..., None], -taken, added), np.where(forward[..., None], added, -taken)
        log_ratio = np.zeros(both.shape)
        for rows, cells, before, total, step in (
            (first, left, here, totals, change[0]),
            (second, right, there, others, change[1]),
        ):
            log_ratio += layout.log_urns(total + step.sum(axis=2), rows) - layout.log_urns(total, rows)
            noise = layout.log_noise(before + step, cells) - layout.log_noise(before, cells)
            log_ratio += (noise * real).sum(axis=2)
        accepted = (log_ratio > -rng.standard_exponential(both.shape))[..., None]
        counts[:, left[real]] += (change[0] * accepted)[:, real]
        counts[:, right[real]] += (change[1] * accepted)[:, real]

    def scale(self, counts: Floats) -> Floats:
        """Thin the counts of tables whose total is not known, or make the reverse move; return the new counts.

        Thinning by a share r removes Binomial(c, r) records from each cell. The reverse move adds to each cell a
        negative binomial number of records, with shape a + c and share s. Let A be the sum of all a. The share s solves
        s * (A + m) / (1 - s) = r * (m + 1) / (1 - r), so that on average about as many records are added to a total m
        as are removed by thinning. The proposal ratio of a move from total m and counts c to total m + d and counts c'
        has two factors. One is prod_k [Gamma(a + c) / Gamma(c + 1)] / [Gamma(a + c') / Gamma(c' + 1)]; it cancels the
        prior factors of the cells. The other is (1 - r)^m * r^d / [(1 - s)^(A + m) * s^d].
        """
        layout, rng, cells = self._layout, self._rng, self._open_cells
        tables = layout.table[cells]
        totals = np.add.reduceat(counts, layout.table_start, axis=1)
        usual = self._table_reach / (self._table_reach + layout.typical_total + 1.0)
        share = np.clip(usual * np.exp2(rng.uniform(-4.0, 1.0, totals.shape)), _MIN_THINNING_SHARE, 0.9)
        up = rng.random(totals.shape) < 0.5
        current, rises = counts[:, cells], up[:, tables]
        rate = self._rate(share, totals)[:, tables]
        step = np.empty(current.shape)
        prior = np.broadcast_to(layout.concentration[cells], current.shape)
        step[rises] = rng.poisson(rng.standard_gamma(current[rises] + prior[rises]) * rate[rises])
        step[~rises] = -rng.binomial(current[~rises].astype(np.int64), share[:, tables][~rises])
        proposed = counts.copy()
        proposed[:, cells] += step
        noise = np.zeros(counts.shape)
        noise[:, cells] = layout.log_noise(current + step, cells) - layout.log_noise(current, cells)
        log_ratio = np.add.reduceat(noise, layout.table_start, axis=1)
        log_ratio += layout.log_tables(proposed) - layout.log_tables(counts)
        after = np.add.reduceat(proposed, layout.table_start, axis=1)
        low, added = np.minimum(totals, after), np.abs(after - totals)
        odds = self._rate(share, low)
        reverse = low * np.log1p(-share) + added * np.log(share)
        reverse += (self._sums + low + added) * np.log1p(odds) - added * np.log(odds)
        log_ratio += np.where(up, reverse, -reverse)
        accepted = log_ratio > -rng.standard_exponential(totals.shape)
        return np.where(accepted[:, layout.table], proposed, counts)

    def _rate(self, share: Floats, totals: Floats) -> Floats:
        """Return s / (1 - s) given r and the totals before records are added; see ``scale``."""
        return np.asarray(share / (1.0 - share) * (totals + 1.0) / (self._sums + totals))


def _draw_removed(source: Floats, number: Floats, sizes: Integers, rng: np.random.Generator) -> Floats:
    """Take ``number`` random records from each row; return how many are from each cell.

    Counts have shape (chains, rows, cells), and ``number`` has shape (chains, rows). ``sizes`` are the numbers of cells
    of the rows, in descending order.
    """
    whole, taken = source.astype(np.int64), np.zeros(source.shape)
    left, rest = number.astype(np.int64), whole.sum(axis=2)
    for k in range(sizes[0] - 1):
        n = int(np.searchsorted(-sizes, -k - 1))  # the number of rows with a cell after this one
        rest[:, :n] -= whole[:, :n, k]
        drawn = rng.hypergeometric(whole[:, :n, k], rest[:, :n], left[:, :n])
        taken[:, :n, k] = drawn
        left[:, :n] -= drawn
    taken[:, np.arange(len(sizes)), sizes - 1] = left
    return taken


def _draw_added(shape: Floats, number: Floats, sizes: Integers, rng: np.random.Generator) -> Floats:
    """Add ``number`` records to each row by the urn; return how many each cell gets. See ``_draw_removed``."""
    weights, added = rng.standard_gamma(shape), np.zeros(shape.shape)
    left, rest = number.astype(np.int64), np.cumsum(weights[..., ::-1], axis=2)[..., ::-1]
    shares = np.minimum(weights / np.maximum(rest, 1e-300), 1.0)
    for k in range(sizes[0] - 1):
        n = int(np.searchsorted(-sizes, -k - 1))
        drawn = rng.binomial(left[:, :n], shares[:, :n, k])
        added[:, :n, k] = drawn
        left[:, :n] -= drawn
    added[:, np.arange(len(sizes)), sizes - 1] = left
    return added
