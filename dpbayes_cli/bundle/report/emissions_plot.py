"""The emissions of one feature of a hidden Markov model: a panel for each state, a bar for each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.cut_text import fitting
from dpbayes_cli.bundle.report.inline_svg import HUES, INK, LINE, OTHERS, Picture, blank_figure, inline_svg
from dpbayes_cli.bundle.report.table_plot import axis_end

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

MAX_STATES, MAX_VALUES = 8, 24
_FONT = 9.0
_LABEL_EMS = 20.0
_MIN_PANEL_WIDTH, _MAX_PANEL_WIDTH, _ALL_PANELS_WIDTH = 1.05, 2.4, 5.6
"""In inches: the limits of one panel, and the width that all panels share."""


def hue_of(state: int) -> str:
    """Return the color of a state (the first is 0): its own hue, or the grey that further states share."""
    return HUES[state] if state < len(HUES) else OTHERS


def emissions_plot(feature: str, values: Sequence[str], cells: Mapping[str, Floats], name: str) -> Picture:
    """Return the posterior means and 90 % intervals of a feature's probabilities in the first states.

    If there are many values, only those most likely in some state are plotted, in their order.

    Args:
        feature: the name of the feature.
        values: the names of its values.
        cells: mean, q05 and q95 of every probability, each of shape (n_states, n_values).
        name: the figure's name in the page.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    mean, low, high = (cells[key] for key in ("mean", "q05", "q95"))
    n_states, columns = len(mean), min(len(mean), MAX_STATES)
    kept = drawn_values(mean[:columns])
    rows, places = len(kept), range(len(kept))
    labels = [fitting(values[i], _LABEL_EMS) for i in kept]
    width = min(max(_MIN_PANEL_WIDTH, _ALL_PANELS_WIDTH / columns), _MAX_PANEL_WIDTH)
    figure, panels = blank_figure(width * columns + 1.8, 0.62 + 0.2 * rows, columns)
    if isinstance(layout := figure.get_layout_engine(), ConstrainedLayoutEngine):
        layout.set(wspace=0.08)
    end = axis_end(float(high[:columns, kept].max()))
    for k, panel in enumerate(panels):
        color = hue_of(k)
        panel.barh(places, mean[k, kept], height=0.66, color=color, alpha=0.3)
        panel.hlines(places, low[k, kept], high[k, kept], color=color, linewidth=1.6)
        panel.plot(mean[k, kept], places, linestyle="none", marker="o", markersize=3.6, color=color)
        panel.set_title(f"state {k + 1}", fontsize=_FONT, color=INK)
        panel.set_yticks(places, labels if k == 0 else [""] * rows, parse_math=False)
        panel.tick_params(axis="y", length=0, labelcolor=INK)
        panel.set_ylim(rows - 0.4, -0.6)
        panel.set_xlim(-0.03 * end, end)  # a dot at zero is whole
        panel.locator_params(axis="x", nbins=2 if columns > 3 else 4)
        panel.grid(axis="x", color=LINE, linewidth=0.5)
        panel.set_axisbelow(True)
    caption = _caption(feature, (columns, n_states), (rows, len(values)))
    likeliest = (f"state {k + 1} mostly {_mostly(values, mean[k])}" for k in range(columns))
    return Picture(name, inline_svg(figure, name, f"{caption} Means: {'; '.join(likeliest)}.", 1.0), caption)


def drawn_values(mean: Floats) -> Integers:
    """Return the indices of the values that are plotted: all of them, or the most likely ones, in their order.

    Args:
        mean: shape (n_states, n_values).
    """
    import numpy as np

    most = np.argsort(-mean.max(axis=0), kind="stable")[:MAX_VALUES]
    return np.sort(most)


def _mostly(values: Sequence[str], mean: Floats) -> str:
    best = int(mean.argmax())
    return f"{values[best]} ({mean[best]:.2f})"


def _caption(feature: str, states: tuple[int, int], values: tuple[int, int]) -> str:
    caption = f"Posterior means and 90 % intervals of the probabilities of {feature} in each state."
    kept = []
    if states[0] < states[1]:
        kept.append(f"the first {states[0]} of {states[1]} states")
    if values[0] < values[1]:
        kept.append(f"the {values[0]} of {values[1]} values most likely in a state")
    return f"{caption} Shown: {' and '.join(kept)}." if kept else caption
