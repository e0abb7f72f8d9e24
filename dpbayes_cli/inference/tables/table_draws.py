"""Independent draws of the latent counts of a table, by convolution: no chain, nothing to converge.

Given its total, the counts of a row are independent up to their sum, with factors that hold the prior and the noise;
given the total of the table, so are the totals of its rows. The law of a row's total is a convolution of its cells'
factors, that of the table's one of its rows'; drawn are the total, the rows' totals, and each row's counts in turn.

Where the noise is wide the counts are taken on a lattice of several counts' width, a small part of the noise's, and
spread over it afterwards; otherwise they are exact integers. An exponential tilt of each row, which cancels, puts the
totals in the middle of what is convolved, where double precision is accurate.

Source: mechanisms, noise-aware inference (exact integer updates); ``table_layout`` for the law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import log_gamma_ratio, normalized
from dpbayes_cli.inference.counts.integer_laws import Law, draw_given_totals, suffix_sums, trim_law

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.noisy_observation import NoisyTable

_FINENESS = 7.0
"""The noise's standard deviation has at least so many lattice steps, which are powers of two."""
_POINTS = 256
"""A lattice has so many steps up to a known total, however wide the noise."""
_LENGTH = 2.0
"""The shortest row that is plausible has so many steps a cell: where counts are a few steps, what they may add up to is
not what whole counts do."""
TABLE_WORK, NETWORK_WORK = 1 << 27, 1 << 29
"""Points times draws that one table, and all of a network, may take for finer lattices than the noise asks for: about
half a second, and two. A lattice as the noise asks for puts means within a tenth of a standard deviation."""
_LEAST_DRAWS = 1000
_NATS = 22.0
_WIDENINGS = (1.0, 3.0, 9.0)
_FLOOR = 1e-20
_EDGE = 1e-9
_ROUNDS = 60
_ELEMENTS = 1 << 25
"""Of what a table may take: factors of all its cells, and the widest law of its total."""


@dataclass(frozen=True)
class TableDraws:
    """Independent draws of the counts of a table.

    Attributes:
        counts: whole numbers, or real ones on a lattice, shape (n_draws, n_rows * n_values).
        step: the width of the lattice, 1 for exact integers.
    """

    counts: Floats
    step: int


def draw_table(table: NoisyTable, n_draws: int, rng: np.random.Generator, work: int = TABLE_WORK) -> TableDraws | None:
    """Draw latent counts independently from their posterior.

    Args:
        table: the observation.
        n_draws: how many.
        rng: the generator.
        work: points times draws that may be taken for a finer lattice than the noise asks for.

    Returns:
        The draws; None where the table is too large, or its total, its margins and what was observed do not go
        together.
    """
    for widening in _WIDENINGS:
        lattice = _Lattice(table, widening, n_draws, work)
        if lattice.log_factors.size > _ELEMENTS:
            return None
        counts = _drawn(lattice, n_draws, rng)
        if counts is not None and not lattice.at_edge(counts):
            return TableDraws(lattice.spread(counts, rng), lattice.step)
    return None


