"""Stand-ins: public values that replace invalid cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.base.cell_grammar import normal_cell, parse_number
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.sources.reader import MISSING

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


def impute_code(column: AnyColumn, policy: RecordPolicy) -> int | None:
    """Return the code of the stand-in for an invalid cell, or None if there is no stand-in.

    Raises:
        SpecError: the stated value is not in the domain.
    """
    value = policy.impute if column.impute is None else column.impute
    if value is None or (isinstance(column, Column) and column.is_key):
        return None
    where = "on_invalid" if column.impute is None else f"{column.role}.impute"
    if isinstance(column, CutColumn):
        number = parse_number(value)
        if number is not None:
            return column.code(number)
        raise SpecError(
            f"{value!r} is not a number, but {column.role} is numeric",
            where=where,
            hint="impute any number: its interval is used",
        )
    if isinstance(column, NumericColumn):
        number = parse_number(value, integers=column.integers)
        if number is not None and column.lower <= number <= column.upper:
            return column.code(number)
        raise SpecError(
            f"{value!r} is not in the domain of {column.role}",
            where=where,
            hint=f"impute a number from {column.lower:g} to {column.upper:g}",
        )
    codes = {normal_cell(text): code for text, code in column.texts.items()}
    if normal_cell(value) in codes:
        return codes[normal_cell(value)]
    raise SpecError(
        f"{value!r} is not in the domain of {column.role}",
        where=where,
        hint=f"impute one of: {', '.join(column.levels[:20])}",
    )


def with_stand_in(codes: Integers, stand_in: int | None) -> Integers:
    """Return codes with a stand-in for missing cells; it does not replace a number out of bounds."""
    import numpy as np

    return codes if stand_in is None else np.where(codes == MISSING, stand_in, codes)
