"""The most likely hidden state of each sequence (a row) at each step (a column), as a colored cell.

The stronger the color, the more likely the state. A number marks where a state begins, so that states can be told apart
without color.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.bundle.report.cut_text import cut_text, ems_of
from dpbayes_cli.bundle.report.inline_svg import (
    HUES,
    INK,
    OTHERS,
    PAGE,
    QUIET,
    Picture,
    blank_canvas,
    draw_text,
    hue_of,
    inline_svg,
    shown_text,
)
from dpbayes_cli.core.columns import Column
from dpbayes_cli.privacy.lazy_numpy import np

MAX_SEQUENCES, MAX_STEPS = 40, 120
MAX_NUMBERS = 800  # if the plot shows more runs of equal states than this, no numbers are drawn
STRENGTHS = {0.0: 0.2, 0.5: 0.4, 0.7: 0.62, 0.9: 1.0}
"""The opacity of a cell, keyed by the smallest probability of its state that gets this opacity."""
_POINT = 1.0 / 72.0
_FONT, _SMALL, _TINY = 9.0, 8.0, 6.5
_NAME_EMS, _STEP_EMS = 14.0, 7.0
_PAD, _ROW, _LINE = 0.1, 0.2, 0.22  # in inches: the margin, a row of cells, a line of text
_ALL_CELLS_WIDTH, _MIN_CELL_WIDTH, _MAX_CELL_WIDTH = 7.2, 0.1, 0.5
"""In inches: the width of all cells of a row together, and the smallest and the largest width of a cell."""
_MIN_SCALE = 1.15  # the smallest number of pixels per point; on narrower screens, the figure scrolls
_SWATCH = 0.16
_MIN_LEGEND_WIDTH = 4.6
_STRIDES = (1, 2, 3, 4, 6, 12, 24, 36, 60)


@dataclass(frozen=True)
class _Grid:
    """The positions of the cells, in inches from the upper left corner."""

    left: float
    top: float
    cell: float
    shape: tuple[int, int]

    @property
    def right(self) -> float:
        return self.left + self.shape[1] * self.cell

    @property
    def bottom(self) -> float:
        return self.top + self.shape[0] * _ROW


@dataclass(frozen=True)
class _Item:
    """An entry of the legend: words, after a colored square if the entry has a color."""

    x: float
    line: int
    color: str
    alpha: float
    words: str


def states_plot(sequences: Column, steps: Column, probabilities: Floats, name: str) -> Picture:
    """Return a plot of the most likely states; the probabilities have the shape (n_sequences, n_steps, n_states)."""
    shape = min(len(sequences.levels), MAX_SEQUENCES), min(len(steps.levels), MAX_STEPS)
    shown = probabilities[: shape[0], : shape[1]]
    state, level = shown.argmax(axis=2), levels_of(shown.max(axis=2))
    rows = [cut_text(label, _NAME_EMS) for label in sequences.levels[: shape[0]]]
    left = max(_width(label, _SMALL) for label in rows) + 2 * _PAD
    grid = _Grid(left, _PAD + _LINE, min(max(_ALL_CELLS_WIDTH / shape[1], _MIN_CELL_WIDTH), _MAX_CELL_WIDTH), shape)
    room = max(grid.right - _PAD, _MIN_LEGEND_WIDTH)
    legend = _legend(probabilities.shape[2], room)
    width = room + 2 * _PAD
    bottom = grid.bottom + 2 * _LINE
    height = bottom + (legend[-1].line + 1) * _LINE + _PAD
    figure, panel = blank_canvas(width, height)
    _draw_cells(panel, grid, state, level)
    numbered = _draw_numbers(panel, grid, state, level)
    _draw_axes(panel, grid, rows, steps)
    draw_text(panel, (left - _PAD, grid.top - 0.1), cut_text(sequences.role, _NAME_EMS), _SMALL, QUIET, "right")
    for item in legend:
        _draw_item(panel, _PAD, bottom, item)
    caption = _caption((sequences, steps), shape, numbered=numbered)
    return Picture(name, inline_svg(figure, name, f"{caption} {_in_words(probabilities)}", _MIN_SCALE), caption)


def levels_of(likely: Floats) -> Integers:
    """Return, for each probability, the index of its opacity in ``STRENGTHS``."""
    return np.searchsorted(np.array(list(STRENGTHS)), likely, side="right").astype(np.int64) - 1


def runs_of(states: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first position and the length of each run of a state."""
    first = 0
    for place in range(1, len(states) + 1):
        if place == len(states) or states[place] != states[first]:
            yield first, place - first
            first = place


def stride_of(labels: Sequence[str], cell: float) -> int:
    """Return the smallest distance between labels, in columns of ``cell`` inches, at which they do not overlap."""
    needed = max(_width(label, _SMALL) for label in labels) + 0.5 * _SMALL * _POINT
    return next((stride for stride in _STRIDES if stride * cell >= needed), max(int(needed / cell) + 1, _STRIDES[-1]))


def _width(label: str, font: float) -> float:
    return ems_of(label) * font * _POINT


