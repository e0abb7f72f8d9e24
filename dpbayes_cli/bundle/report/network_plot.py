"""The picture of a network: a box for each variable, an arrow from each parent to its child."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from dpbayes_cli.bundle.report.cut_text import cut_text, ems_of
from dpbayes_cli.bundle.report.inline_svg import INK, QUIET, SERIES, Picture, blank_canvas, draw_text, inline_svg
from dpbayes_cli.bundle.report.layered_layout import Layout, lay_out

MAX_VARIABLES = 40  # the largest number of variables that are drawn
_FONT, _SMALL = 9.0, 7.5
_POINT = 1.0 / 72.0
_NAME_EMS = 10.0
_HEIGHT, _GAP, _LANE, _ROW_GAP, _PAD = 0.42, 0.14, 0.06, 0.42, 0.08
"""In inches: the height of a box, the gap between boxes, the width of a lane, the gap between rows, the margin."""
_MAX_WIDTH = 9.4
_HEAD = 0.07  # the length of an arrow's head, in inches

_Point = tuple[float, float]


def network_plot(
    names: Sequence[str], sizes: Sequence[int], parents: Sequence[Sequence[int]], target: int | None, name: str
) -> Picture:
    """Return the picture of a network, or of a part of it if it is large.

    ``sizes`` are numbers of values, ``parents`` are indices of variables, and the variable ``target`` is marked.
    """
    shown = shown_variables(parents, target)
    place = {i: k for k, i in enumerate(shown)}
    shown_parents = [[place[j] for j in parents[i] if j in place] for i in shown]
    labels = [(cut_text(names[i], _NAME_EMS), _values(sizes[i], marked=i == target)) for i in shown]
    longest = max((max(ems_of(top) * _FONT, ems_of(bottom) * _SMALL) for top, bottom in labels), default=0.0)
    box = longest * _POINT + 2 * _PAD
    layout = lay_out(shown_parents, box, _GAP, _LANE, _MAX_WIDTH)
    height = max(layout.n_rows, 1) * (_HEIGHT + _ROW_GAP) - _ROW_GAP + 2 * _PAD
    figure, panel = blank_canvas(layout.width + 2 * _PAD, height)
    panel.set_xlim(-_PAD, layout.width + _PAD)
    panel.set_ylim(-height + _PAD, _PAD)
    _draw_edges(panel, layout, shown_parents, box)
    for k, i in enumerate(shown):
        _draw_box(panel, layout.x[k], _top(layout.row[k]), box, labels[k], marked=i == target)
    caption = _caption(names, parents, shown, target)
    return Picture(name, inline_svg(figure, name, caption), caption)


def shown_variables(parents: Sequence[Sequence[int]], target: int | None) -> tuple[int, ...]:
    """Return the variables that are drawn, each after its parents.

    If there are more than ``MAX_VARIABLES``, only the target and the first variables of its Markov blanket are drawn,
    or the first variables if there is no target.
    """
    order = sort_parents_first(parents)
    if len(order) <= MAX_VARIABLES:
        return order
    if target is None:
        return order[:MAX_VARIABLES]
    blanket = markov_blanket(parents, target)
    kept = {target, *[i for i in order if i in blanket][: MAX_VARIABLES - 1]}
    return tuple(i for i in order if i in kept)


def sort_parents_first(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the vertices of an acyclic graph in their given order, with the ancestors of a vertex moved before it.

    The first vertices of this order are connected with each other. In an order by depth, all of them would be roots.
    """
    ordered: dict[int, None] = {}
    for first in range(len(parents)):
        path = [first]
        while path:
            waiting = [j for j in parents[path[-1]] if j not in ordered]
            if waiting:
                path.append(waiting[0])
            else:
                ordered.setdefault(path.pop())
    return tuple(ordered)


def markov_blanket(parents: Sequence[Sequence[int]], target: int) -> frozenset[int]:
    """Return the parents and children of a variable, and the other parents of its children."""
    families = [{target, *parents[target]}, *({i, *own} for i, own in enumerate(parents) if target in own)]
    return frozenset().union(*families) - {target}


