"""Independent draws of the latent counts of a table, by convolution instead of a Markov chain.

Given the total of a row, the posterior of its counts is proportional to a product of factors, one for each cell, from
prior and noise. Given the total of the table, the same holds for the totals of its rows. The law of a row's total is
the convolution of its cells' factors, and the law of the table's total is the convolution of its rows' laws. The total
of the table is drawn first, then the totals of the rows, then the counts of each row.

If the noise is wide, counts are first drawn on a lattice whose step is small compared with the noise, and then at
random within the step; otherwise the draws are exact. Each row is tilted exponentially, so that the means of the
convolutions are near the totals, where double precision is accurate; the tilts cancel.

Source: derived here; ``table_layout`` for the law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers, log_gamma_ratio, normalize
from dpbayes_cli.core.noisy_observation import NoisyTable
from dpbayes_cli.inference.counts.integer_laws import Law, draw_given_totals, suffix_sums, trim_law
from dpbayes_cli.inference.tables.table_layout import margins_of

_STEPS_PER_NOISE_SD = 7.0
"""The smallest number of lattice steps per standard deviation of the noise; a step is a power of two."""
_MIN_POINTS = 256
"""The smallest number of lattice steps up to a known total, however wide the noise."""
_MIN_STEPS_PER_CELL = 2.0
"""The smallest plausible total of a row must have at least this many lattice steps for each cell of the row; with fewer
steps, sums of lattice points differ too much from sums of counts."""
TABLE_WORK, NETWORK_WORK = 1 << 27, 1 << 29
"""The largest product of lattice points and draws that may be spent, for a table and for a whole network, on a finer
lattice than the noise requires; it takes half a second for a table, and two seconds for a network. On the coarsest
lattice that the noise allows, means are accurate to a tenth of a standard deviation."""
_MIN_COSTED_DRAWS = 1000
_WINDOW_NATS = 22.0
_WIDENINGS = (1.0, 3.0, 9.0)
_TRIM_FLOOR = 1e-20
_MAX_EDGE_SHARE = 1e-9
_MAX_NEWTON_STEPS = 60
_MAX_ELEMENTS = 1 << 25
"""The largest number of lattice points of all cells of a table together, and of the laws of all row totals together."""


@dataclass(frozen=True)
class TableDraws:
    """Independent draws of the counts of a table, integers as floats, shape (n_draws, n_rows * n_values).

    ``step`` is the lattice step of the draws, in counts; 1 if they are exact.
    """

    counts: Floats
    step: int


def draw_table(table: NoisyTable, n_draws: int, rng: np.random.Generator, work: int = TABLE_WORK) -> TableDraws | None:
    """Draw latent counts independently from their posterior; for ``work`` see ``TABLE_WORK``.

    The result is None if the table is too large, or if its total, margins and noisy counts contradict each other.
    """
    for widening in _WIDENINGS:
        lattice = _Lattice(table, widening, n_draws, work)
        if lattice.log_factors.size > _MAX_ELEMENTS:
            return None
        counts = _draw_points(lattice, n_draws, rng)
        if counts is not None and not lattice.at_edge(counts):
            return TableDraws(lattice.spread(counts, rng), lattice.step)
    return None


class _Lattice:
    """The factors of all cells of a table on a common lattice.

    Attributes:
        step: the number of counts of each lattice point; point i stands for counts i * step to (i + 1) * step - 1.
        middle: the mean of the counts of a point, relative to its first count.
        low, high: the first and the last lattice point of each cell, shape (n_cells,).
        max_point: the lattice point of the largest total; None if the total is unbounded.
        index: lattice points from ``low`` on, shape (n_cells, n_points).
        log_factors: the log factors at these points, -inf beyond ``high``, shape as ``index``.
        rows, values: the numbers of rows and of values.
    """

    def __init__(self, table: NoisyTable, widening: float, n_draws: int, work: int) -> None:
        self.table = table
        self.rows, self.values = table.concentration.shape
        sd = math.sqrt(max(table.noise.variance, 1e-12))
        largest = table.total.n if table.total.kind != "unbounded" else None
        radius = max(1.0, table.noise.radius(_WINDOW_NATS) * widening)
        finest = sd / _STEPS_PER_NOISE_SD if largest is None else min(sd / _STEPS_PER_NOISE_SD, largest / _MIN_POINTS)
        points = 2.0 * radius if largest is None else min(2.0 * radius, largest)
        affordable = points * table.concentration.size * max(n_draws, _MIN_COSTED_DRAWS) / work
        sharpest = 1.0 / math.sqrt(max(float(margins_of(table)[1].max()), 1e-300))
        shortest = min(_shortest_row(table, sd) / _MIN_STEPS_PER_CELL / self.values, 2.0 * sharpest, table.noise.grain)
        finest = min(finest, max(shortest, affordable))
        self.step = 1 << max(0, math.floor(math.log2(finest))) if finest >= 1.0 else 1
        self.middle = (self.step - 1) / 2.0
        self.max_point = None if largest is None else largest // self.step
        observed = table.observed.ravel()
        center = observed if largest is None else np.minimum(observed, largest)
        self.low = np.floor(np.maximum(center - radius, 0.0) / self.step).astype(np.int64)
        high = np.ceil((np.maximum(center, 0.0) + radius) / self.step).astype(np.int64)
        if self.max_point is not None:
            high = np.minimum(high, self.max_point)
            self.low = np.minimum(self.low, high)
        self.high = high
        index = self.low[:, None] + np.arange(int((high - self.low).max()) + 1)
        prior = _log_cells(index, self.step, table.concentration.ravel())
        noise = table.noise.log_pmf(observed[:, None] - (index * float(self.step) + self.middle))
        self.log_factors = np.where(index <= high[:, None], prior + noise, -np.inf)
        self.log_factors -= self.log_factors.max(axis=1, keepdims=True)
        self.index = index

    def moments(self, tilt: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of each row's total, in counts, given the tilt of each row, shape (n_rows,) each."""
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
        laws = []
        for cell in range(row * self.values, (row + 1) * self.values):
            logs = self.log_factors[cell, : int(self.high[cell] - self.low[cell]) + 1]
            logs = logs + tilt * self.step * (self.low[cell] + np.arange(len(logs)))
            top = float(logs.max())
            laws.append(trim_law(int(self.low[cell]), np.exp(logs - top), top, _TRIM_FLOOR))
        return laws

    def at_edge(self, counts: Integers) -> bool:
        """Return whether too many draws are at an edge of their window beyond which counts are possible."""
        below = (counts == self.low) & (self.low > 0)
        above = counts == self.high
        if self.max_point is not None:
            above &= self.high < self.max_point
        return float((below | above).mean()) > _MAX_EDGE_SHARE

    def spread(self, counts: Integers, rng: np.random.Generator) -> Floats:
        """Draw a count for each lattice point: uniformly among its counts, but for point zero by the prior."""
        if self.step == 1:
            return counts.astype(np.float64)
        within = rng.random(counts.shape)
        zero = np.nonzero(counts == 0)
        within[zero] **= 1.0 / self.table.concentration.ravel()[zero[1]]
        return np.asarray(counts * float(self.step) + np.floor(within * self.step))


