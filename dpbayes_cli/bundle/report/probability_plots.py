"""Plot posteriors of probabilities: a table of a network, and the emissions and the transitions of hidden states.

Tables and emissions are panels that stand side by side and share the labels of their rows. Each row shows one
probability: a dot marks its mean, and a line its 90 % interval. Transitions are a table with shaded cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.bundle.report.cut_text import cut_text
from dpbayes_cli.bundle.report.inline_svg import (
    INK,
    LINE,
    QUIET,
    SERIES,
    Picture,
    blank_canvas,
    blank_figure,
    draw_text,
    hue_of,
    inline_svg,
    shown_text,
)
from dpbayes_cli.privacy.lazy_numpy import np

MAX_TABLE_ROWS, MAX_TABLE_VALUES = 24, 8
MAX_STATES, MAX_EMISSIONS, MAX_TRANSITION_STATES = 8, 24, 12
_FONT = 9.0
_POINT = 1.0 / 72.0
_TABLE_LABEL_EMS, _EMISSION_LABEL_EMS = 26.0, 20.0
_MIN_PANEL_WIDTH = 1.05  # in inches
_WIDTH, _HEIGHT, _GAP = 0.52, 0.32, 0.12
"""In inches: the sides of a cell, and the gap between the row of the first step and the other rows."""
_LEFT, _TOP, _PAD = 1.0, 0.46, 0.08
_MAX_OPACITY = 0.5  # the opacity of a cell with probability 1; numbers on it stay legible in light and dark colors


def table_plot(
    variable: str,
    values: Sequence[str],
    parents: Mapping[str, Sequence[str]],
    cells: Mapping[str, Floats],
    name: str,
) -> Picture:
    """Return a plot of a conditional probability table, with a panel for each value and a row for each table row.

    Of a large table, the first rows and values are plotted. A variable without parents has a single panel, with a row
    for each value. ``cells`` holds mean, q05 and q95 of every cell, in C order over the parents and the child.
    """
    n_rows = math.prod(map(len, parents.values()))
    panels = {key: part.reshape(n_rows, -1) for key, part in cells.items()}
    if parents:
        rows, columns = min(n_rows, MAX_TABLE_ROWS), min(len(values), MAX_TABLE_VALUES)
        panels = {key: part.T for key, part in panels.items()}
        labels, titles = [_row_label(parents, row) for row in range(rows)], list(values[:columns])
        extents = [(rows, n_rows, "rows"), (columns, len(values), "values")]
    else:
        rows, columns = min(len(values), MAX_TABLE_ROWS), 1
        labels, titles = [cut_text(value, _TABLE_LABEL_EMS) for value in values[:rows]], [""]
        extents = [(rows, len(values), "values")]
    width = max(_MIN_PANEL_WIDTH, min(3.6, 4.2 / columns))
    figure = _draw_panels(
        {key: part[:columns, :rows] for key, part in panels.items()},
        labels,
        [(cut_text(title, 0.9 * width / (_FONT * _POINT)), SERIES[k % len(SERIES)]) for k, title in enumerate(titles)],
        (width, 2.4, 0.06),
        has_bars=False,
    )
    given = (
        f" given {', '.join(parents)} (a row for each combination of their values, in this order)" if parents else ""
    )
    caption = f"Posterior means and 90 % intervals of the probabilities of {variable}{given}."
    caption += shown_text([f"the first {shown} of {count} {noun}" for shown, count, noun in extents if shown < count])
    return Picture(name, inline_svg(figure, name, caption), caption)


def emissions_plot(feature: str, values: Sequence[str], cells: Mapping[str, Floats], name: str) -> Picture:
    """Return a plot of the probabilities of a feature's values, with a panel for each state and a row for each value.

    If there are many states or values, only the first states and the values that are most likely in some state are
    plotted. ``cells`` holds mean, q05 and q95 of every probability, each of shape (n_states, n_values).
    """
    mean = cells["mean"]
    columns = min(len(mean), MAX_STATES)
    kept = drawn_values(mean[:columns])
    figure = _draw_panels(
        {key: part[:columns, kept] for key, part in cells.items()},
        [cut_text(values[i], _EMISSION_LABEL_EMS) for i in kept],
        [(f"state {k + 1}", hue_of(k)) for k in range(columns)],
        (min(max(_MIN_PANEL_WIDTH, 5.6 / columns), 2.4), 1.8, 0.08),
        has_bars=True,
    )
    left_out = [f"the first {columns} of {len(mean)} states"] if columns < len(mean) else []
    if len(kept) < len(values):
        left_out.append(f"the {len(kept)} of {len(values)} values that are most likely in some state")
    caption = f"Posterior means and 90 % intervals of the probabilities of {feature} in each state."
    caption += shown_text(left_out)
    best = [int(row.argmax()) for row in mean[:columns]]
    likeliest = (f"{values[i]} in state {k + 1} ({mean[k, i]:.2f})" for k, i in enumerate(best))
    return Picture(name, inline_svg(figure, name, f"{caption} Most likely: {'; '.join(likeliest)}.", 1.0), caption)


def drawn_values(mean: Floats) -> Integers:
    """Return the ascending indices of the plotted values: all values, or the most likely values if there are many."""
    most = np.argsort(-mean.max(axis=0), kind="stable")[:MAX_EMISSIONS]
    return np.sort(most)


def _draw_panels(
    cells: Mapping[str, Floats],
    labels: Sequence[str],
    titles: Sequence[tuple[str, str]],
    sizes: tuple[float, float, float],
    *,
    has_bars: bool,
) -> Figure:
    """Draw probabilities.

    ``cells`` holds mean, q05 and q95 of every probability, each of shape (n_panels, n_rows). ``titles`` holds the title
    and the color of each panel. ``sizes`` are the width of a panel and the total width of the margins, in inches, and
    the relative gap between panels. With ``has_bars``, a bar reaches from 0 to each mean.
    """
    panel_width, margin, gap = sizes
    mean, low, high = (cells[key] for key in ("mean", "q05", "q95"))
    places, end = range(len(labels)), axis_end(float(high.max()))
    figure, panels = blank_figure(panel_width * len(mean) + margin, 0.62 + 0.2 * len(labels), len(mean))
    if isinstance(layout := figure.get_layout_engine(), ConstrainedLayoutEngine):
        layout.set(wspace=gap)
    for k, (panel, (title, color)) in enumerate(zip(panels, titles, strict=True)):
        if has_bars:
            panel.barh(places, mean[k], height=0.66, color=color, alpha=0.3)
            panel.hlines(places, low[k], high[k], color=color, linewidth=1.6)
        else:
            panel.hlines(places, low[k], high[k], color=color, linewidth=2.2, alpha=0.55)
        panel.plot(mean[k], places, linestyle="none", marker="o", markersize=3.6, color=color)
        panel.set_title(title, fontsize=_FONT, color=INK, parse_math=False)
        panel.set_yticks(places, labels if k == 0 else [""] * len(labels), parse_math=False)
        panel.tick_params(axis="y", length=0, labelcolor=INK)
        panel.set_ylim(len(labels) - 0.4, -0.6)
        panel.set_xlim(-0.03 * end, end)  # a dot at zero is whole
        panel.locator_params(axis="x", nbins=2 if len(mean) > 3 else 4)
        panel.grid(axis="x", color=LINE, linewidth=0.5)
        panel.set_axisbelow(True)
    return figure


def axis_end(largest: float) -> float:
    """Return the upper end of a probability axis; it is less than 1 if all probabilities are small."""
    return next(end for end in (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.02) if largest <= end or end > 1.0)


def _row_label(parents: Mapping[str, Sequence[str]], row: int) -> str:
    """Return the parents' values in a row of the table, each shortened so that all of them fit."""
    row_values = []
    for levels in reversed(list(parents.values())):
        row_values.append(levels[row % len(levels)])
        row //= len(levels)
    share = (_TABLE_LABEL_EMS - 1.0 * (len(row_values) - 1)) / len(row_values)
    return cut_text(", ".join(cut_text(value, max(share, 2.0)) for value in reversed(row_values)), _TABLE_LABEL_EMS)


