"""Compute the smallest and the largest possible value of an exact statistic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.second_moments import factors_of
from dpbayes_cli.core.statistic import ProductOf, Statistic, TableCounts


def limits_of(statistic: Statistic, model: Model, n_records: float) -> Iterator[tuple[float, float]]:
    """Yield the smallest and the largest possible exact value of each component, given the number of records."""
    if statistic.transform is not None:
        yield from [(-n_records, n_records)] * len(statistic.names)
        return
    has_products = isinstance(statistic.expressions[0], ProductOf)
    steps = {factor.role: factor.steps for factor in (factors_of(model.columns) if has_products else ())}
    for expression in statistic.expressions:
        if isinstance(expression, ProductOf):
            largest = abs(expression.weight) * math.prod(steps[role] for role in expression.roles) * n_records
            yield (-largest if expression.centered or expression.weight < 0 else 0.0, largest)
        else:
            size = expression.size if isinstance(expression, TableCounts) else 1
            yield from [(0.0, n_records)] * size


def limits_of_group(components: Sequence[str], model: Model, n_records: float) -> list[tuple[float, float]]:
    """Return the smallest and the largest possible exact value of each component of one group; see ``limits_of``."""
    column = model.columns[-1]
    if not isinstance(column, NumericColumn):
        return [(0.0, n_records)] * len(components)
    unit, of_sum = column.steps * n_records, 1.0
    if model.sums_squares:
        unit, of_sum = unit * column.steps, 2.0
    return [(-of_sum * unit, of_sum * unit), *[(0.0, unit)] * (len(components) - 1)]
