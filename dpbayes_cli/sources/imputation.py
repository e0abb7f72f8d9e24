"""What an invalid cell counts as: the code of a stated level or number, or nothing."""

from __future__ import annotations

from dpbayes_cli.base.cell_grammar import normal_cell, parse_number
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, CutColumn, NumericColumn, RecordPolicy


def impute_code(column: AnyColumn, policy: RecordPolicy) -> int | None:
    """Return the code of the level or number that an invalid cell counts as, or None where it is dropped.

    Raises:
        SpecError: the stated value is not in the domain.
    """
    stated = policy.impute if column.impute is None else column.impute
    if stated is None:
        return None
    if isinstance(column, CutColumn):
        number = parse_number(stated)
        if number is None:
            raise SpecError(
                f"{stated!r} is no number, as {column.role} is",
                where=_place_of_impute(column),
                hint="impute any number: it counts in the interval that holds it",
            )
        return column.code(number)
    if isinstance(column, NumericColumn):
        number = parse_number(stated, integers=column.integers)
        if number is None or not column.lower <= number <= column.upper:
            raise SpecError(
                f"{stated!r} is not in the domain of the {column.role}",
                where=_place_of_impute(column),
                hint=f"impute a number from {column.lower:g} to {column.upper:g}",
            )
        code = column.code(number)
        if code is None:
            raise SpecError(f"{stated!r} is out of bounds", where=_place_of_impute(column))
        return code
    normal = [normal_cell(level) for level in column.levels]
    if normal_cell(stated) not in normal:
        raise SpecError(
            f"{stated!r} is not in the domain of the {column.role}",
            where=_place_of_impute(column),
            hint=f"impute one of: {', '.join(column.levels[:20])}",
        )
    return normal.index(normal_cell(stated))


def _place_of_impute(column: AnyColumn) -> str:
    """Return where a spec states what an invalid cell counts as."""
    return "on_invalid" if column.impute is None else f"{column.role}.impute"
