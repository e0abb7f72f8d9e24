"""The posterior of one variable's table: a panel for each value, a row for each combination of its parents' values.

For a variable without parents, the values are the rows of a single panel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.cut_text import fitting
from dpbayes_cli.bundle.report.inline_svg import INK, LINE, SERIES, Picture, blank_figure, inline_svg

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

MAX_ROWS, MAX_VALUES = 24, 8
_FONT = 9.0
_POINT = 1.0 / 72.0
_LABEL_EMS = 26.0
_MIN_PANEL_WIDTH = 1.05
"""In inches."""


def table_plot(
    variable: str,
    values: Sequence[str],
    parents: Mapping[str, Sequence[str]],
    cells: Mapping[str, Floats],
    name: str,
) -> Picture:
    """Return the posterior means and 90 % intervals of a table's first rows and values.

    Args:
        variable: the child's name.
        values: the names of its values.
        parents: for each parent, in their order, the names of its values.
        cells: mean, q05 and q95 of every cell, each with the cells in C order over parents and child.
        name: the figure's name in the page.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    n_rows = math.prod(map(len, parents.values()))
    rows, columns = min(n_rows, MAX_ROWS), min(len(values), MAX_VALUES)
    mean, low, high = (cells[key].reshape(n_rows, len(values)) for key in ("mean", "q05", "q95"))
    labels = [_row_label(parents, row) for row in range(rows)]
    titles = list(values[:columns])
    if not parents:  # the values are the rows
        mean, low, high = mean.T, low.T, high.T
        rows, columns = min(len(values), MAX_ROWS), 1
        labels, titles = [fitting(value, _LABEL_EMS) for value in values[:rows]], [""]
    panel_width = max(_MIN_PANEL_WIDTH, min(3.6, 4.2 / columns))
    figure, panels = blank_figure(panel_width * columns + 2.4, 0.62 + 0.2 * rows, columns)
    if isinstance(layout := figure.get_layout_engine(), ConstrainedLayoutEngine):
        layout.set(wspace=0.06)
    places, end = range(rows), axis_end(float(high[:rows, :columns].max()))
    for k, panel in enumerate(panels):
        color = SERIES[k % len(SERIES)]
        panel.hlines(places, low[:rows, k], high[:rows, k], color=color, linewidth=2.2, alpha=0.55)
        panel.plot(mean[:rows, k], places, linestyle="none", marker="o", markersize=3.6, color=color)
        title = fitting(titles[k], 0.9 * panel_width / (_FONT * _POINT))
        panel.set_title(title, fontsize=_FONT, color=INK, parse_math=False)
        panel.set_yticks(places, labels if k == 0 else [""] * rows, parse_math=False)
        panel.tick_params(axis="y", length=0, labelcolor=INK)
        panel.set_ylim(rows - 0.4, -0.6)
        panel.set_xlim(-0.03 * end, end)  # a dot at zero is whole
        panel.locator_params(axis="x", nbins=2 if columns > 3 else 4)
        panel.grid(axis="x", color=LINE, linewidth=0.5)
        panel.set_axisbelow(True)
    extents = [(rows, n_rows, "rows"), (columns, len(values), "values")] if parents else [(rows, len(values), "values")]
    caption = _caption(variable, list(parents), extents)
    return Picture(name, inline_svg(figure, name, caption), caption)


def _row_label(parents: Mapping[str, Sequence[str]], row: int) -> str:
    """Return the parents' values in a row of the table, each cut so that all of them fit."""
    if not parents:
        return ""
    row_values = []
    for levels in reversed(list(parents.values())):
        row_values.append(levels[row % len(levels)])
        row //= len(levels)
    share = (_LABEL_EMS - 1.0 * (len(row_values) - 1)) / len(row_values)
    return fitting(", ".join(fitting(value, max(share, 2.0)) for value in reversed(row_values)), _LABEL_EMS)


def axis_end(largest: float) -> float:
    """Return the end of an axis of probabilities: one, or less if all probabilities are small."""
    return next(end for end in (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.02) if largest <= end or end > 1.0)


def _caption(variable: str, parents: Sequence[str], extents: Sequence[tuple[int, int, str]]) -> str:
    given = f" given {', '.join(parents)} (a row for each combination, in this order)" if parents else ""
    caption = f"Posterior means and 90 % intervals of the probabilities of {variable}{given}."
    kept = [f"the first {shown} of {count} {noun}" for shown, count, noun in extents if shown < count]
    return f"{caption} Shown: {' and '.join(kept)}." if kept else caption
