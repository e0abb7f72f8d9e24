"""Class probabilities of new records from posterior draws of a network's tables.

Given a draw, the probabilities are exact: the relevant missing cells (see ``unknown_cells``) are summed out by variable
elimination. If a product of probabilities could underflow, logarithms are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.predictive.unknown_cells import RecordGroup, group_records
from dpbayes_cli.privacy.dag import Network

_Scope = tuple[int, ...]

MAX_TABLE_CELLS = 1 << 16
"""The largest number of cells of a table built for a draw; records that need a larger table get no probabilities."""
_HELD_CELLS = 1 << 24
"""The number of table cells in memory at a time: 128 MB, or twice as much if logarithms are also needed."""
_BATCH_CELLS = 1 << 18
"""The number of cells of intermediate tables computed at a time, which fit into the processor's cache."""
_SMALLEST_SAFE_LOG = -600.0
"""A product of probabilities is a normal double, and therefore accurate, if its logarithm is larger than this."""


@dataclass(frozen=True)
class _Plan:
    """How to sum out the hidden variables of a group of records.

    Attributes:
        group: the records and tables.
        rows: the distinct rows of ``group.rows``, shape (n_rows, n_tables).
        row_of_record: the index in ``rows`` of each record's row, shape (n_records,).
        offsets: for each table the distance of the cell of each combination of hidden values from the cell of their
            first values, in C order; one axis for each hidden variable.
        unused: for each table the index of a cell with value one, which replaces all cells if the table is irrelevant
            to a record.
        order: the elimination order of all hidden variables but the target.
        largest: the number of cells of the largest table that elimination builds.
    """

    group: RecordGroup
    rows: Integers
    row_of_record: Integers
    offsets: tuple[Integers, ...]
    unused: tuple[int, ...]
    order: tuple[int, ...]
    largest: int


def _plan(network: Network, target: int, group: RecordGroup, cache: dict[tuple[int, _Scope], Integers]) -> _Plan:
    """Return the plan of a group; ``cache`` holds the offsets by table and scope, because groups share most of them."""
    order, largest = elimination_order(group.scopes, network.sizes, target)
    rows, row_of_record = np.unique(group.rows, axis=0, return_inverse=True)
    for i, scope in zip(group.tables, group.scopes, strict=True):
        if (i, scope) not in cache:
            cache[i, scope] = _offsets(network, i, scope)
    offsets = tuple(cache[key] for key in zip(group.tables, group.scopes, strict=True))
    unused = tuple(network.n_cells[i] for i in group.tables)
    return _Plan(group, rows, row_of_record.reshape(-1), offsets, unused, order, largest)


def _offsets(network: Network, i: int, scope: _Scope) -> Integers:
    offsets: Integers = np.zeros([1] * len(scope), dtype=np.int64)
    for axis, v in enumerate(scope):
        stride = math.prod(network.shape(i)[network.families[i].index(v) + 1 :])
        along = [network.sizes[v] if k == axis else 1 for k in range(len(scope))]
        offsets = offsets + (np.arange(network.sizes[v]) * stride).reshape(along)
    return offsets