def _values(size: int, *, marked: bool) -> str:
    values = f"{size} value{'s' if size != 1 else ''}"
    return f"target, {values}" if marked else values


def _top(row: int) -> float:
    return -row * (_HEIGHT + _ROW_GAP)


def _draw_box(panel: Axes, x: float, top: float, box: float, label: tuple[str, str], *, marked: bool) -> None:
    color = SERIES[1] if marked else SERIES[0]
    shape = FancyBboxPatch(
        (x - box / 2, top - _HEIGHT),
        box,
        _HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.07",
        facecolor=to_rgba(color, 0.22 if marked else 0.10),
        edgecolor=color,
        linewidth=2.0 if marked else 0.9,
    )
    panel.add_artist(shape)  # the limits are set
    for words, share, size, ink in ((label[0], 0.36, _FONT, INK), (label[1], 0.76, _SMALL, QUIET)):
        draw_text(panel, (x, top - share * _HEIGHT), words, size, ink)


def _draw_edges(panel: Axes, layout: Layout, parents: Sequence[Sequence[int]], box: float) -> None:
    """Draw each edge from the middle of its parent's lower side to a separate point on its child's upper side."""
    drawn: set[tuple[_Point, _Point]] = set()
    for i, own_parents in enumerate(parents):
        arriving = sorted(((layout.x[j], *layout.routes[j, i])[-1], j) for j in own_parents)
        for k, (_, j) in enumerate(arriving):
            spread = 0.7 * box * ((k + 0.5) / len(arriving) - 0.5)
            end = (layout.x[i] + spread, _top(layout.row[i]))
            start = (layout.x[j], _top(layout.row[j]) - _HEIGHT)
            for r, x in enumerate(layout.routes[j, i], layout.row[j] + 1):
                _draw_piece(panel, drawn, start, (x, _top(r)))
                _draw_piece(panel, drawn, (x, _top(r)), (x, _top(r) - _HEIGHT))
                start = (x, _top(r) - _HEIGHT)
            _draw_piece(panel, drawn, start, (end[0], end[1] + _HEAD))
            corners = [end, (end[0] - _HEAD / 2.2, end[1] + _HEAD), (end[0] + _HEAD / 2.2, end[1] + _HEAD)]
            panel.fill(*zip(*corners, strict=True), color=QUIET, linewidth=0)


def _draw_piece(panel: Axes, drawn: set[tuple[_Point, _Point]], start: _Point, end: _Point) -> None:
    """Draw a curve that is vertical at both ends, unless it is drawn already: the edges of one parent share pieces."""
    if (start, end) in drawn:
        return
    drawn.add((start, end))
    middle = (start[1] + end[1]) / 2
    path = Path(
        [start, (start[0], middle), (end[0], middle), end], [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    )
    panel.add_artist(PathPatch(path, facecolor="none", edgecolor=QUIET, linewidth=0.8))


def _caption(names: Sequence[str], parents: Sequence[Sequence[int]], shown: Sequence[int], target: int | None) -> str:
    n_edges = sum(map(len, parents))
    text = f"The network: {_count_text(len(names), 'variable')}, {_count_text(n_edges, 'arrow')} from parent to child"
    if target is not None:
        text += f"; the target is {names[target]}"
    if len(shown) == len(names):
        return f"{text}."
    if target is None:
        return f"{text}. Shown: the first {len(shown)} variables, parents before children, and the arrows between them."
    blanket = markov_blanket(parents, target)
    if len(blanket) < len(shown):
        family = "parents, children and the children's other parents"
        return f"{text}. Shown: the target and its Markov blanket ({family}), {_count_text(len(shown), 'variable')}."
    return (
        f"{text}. Shown: the target and the first {len(shown) - 1} of the {len(blanket)} variables in its Markov "
        "blanket, parents before children."
    )


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
