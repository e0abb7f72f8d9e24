"""The nearest tables that could have been counted: non-negative, of one total, and with margins that agree.

Noise leaves the tables of overlapping families negative in places, and on the values that occur in disagreement. Of
all tables that are margins of one non-negative table over all variables the nearest in L1, cell by cell, is a linear
program. Cells and not coefficients are compared: they are what inference reads, a row of the program has as many
entries as a margin has cells, and codes that stand for no value cost the same whatever is chosen. With all tables of
the same total, |a - y| summed over cells is a constant less 2 min(a, max(y, 0)), so that only cells with y > 0 enter.

Source: Barak et al. 2007, sec. 4 (linear program over the joint table); Lauritzen and Spiegelhalter 1988 (the same
feasible set over the cliques of a junction tree); Wainwright and Jordan 2008, sec. 4.1.1 (local consistency).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpbayes_cli.inference.tables.family_blocks import Blocks, Family, n_cells, plan_blocks, shared_margins

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

How = Literal["full", "junction-tree", "local", "independent"]

_ATTEMPTS: tuple[tuple[Literal["highs-ipm", "highs-ds"], float], ...] = (
    ("highs-ipm", 1e-10),
    ("highs-ipm", 1e-9),
    ("highs-ds", 1e-9),
)
"""Solvers and their tolerances. One program in some hundred ends without a solution at the first tolerance only. The
simplex takes ten times as long on large cliques."""
_AGREEMENT = 1e-9
"""The largest disagreement that is let through, as a share of the total."""
_EMPTY = 1e-13
"""A smaller share of a margin is none: what it is conditionally spread over is the solver's rounding."""
_ITERATIONS = 1_000_000
"""Of the solver, at most; a limit of time would make a release's inference depend on the machine."""


@dataclass(frozen=True, eq=False)
class ConsistentTables:
    """Non-negative tables of one total.

    Attributes:
        tables: one a family.
        how: ``full`` and ``junction-tree``: margins of one table over all variables; ``local``: tables of which every
            two agree on what they share, though no table over all variables need have them as margins;
            ``independent``: the program was not solved; products of the variables' own shares.
        disagreement: the largest difference between two tables' counts of the same cell of a shared margin.
    """

    tables: tuple[Floats, ...]
    how: How
    disagreement: float


def nearest_consistent(
    sizes: Sequence[int], families: Sequence[Family], noisy: Sequence[Floats], total: float
) -> ConsistentTables:
    """Return the non-negative tables with agreeing margins that are nearest to noisy ones in L1.

    Args:
        sizes: the number of values of each variable.
        families: for each table the variables of its axes.
        noisy: finite tables of these families.
        total: the number of records, known or estimated; a negative one counts as 0.

    Returns:
        Tables of that total, whose shared margins agree to rounding. The same input gives the same output.
    """
    if not total > 0.0:
        return ConsistentTables(tuple(np.zeros_like(table) for table in noisy), "independent", 0.0)
    # No cell of a solution exceeds the total: cutting the target there changes no choice and keeps numbers small.
    targets = [np.clip(np.asarray(table, dtype=np.float64), 0.0, total) / total for table in noisy]
    plan = plan_blocks(sizes, families)
    blocks = _solve(plan, sizes, families, targets)
    how: How = plan.how
    if blocks is None:
        how, shares = "independent", _independent(sizes, families, targets)
    else:
        if how != "local":
            blocks = _along_the_tree(plan, blocks)
        shares = [
            _margin(plan.blocks[home], blocks[home], family) for home, family in zip(plan.homes, families, strict=True)
        ]
    tables = _of_total(shares, total)
    disagreement = _disagreement(families, tables)
    if disagreement > _AGREEMENT * total:
        how, tables = "independent", _of_total(_independent(sizes, families, targets), total)
        disagreement = _disagreement(families, tables)
    return ConsistentTables(tables, how, disagreement)


def _of_total(shares: Sequence[Floats], total: float) -> tuple[Floats, ...]:
    """Return tables scaled to a total."""
    return tuple(share * (total / share.sum()) for share in shares)