def _shortest_row(table: NoisyTable, sd: float) -> float:
    """Return the smallest plausible total of a row, in counts; less if a strong prior ties its cells."""
    rows, values = table.concentration.shape
    smallest = table.observed.sum(axis=1) - 4.0 * sd * math.sqrt(values)
    margin, precision = margins_of(table)
    smallest = np.maximum(
        smallest, np.where(precision > 0.0, margin - 4.0 / np.sqrt(np.maximum(precision, 1e-300)), -np.inf)
    )
    if rows == 1 and table.total.kind == "known":
        smallest = np.array([float(table.total.n)])
    return max(0.0, float(smallest.min())) / math.sqrt(max(1.0, float(table.concentration.max())))


def _log_cells(index: Integers, step: int, concentration: Floats) -> Floats:
    """Return the log of the sum of Gamma(a + c) / Gamma(c + 1) over the counts c of each lattice point, up to
    constants."""
    if (concentration == 1.0).all():
        return np.zeros(index.shape)
    a = concentration[:, None]
    counts = index.astype(np.float64) * step + (step - 1) / 2.0
    logs = log_gamma_ratio(counts + 1.0, np.broadcast_to(a - 1.0, counts.shape))
    if step > 1:  # sums of Gamma(a + c) / c! for c < m are Gamma(a + m) / (a (m - 1)!)
        near_zero = index <= 8
        edge = np.where(near_zero, index + 1.0, 1.0) * step

        def log_below(m: Floats) -> Floats:
            return np.asarray(log_gamma_ratio(m, np.broadcast_to(a, m.shape)) - np.log(a))

        upper = log_below(edge)
        less = np.where(index > 0, log_below(np.maximum(edge - step, 1.0)) - upper, -np.inf)
        logs = np.where(near_zero, upper + np.log1p(-np.exp(np.minimum(less, -1e-12))) - math.log(step), logs)
    return np.asarray(logs)


@dataclass(frozen=True)
class _Tilts:
    """The tilt of each row, for each count, and the part of these tilts that comes from the total of the table."""

    rows: Floats
    total: float


