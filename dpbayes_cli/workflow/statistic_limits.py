"""Compute the smallest and the largest possible value of an exact statistic."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpbayes_cli.core.model import Model
from dpbayes_cli.core.statistic import ProductOf, Statistic, SumsByGroup, TableCounts


def limits_of(statistic: Statistic, model: Model, n_records: float) -> Iterator[tuple[float, float]]:
    """Yield the smallest and the largest possible exact value of each component, given the number of records."""
    if statistic.transform is not None:
        yield from [(-n_records, n_records)] * len(statistic.names)
        return
    steps = {column.role: getattr(column, "steps", 1) for column in model.columns}
    for expression in statistic.expressions:
        if isinstance(expression, ProductOf):
            largest = abs(expression.weight) * math.prod(steps[role] for role in expression.roles) * n_records
            yield (-largest if expression.centered or expression.weight < 0 else 0.0, largest)
        elif isinstance(expression, SumsByGroup):
            unit = steps[expression.roles[1]] * n_records
            of_group = [(-unit, unit), (0.0, unit)]
            if expression.squares:
                unit *= steps[expression.roles[1]]
                of_group = [(-2.0 * unit, 2.0 * unit), (0.0, unit), (0.0, unit)]
            yield from of_group * expression.n_groups
        else:
            size = expression.size if isinstance(expression, TableCounts) else 1
            yield from [(0.0, n_records)] * size