def _solve(
    plan: Blocks, sizes: Sequence[int], families: Sequence[Family], targets: Sequence[Floats]
) -> list[Floats] | None:
    """Return the blocks' tables of total 1, consistent to rounding; None where the solver does not find them."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    shapes = [tuple(sizes[v] for v in block) for block in plan.blocks]
    starts = np.cumsum([0, *map(math.prod, shapes)])
    size = int(starts[-1])
    # Inequalities: what is kept of a target, w <= y, is at most the cell; equalities: margins agree, block 0 adds to 1.
    upper = _Rows()
    kept = []
    for home, family, target in zip(plan.homes, families, targets, strict=True):
        cell = _index(plan.blocks[home], shapes[home], family)
        flat = target.reshape(-1)
        wanted = np.flatnonzero(flat > 0.0)
        row = np.full(flat.size, -1)
        row[wanted] = upper.count + np.arange(wanted.size)
        inside = np.flatnonzero(row[cell] >= 0)
        upper.add(row[cell][inside], starts[home] + inside, -1.0)
        upper.add(row[wanted], size + row[wanted], 1.0)
        upper.count += wanted.size
        kept.append(flat[wanted])
    equal = _Rows()
    equal.add(np.zeros(starts[1], dtype=np.int64), np.arange(starts[1]), 1.0)
    equal.count = 1
    for link in plan.links:
        for block, sign in ((link.earlier, 1.0), (link.block, -1.0)):
            cell = _index(plan.blocks[block], shapes[block], link.shared)
            equal.add(equal.count + cell, starts[block] + np.arange(cell.size), sign)
        equal.count += n_cells(sizes, link.shared)
    bounds = [(0.0, float(most)) for most in np.concatenate([np.ones(size), *kept])]
    # The stubs know no sparse matrices.
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
                "maxiter": _ITERATIONS,
            },
        )
        if result.status == 0 and result.x is not None and np.isfinite(result.x).all():
            x = np.maximum(result.x[:size], 0.0)
            return [
                x[start:end].reshape(shape) for start, end, shape in zip(starts[:-1], starts[1:], shapes, strict=True)
            ]
    return None


def _along_the_tree(plan: Blocks, blocks: Sequence[Floats]) -> list[Floats]:
    """Return the tables with margins that agree to rounding: each block given its parent, times the parent's margin.

    A cell of the margin that is empty in the block is spread evenly over the block's cells.
    """
    found = [blocks[0] / blocks[0].sum()]
    for link in plan.links:  # blocks follow their parents
        block, table = plan.blocks[link.block], blocks[link.block]
        cell = _index(block, table.shape, link.shared)
        parent = _margin(plan.blocks[link.earlier], found[link.earlier], link.shared).reshape(-1)
        own = np.bincount(cell, weights=table.reshape(-1), minlength=parent.size)
        empty = own < _EMPTY
        given = np.where(empty[cell], parent.size / cell.size, table.reshape(-1) / np.where(empty, 1.0, own)[cell])
        found.append((given * parent[cell]).reshape(table.shape))
    return found


class _Rows:
    """The entries of a sparse matrix, gathered block by block."""

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


def _independent(sizes: Sequence[int], families: Sequence[Family], targets: Sequence[Floats]) -> list[Floats]:
    """Return the products of the shares that each variable's values have in the first table that has it."""
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


def _disagreement(families: Sequence[Family], tables: Sequence[Floats]) -> float:
    """Return the largest difference between two tables' margins over what they share."""
    largest = 0.0
    for link in shared_margins(families):
        first = _margin(families[link.earlier], tables[link.earlier], link.shared)
        second = _margin(families[link.block], tables[link.block], link.shared)
        largest = max(largest, float(np.abs(first - second).max()))
    return largest


def _index(block: Family, shape: Sequence[int], shared: Iterable[int]) -> Integers:
    """Return for each cell of a block, in C order, its cell of the margin over some of its variables, in order."""
    cell = np.zeros(shape, dtype=np.int64)
    for v in shared:
        axis = block.index(v)
        along = np.arange(shape[axis]).reshape([-1 if other == axis else 1 for other in range(len(shape))])
        cell = cell * shape[axis] + along
    return cell.reshape(-1)


def _margin(block: Family, table: Floats, shared: Family) -> Floats:
    """Return the margin of a table over some of its variables, in their order."""
    shape = tuple(table.shape[block.index(v)] for v in shared)
    sums = np.bincount(_index(block, table.shape, shared), weights=table.reshape(-1), minlength=math.prod(shape))
    return sums.reshape(shape)
