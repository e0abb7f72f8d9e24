"""What consistent tables are solved for: one joint table, the cliques of a junction tree, or the families themselves.

Source: Lauritzen and Spiegelhalter 1988 (margins of the cliques that agree along a junction tree are margins of one
table); Wainwright and Jordan 2008, sec. 4.1.1 (margins of the families that agree are so only where they form a tree).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpbayes_cli.privacy.dag import min_fill_elimination

Family = tuple[int, ...]

LARGEST_JOINT = 1 << 12
"""Cells of the largest joint table that is solved for as a whole."""
LARGEST_TREE = 1 << 14
"""Cells of all cliques of a junction tree: some seconds to solve; twice as many take a minute."""
WIDEST = 12
"""The largest width of a junction tree, one less than the variables of its largest clique."""


@dataclass(frozen=True)
class Link:
    """Two blocks that agree on a margin; the earlier one comes first in every pass."""

    earlier: int
    block: int
    shared: Family


@dataclass(frozen=True)
class Blocks:
    """What the program solves for: tables over sets of variables, and where every family is read off.

    Attributes:
        how: what they are.
        blocks: the variables of each.
        links: what must agree; a block is reached from block 0 by them.
        homes: for each family the block that contains it.
    """

    how: Literal["full", "junction-tree", "local"]
    blocks: tuple[Family, ...]
    links: tuple[Link, ...]
    homes: tuple[int, ...]


def plan_blocks(sizes: Sequence[int], families: Sequence[Family]) -> Blocks:
    """Return the blocks to solve for: the joint table, the cliques of a junction tree, or the families themselves."""
    involved = tuple(sorted({v for family in families for v in family}))
    if n_cells(sizes, involved) <= LARGEST_JOINT:
        return Blocks("full", (involved,), (), (0,) * len(families))
    tree = junction_tree(sizes, families)
    if tree is not None:
        return tree
    return Blocks("local", tuple(families), shared_margins(families), tuple(range(len(families))))


def junction_tree(sizes: Sequence[int], families: Sequence[Family]) -> Blocks | None:
    """Return the cliques of the triangulated family graph, linked as a tree; None where they are too large."""
    found = min_fill_elimination(len(sizes), families, WIDEST)
    if len(found.order) < len(sizes):
        return None
    rank = {v: place for place, v in enumerate(found.order)}
    home: dict[int, int] = {}
    cliques: list[set[int]] = []
    links: list[Link] = []
    for v, later in zip(reversed(found.order), reversed(found.later), strict=True):
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
    if sum(n_cells(sizes, block) for block in blocks) > LARGEST_TREE:
        return None
    # The clique in which a family's first variable was eliminated contains the family.
    homes = tuple(home[min(family, key=rank.__getitem__)] for family in families)
    return Blocks("junction-tree", blocks, tuple(links), homes)


def shared_margins(families: Sequence[Family]) -> tuple[Link, ...]:
    """Return links that make every two families agree on what they share.

    Each family is linked to earlier ones, by the largest sets it shares with any of them; that suffices: what families
    i and j < i share lies in such a set, linked to some k < i, and on that j and k agree already, by induction.
    """
    having: dict[int, list[int]] = {}
    links = []
    for i, family in enumerate(families):
        first: dict[frozenset[int], int] = {}
        shares: dict[int, set[int]] = {}
        for v in family:
            for j in having.setdefault(v, []):
                shares.setdefault(j, set()).add(v)
            having[v].append(i)
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