def _draw_cells(panel: Axes, grid: _Grid, state: Integers, level: Integers) -> None:
    alphas = list(STRENGTHS.values())
    looks = np.minimum(state, len(HUES)) * len(alphas) + level
    gap = min(0.04 * grid.cell, 0.01)
    box = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * (grid.cell - gap, _ROW - 0.01)
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    for look in np.unique(looks).tolist():
        row, column = np.nonzero(looks == look)
        corners = np.stack([grid.left + column * grid.cell, grid.top + row * _ROW], axis=1)
        path = Path((corners[:, None, :] + box).reshape(-1, 2), codes * len(corners))
        color, alpha = hue_of(look // len(alphas)), alphas[look % len(alphas)]
        panel.add_patch(PathPatch(path, facecolor=color, alpha=alpha, linewidth=0))


def _draw_numbers(panel: Axes, grid: _Grid, state: Integers, level: Integers) -> bool:
    """Write each state's number at the start of each of its runs, if it fits; return False if there are too many
    runs."""
    runs = [(row, *run) for row, of_row in enumerate(state.tolist()) for run in runs_of(of_row)]
    if len(runs) > MAX_NUMBERS:
        return False
    for row, first, length in runs:
        number = str(state[row, first] + 1)
        if _width(number, _TINY) > length * grid.cell:
            continue
        x = grid.left + first * grid.cell + max(grid.cell, _width(number, _TINY)) / 2
        strong = level[row, first] == len(STRENGTHS) - 1
        draw_text(panel, (x, grid.top + (row + 0.48) * _ROW), number, _TINY, PAGE if strong else INK)
    return True


def _draw_axes(panel: Axes, grid: _Grid, rows: Sequence[str], steps: Column) -> None:
    """Write the names of the sequences beside their rows, and the names of some steps below their columns."""
    for row, label in enumerate(rows):
        draw_text(panel, (grid.left - _PAD, grid.top + (row + 0.48) * _ROW), label, _SMALL, align="right")
    labels = [cut_text(label, _STEP_EMS) for label in steps.levels[: grid.shape[1]]]
    stride = stride_of(labels, grid.cell)
    for column in range(0, len(labels), stride):
        x, below = grid.left + column * grid.cell, grid.bottom
        if column > 0 and stride > 1 and x + _width(labels[column], _SMALL) > grid.right + _PAD:
            break
        panel.plot([x + 0.5 * grid.cell] * 2, [below, below + 0.04], color=QUIET, linewidth=0.7)
        start, align = (x, "left") if stride > 1 else (x + 0.5 * grid.cell, "center")
        draw_text(panel, (start, below + 0.5 * _LINE + 0.02), labels[column], _SMALL, align=align)
    draw_text(panel, (grid.left, grid.bottom + 1.4 * _LINE), cut_text(steps.role, 40.0), _SMALL, QUIET, "left")


def _legend(n_states: int, room: float) -> list[_Item]:
    """Return the legend in lines that fit the room: first what the colors mean, then what their strengths mean."""
    states = [(hue_of(k), 1.0, f"state {k + 1}") for k in range(min(n_states, len(HUES)))]
    if n_states > len(HUES):
        last = f"s {len(HUES) + 1} to {n_states}" if n_states > len(HUES) + 1 else f" {n_states}"
        states.append((OTHERS, 1.0, f"state{last}"))
    bounds = list(STRENGTHS)[0 if n_states > 2 else 1 :]  # of two states the likelier one is above a half
    strengths = [("", 0.0, "its probability:")]
    for bound in bounds:
        words = f"at least {bound:.0%}" if bound > 0.0 else f"below {bounds[1]:.0%}"
        strengths.append((QUIET, STRENGTHS[bound], words.replace("%", " %")))
    hues = list(_arrange(states, room, 0))
    return [*hues, *_arrange(strengths, room, hues[-1].line + 1)]


def _arrange(items: Sequence[tuple[str, float, str]], room: float, line: int) -> Iterator[_Item]:
    """Yield entries of the legend side by side, beginning at ``line``, and begin a new line if one is full."""
    x = 0.0
    for color, alpha, words in items:
        width = _width(words, _SMALL) + (_SWATCH + 0.06 if color else 0.0)
        if x > 0.0 and x + width > room:
            x, line = 0.0, line + 1
        yield _Item(x, line, color, alpha, words)
        x += width + 0.12


def _draw_item(panel: Axes, left: float, top: float, item: _Item) -> None:
    x, y = left + item.x, top + (item.line + 0.5) * _LINE
    if item.color:
        place = (x, y - _SWATCH / 2)
        panel.add_patch(Rectangle(place, _SWATCH, _SWATCH, facecolor=item.color, alpha=item.alpha, linewidth=0))
        x += _SWATCH + 0.06
    draw_text(panel, (x, y), item.words, _SMALL, INK if item.color else QUIET, "left")


def _caption(axes: tuple[Column, Column], shape: tuple[int, int], *, numbered: bool) -> str:
    sequences, steps = axes
    caption = (
        f"The most likely state by {sequences.role} and {steps.role}; the stronger the color, the more likely the "
        "state."
    )
    caption += " A number marks where a state begins." if numbered else ""
    pairs = zip((sequences, steps), shape, strict=True)
    kept = [f"the first {n} of {len(c.levels)} values of {c.role}" for c, n in pairs if n < len(c.levels)]
    return caption + shown_text(kept)


def _in_words(probabilities: Floats) -> str:
    n_states = probabilities.shape[2]
    shares = np.bincount(probabilities.argmax(axis=2).ravel(), minlength=n_states) / probabilities[..., 0].size
    parts = [f"state {k + 1} in {share:.0%}" for k, share in enumerate(shares[: len(HUES) + 2].tolist())]
    return f"Overall, the most likely state is {', '.join(parts).replace('%', ' %')} of the steps."
