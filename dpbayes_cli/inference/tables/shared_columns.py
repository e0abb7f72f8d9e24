"""Make the draws of a tree's tables agree on the totals of the columns that they share.

Each table is drawn by itself, given what other tables say of its rows, but not of its columns. So the totals of each
shared column are drawn once, given its noisy totals in all tables. Each draw of a table is then fitted to the drawn
totals of its rows and columns: its cells are multiplied by a factor for the row and one for the column. A cell without
records stays nearly empty.

This approximates the posterior of tables that agree; without noise it is exact. In simulated trees, intervals of
margins and pairs contain the truth as often as they should. If the noise is larger than the counts, means are as far
from the exact ones as those of tables that do not agree.

Source: Deming and Stephan 1940 (iterative proportional fitting).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import SharedColumn
from dpbayes_cli.inference.tables.table_draws import draw_table
from dpbayes_cli.inference.tables.table_layout import TableLayout

_EMPTY = 1e-3
"""The part of the prior concentrations that is added to the counts: a column without records may get some."""
_MAX_ROUNDS, _TOLERANCE = 50, 1e-4
"""Fitting stops when no row total is off by more than this share of a record, or after so many rounds."""


def fit_shared_columns(
    counts: Floats, layout: TableLayout, shared: Sequence[SharedColumn], rng: np.random.Generator
) -> Floats:
    """Return the draws of the counts of all tables, shape (n_draws, n_cells), fitted to the totals of shared columns.

    A column whose totals cannot be drawn independently is left as it is.
    """
    n, fitted = len(counts), counts.copy()
    draws = {column.table: draw_table(column.totals, n, rng) for column in shared}
    drawn = {table: each.counts for table, each in draws.items() if each is not None}
    for column in shared:
        if column.table not in drawn or column.parent not in {None, *drawn}:
            continue
        first, totals = layout.table_start[column.table], drawn[column.table]
        cells = slice(first, first + layout.table_size[column.table])
        if column.parent is None:
            fitted[:, cells] = totals
        else:
            table = (counts[:, cells] + _EMPTY * layout.concentration[cells]).reshape(n, -1, totals.shape[1])
            fitted[:, cells] = _fit(table, drawn[column.parent], totals).reshape(n, -1)
    return fitted


def _fit(tables: Floats, rows: Floats, columns: Floats) -> Floats:
    """Scale rows and columns of tables, shape (n, n_rows, n_columns), until they have the given totals."""
    columns = columns * (rows.sum(axis=1) / columns.sum(axis=1))[:, None]
    for _ in range(_MAX_ROUNDS):
        of_rows = tables.sum(axis=2)
        if np.abs(of_rows - rows).max() <= _TOLERANCE:
            break
        tables = tables * (rows / np.maximum(of_rows, 1e-300))[:, :, None]
        tables = tables * (columns / np.maximum(tables.sum(axis=1), 1e-300))[:, None, :]
    return tables