def class_probabilities(network: Network, target: int, draws: Floats, records: Integers) -> Floats:
    """Return p(target | the other cells of a record), averaged over posterior draws.

    Zeros among the drawn probabilities, which underflowed, are replaced by the smallest positive double.

    Args:
        network: the variables and their parents.
        target: the variable to predict.
        draws: the cells of all tables, one table after the other, each in C order, shape (n_draws, sum of n_cells).
        records: codes of values, -1 for missing ones, shape (n_records, n_variables); the target is not read.

    Returns:
        The probabilities, shape (n_records, n_target_values); NaN for records whose missing cells need a table of more
        than ``MAX_TABLE_CELLS`` cells.

    Raises:
        ValueError: the shapes do not fit, there is no draw, or a code is out of range.
    """
    _check(network, draws, records, target)
    result = np.zeros((len(records), network.sizes[target]))
    plans: list[_Plan] = []
    cache: dict[tuple[int, _Scope], Integers] = {}
    for group in group_records(network, target, np.ascontiguousarray(records.T)):
        plan = _plan(network, target, group, cache)
        if plan.largest <= MAX_TABLE_CELLS:
            plans.append(plan)
        else:
            result[group.records] = np.nan
    starts = np.concatenate([[0], np.cumsum(network.n_cells)])
    used = sorted({i for plan in plans for i in plan.group.tables})
    step = max(1, _HELD_CELLS // max(1, sum(network.n_cells[i] for i in used)))
    for start in range(0, len(draws), step):
        tables = {i: _cells_first(draws[start : start + step, starts[i] : starts[i + 1]]) for i in used}
        least = {i: math.log(table.min()) for i, table in tables.items()}
        logs: dict[int, Floats] = {}
        for plan in plans:
            safe = sum(least[i] for i in plan.group.tables) > _SMALLEST_SAFE_LOG
            if not safe:
                logs.update({i: np.log(tables[i]) for i in plan.group.tables if i not in logs})
            result[plan.group.records] += _summed_over_draws(plan, tables if safe else logs, logarithms=not safe)[
                plan.row_of_record
            ]
    return np.asarray(result / len(draws))


def _cells_first(cells: Floats) -> Floats:
    """Return the cells of a table, made positive, with one row for each cell and a last row of ones."""
    return np.concatenate([np.maximum(cells.T, np.nextafter(0.0, 1.0)), np.ones((1, len(cells)))])


def elimination_order(
    scopes: Sequence[Sequence[int]], sizes: Sequence[int], target: int
) -> tuple[tuple[int, ...], int]:
    """Return a greedy order for summing out all variables but the target, and the number of cells of the largest table.

    The next variable is always the one whose elimination builds the smallest table; of several, the first. ``scopes``
    are the variables of each table, and ``sizes`` the numbers of values of the variables.
    """
    left = [frozenset(scope) for scope in scopes]
    largest = max((math.prod(sizes[v] for v in scope) for scope in left), default=1)
    order = []
    waiting = sorted(frozenset().union(*left) - {target})
    while waiting:
        joint = {v: frozenset().union(*(scope for scope in left if v in scope)) for v in waiting}
        cells = {v: math.prod(sizes[u] for u in joint[v]) for v in waiting}
        v = min(waiting, key=lambda v: (cells[v], v))
        largest = max(largest, cells[v])
        left = [scope for scope in left if v not in scope] + [joint[v] - {v}]
        waiting.remove(v)
        order.append(v)
    return tuple(order), largest


def _summed_over_draws(plan: _Plan, tables: Mapping[int, Floats], *, logarithms: bool) -> Floats:
    """Return the sum over the draws of the target's probabilities, shape (n_rows, n_target_values)."""
    n_draws = next(iter(tables.values())).shape[1]
    draw_step = max(1, min(n_draws, _BATCH_CELLS // plan.largest))
    row_step = max(1, _BATCH_CELLS // (plan.largest * draw_step))
    parts = []
    for first in range(0, len(plan.rows), row_step):
        cells = _cells(plan, plan.rows[first : first + row_step])
        total: Floats | float = 0.0
        for start in range(0, n_draws, draw_step):
            factors: dict[_Scope, Floats] = {}
            for i, scope, chosen in zip(plan.group.tables, plan.group.scopes, cells, strict=True):
                _multiply(factors, scope, tables[i][:, start : start + draw_step][chosen], logarithms=logarithms)
            for v in plan.order:
                holding = [(scope, factors.pop(scope)) for scope in list(factors) if v in scope]
                joint, product = _product(holding, logarithms=logarithms)
                axis = joint.index(v)
                rest = _log_sum(product, 1 + axis) if logarithms else product.sum(axis=1 + axis)
                _multiply(factors, joint[:axis] + joint[axis + 1 :], rest, logarithms=logarithms)
            _, weights = _product(list(factors.items()), logarithms=logarithms)
            if logarithms:
                weights -= weights.max(axis=1, keepdims=True)
                np.exp(weights, out=weights)
            total = total + np.einsum("rkd,rd->rk", weights, 1.0 / weights.sum(axis=1))
        parts.append(np.asarray(total))
    return np.concatenate(parts)


def _cells(plan: _Plan, rows: Integers) -> list[Integers]:
    """Return the indices of the cells that rows select, for each table, shape (n_rows or 1, hidden sizes)."""
    cells = []
    for column, offsets, unused in zip(rows.T, plan.offsets, plan.unused, strict=True):
        first = column[:1] if (column == column[0]).all() else column
        first = first.reshape(-1, *[1] * offsets.ndim)
        cells.append(np.where(first < 0, unused, first + offsets))
    return cells


def _multiply(factors: dict[_Scope, Floats], scope: _Scope, factor: Floats, *, logarithms: bool) -> None:
    """Add a factor to ``factors``; multiply it into the factor of the same variables if there is one."""
    held = factors.get(scope)
    both = [(scope, factor)] if held is None else [(scope, held), (scope, factor)]
    factors[scope] = _product(both, logarithms=logarithms)[1]


def _product(factors: Sequence[tuple[_Scope, Floats]], *, logarithms: bool) -> tuple[_Scope, Floats]:
    """Return the variables of a product of factors, and the product; one of the factors may be overwritten.

    Factors, or their logarithms, are arrays with the axes (row, variables of the scope, draw); the first axis may have
    length one.
    """
    if len(factors) == 1:
        return factors[0]
    joint = tuple(dict.fromkeys(v for scope, _ in factors for v in scope))
    aligned = []
    for scope, factor in factors:
        axes = [1 + scope.index(v) for v in joint if v in scope]
        spread = tuple(slice(None) if v in scope else None for v in joint)
        aligned.append(factor.transpose(0, *axes, factor.ndim - 1)[:, *spread, :])
    shape = np.broadcast_shapes(*(factor.shape for factor in aligned))
    first = next((k for k, factor in enumerate(aligned) if factor.shape == shape), None)
    product = np.full(shape, 0.0 if logarithms else 1.0) if first is None else aligned.pop(first)
    combine = np.add if logarithms else np.multiply
    for factor in aligned:
        combine(product, factor, out=product)
    return joint, product


def _log_sum(log: Floats, axis: int) -> Floats:
    """Return the log of the sum of exponentials of finite logarithms along an axis; overwrite the logarithms."""
    top = log.max(axis=axis, keepdims=True)
    log -= top
    return np.asarray(np.log(np.exp(log, out=log).sum(axis=axis)) + top.squeeze(axis))


def _check(network: Network, draws: Floats, records: Integers, target: int) -> None:
    if not 0 <= target < len(network):
        raise ValueError(f"target is {target}, expected 0 to {len(network) - 1}")
    if draws.ndim != 2 or draws.shape[1] != sum(network.n_cells) or not len(draws):
        raise ValueError(f"draws have shape {draws.shape}, expected at least one draw of {sum(network.n_cells)} cells")
    if records.ndim != 2 or records.shape[1] != len(network):
        raise ValueError(f"records have shape {records.shape}, expected (n_records, {len(network)})")
    wrong = (records < -1) | (records >= np.asarray(network.sizes))
    wrong[:, target] = False
    if wrong.any():
        i = int(np.flatnonzero(wrong.any(axis=0))[0])
        raise ValueError(f"codes of {network.names[i]!r} must be -1 or from 0 to {network.sizes[i] - 1}")
