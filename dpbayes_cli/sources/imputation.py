"""Stand-ins: the public values that invalid cells count as."""

from __future__ import annotations

from dpbayes_cli.base.cell_grammar import normal_cell, parse_number
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, CutColumn, NumericColumn, RecordPolicy


def impute_code(column: AnyColumn, policy: RecordPolicy) -> int | None:
    """Return the code of the stand-in for an invalid cell, or None if the cell is dropped.

    Raises:
        SpecError: the stated value is not in the domain.
    """
    value = policy.impute if column.impute is None else column.impute
    if value is None:
        return None
    if isinstance(column, CutColumn):
        number = parse_number(value)
        if number is None:
            raise SpecError(
                f"{value!r} is not a number, but {column.role} is numeric",
                where=_impute_path(column),
                hint="impute any number: its interval is used",
            )
        return column.code(number)
    if isinstance(column, NumericColumn):
        number = parse_number(value, integers=column.integers)
        if number is None or not column.lower <= number <= column.upper:
            raise SpecError(
                f"{value!r} is not in the domain of {column.role}",
                where=_impute_path(column),
                hint=f"impute a number from {column.lower:g} to {column.upper:g}",
            )
        code = column.code(number)
        if code is None:
            raise SpecError(
                f"the stand-in {value!r} is out of bounds", where=_impute_path(column), hint="choose one in the domain"
            )
        return code
    normal = [normal_cell(level) for level in column.levels]
    if normal_cell(value) not in normal:
        raise SpecError(
            f"{value!r} is not in the domain of {column.role}",
            where=_impute_path(column),
            hint=f"impute one of: {', '.join(column.levels[:20])}",
        )
    return normal.index(normal_cell(value))


def _impute_path(column: AnyColumn) -> str:
    return "on_invalid" if column.impute is None else f"{column.role}.impute"