def transitions_plot(transition: Floats, initial: Floats, name: str) -> Picture:
    """Return a table of mean probabilities in shaded cells: of the first state, and of moves from row to column."""
    count = min(len(transition), MAX_TRANSITION_STATES)
    width = max(_LEFT + count * _WIDTH + _PAD, 2.2)
    height = _TOP + (count + 1) * _HEIGHT + _GAP + _PAD
    figure, panel = blank_canvas(width, height)
    middle = _LEFT + count * _WIDTH / 2
    draw_text(panel, (middle, 0.12), "to state", _FONT, QUIET)
    for k in range(count):
        draw_text(panel, (_LEFT + (k + 0.5) * _WIDTH, 0.33), str(k + 1), _FONT)
    rows = {"at first": initial, **{f"from state {k + 1}": transition[k] for k in range(count)}}
    words = []
    for k, (label, row) in enumerate(rows.items()):
        _draw_row(panel, _TOP + k * _HEIGHT + (_GAP if k else 0.0), label, row[:count].tolist())
        words.append(f"{label}: " + ", ".join(f"to {i} {_number(p)}" for i, p in enumerate(row[:count].tolist(), 1)))
    caption = (
        "Posterior means of the probability of each state at the first step (first row), and of each transition (one "
        "row for each state that it starts from)."
    )
    caption += shown_text([f"the first {count} of {len(transition)} states"] if count < len(transition) else [])
    return Picture(name, inline_svg(figure, name, f"{caption} {'; '.join(words)}.", 1.0), caption)


def _draw_row(panel: Axes, top: float, label: str, probabilities: Sequence[float]) -> None:
    middle = top + _HEIGHT / 2
    draw_text(panel, (_LEFT - 0.1, middle), label, _FONT, align="right")
    for k, p in enumerate(probabilities):
        place = (_LEFT + k * _WIDTH, top)
        panel.add_patch(Rectangle(place, _WIDTH, _HEIGHT, color=SERIES[0], alpha=_MAX_OPACITY * p, linewidth=0))
        panel.add_patch(Rectangle(place, _WIDTH, _HEIGHT, facecolor="none", edgecolor=LINE, linewidth=0.6))
        draw_text(panel, (place[0] + _WIDTH / 2, middle), _number(p), _FONT)


def _number(p: float) -> str:
    """Return a probability with two digits; only 0 is written 0.00, and only 1 is written 1.00."""
    if 0.0 < p < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= p < 1.0 else f"{p:.2f}"
