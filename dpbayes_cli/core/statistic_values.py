"""Evaluate statistics without a data engine, for simulations and as a reference for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpbayes_cli.core.columns import AnyColumn, NumericColumn
from dpbayes_cli.core.second_moments import factors_of
from dpbayes_cli.core.statistic import ProductOf, Statistic
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


def evaluate(statistic: Statistic, columns: Sequence[AnyColumn], numbers: Floats) -> tuple[int, ...]:
    """Evaluate a statistic of products without a data engine, for simulations and as a reference for tests.

    ``numbers`` has the shape (n_records, n_columns); a text is given as the code of its level.
    """
    coded = [
        column.codes(numbers[:, i]) if isinstance(column, NumericColumn) else (numbers[:, i].astype(np.int64), 1)
        for i, column in enumerate(columns)
    ]
    valid = np.prod(np.broadcast_arrays(*(mask for _, mask in coded)), axis=0) * np.ones(len(numbers), dtype=np.int64)
    factors = {factor.role: factor for factor in factors_of(columns)}
    values_of = {role: factor.of_codes([codes for codes, _ in coded]) for role, factor in factors.items()}
    values = []
    for expression in statistic.expressions:
        if not isinstance(expression, ProductOf):
            raise TypeError("expected a statistic whose expressions are products of codes")
        terms = valid
        for role in expression.roles:
            is_centered = expression.centered and factors[role].level is None
            terms = terms * (2 * values_of[role] - factors[role].steps if is_centered else values_of[role])
        values.append(expression.weight * int(terms.sum()))
    return tuple(values)


def evaluate_codes(statistic: Statistic, column: NumericColumn, codes: Mapping[int, int]) -> tuple[int, ...]:
    """Evaluate a statistic of one column of numbers exactly, given the number of valid records of each code."""
    values = []
    for expression in statistic.expressions:
        if not isinstance(expression, ProductOf) or any(role != column.role for role in expression.roles):
            raise TypeError("expected a statistic whose expressions are powers of one column's codes")
        power = len(expression.roles)
        scale, shift = (2, column.steps) if expression.centered else (1, 0)
        values.append(expression.weight * sum(count * (scale * code - shift) ** power for code, count in codes.items()))
    return tuple(values)


def count_cells(statistic: Statistic, roles: Sequence[str], codes: Integers) -> tuple[int, ...]:
    """Evaluate a statistic of contingency tables without a data engine, for simulations and as a reference for tests.

    ``codes`` are the codes of records, -1 for an invalid cell, shape (n_records, n_roles).
    """
    index = {role: i for i, role in enumerate(roles)}
    whole = (codes >= 0).all(axis=1)
    tables = []
    for table in statistic.tables:
        table_codes = codes[:, [index[role] for role in table.roles]]
        valid = whole if statistic.whole_records else (table_codes >= 0).all(axis=1)
        cells = np.ravel_multi_index(tuple(table_codes[valid].T), table.shape)
        tables.append(np.bincount(cells, minlength=table.size).reshape(table.shape))
    return released_values(statistic, tables)


def released_values(statistic: Statistic, tables: Sequence[Integers]) -> tuple[int, ...]:
    """Return the components of a statistic, given its contingency tables."""
    if statistic.transform is not None:
        return tuple(statistic.transform.coefficients(tables).tolist())
    return tuple(int(count) for table in tables for count in table.ravel())
