"""Directed acyclic graphs of discrete variables: the shapes of their tables, and orders of variable elimination.

This module uses neither data nor priors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

MAX_CELLS = 1 << 18
"""The largest number of cells of the tables of a network; noise is drawn, and results are written, for every cell."""


@dataclass(frozen=True)
class Network:
    """Discrete variables with their levels and the indices of their parents.

    Table i has one axis for each parent of variable i, in order, and a last axis for the variable itself.

    Raises:
        ValueError: a variable names a parent twice, or the graph has a cycle.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for i, parents in enumerate(self.parents):
            if len(set(parents)) != len(parents):
                raise ValueError(f"{self.names[i]!r} names a parent twice")
        try:
            _ = self.order
        except CycleError as error:
            shown = " -> ".join(self.names[i] for i in error.args[1])
            raise ValueError(f"the variables form a cycle: {shown}") from None

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each variable."""
        return tuple(map(len, self.levels))

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """The variables on the axes of each table: the indices of the parents, then the variable's own index."""
        return tuple((*parents, i) for i, parents in enumerate(self.parents))

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of table i."""
        return tuple(self.sizes[j] for j in self.families[i])

    @cached_property
    def n_cells(self) -> tuple[int, ...]:
        """The number of cells of each table."""
        return tuple(math.prod(self.shape(i)) for i in range(len(self)))

    def cells(self) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...]]]:
        """Yield (variable, value, (parent, value) pairs) for every cell, table after table, in C order."""
        for i, parents in enumerate(self.parents):
            for row in itertools.product(*(self.levels[j] for j in parents)):
                conditions = tuple((self.names[j], level) for j, level in zip(parents, row, strict=True))
                for level in self.levels[i]:
                    yield self.names[i], level, conditions

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The indices of the variables, each after its parents."""
        sorter = TopologicalSorter(dict.fromkeys(range(len(self)), ()))  # the order of these keys decides ties
        for i, parents in enumerate(self.parents):
            sorter.add(i, *parents)
        return tuple(sorter.static_order())


@lru_cache(maxsize=8)
def cell_names(network: Network, kind: str) -> tuple[str, ...]:
    """Return the names of all cells of all tables, such as ``theta[child=value|parent=value]``."""
    return tuple(
        f"{kind}[{variable}={value}{'|' if row else ''}{','.join(f'{parent}={level}' for parent, level in row)}]"
        for variable, value, row in network.cells()
    )


@dataclass(frozen=True)
class Elimination:
    """An order in which the vertices of an undirected graph are eliminated.

    Attributes:
        order: the vertices.
        later: for each vertex, in this order, its neighbors at the time of its elimination; they become a clique.
    """

    order: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]


def min_fill_elimination(n_vertices: int, groups: Iterable[Sequence[int]], most: int) -> Elimination:
    """Eliminate the vertices of a graph; the next vertex is always one whose elimination adds the fewest edges.

    The edges of the graph join all vertices within each group. The elimination stops as soon as the next vertex has
    more than ``most`` neighbors.

    Source: Kjaerulff 1990, triangulation of graphs (minimum fill-in); ties: fewest neighbors, then the given order.
    """
    neighbors = [0] * n_vertices  # each set of vertices is stored as the bits of an integer
    for group in groups:
        members = sum(1 << i for i in set(group))
        for i in group:
            neighbors[i] |= members & ~(1 << i)
    queue = [(_n_missing_edges(neighbors, i), neighbors[i].bit_count(), i) for i in range(n_vertices)]
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
        clique = neighbors[i]
        order.append(i)
        later.append(_vertices_of(clique))
        current[i] = None
        touched = clique
        for j in later[-1]:
            added = clique & ~neighbors[j] & ~(1 << j)
            for k in _vertices_of(added):
                touched |= neighbors[j] & neighbors[k]
            neighbors[j] |= added
        for j in later[-1]:
            neighbors[j] &= ~(1 << i)
        for j in _vertices_of(touched & ~(1 << i)):
            entry_now = (_n_missing_edges(neighbors, j), neighbors[j].bit_count(), j)
            if entry_now != current[j]:
                current[j] = entry_now
                heappush(queue, entry_now)
    return Elimination(tuple(order), tuple(later))


def _n_missing_edges(neighbors: Sequence[int], i: int) -> int:
    clique = neighbors[i]
    return sum((clique & ~neighbors[j]).bit_count() - 1 for j in _vertices_of(clique)) // 2


def _vertices_of(members: int) -> tuple[int, ...]:
    vertices = []
    while members:
        lowest = members & -members
        vertices.append(lowest.bit_length() - 1)
        members ^= lowest
    return tuple(vertices)
