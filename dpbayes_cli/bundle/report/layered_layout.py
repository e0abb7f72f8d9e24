"""A layout of a directed acyclic graph: the vertices stand in rows, every parent above its children.

Source: Sugiyama, Tagawa and Toda (1981): assign vertices to layers, add a lane to each row that an edge passes, order
each row by barycenters, then choose positions. Deviations: a layer that is too wide becomes several rows, and all edges
of one parent share their lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dpbayes_cli.privacy.lazy_numpy import np

_SWEEPS = 24
_PULLS = 12


@dataclass(frozen=True)
class Layout:
    """Positions of vertices and routes of edges."""

    row: tuple[int, ...]  # the row of each vertex, 0 at the top
    x: tuple[float, ...]  # the horizontal center of each vertex
    routes: dict[tuple[int, int], tuple[float, ...]]  # by (parent, child), x in each row between them, from the top
    width: float  # the width of the widest row
    n_rows: int  # the number of rows


@dataclass
class _Rows:
    """The items of each row, by their numbers: first the vertices, then lanes that are kept free for passing edges."""

    row: Sequence[int]  # the row of each vertex
    items: list[list[int]]  # the items of each row, from the left
    lanes: dict[tuple[int, int], int] = field(default_factory=dict)  # by (parent, row), the lane of the parent's edges
    above: dict[int, list[int]] = field(default_factory=dict)  # the items in the row above that edges link to an item
    below: dict[int, list[int]] = field(default_factory=dict)  # the items in the row below that edges link to an item


def lay_out(parents: Sequence[Sequence[int]], box: float, gap: float, lane: float, max_width: float) -> Layout:
    """Return a layout of a graph, given by the parents of each vertex.

    Args:
        box: the width of a vertex.
        gap: the smallest gap between adjacent items of a row.
        lane: the width kept free for an edge that passes a row.
        max_width: the largest width of a row's vertices and the gaps between them; a single vertex may be wider.
    """
    capacity = max(1, int((max_width + gap) / (box + gap)))
    rows = _with_lanes(parents, split_rows(layers_of(parents), capacity))
    _reduce_crossings(rows)
    x, width = _places(rows, len(parents), box, gap, lane)
    routes = {
        (j, i): tuple(x[rows.lanes[j, r]] for r in range(rows.row[j] + 1, rows.row[i]))
        for i, own_parents in enumerate(parents)
        for j in own_parents
    }
    return Layout(tuple(rows.row), tuple(x[i] for i in range(len(parents))), routes, width, len(rows.items))


def layers_of(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the layer of each vertex: the length of the longest path to it."""
    layer = [0] * len(parents)
    for _ in parents:  # the longest path has fewer edges than there are vertices
        grown = [max((layer[j] + 1 for j in own_parents), default=0) for own_parents in parents]
        if grown == layer:
            break
        layer = grown
    return tuple(layer)


