"""A directed acyclic graph of discrete variables, the shapes of its tables, and orders in which to eliminate them.

Knows no data and no prior.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush


@dataclass(frozen=True)
class Network:
    """Variables with their levels and their parents; table i has one axis a parent, in their order, and the child last.

    Attributes:
        names: the variables' names.
        levels: for each variable the names of its values.
        parents: for each variable the indices of its parents.

    Raises:
        ValueError: the graph has a cycle, which is shown, or a variable is its own parent or has a parent twice.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for i, parents in enumerate(self.parents):
            if len(set(parents)) != len(parents):
                raise ValueError(f"{self.names[i]!r} names a parent twice")
        cycle = find_cycle(self.parents)
        if cycle:
            shown = " -> ".join(self.names[i] for i in (*cycle, cycle[0]))
            raise ValueError(f"the variables depend on each other in a circle: {shown}")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each variable."""
        return tuple(map(len, self.levels))

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """For each variable the indices of its parents and, last, its own: the axes of its table."""
        return tuple((*parents, i) for i, parents in enumerate(self.parents))

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of table i."""
        return tuple(self.sizes[j] for j in self.families[i])

    @cached_property
    def n_cells(self) -> tuple[int, ...]:
        """The number of cells of each table."""
        return tuple(math.prod(self.shape(i)) for i in range(len(self)))

    def cells(self) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...]]]:
        """Yield variable, value and (parent, value) pairs of every cell, table after table, each in C order."""
        for i, parents in enumerate(self.parents):
            for row in itertools.product(*(self.levels[j] for j in parents)):
                given = tuple((self.names[j], level) for j, level in zip(parents, row, strict=True))
                for level in self.levels[i]:
                    yield self.names[i], level, given

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The variables, every one after its parents."""
        return topological_order(self.parents)


@lru_cache(maxsize=8)
def cell_names(network: Network, kind: str) -> tuple[str, ...]:
    """Return the names of all cells of all tables, e.g. ``theta[child=value|parent=value]``."""
    return tuple(
        f"{kind}[{variable}={value}{'|' if given else ''}{','.join(f'{name}={level}' for name, level in given)}]"
        for variable, value, given in network.cells()
    )


def topological_order(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the vertices of an acyclic graph, each after its parents, otherwise in their order."""
    left = [len(set(each)) for each in parents]
    children: list[list[int]] = [[] for _ in parents]
    for i, each in enumerate(parents):
        for j in set(each):
            children[j].append(i)
    ready = [i for i, count in enumerate(left) if count == 0]
    found = []
    for i in ready:  # grows while it is read
        found.append(i)
        for child in children[i]:
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    return tuple(found)


def find_cycle(parents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the vertices of a cycle, each a parent of the next; nothing where there is none."""
    within = set(range(len(parents))) - set(topological_order(parents))
    if not within:
        return ()
    path = [min(within)]
    while True:  # whoever is left has a parent that is left
        path.append(next(j for j in parents[path[-1]] if j in within))
        if path[-1] in path[:-1]:
            return tuple(path[path.index(path[-1]) + 1 :][::-1])


@dataclass(frozen=True)
class Elimination:
    """An order in which the vertices of an undirected graph are eliminated, and what each meets.

    Attributes:
        order: the vertices.
        later: for each vertex of the order its neighbors when its turn comes: a clique from then on.
    """

    order: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]


def min_fill_elimination(n_vertices: int, groups: Iterable[Sequence[int]], most: int) -> Elimination:
    """Eliminate the vertices of the graph in which every group is a clique, next the one that adds the fewest edges.

    Args:
        n_vertices: the number of vertices.
        groups: the cliques.
        most: the order ends before the first vertex that would meet more than so many neighbors.

    Returns:
        The order, of all vertices unless it ended early.

    Source: Kjaerulff 1990, triangulation of graphs (minimum fill-in); ties: fewest neighbors, then the order given.
    """
    near = [0] * n_vertices  # sets of vertices as the bits of integers
    for group in groups:
        members = _union(group)
        for i in group:
            near[i] |= members & ~(1 << i)
    queue = [(_fill(near, i), near[i].bit_count(), i) for i in range(n_vertices)]
    current: list[tuple[int, int, int] | None] = list(queue)
    heapify(queue)
    order, later = [], []
    while queue:
        entry = heappop(queue)
        _, degree, i = entry
        if current[i] != entry:
            continue
        if degree > most:
            break
        around = near[i]
        order.append(i)
        later.append(_bits(around))
        current[i] = None
        touched = around
        for j in later[-1]:
            added = around & ~near[j] & ~(1 << j)
            for k in _bits(added):
                touched |= near[j] & near[k]
            near[j] |= added
        for j in later[-1]:
            near[j] &= ~(1 << i)
        for j in _bits(touched & ~(1 << i)):
            renewed = (_fill(near, j), near[j].bit_count(), j)
            if renewed != current[j]:
                current[j] = renewed
                heappush(queue, renewed)
    return Elimination(tuple(order), tuple(later))


def _fill(near: Sequence[int], i: int) -> int:
    """Return how many edges the neighbors of a vertex lack among themselves."""
    around = near[i]
    return sum((around & ~near[j]).bit_count() - 1 for j in _bits(around)) // 2


def _union(vertices: Iterable[int]) -> int:
    """Return a set of vertices as the bits of an integer."""
    found = 0
    for i in vertices:
        found |= 1 << i
    return found


def _bits(members: int) -> tuple[int, ...]:
    """Return the vertices of a set, in order."""
    found = []
    while members:
        lowest = members & -members
        found.append(lowest.bit_length() - 1)
        members ^= lowest
    return tuple(found)
