"""Class probabilities of new records from posterior draws of a network's tables.

Exact, by variable elimination over the missing cells that count (see ``unknown_cells``): with probabilities where no
product of them can underflow, else with their logarithms, since theta may be as small as the smallest double.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.inference.predictive.unknown_cells import Group, groups_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.privacy.dag import Network

_Scope = tuple[int, ...]

LARGEST = 1 << 16
"""No table of more cells a draw is built: the records that would need one get no probabilities."""
_TABLES = 1 << 24
"""How many table cells are held at a time, 128 MB; twice that where logarithms are needed."""
_WORK = 1 << 18
"""How many cells an intermediate table has at a time where it can be cut, so that it stays near the processor."""
_SAFE = -600.0
"""The logarithm of a product that is still a normal double, and accurate."""


@dataclass(frozen=True)
class _Plan:
    """How to treat a group.

    Attributes:
        group: its records and tables.
        rows: the rows of it that occur, shape (n_rows, n_tables).
        of_record: which of them each record has, shape (n,).
        offsets: for each table how far from the first cell the values of its hidden variables are, an axis for each.
        unused: for each table the cell that stands for all where it does not count.
        order: how to eliminate all hidden variables but the target.
        largest: the cells of the largest table on the way.
    """

    group: Group
    rows: Integers
    of_record: Integers
    offsets: tuple[Integers, ...]
    unused: tuple[int, ...]
    order: tuple[int, ...]
    largest: int


def _plan(network: Network, target: int, group: Group, known: dict[tuple[int, tuple[int, ...]], Integers]) -> _Plan:
    """Return how to treat a group; the offsets found are kept in ``known``, as groups have most of them in common."""
    import numpy as np

    order, largest = elimination_order(group.scopes, network.sizes, target)
    rows, of_record = np.unique(group.rows, axis=0, return_inverse=True)
    for i, scope in zip(group.tables, group.scopes, strict=True):
        if (i, scope) not in known:
            known[i, scope] = _offsets(network, i, scope)
    offsets = tuple(known[each] for each in zip(group.tables, group.scopes, strict=True))
    unused = tuple(network.n_cells[i] for i in group.tables)
    return _Plan(group, rows, of_record.reshape(-1), offsets, unused, order, largest)


def _offsets(network: Network, i: int, scope: _Scope) -> Integers:
    """Return how far from the first cell of a table the values of some variables are, an axis for each of them."""
    import numpy as np

    distances: Integers = np.zeros([1] * len(scope), dtype=np.int64)
    for axis, v in enumerate(scope):
        stride = math.prod(network.shape(i)[network.families[i].index(v) + 1 :])
        along = [network.sizes[v] if k == axis else 1 for k in range(len(scope))]
        distances = distances + (np.arange(network.sizes[v]) * stride).reshape(along)
    return distances


def class_probabilities(network: Network, target: int, draws: Floats, records: Integers) -> Floats:
    """Return p(target | the other cells of a record), exact for each draw and averaged over the draws.

    A probability of zero, as a draw with tiny concentrations may underflow to, counts as the smallest positive double;
    values that are all zero are therefore equally probable.

    Args:
        network: the variables and their parents.
        target: the variable whose values are asked for.
        draws: the cells of all tables, one table after the other, each in C order, shape (n_draws, sum of n_cells).
        records: codes of values, -1 where a cell is missing, shape (n_records, n_variables); the target is not read.

    Returns:
        Shape (n_records, n_target_values); NaN where missing cells would need tables of more than ``LARGEST`` cells.

    Raises:
        ValueError: the shapes do not fit, there is no draw, or a code is out of range.
    """
    import numpy as np

    _check(network, draws, records, target)
    result = np.zeros((len(records), network.sizes[target]))
    plans: list[_Plan] = []
    known: dict[tuple[int, tuple[int, ...]], Integers] = {}
    for group in groups_of(network, target, np.ascontiguousarray(records.T)):
        plan = _plan(network, target, group, known)
        if plan.largest <= LARGEST:
            plans.append(plan)
        else:
            result[group.records] = np.nan
    starts = np.concatenate([[0], np.cumsum(network.n_cells)])
    used = sorted({i for plan in plans for i in plan.group.tables})
    step = max(1, _TABLES // max(1, sum(network.n_cells[i] for i in used)))
    for start in range(0, len(draws), step):
        tables = {i: _by_cell(draws[start : start + step, starts[i] : starts[i + 1]]) for i in used}
        least = {i: math.log(table.min()) for i, table in tables.items()}
        logs: dict[int, Floats] = {}
        for plan in plans:
            safe = sum(least[i] for i in plan.group.tables) > _SAFE
            if not safe:
                logs.update({i: np.log(tables[i]) for i in plan.group.tables if i not in logs})
            result[plan.group.records] += _summed_over_draws(plan, tables if safe else logs, logarithms=not safe)[
                plan.of_record
            ]
    return np.asarray(result / len(draws))


def _by_cell(cells: Floats) -> Floats:
    """Return a table with its zeros floored, a row a cell and a last one of ones, shape (n_cells + 1, n_draws)."""
    import numpy as np

    return np.concatenate([np.maximum(cells.T, np.nextafter(0.0, 1.0)), np.ones((1, len(cells)))])


def elimination_order(
    scopes: Sequence[Sequence[int]], sizes: Sequence[int], target: int
) -> tuple[tuple[int, ...], int]:
    """Return an order in which to sum out all variables but the target, and the cells of the largest table built.

    The next variable is the one whose table is smallest, the first of those.

    Args:
        scopes: the variables of each table.
        sizes: the number of values of each variable.
        target: the variable that is kept.
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
    """Return the sum over the draws of the target's probabilities, shape (n_rows, n_target_values).

    Args:
        plan: what to add up and to eliminate.
        tables: for each table its cells, and a last row that changes nothing, shape (n_cells + 1, n_draws).
        logarithms: whether the tables hold logarithms.
    """
    import numpy as np

    n_draws = next(iter(tables.values())).shape[1]
    draw_step = max(1, min(n_draws, _WORK // plan.largest))
    row_step = max(1, _WORK // (plan.largest * draw_step))
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
    """Return for each table the places of the cells that rows select, shape (n_rows or 1, sizes of hidden variables).

    Where all rows select the same, one stands for them.
    """
    import numpy as np

    found = []
    for column, offsets, unused in zip(rows.T, plan.offsets, plan.unused, strict=True):
        first = column[:1] if (column == column[0]).all() else column
        first = first.reshape(-1, *[1] * offsets.ndim)
        found.append(np.where(first < 0, unused, first + offsets))
    return found


def _multiply(factors: dict[_Scope, Floats], scope: _Scope, factor: Floats, *, logarithms: bool) -> None:
    """Multiply a factor into those at hand, of which no two have the same variables."""
    held = factors.get(scope)
    both = [(scope, factor)] if held is None else [(scope, held), (scope, factor)]
    factors[scope] = _product(both, logarithms=logarithms)[1]


def _product(factors: Sequence[tuple[_Scope, Floats]], *, logarithms: bool) -> tuple[_Scope, Floats]:
    """Return the product and its variables; it may take the place of a factor.

    Args:
        factors: tables of axes (record, its variables, draw); the first axis may be of length one.
        logarithms: whether they hold logarithms.
    """
    import numpy as np

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
    """Return the logarithm of the sum of exponentials along an axis; all logarithms are finite, and overwritten."""
    import numpy as np

    top = log.max(axis=axis, keepdims=True)
    log -= top
    return np.asarray(np.log(np.exp(log, out=log).sum(axis=axis)) + top.squeeze(axis))


def _check(network: Network, draws: Floats, records: Integers, target: int) -> None:
    import numpy as np

    if not 0 <= target < len(network):
        raise ValueError(f"the target is variable {target}, but there are {len(network)}")
    if draws.ndim != 2 or draws.shape[1] != sum(network.n_cells) or not len(draws):
        raise ValueError(f"draws of shape {draws.shape}; the tables have {sum(network.n_cells)} cells a draw")
    if records.ndim != 2 or records.shape[1] != len(network):
        raise ValueError(f"records of shape {records.shape}; there are {len(network)} variables")
    wrong = (records < -1) | (records >= np.asarray(network.sizes))
    wrong[:, target] = False
    if wrong.any():
        i = int(np.flatnonzero(wrong.any(axis=0))[0])
        raise ValueError(f"codes of {network.names[i]!r} must be -1 or from 0 to {network.sizes[i] - 1}")