def _draw_points(lattice: _Lattice, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw lattice points, shape (n_draws, n_cells); return None if the totals cannot be reached."""
    tilts = _tilts(lattice)
    if not (
        np.isfinite(tilts.rows).all() and math.isfinite(tilts.total) and np.isfinite(lattice.log_factors[:, 0]).all()
    ):
        return None
    cells = [lattice.factors(row, tilts.rows[row]) for row in range(lattice.rows)]
    suffixes = [suffix_sums(factors, _TRIM_FLOOR) for factors in cells]
    laws = [_include_row_factor(lattice, row, suffix[0], tilts) for row, suffix in enumerate(suffixes)]
    rows = [law for law in laws if law is not None]
    if len(rows) < len(laws) or sum(len(law.mass) for law in rows) > _MAX_ELEMENTS:
        return None
    row_suffixes = suffix_sums(rows, _TRIM_FLOOR)
    totals = _draw_totals(lattice, row_suffixes[0], tilts.total, n_draws, rng)
    if totals is None:
        return None
    row_totals = draw_given_totals(rows, row_suffixes, totals, rng)
    drawn = [draw_given_totals(cells[row], suffixes[row], row_totals[:, row], rng) for row in range(lattice.rows)]
    return np.concatenate(drawn, axis=1)


def _tilts(lattice: _Lattice) -> _Tilts:
    """Return tilts under which the expected row totals are near their joint posterior mode, by damped Newton steps."""
    table = lattice.table
    margin, precision = margins_of(table)
    shift = table.row_concentration - table.concentration.sum(axis=1)
    base = float(table.row_concentration.sum())
    tilt, total = np.zeros(lattice.rows), 0.0
    max_tilt_change = 1.0 / math.sqrt(max(table.noise.variance, 0.05))
    for _ in range(_MAX_NEWTON_STEPS):
        mean, variance = lattice.moments(tilt)
        slope = shift / (mean + table.concentration.sum(axis=1))
        target = total + slope + (margin - mean) * precision
        move = np.clip((target - tilt) / (1.0 + variance * precision), -max_tilt_change, max_tilt_change)
        tilt = tilt + move
        if table.total.kind == "known":
            response = float((variance / (1.0 + variance * precision)).sum())
            shortfall = (table.total.n - float(mean.sum())) / max(response, 1e-9)
            total_move = float(np.clip(shortfall, -max_tilt_change, max_tilt_change))
            total_converged = abs(shortfall) ** 2 * response < 0.01
        else:
            total_move = (1.0 - base) / (base + float(mean.sum()) + 1.0) - total
            total_converged = abs(total_move) < 1e-3 * max_tilt_change
        total += total_move
        tilt = tilt + total_move / (1.0 + variance * precision)
        if total_converged and float((move**2 * variance).max()) < 0.01:
            break
    return _Tilts(tilt, total)


def _include_row_factor(lattice: _Lattice, row: int, law: Law, tilts: _Tilts) -> Law | None:
    """Return the law of a row's total times the row's factor R, without the row's part of the tilt; None if zero."""
    table = lattice.table
    margin, precision = margins_of(table)
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
    return trim_law(law.low, np.exp(logs - top), top, _TRIM_FLOOR)


def _draw_totals(lattice: _Lattice, law: Law, tilt: float, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw the total of the table, in lattice steps; return None if it cannot be reached."""
    table = lattice.table
    middles = lattice.rows * lattice.values * lattice.middle
    if table.total.kind == "known":  # drawn from the two nearest lattice points, so that the mean is the total
        drawn = np.floor(
            (table.total.n - middles) / lattice.step + (rng.random(n_draws) if lattice.step > 1 else np.zeros(n_draws))
        )
        index = drawn.astype(np.int64) - law.low
        if index.min() < 0 or index.max() >= len(law.mass) or law.mass[index].min() <= 0.0:
            return None
        return np.asarray(drawn, dtype=np.int64)
    points = law.low + np.arange(len(law.mass))
    tilted = points * float(lattice.step)
    totals = tilted + middles
    base = float(table.row_concentration.sum())
    with np.errstate(divide="ignore"):
        logs = np.log(law.mass) - tilt * tilted - log_gamma_ratio(totals + 1.0, np.full(totals.shape, base - 1.0))
    if table.total.kind != "unbounded":
        logs = np.where(totals <= table.total.n, logs, -np.inf)
    if not np.isfinite(logs.max()):
        return None
    cumulative = np.cumsum(normalize(logs))
    index = np.searchsorted(cumulative, rng.random(n_draws) * cumulative[-1], side="right")
    return np.asarray(points[np.minimum(index, len(points) - 1)])