def split_rows(layer: Sequence[int], capacity: int) -> tuple[int, ...]:
    """Return the row of each vertex; a layer that does not fit in a row is distributed in turn over several rows."""
    row, first = [0] * len(layer), 0
    for k in range(max(layer, default=-1) + 1):
        within = [i for i, level in enumerate(layer) if level == k]
        n_rows = -(-len(within) // capacity)
        for place, i in enumerate(within):
            row[i] = first + place % n_rows
        first += n_rows
    return tuple(row)


def n_crossings(links: Sequence[tuple[float, float]]) -> int:
    """Return the number of crossings among straight links; a link is a pair of an upper and a lower position."""
    ordered = sorted(links)
    return sum(b < a for k, (_, a) in enumerate(ordered) for upper, b in ordered[k + 1 :] if upper > ordered[k][0])


def _with_lanes(parents: Sequence[Sequence[int]], row: Sequence[int]) -> _Rows:
    rows = _Rows(row, [[] for _ in range(max(row, default=-1) + 1)])
    for i, r in enumerate(row):
        rows.items[r].append(i)
    links = set()
    lowest = {j: max(row[i] for i, own in enumerate(parents) if j in own) for own in parents for j in own}
    item = len(parents)
    for j in sorted(lowest):
        for r in range(row[j] + 1, lowest[j]):
            rows.lanes[j, r] = item
            rows.items[r].append(item)
            links.add((rows.lanes.get((j, r - 1), j), item))
            item += 1
    for i, own in enumerate(parents):
        links |= {(rows.lanes.get((j, row[i] - 1), j), i) for j in own}
    for upper, lower in sorted(links):
        rows.below.setdefault(upper, []).append(lower)
        rows.above.setdefault(lower, []).append(upper)
    return rows


def _reduce_crossings(rows: _Rows) -> None:
    """Sort each row by the mean positions of linked items, in sweeps down and up; keep the order with the fewest
    crossings."""
    for r, items in enumerate(rows.items):  # lanes start in the middle of their row
        boxes, lanes = [i for i in items if i < len(rows.row)], [i for i in items if i >= len(rows.row)]
        middle = (len(boxes) + r % 2) // 2
        rows.items[r] = boxes[:middle] + lanes + boxes[middle:]
    best, fewest = [list(items) for items in rows.items], _all_crossings(rows)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        sequence = range(1, len(rows.items)) if down else range(len(rows.items) - 2, -1, -1)
        for r in sequence:
            linked, previous = (rows.above, rows.items[r - 1]) if down else (rows.below, rows.items[r + 1])
            place = {item: (k + 0.5) / len(previous) for k, item in enumerate(previous)}
            own = {item: (k + 0.5) / len(rows.items[r]) for k, item in enumerate(rows.items[r])}
            center = {
                item: sum(place[other] for other in linked[item]) / len(linked[item]) if item in linked else own[item]
                for item in rows.items[r]
            }
            rows.items[r].sort(key=lambda item: (round(center[item], 9), own[item]))
        crossings = _all_crossings(rows)
        if crossings < fewest:
            best, fewest = [list(items) for items in rows.items], crossings
    rows.items = best


def _all_crossings(rows: _Rows) -> int:
    place = {item: float(k) for items in rows.items for k, item in enumerate(items)}
    return sum(
        n_crossings([(place[upper], place[lower]) for upper in items for lower in rows.below.get(upper, ())])
        for items in rows.items
    )


def _places(rows: _Rows, n: int, box: float, gap: float, lane: float) -> tuple[dict[int, float], float]:
    """Return the centers of all items, and the width of the widest row.

    Each sweep moves each item of a row to the mean position of its linked items, as nearly as the order and the gaps of
    the row allow in least squares. This is an isotonic regression.
    """
    from scipy.optimize import isotonic_regression

    size = {item: box if item < n else lane for items in rows.items for item in items}
    offsets = []  # of each center from that of the row's first item, with the smallest gaps
    for items in rows.items:
        steps = [(size[a] + size[b]) / 2.0 + gap for a, b in pairwise(items)]
        offsets.append(np.concatenate([[0.0], np.cumsum(steps)]))
    ends = [(size[items[0]] / 2.0, size[items[-1]] / 2.0) for items in rows.items]
    width = max((float(o[-1]) + a + b for o, (a, b) in zip(offsets, ends, strict=True)), default=0.0)
    x: dict[int, float] = {}
    for items, offset in zip(rows.items, offsets, strict=True):
        slack = (width - float(offset[-1])) / 2.0
        x.update(zip(items, (slack + offset).tolist(), strict=True))
    for pull in range(_PULLS):
        upwards = pull % 2 == 1
        for r in range(len(rows.items))[:: -1 if upwards else 1]:
            items, offset, (left, right) = rows.items[r], offsets[r], ends[r]
            wanted = np.array([_wanted(rows, item, x, upwards=upwards) for item in items])
            free = isotonic_regression(wanted - offset).x
            x.update(zip(items, (np.clip(free, left, width - right - offset[-1]) + offset).tolist(), strict=True))
    return x, width


def _wanted(rows: _Rows, item: int, x: dict[int, float], *, upwards: bool) -> float:
    """Return the mean center of the items in the previous row, or else in the next row, to which an item is linked."""
    first, second = (rows.below, rows.above) if upwards else (rows.above, rows.below)
    linked = first.get(item) or second.get(item) or [item]
    return sum(x[other] for other in linked) / len(linked)
