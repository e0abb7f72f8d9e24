from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dpbayes_cli.bundle.report.layered_layout import Layout, lay_out, layers_of, n_crossings, split_rows

Parents = list[tuple[int, ...]]
BOX, GAP, LANE, WIDEST = 1.0, 0.2, 0.1, 8.0


def random_graph(n: int, most: int, seed: int) -> Parents:
    """Return a random acyclic graph whose vertices are not in topological order."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(n)
    parents: Parents = [()] * n
    for k, i in enumerate(names):
        earlier = rng.permutation(names[:k])[: int(rng.integers(0, most + 1))]
        parents[i] = tuple(int(j) for j in earlier)
    return parents


def check_layout(parents: Parents, layout: Layout) -> None:
    """Check that parents are above children, routes pass every row between, and nothing overlaps or lies outside."""
    items: dict[int, set[tuple[float, float]]] = {}
    for i, each in enumerate(parents):
        items.setdefault(layout.row[i], set()).add((layout.x[i], BOX))
        for j in each:
            assert layout.row[j] < layout.row[i]
            assert len(layout.routes[j, i]) == layout.row[i] - layout.row[j] - 1
            for r, x in enumerate(layout.routes[j, i], layout.row[j] + 1):
                items.setdefault(r, set()).add((x, LANE))
    assert sum(size == BOX for row in items.values() for _, size in row) == len(parents)
    for row in items.values():
        placed = sorted(row)
        for (x, size), (y, other) in pairwise(placed):
            assert y - x >= (size + other) / 2 + GAP - 1e-9
        assert placed[0][0] >= placed[0][1] / 2 - 1e-9
        assert placed[-1][0] <= layout.width - placed[-1][1] / 2 + 1e-9


GRAPHS: dict[str, Parents] = {
    "one": [()], "naive Bayes": [(), *((0,) for _ in range(14))],
    "complete": [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)], "no edges": [()] * 40, "random": random_graph(40, 6, 4),
}  # fmt: skip


@pytest.mark.parametrize("parents", GRAPHS.values(), ids=GRAPHS)
def test_layout_puts_parents_above_children_without_overlap(parents: Parents) -> None:
    layout = lay_out(parents, BOX, GAP, LANE, WIDEST)
    check_layout(parents, layout)
    assert layout == lay_out(parents, BOX, GAP, LANE, WIDEST)
    most = max(layout.row.count(r) for r in range(layout.n_rows))
    assert most * (BOX + GAP) - GAP <= WIDEST


def test_layers_are_longest_paths_and_rows_are_even() -> None:
    assert layers_of([(), (0,), (0, 1), (), (3, 2)]) == (0, 1, 2, 0, 3)
    assert layers_of([(1,), (2,), ()]) == (2, 1, 0)
    assert split_rows([0, 1, 1, 1, 1, 1, 2], 2) == (0, 1, 2, 3, 1, 2, 4)


def test_crossings_are_counted_and_avoidable_ones_removed() -> None:
    assert n_crossings([(0, 1), (1, 0)]) == 1
    assert n_crossings([(0, 0), (1, 1), (0, 1)]) == 0
    assert n_crossings([(a, b) for a in range(3) for b in range(3)]) == 9
    # each child under its own parent, in any order of the numbers
    order = np.random.default_rng(2).permutation(6)
    parents: Parents = [(), (), (), (), (), (), *((int(j),) for j in order)]
    layout = lay_out(parents, BOX, GAP, LANE, WIDEST)
    places = [(layout.x[j], layout.x[6 + k]) for k, j in enumerate(order)]
    assert n_crossings(places) == 0
    assert all(upper == pytest.approx(lower) for upper, lower in places)
