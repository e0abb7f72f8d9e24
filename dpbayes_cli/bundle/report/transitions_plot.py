"""The transitions between the states of a hidden Markov model, as a table with shaded cells."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.report.inline_svg import (
    LINE,
    QUIET,
    SERIES,
    Picture,
    blank_canvas,
    draw_text,
    inline_svg,
    shown_text,
)

MAX_TRANSITION_STATES = 12
"""The largest number of states in the table."""
_FONT = 9.0
_WIDTH, _HEIGHT, _GAP = 0.52, 0.32, 0.12
"""In inches: the sides of a cell, and the gap between the row of the first step and the other rows."""
_LEFT, _TOP, _PAD = 1.0, 0.46, 0.08
_MAX_OPACITY = 0.5
"""The opacity of a cell with probability 1; numbers on it stay legible in light and dark colors."""


def transitions_plot(transition: Floats, initial: Floats, name: str) -> Picture:
    """Return a table of posterior mean probabilities in shaded cells: of the first state and of the transitions.

    A transition is from the state of its row to the state of its column.
    """
    count = min(len(transition), MAX_TRANSITION_STATES)
    width = max(_LEFT + count * _WIDTH + _PAD, 2.2)
    height = _TOP + (count + 1) * _HEIGHT + _GAP + _PAD
    figure, panel = blank_canvas(width, height)
    middle = _LEFT + count * _WIDTH / 2
    draw_text(panel, (middle, 0.12), "to state", _FONT, QUIET)
    for k in range(count):
        draw_text(panel, (_LEFT + (k + 0.5) * _WIDTH, 0.33), str(k + 1), _FONT)
    _draw_row(panel, _TOP, "at first", initial[:count])
    for k in range(count):
        top = _TOP + (k + 1) * _HEIGHT + _GAP
        _draw_row(panel, top, f"from state {k + 1}", transition[k, :count])
    caption = (
        "Posterior means of the probability of each state at the first step (first row), and of each transition (one "
        "row for each state that it starts from)."
    )
    caption += shown_text([f"the first {count} of {len(transition)} states"] if count < len(transition) else [])
    label = f"{caption} {'; '.join(_in_words(transition, initial, count))}."
    return Picture(name, inline_svg(figure, name, label, 1.0), caption)


def _draw_row(panel: Axes, top: float, label: str, probabilities: Floats) -> None:
    middle = top + _HEIGHT / 2
    draw_text(panel, (_LEFT - 0.1, middle), label, _FONT, align="right")
    for k, p in enumerate(probabilities.tolist()):
        place = (_LEFT + k * _WIDTH, top)
        panel.add_patch(Rectangle(place, _WIDTH, _HEIGHT, color=SERIES[0], alpha=_MAX_OPACITY * p, linewidth=0))
        panel.add_patch(Rectangle(place, _WIDTH, _HEIGHT, facecolor="none", edgecolor=LINE, linewidth=0.6))
        draw_text(panel, (place[0] + _WIDTH / 2, middle), _number(p), _FONT)


def _in_words(transition: Floats, initial: Floats, count: int) -> list[str]:
    rows = {"at first": initial, **{f"from state {k + 1}": transition[k] for k in range(count)}}
    return [
        f"{label}: " + ", ".join(f"to {k + 1} {_number(p)}" for k, p in enumerate(row[:count].tolist()))
        for label, row in rows.items()
    ]


def _number(p: float) -> str:
    """Return a probability with two digits; only 0 is written 0.00, and only 1 is written 1.00."""
    if 0.0 < p < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= p < 1.0 else f"{p:.2f}"
