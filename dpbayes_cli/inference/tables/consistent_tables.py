"""Find the consistent tables nearest to noisy ones: non-negative, with the same total, and with margins that agree.

Noise makes cells negative, and the tables of overlapping families may then disagree on shared margins. The solution
consists of the margins of one non-negative table over all variables that are nearest to the noisy tables in L1
distance. It solves a linear program. Let a be its cells and y the noisy cells. As the total of a is given, the sum of
|a - y| is a constant minus the sum of 2 * min(a, max(y, 0)), so that only cells with y > 0 matter. The distance is
between cells rather than Fourier coefficients, because inference needs cells, and the program stays sparse.

The variables of the program are the cells of blocks of variables. If the joint table over all variables is small
enough, it is the only block. Otherwise the blocks are the cliques of a junction tree; if their shared margins agree,
they are margins of one table. If the cliques are too large, the blocks are the families.

Source: Barak et al. 2007, sec. 4 (linear program over the joint table); Lauritzen and Spiegelhalter 1988 (cliques of a
junction tree); Wainwright and Jordan 2008, sec. 4.1.1 (families that agree need not be margins of one table).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.dag import min_fill_elimination

Family = tuple[int, ...]
How = Literal["full", "junction-tree", "local", "independent"]

_ATTEMPTS: tuple[tuple[Literal["highs-ipm", "highs-ds"], float], ...] = (
    ("highs-ipm", 1e-10),
    ("highs-ipm", 1e-9),
    ("highs-ds", 1e-9),
)
"""Solvers and tolerances, in the order in which they are tried. The first attempt fails for one program in a few
hundred. The simplex method (highs-ds) takes ten times as long on large cliques."""
MAX_JOINT_CELLS = 1 << 12
"""The joint table over all variables is the only block if it has at most this many cells."""
MAX_TREE_CELLS = 1 << 14
"""The largest number of cells of all cliques of a junction tree together. Solving then takes seconds; with twice as
many cells it takes a minute."""
MAX_TREE_WIDTH = 12
"""The largest width of a junction tree: one less than the number of variables of its largest clique."""
_MAX_DISAGREEMENT = 1e-9
"""The largest accepted disagreement on a cell of a shared margin, as a share of the total."""
_MIN_MARGIN_SHARE = 1e-13
"""Margin probabilities below this are treated as zero (solver round-off)."""
_MAX_ITERATIONS = 1_000_000
"""A limit on iterations; a limit on time would make results depend on the machine."""


@dataclass(frozen=True, eq=False)
class ConsistentTables:
    """Non-negative tables with the same total.

    Attributes:
        tables: one per family.
        how: how the tables were found. ``full`` and ``junction-tree``: they are margins of one table over all
            variables. ``local``: every two tables agree on their shared margin, but there may be no table over all
            variables with these margins. ``independent``: the program was not solved, and the tables are products of
            one-variable margins.
    """

    tables: tuple[Floats, ...]
    how: How


def nearest_consistent(
    sizes: Sequence[int], families: Sequence[Family], noisy: Sequence[Floats], total: float
) -> ConsistentTables:
    """Return the non-negative tables with agreeing margins that are nearest to noisy tables in L1 distance.

    Shared margins agree up to rounding, and equal input gives equal output.

    Args:
        sizes: the number of values of each variable.
        families: the variables of each table's axes.
        noisy: the noisy tables.
        total: the sum of each table; 0 if it is negative.
    """
    if not total > 0.0:
        return ConsistentTables(tuple(np.zeros_like(table) for table in noisy), "independent")
    # clipping the targets changes no solution, because no cell of a solution exceeds the total
    targets = [np.clip(np.asarray(table, dtype=np.float64), 0.0, total) / total for table in noisy]
    plan = plan_blocks(sizes, families)
    blocks = _solve(plan, sizes, families, targets)
    if blocks is not None:
        if plan.how != "local":
            blocks = _make_margins_agree(plan, blocks)
        shares = [
            _margin(plan.blocks[home], blocks[home], family) for home, family in zip(plan.homes, families, strict=True)
        ]
        tables = _scale_to_total(shares, total)
        if _largest_disagreement(families, tables) <= _MAX_DISAGREEMENT * total:
            return ConsistentTables(tables, plan.how)
    return ConsistentTables(_scale_to_total(_independent_tables(sizes, families, targets), total), "independent")


def _scale_to_total(shares: Sequence[Floats], total: float) -> tuple[Floats, ...]:
    return tuple(share * (total / share.sum()) for share in shares)


def _solve(
    plan: Blocks, sizes: Sequence[int], families: Sequence[Family], targets: Sequence[Floats]
) -> list[Floats] | None:
    """Return the blocks' tables with total 1, consistent up to the solver's tolerance; None if no solution is found."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    shapes = [tuple(sizes[v] for v in block) for block in plan.blocks]
    starts = np.cumsum([0, *map(math.prod, shapes)])
    size = int(starts[-1])
    # Variables: cells a, and w = min(a, y) for each target y > 0. Inequalities: w <= a, w <= y (a bound). Equalities:
    # shared margins agree, and the cells of block 0 add up to 1.
    upper = _SparseEntries()
    positive_targets = []
    for home, family, target in zip(plan.homes, families, targets, strict=True):
        cell = _index(plan.blocks[home], shapes[home], family)
        flat = target.reshape(-1)
        positive = np.flatnonzero(flat > 0.0)
        row = np.full(flat.size, -1)
        row[positive] = upper.count + np.arange(positive.size)
        inside = np.flatnonzero(row[cell] >= 0)
        upper.add(row[cell][inside], starts[home] + inside, -1.0)
        upper.add(row[positive], size + row[positive], 1.0)
        upper.count += positive.size
        positive_targets.append(flat[positive])
    equal = _SparseEntries()
    equal.add(np.zeros(starts[1], dtype=np.int64), np.arange(starts[1]), 1.0)
    equal.count = 1
    for link in plan.links:
        for block, sign in ((link.earlier, 1.0), (link.block, -1.0)):
            cell = _index(plan.blocks[block], shapes[block], link.shared)
            equal.add(equal.count + cell, starts[block] + np.arange(cell.size), sign)
        equal.count += n_cells(sizes, link.shared)
    bounds = [(0.0, float(most)) for most in np.concatenate([np.ones(size), *positive_targets])]
    # The type stubs of linprog do not accept sparse matrices.
    inequalities: Any = coo_array(upper.entries(), shape=(upper.count, len(bounds))).tocsr()
    equalities: Any = coo_array(equal.entries(), shape=(equal.count, len(bounds))).tocsr()
    for method, tolerance in _ATTEMPTS:
        result = linprog(
            np.concatenate([np.zeros(size), np.full(upper.count, -1.0)]),
            A_ub=inequalities,
            b_ub=np.zeros(upper.count),
            A_eq=equalities,
            b_eq=np.eye(1, equal.count).reshape(-1),
            bounds=bounds,
            method=method,
            options={
                "primal_feasibility_tolerance": tolerance,
                "dual_feasibility_tolerance": tolerance,
                "maxiter": _MAX_ITERATIONS,
            },
        )
        if result.status == 0 and result.x is not None and np.isfinite(result.x).all():
            x = np.maximum(result.x[:size], 0.0)
            return [
                x[start:end].reshape(shape) for start, end, shape in zip(starts[:-1], starts[1:], shapes, strict=True)
            ]
    return None


