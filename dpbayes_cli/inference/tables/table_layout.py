"""The tables of a network as flat arrays, and the factors of the posterior of their counts.

In each table let a be the concentration, A_j its row sums, b the row_concentration, B its sum, N_j the row totals and m
their sum. The probabilities of the rows and theta are integrated out. Given m, the row totals then have a
Dirichlet-multinomial law with parameters b. Given N_j, the counts of row j have one with parameters a_j. In the
posterior of the counts the factorials of N_j cancel, and up to a constant

    p(c | y) = T(m) * prod_j R_j(N_j) * prod_jk noise(y_jk - c_jk) * Gamma(a_jk + c_jk) / Gamma(c_jk + 1),
    R_j(N) = Gamma(b_j + N) / Gamma(A_j + N) * Normal(margin_j; N, margin_variance_j),
    T(m) = Gamma(m + 1) / Gamma(B + m) * p(m),

where p(m) is constant on the possible totals. If b = A and there are no margins, R is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers, log_gamma_ratio
from dpbayes_cli.core.noisy_observation import NoisyTable
from dpbayes_cli.inference.dirichlet_rows import DirichletRows, starts_of
from dpbayes_cli.inference.naive import project_on_simplex

_MAX_TABLE_ENTRIES = 1 << 22
_MIN_VARIANCE = 0.1
"""A lower bound on noise variances; with it chains try steps of one count even if there is hardly any noise."""


class TableLayout(DirichletRows):
    """The cells of all tables, concatenated in C order. In arrays of counts the first axis is over chains.

    Counts are integers stored as floats, exact up to 2^53, because all factors are computed from floats.

    Attributes:
        observed, variance: the noisy count of each cell and the variance of its noise, shape (n_cells,).
        table, row_table: the table of each cell and of each row.
        table_start, table_size: the first cell and the number of cells of each table.
        table_row, table_rows: the first row and the number of rows of each table.
        largest: the largest possible total of each table, infinite if it is unbounded.
        known: whether the total of each table is known.
        coupled: whether the factors R of the rows of a table may differ from 1.
    """

    def __init__(self, tables: Sequence[NoisyTable]) -> None:
        self.tables = tables
        self.observed = np.concatenate([np.ravel(t.observed) for t in tables]).astype(np.float64)
        shapes = np.array([np.shape(t.concentration) for t in tables], dtype=np.int64)
        self.table_rows, self.table_size = shapes[:, 0], shapes.prod(axis=1)
        self.table_start, self.table_row = starts_of(self.table_size), starts_of(self.table_rows)
        self.row_table = np.repeat(np.arange(len(tables)), self.table_rows)
        concentration = np.concatenate([np.ravel(t.concentration) for t in tables]).astype(np.float64)
        super().__init__(concentration, shapes[self.row_table, 1])
        self.table = self.row_table[self.row]
        self.largest = np.array([math.inf if t.total.kind == "unbounded" else t.total.n for t in tables])
        self.known = np.array([t.total.kind == "known" for t in tables])
        self._set_noise()
        self._set_row_factors()

    def _set_noise(self) -> None:
        """Set the noise of cells; its log density is -linear * |z| - quadratic * z^2, unless this is not exact."""
        decays = [None if (decay := t.noise.decay) is None or not decay.exact else decay for t in self.tables]
        self._shapeless = [t for t, decay in enumerate(decays) if decay is None]
        slopes = np.array([(0.0, 0.0) if decay is None else (decay.linear, decay.quadratic) for decay in decays])
        self._any_linear, self._any_quadratic = bool(slopes[:, 0].any()), bool(slopes[:, 1].any())
        self._linear, self._quadratic = slopes[self.table].T
        self.variance = np.array([max(table.noise.variance, _MIN_VARIANCE) for table in self.tables])[self.table]

    def _set_row_factors(self) -> None:
        """Set the factors of cells and rows, and the slopes of their logarithms near the observed counts."""
        row_concentration = np.concatenate([np.ravel(t.row_concentration) for t in self.tables]).astype(np.float64)
        shift = row_concentration - self.row_sums
        shift = np.where(np.abs(shift) <= 1e-9 * self.row_sums, 0.0, shift)
        margins = [margins_of(table) for table in self.tables]
        self._margin, self.margin_precision = (np.concatenate(parts) for parts in zip(*margins, strict=True))
        self.cells = GammaRatios(np.ones_like(self.concentration), self.concentration - 1.0)
        self._ratios = GammaRatios(self.row_sums, shift)
        self._urns = GammaRatios(np.ones_like(self.row_sums), row_concentration - 1.0)
        has_factor = (shift != 0.0) | (self.margin_precision > 0.0)
        self.coupled = np.logical_or.reduceat(has_factor, self.table_row)
        self._total_base = np.add.reduceat(row_concentration, self.table_row)
        typical = np.maximum(self.row_totals(self.observed[None])[0], 0.0)
        self.row_tilt = shift / (self.row_sums + typical + 1.0)
        self.typical_total = np.minimum(np.add.reduceat(typical, self.table_row), self.largest)
        self.total_tilt = (1.0 - self._total_base) / (self._total_base + self.typical_total + 1.0)

    def per_table(self, values: Floats) -> Floats:
        """Return sums over the rows of each table, shape (chains, n_tables)."""
        return np.asarray(np.add.reduceat(values, self.table_row, axis=1))

    def log_noise(self, counts: Floats, cells: Integers) -> Floats:
        """Return the log density of the noise of some cells, up to constants; ``counts`` have shape (..., n)."""
        away = self.observed[cells] - counts
        if not self._shapeless and not self._any_quadratic:
            np.abs(away, out=away)
            away *= -self._linear[cells]
            return np.asarray(away)
        if not self._shapeless and not self._any_linear:
            away *= away
            away *= -self._quadratic[cells]
            return np.asarray(away)
        log_density = np.asarray(-(self._quadratic[cells] * np.abs(away) + self._linear[cells]) * np.abs(away))
        for t in self._shapeless:
            of_table = self.table[cells] == t
            log_density[..., of_table] = self.tables[t].noise.log_pmf(np.rint(away[..., of_table]).astype(np.int64))
        return log_density

    def log_cells(self, counts: Floats, cells: Integers) -> Floats:
        """Return the log of noise(y - c) * Gamma(a + c) / Gamma(c + 1) for some cells; counts have shape (..., n)."""
        noise = self.log_noise(counts, cells)
        return noise if self.cells.flat else noise + self.cells(counts, cells)

    def log_rows(self, totals: Floats, rows: Integers) -> Floats:
        """Return the log of the factor R of some rows, up to constants; ``totals`` have shape (..., n)."""
        margin = self._log_margin(totals, rows)
        return margin if self._ratios.flat else margin + self._ratios(totals, rows)

    def log_urns(self, totals: Floats, rows: Integers) -> Floats:
        """Return the log of Normal(margin; N, variance) * Gamma(b + N) / Gamma(N + 1) for rows; see ``log_rows``."""
        return self._log_margin(totals, rows) + self._urns(totals, rows)

    def _log_margin(self, totals: Floats, rows: Integers) -> Floats:
        return np.asarray(-0.5 * self.margin_precision[rows] * (totals - self._margin[rows]) ** 2)

    def log_tables(self, counts: Floats) -> Floats:
        """Return the log of the product of the factors T and R of every table, -inf for impossible totals.

        The shape is (chains, n_tables).
        """
        of_rows = self.row_totals(counts)
        totals = self.per_table(of_rows)
        possible = (totals >= 0.0) & (totals <= self.largest)
        value = np.where(possible, -log_gamma_ratio(np.maximum(totals, 0.0) + 1.0, self._total_base - 1.0), -np.inf)
        if self.coupled.any():
            value = value + self.per_table(self.log_rows(of_rows, np.arange(of_rows.shape[1])))
        return value

    def start(self, chains: int, rng: np.random.Generator) -> Floats:
        """Return possible counts near the observed counts minus simulated noise, shape (chains, n_cells)."""
        counts = np.empty((chains, len(self.observed)))
        for t, table in enumerate(self.tables):
            within = slice(self.table_start[t], self.table_start[t] + self.table_size[t])
            away = table.noise.simulate(rng, (chains, int(self.table_size[t])))
            for chain in range(chains):
                point = self.observed[within] - away[chain]
                total = self.largest[t] if self.known[t] else float(np.clip(np.rint(point.sum()), 0, self.largest[t]))
                counts[chain, within] = _round_to_total(project_on_simplex(point, total), total)
        return counts


def margins_of(table: NoisyTable) -> tuple[Floats, Floats]:
    """Return the observed row totals and their precisions, shape (n_rows,) each; both are 0 for totals not observed."""
    if table.margin is None or table.margin_variance is None:
        return np.zeros(len(table.row_concentration)), np.zeros(len(table.row_concentration))
    precision = 1.0 / np.asarray(table.margin_variance, dtype=np.float64)
    return np.where(precision > 0.0, table.margin, 0.0), precision


def _round_to_total(point: Floats, total: float) -> Floats:
    """Return non-negative integers near ``point`` whose sum is the integer ``total``."""
    whole = np.floor(point)
    missing = int(total - whole.sum())
    if missing > 0:
        np.add.at(whole, np.resize(np.argsort(whole - point), missing), 1.0)
    for _ in range(-missing):  # rounding may make the sum of floats one count too high
        whole[np.argmax(whole)] -= 1.0
    return whole


class GammaRatios:
    """The function log Gamma(base + shift + x) - log Gamma(base + x), for columns with different bases and shifts.

    For small x the values are tabulated. For larger x the log ratio is computed as shift * log(z) +
    shift * (1 - shift^2) / (24 * z^2) with z = x + base + (shift - 1) / 2. The error is about shift^5 / (960 * z^4),
    which is below 1e-10.

    Source: Tricomi and Erdelyi 1951, the asymptotic expansion of a ratio of Gamma functions (in even powers of z).

    Attributes:
        flat: whether every ratio is 1.
    """

    def __init__(self, base: Floats, shift: Floats) -> None:
        kinds, kind = np.unique(np.column_stack([base, shift]), axis=0, return_inverse=True)
        self._base, self._shift, self._kind = base, shift, kind.ravel()
        self.flat = not shift.any()
        largest = float(np.abs(kinds[:, 1]).max(initial=0.0))
        length = 64.0 + 60.0 * largest**1.25
        self._table: Floats | None = None
        if not self.flat and length * len(kinds) <= _MAX_TABLE_ENTRIES:
            counts = np.arange(int(length) + 1)
            self._table = log_gamma_ratio(kinds[:, :1] + counts, kinds[:, 1:])

    def __call__(self, x: Floats, columns: Integers) -> Floats:
        """Return the log ratios at non-negative whole numbers x, shape (..., n); ``columns`` has shape (n,)."""
        if self._table is None:
            return log_gamma_ratio(x + self._base[columns], self._shift[columns])
        length = self._table.shape[1]
        offset = self._kind[columns] * length
        near = np.asarray(self._table.take(np.minimum(x, length - 1.0).astype(np.int64) + offset))
        if not x.size or x.max() < length:
            return near
        shift = self._shift[columns]
        z = x + (self._base[columns] + 0.5 * (shift - 1.0))
        far = shift * np.log(np.maximum(z, 1.0)) + shift * (1.0 - shift * shift) / 24.0 / np.maximum(z * z, 1.0)
        return np.where(x < length, near, far)