class _Lattice:
    """The factors of all cells of a table on a common lattice of counts, blocks of ``step`` counts each.

    Attributes:
        step: counts a lattice step; a point stands for so many counts, from ``step`` times its index on.
        middle: the middle of the counts of a point, above the first.
        low: the first lattice point of each cell, shape (n_cells,).
        log_factors: the log factor of each cell's points, -inf beyond its last, shape (n_cells, n_points).
        rows: the number of rows.
    """

    def __init__(self, table: NoisyTable, widening: float, n_draws: int, work: int) -> None:
        self.table = table
        self.rows, self.values = table.concentration.shape
        sd = math.sqrt(max(table.noise.variance, 1e-12))
        largest = table.total.n if table.total.kind != "unbounded" else None
        radius = max(1.0, table.noise.radius(_NATS) * widening)
        finest = sd / _FINENESS if largest is None else min(sd / _FINENESS, largest / _POINTS)
        points = 2.0 * radius if largest is None else min(2.0 * radius, largest)
        affordable = points * table.concentration.size * max(n_draws, _LEAST_DRAWS) / work
        sharpest = 1.0 / math.sqrt(max(float(_margins(table)[1].max()), 1e-300))
        shortest = min(_shortest_row(table, sd) / _LENGTH / self.values, 2.0 * sharpest, table.noise.grain)
        finest = min(finest, max(shortest, affordable))
        self.step = 1 << max(0, math.floor(math.log2(finest))) if finest >= 1.0 else 1
        self.middle = (self.step - 1) / 2.0
        self.most = None if largest is None else largest // self.step
        observed = table.observed.ravel()
        center = observed if largest is None else np.minimum(observed, largest)
        self.low = np.floor(np.maximum(center - radius, 0.0) / self.step).astype(np.int64)
        high = np.ceil((np.maximum(center, 0.0) + radius) / self.step).astype(np.int64)
        if self.most is not None:
            high = np.minimum(high, self.most)
            self.low = np.minimum(self.low, high)
        self.high = high
        index = self.low[:, None] + np.arange(int((high - self.low).max()) + 1)
        prior = _log_cells(index, self.step, table.concentration.ravel())
        noise = table.noise.log_pmf(observed[:, None] - (index * float(self.step) + self.middle))
        self.log_factors = np.where(index <= high[:, None], prior + noise, -np.inf)
        self.log_factors -= self.log_factors.max(axis=1, keepdims=True)
        self.index = index

    def moments(self, tilt: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each row's total, in counts, under a tilt a count, shape (n_rows,) each."""
        logs = self.log_factors + np.repeat(tilt, self.values)[:, None] * (self.index - self.low[:, None]) * self.step
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        mean = (weights * self.index).sum(axis=1)
        variance = (weights * self.index**2).sum(axis=1) - mean**2
        shape = (self.rows, self.values)
        return (
            mean.reshape(shape).sum(axis=1) * self.step + self.values * self.middle,
            np.maximum(variance, 1e-6).reshape(shape).sum(axis=1) * self.step**2,
        )

    def factors(self, row: int, tilt: float) -> list[Law]:
        """Return the tilted factors of a row's cells."""
        found = []
        for cell in range(row * self.values, (row + 1) * self.values):
            logs = self.log_factors[cell, : int(self.high[cell] - self.low[cell]) + 1]
            logs = logs + tilt * self.step * (self.low[cell] + np.arange(len(logs)))
            top = float(logs.max())
            found.append(trim_law(int(self.low[cell]), np.exp(logs - top), top, _FLOOR))
        return found

    def at_edge(self, counts: Integers) -> bool:
        """Return whether draws lie where the factors were cut off, and not where counts end."""
        below = (counts == self.low) & (self.low > 0)
        above = counts == self.high
        if self.most is not None:
            above &= self.high < self.most
        return float((below | above).mean()) > _EDGE

    def spread(self, counts: Integers, rng: np.random.Generator) -> Floats:
        """Return counts from lattice points: one of those that each stands for, as the prior has them near zero."""
        if self.step == 1:
            return counts.astype(np.float64)
        within = rng.random(counts.shape)
        zero = np.nonzero(counts == 0)
        within[zero] **= 1.0 / self.table.concentration.ravel()[zero[1]]
        return np.asarray(counts * float(self.step) + np.floor(within * self.step))


def _shortest_row(table: NoisyTable, sd: float) -> float:
    """Return how short the shortest row may be, in counts; shorter, where a strong prior ties its cells together."""
    rows, values = table.concentration.shape
    least = table.observed.sum(axis=1) - 4.0 * sd * math.sqrt(values)
    margin, precision = _margins(table)
    least = np.maximum(least, np.where(precision > 0.0, margin - 4.0 / np.sqrt(np.maximum(precision, 1e-300)), -np.inf))
    if rows == 1 and table.total.kind == "known":
        least = np.array([float(table.total.n)])
    return max(0.0, float(least.min())) / math.sqrt(max(1.0, float(table.concentration.max())))


def _log_cells(index: Integers, step: int, concentration: Floats) -> Floats:
    """Return the log of the sum of Gamma(a + c) / c! over the counts of each lattice point, up to constants."""
    if (concentration == 1.0).all():
        return np.zeros(index.shape)
    a = concentration[:, None]
    counts = index.astype(np.float64) * step + (step - 1) / 2.0
    logs = log_gamma_ratio(counts + 1.0, np.broadcast_to(a - 1.0, counts.shape))
    if step > 1:  # sums of Gamma(a + c) / c! for c < m are Gamma(a + m) / (a (m - 1)!)
        near = index <= 8
        edge = np.where(near, index + 1.0, 1.0) * step

        def log_below(m: Floats) -> Floats:
            return np.asarray(log_gamma_ratio(m, np.broadcast_to(a, m.shape)) - np.log(a))

        upper = log_below(edge)
        less = np.where(index > 0, log_below(np.maximum(edge - step, 1.0)) - upper, -np.inf)
        logs = np.where(near, upper + np.log1p(-np.exp(np.minimum(less, -1e-12))) - math.log(step), logs)
    return np.asarray(logs)


@dataclass(frozen=True)
class _Tilts:
    """Tilts a count, of each row, and what they are beyond the factors of the rows."""

    rows: Floats
    total: float


def _drawn(lattice: _Lattice, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw lattice points, shape (n_draws, n_cells); None where the totals that are asked for cannot be reached."""
    tilts = _tilts(lattice)
    if not (
        np.isfinite(tilts.rows).all() and math.isfinite(tilts.total) and np.isfinite(lattice.log_factors[:, 0]).all()
    ):
        return None
    cells = [lattice.factors(row, tilts.rows[row]) for row in range(lattice.rows)]
    suffixes = [suffix_sums(factors, _FLOOR) for factors in cells]
    rows = []
    for row, after in enumerate(suffixes):
        law = _with_factor(lattice, row, after[0], tilts)
        if law is None:
            return None
        rows.append(law)
    if sum(len(law.mass) for law in rows) > _ELEMENTS:
        return None
    over = suffix_sums(rows, _FLOOR)
    totals = _totals(lattice, over[0], tilts.total, n_draws, rng)
    if totals is None:
        return None
    row_totals = draw_given_totals(rows, over, totals, rng)
    drawn = [draw_given_totals(cells[row], suffixes[row], row_totals[:, row], rng) for row in range(lattice.rows)]
    return np.concatenate(drawn, axis=1)


def _tilts(lattice: _Lattice) -> _Tilts:
    """Return tilts under which the rows' totals are near the mode of their joint law, by damped Newton steps."""
    table = lattice.table
    margin, precision = _margins(table)
    shift = table.row_concentration - table.concentration.sum(axis=1)
    base = float(table.row_concentration.sum())
    tilt, total = np.zeros(lattice.rows), 0.0
    most = 1.0 / math.sqrt(max(table.noise.variance, 0.05))
    for _ in range(_ROUNDS):
        mean, variance = lattice.moments(tilt)
        slope = shift / (mean + table.concentration.sum(axis=1))
        wanted = total + slope + (margin - mean) * precision
        move = np.clip((wanted - tilt) / (1.0 + variance * precision), -most, most)
        tilt = tilt + move
        if table.total.kind == "known":
            response = float((variance / (1.0 + variance * precision)).sum())
            off = (table.total.n - float(mean.sum())) / max(response, 1e-9)
            push = float(np.clip(off, -most, most))
            small = abs(off) ** 2 * response < 0.01
        else:
            push = (1.0 - base) / (base + float(mean.sum()) + 1.0) - total
            small = abs(push) < 1e-3 * most
        total += push
        tilt = tilt + push / (1.0 + variance * precision)
        if small and float((move**2 * variance).max()) < 0.01:
            break
    return _Tilts(tilt, total)


def _margins(table: NoisyTable) -> tuple[Floats, Floats]:
    """Return what is known about the row totals from elsewhere, and its precision, 0 where nothing is."""
    if table.margin is None or table.margin_variance is None:
        return np.zeros(len(table.row_concentration)), np.zeros(len(table.row_concentration))
    precision = 1.0 / np.asarray(table.margin_variance, dtype=np.float64)
    return np.where(precision > 0.0, table.margin, 0.0), precision


def _with_factor(lattice: _Lattice, row: int, law: Law, tilts: _Tilts) -> Law | None:
    """Return the law of a row's total with the factor R of the row, tilted as the total of the table is."""
    table = lattice.table
    margin, precision = _margins(table)
    tilted = (law.low + np.arange(len(law.mass))) * float(lattice.step)
    totals = tilted + lattice.values * lattice.middle
    a, b = float(table.concentration[row].sum()), float(table.row_concentration[row])
    with np.errstate(divide="ignore"):
        logs = np.log(law.mass) + law.log_scale + (tilts.total - tilts.rows[row]) * tilted
    if a != b:
        logs = logs + log_gamma_ratio(totals + a, np.full(totals.shape, b - a))
    logs = logs - 0.5 * precision[row] * (totals - margin[row]) ** 2
    top = float(logs.max())
    if not math.isfinite(top):
        return None
    return trim_law(law.low, np.exp(logs - top), top, _FLOOR)


def _totals(lattice: _Lattice, law: Law, tilt: float, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw the total of the table, in lattice steps; None where it is known and out of reach."""
    table = lattice.table
    middles = lattice.rows * lattice.values * lattice.middle
    if table.total.kind == "known":  # the lattice point above or below, so that the mean is the total
        drawn = np.floor(
            (table.total.n - middles) / lattice.step + (rng.random(n_draws) if lattice.step > 1 else np.zeros(n_draws))
        )
        place = drawn.astype(np.int64) - law.low
        if place.min() < 0 or place.max() >= len(law.mass) or law.mass[place].min() <= 0.0:
            return None
        return np.asarray(drawn, dtype=np.int64)
    found = law.low + np.arange(len(law.mass))
    tilted = found * float(lattice.step)
    totals = tilted + middles
    base = float(table.row_concentration.sum())
    with np.errstate(divide="ignore"):
        logs = np.log(law.mass) - tilt * tilted - log_gamma_ratio(totals + 1.0, np.full(totals.shape, base - 1.0))
    if table.total.kind != "unbounded":
        logs = np.where(totals <= table.total.n, logs, -np.inf)
    if not np.isfinite(logs.max()):
        return None
    cumulative = np.cumsum(normalized(logs))
    place = np.searchsorted(cumulative, rng.random(n_draws) * cumulative[-1], side="right")
    return np.asarray(found[np.minimum(place, len(found) - 1)])