def _make_margins_agree(plan: Blocks, blocks: Sequence[Floats]) -> list[Floats]:
    """Return tables whose margins agree up to rounding: each block's conditional law times its parent's margin.

    If a cell of the margin is zero in the block, the conditional law given this cell is uniform.
    """
    tables = [blocks[0] / blocks[0].sum()]
    for link in plan.links:  # blocks follow their parents
        block, table = plan.blocks[link.block], blocks[link.block]
        cell = _index(block, table.shape, link.shared)
        parent = _margin(plan.blocks[link.earlier], tables[link.earlier], link.shared).reshape(-1)
        margin = np.bincount(cell, weights=table.reshape(-1), minlength=parent.size)
        empty = margin < _MIN_MARGIN_SHARE
        conditional = np.where(
            empty[cell], parent.size / cell.size, table.reshape(-1) / np.where(empty, 1.0, margin)[cell]
        )
        tables.append((conditional * parent[cell]).reshape(table.shape))
    return tables


class _SparseEntries:
    """The entries of a sparse matrix, gathered row block by row block."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[Integers] = []
        self._columns: list[Integers] = []
        self._values: list[Floats] = []

    def add(self, rows: Integers, columns: Integers, value: float) -> None:
        self._rows.append(rows)
        self._columns.append(columns)
        self._values.append(np.full(len(rows), value))

    def entries(self) -> tuple[Floats, tuple[Integers, Integers]]:
        return np.concatenate(self._values), (np.concatenate(self._rows), np.concatenate(self._columns))


def _independent_tables(sizes: Sequence[int], families: Sequence[Family], targets: Sequence[Floats]) -> list[Floats]:
    """Return products of one-variable margins, each margin from the first table that has the variable."""
    shares: dict[int, Floats] = {}
    for family, target in zip(families, targets, strict=True):
        for v in family:
            if v not in shares:
                counts = _margin(family, target, (v,))
                shares[v] = counts / counts.sum() if counts.sum() > 0.0 else np.full(sizes[v], 1.0 / sizes[v])
    products = []
    for family in families:
        product = np.ones(())
        for v in family:
            product = np.multiply.outer(product, shares[v])
        products.append(product)
    return products


def _largest_disagreement(families: Sequence[Family], tables: Sequence[Floats]) -> float:
    largest = 0.0
    for link in shared_margins(families):
        first = _margin(families[link.earlier], tables[link.earlier], link.shared)
        second = _margin(families[link.block], tables[link.block], link.shared)
        largest = max(largest, float(np.abs(first - second).max()))
    return largest


def _index(block: Family, shape: Sequence[int], shared: Iterable[int]) -> Integers:
    """Return for each cell of a block, in C order, the index of its cell in the margin over ``shared``."""
    cell = np.zeros(shape, dtype=np.int64)
    for v in shared:
        axis = block.index(v)
        along = np.arange(shape[axis]).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        cell = cell * shape[axis] + along
    return cell.reshape(-1)


def _margin(block: Family, table: Floats, shared: Family) -> Floats:
    """Return the margin of a table over ``shared``, with the axes in that order."""
    shape = tuple(table.shape[block.index(v)] for v in shared)
    sums = np.bincount(_index(block, table.shape, shared), weights=table.reshape(-1), minlength=math.prod(shape))
    return sums.reshape(shape)


@dataclass(frozen=True)
class Link:
    """The indices of two blocks, ``earlier`` < ``block``, that must agree on the margin over ``shared`` variables."""

    earlier: int
    block: int
    shared: Family


@dataclass(frozen=True)
class Blocks:
    """The tables that the program solves for, and the block from which each family is computed.

    Attributes:
        how: see ``ConsistentTables``.
        blocks: the variables of each table.
        links: the margins that must agree; they connect every block with block 0.
        homes: for each family the index of a block that contains it.
    """

    how: Literal["full", "junction-tree", "local"]
    blocks: tuple[Family, ...]
    links: tuple[Link, ...]
    homes: tuple[int, ...]


def plan_blocks(sizes: Sequence[int], families: Sequence[Family]) -> Blocks:
    """Return the blocks to solve for: the first of joint table, junction tree and families that is small enough."""
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
    # the clique of the variable of a family that is eliminated first contains the family
    homes = tuple(home[min(family, key=rank.__getitem__)] for family in families)
    return Blocks("junction-tree", blocks, tuple(links), homes)


def shared_margins(families: Sequence[Family]) -> tuple[Link, ...]:
    """Return links that make every two families agree on their shared variables.

    Each family is linked to earlier families by the maximal sets of variables that it shares with any of them. These
    links suffice: the variables shared by families i and j < i are in such a set, which links i to some k < i, and by
    induction j and k agree on these variables.
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
