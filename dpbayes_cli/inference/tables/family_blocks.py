"""The blocks of the linear program for consistent tables: the joint table, the cliques of a junction tree, or families.

Source: Lauritzen and Spiegelhalter 1988 (cliques whose margins agree along a junction tree are margins of one table);
Wainwright and Jordan 2008, sec. 4.1.1 (families whose margins agree are so only if they form a tree).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpbayes_cli.privacy.dag import min_fill_elimination

Family = tuple[int, ...]

MAX_JOINT_CELLS = 1 << 12
"""Cells of the largest joint table that is solved for as a whole."""
MAX_TREE_CELLS = 1 << 14
"""Cells of all cliques of a junction tree: these take a few seconds to solve, twice as many a minute."""
MAX_TREE_WIDTH = 12
"""The largest width of a junction tree: one less than the number of variables of its largest clique."""


@dataclass(frozen=True)
class Link:
    """Two blocks that must agree on a shared margin; ``earlier`` has the smaller index."""

    earlier: int
    block: int
    shared: Family


@dataclass(frozen=True)
class Blocks:
    """The tables that the program solves for, and the table from which each family is read.

    Attributes:
        how: what the blocks are.
        blocks: the variables of each table.
        links: the margins that must agree; they connect every block with block 0.
        homes: for each family the index of a block that contains it.
    """

    how: Literal["full", "junction-tree", "local"]
    blocks: tuple[Family, ...]
    links: tuple[Link, ...]
    homes: tuple[int, ...]


def plan_blocks(sizes: Sequence[int], families: Sequence[Family]) -> Blocks:
    """Return the blocks to solve for: the first that is small enough of joint table, junction tree and families."""
    involved = tuple(sorted({v for family in families for v in family}))
    if n_cells(sizes, involved) <= MAX_JOINT_CELLS:
        return Blocks("full", (involved,), (), (0,) * len(families))
    tree = junction_tree(sizes, families)
    if tree is not None:
        return tree
    return Blocks("local", tuple(families), shared_margins(families), tuple(range(len(families))))


def junction_tree(sizes: Sequence[int], families: Sequence[Family]) -> Blocks | None:
    """Return the cliques of the triangulated family graph, linked as a tree; None if they are too large."""
    elimination = min_fill_elimination(len(sizes), families, MAX_TREE_WIDTH)
    if len(elimination.order) < len(sizes):
        return None
    rank = {v: place for place, v in enumerate(elimination.order)}
    home: dict[int, int] = {}
    cliques: list[set[int]] = []
    links: list[Link] = []
    for v, later in zip(reversed(elimination.order), reversed(elimination.later), strict=True):
        parent = home[min(later, key=rank.__getitem__)] if later else 0
        if cliques and cliques[parent] == set(later):
            home[v] = parent
            cliques[parent].add(v)
            continue
        if cliques:
            links.append(Link(parent, len(cliques), later))
        home[v] = len(cliques)
        cliques.append({v, *later})
    blocks = tuple(tuple(sorted(clique)) for clique in cliques)
    if sum(n_cells(sizes, block) for block in blocks) > MAX_TREE_CELLS:
        return None
    # The clique in which a family's first variable was eliminated contains the family.
    homes = tuple(home[min(family, key=rank.__getitem__)] for family in families)
    return Blocks("junction-tree", blocks, tuple(links), homes)


def shared_margins(families: Sequence[Family]) -> tuple[Link, ...]:
    """Return links that make every two families agree on their shared variables.

    Each family is linked to earlier ones by the maximal sets that it shares with any of them. That suffices: what
    families i and j < i share is part of such a set, linked to some k < i, on which j and k agree by induction.
    """
    families_with: dict[int, list[int]] = {}
    links = []
    for i, family in enumerate(families):
        first: dict[frozenset[int], int] = {}
        shares: dict[int, set[int]] = {}
        for v in family:
            for j in families_with.setdefault(v, []):
                shares.setdefault(j, set()).add(v)
            families_with[v].append(i)
        for j in sorted(shares):
            first.setdefault(frozenset(shares[j]), j)
        for shared, j in first.items():
            if not any(shared < other for other in first):
                links.append(Link(j, i, tuple(sorted(shared))))
        if i and not first:
            links.append(Link(0, i, ()))
    return tuple(links)


def n_cells(sizes: Sequence[int], variables: Iterable[int]) -> int:
    """Return the number of cells of a table over some variables."""
    return math.prod(sizes[v] for v in variables)
