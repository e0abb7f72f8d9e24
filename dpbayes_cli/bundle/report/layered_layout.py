"""A drawing of a directed acyclic graph in rows, every parent above its child: places only, nothing is drawn.

Source: Sugiyama, Tagawa and Toda (1981): layers, lanes for edges that pass a row, order by barycenters, then places.
Deviations: layers too wide for the page are several rows; edges of one parent share their lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 24
_PULLS = 12


@dataclass(frozen=True)
class Layout:
    """Where the vertices are and by which way their edges run.

    Attributes:
        row: the row of each vertex, 0 at the top.
        x: the middle of each vertex.
        routes: for each (parent, child) the middles at which the edge passes the rows between them, downwards.
        width: of the widest row.
        n_rows: how many rows.
    """

    row: tuple[int, ...]
    x: tuple[float, ...]
    routes: dict[tuple[int, int], tuple[float, ...]]
    width: float
    n_rows: int


@dataclass
class _Rows:
    """What stands in the rows, from the left: vertices by their number, and after them the lanes.

    Attributes:
        row: the row of each vertex.
        items: the items of each row, in their order.
        lanes: for each parent and row in which edges of it pass by, the item there.
        above, below: for each item those of the next rows that it is linked with.
    """

    row: Sequence[int]
    items: list[list[int]]
    lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    above: dict[int, list[int]] = field(default_factory=dict)
    below: dict[int, list[int]] = field(default_factory=dict)


def layered(parents: Sequence[Sequence[int]], box: float, gap: float, lane: float, widest: float) -> Layout:
    """Return a layout of a graph.

    Args:
        parents: for each vertex its parents.
        box: the width of a vertex.
        gap: the least distance between neighbors in a row.
        lane: the width that is kept free for an edge that passes a row.
        widest: rows are split where their vertices alone would be wider, if they hold more than one.
    """
    capacity = max(1, int((widest + gap) / (box + gap)))
    rows = _with_lanes(parents, split_rows(layers_of(parents), capacity))
    _reduce_crossings(rows)
    x, width = _places(rows, len(parents), box, gap, lane)
    routes = {
        (j, i): tuple(x[rows.lanes[j, r]] for r in range(rows.row[j] + 1, rows.row[i]))
        for i, each in enumerate(parents)
        for j in each
    }
    return Layout(tuple(rows.row), tuple(x[i] for i in range(len(parents))), routes, width, len(rows.items))


def layers_of(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return for each vertex of an acyclic graph the length of the longest path that ends there."""
    layer = [0] * len(parents)
    for _ in parents:  # at most as many rounds as the longest path has edges
        grown = [max((layer[j] + 1 for j in each), default=0) for each in parents]
        if grown == layer:
            break
        layer = grown
    return tuple(layer)


def split_rows(layer: Sequence[int], capacity: int) -> tuple[int, ...]:
    """Return for each vertex its row: layers of more vertices than fit become rows of about equal length.

    Neighbors in a layer go to different rows, so that the rows of a layer are spread over the same width.

    Args:
        layer: the layer of each vertex.
        capacity: how many vertices fit in a row.
    """
    row, first = [0] * len(layer), 0
    for k in range(max(layer, default=-1) + 1):
        within = [i for i, each in enumerate(layer) if each == k]
        n_rows = -(-len(within) // capacity)
        for place, i in enumerate(within):
            row[i] = first + place % n_rows
        first += n_rows
    return tuple(row)


def n_crossings(links: Sequence[tuple[float, float]]) -> int:
    """Return how many pairs of straight links between two rows cross, each given by its upper and its lower place."""
    ordered = sorted(links)
    return sum(b < a for k, (_, a) in enumerate(ordered) for upper, b in ordered[k + 1 :] if upper > ordered[k][0])


def _with_lanes(parents: Sequence[Sequence[int]], row: Sequence[int]) -> _Rows:
    rows = _Rows(row, [[] for _ in range(max(row, default=-1) + 1)])
    for i, r in enumerate(row):
        rows.items[r].append(i)
    links = set()
    lowest = {j: max(row[i] for i, each in enumerate(parents) if j in each) for each in parents for j in each}
    item = len(parents)
    for j in sorted(lowest):
        for r in range(row[j] + 1, lowest[j]):
            rows.lanes[j, r] = item
            rows.items[r].append(item)
            links.add((rows.lanes.get((j, r - 1), j), item))
            item += 1
    for i, each in enumerate(parents):
        links |= {(rows.lanes.get((j, row[i] - 1), j), i) for j in each}
    for upper, lower in sorted(links):
        rows.below.setdefault(upper, []).append(lower)
        rows.above.setdefault(lower, []).append(upper)
    return rows


def _reduce_crossings(rows: _Rows) -> None:
    """Order each row by the mean places of what it is linked with, down and up in turns; keep the best order."""
    for r, items in enumerate(rows.items):  # lanes start in the middle of their row
        boxes, lanes = [i for i in items if i < len(rows.row)], [i for i in items if i >= len(rows.row)]
        middle = (len(boxes) + r % 2) // 2
        rows.items[r] = boxes[:middle] + lanes + boxes[middle:]
    best, fewest = [list(items) for items in rows.items], _all_crossings(rows)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        sequence = range(1, len(rows.items)) if down else range(len(rows.items) - 2, -1, -1)
        for r in sequence:
            linked, beside = (rows.above, rows.items[r - 1]) if down else (rows.below, rows.items[r + 1])
            place = {item: (k + 0.5) / len(beside) for k, item in enumerate(beside)}
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
    """Return the middles of all items, and the width of the widest row.

    Every item is pulled to the mean of those it is linked with, by least squares among all places that keep the order
    and the distances of its row: an isotonic regression.
    """
    import numpy as np
    from scipy.optimize import isotonic_regression

    size = {item: box if item < n else lane for items in rows.items for item in items}
    offsets = []  # of the middles from that of the first item, where the items of a row touch
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
    """Return where an item would stand by itself: at the mean of those before it, else of those after it."""
    first, second = (rows.below, rows.above) if upwards else (rows.above, rows.below)
    linked = first.get(item) or second.get(item) or [item]
    return sum(x[other] for other in linked) / len(linked)
