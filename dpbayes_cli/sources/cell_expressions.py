"""The meaning of a cell as Ibis expressions: patterns, normal forms, codes on a grid, and functions of one engine.

Patterns hold no backslash and do not match the end of a text, because engines differ there: a mark ends every text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import ibis

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.sources.contributions import OUT_OF_BOUNDS

Dialect = Literal["duckdb", "postgres", "pyspark"]
Expression = Any
"""An Ibis expression, whose types are not checked here."""

END = "|"
WHOLE = "^[+-]?[0-9]+([.]0*)?[|]$"
NUMBER = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?[|]$"
PLAIN = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)[|]$"
MAX_PLAIN_LENGTH = 300
"""A number without exponent of at most this length neither overflows a double nor is rounded to zero."""
SIGNIFICANT_DIGITS = 800
"""This many digits, and whether any follow, decide how a decimal is rounded to a double: 767 would do."""
TOO_LARGE = str(((1 << 54) - 1) << 970).rstrip("0")
"""The digits of the smallest number that rounds beyond the largest double, 0.179.. times ten to the 309th."""
TO_ZERO = str(5**1075).rstrip("0")
"""The digits of the largest number that rounds to zero, 0.247.. times ten to the -323rd."""


def normal_text(text: Expression) -> Expression:
    """Return the normal form of a trimmed text; see ``cell_grammar.normal_cell``."""
    digits = text.re_replace("[.].*", "").re_replace("^[+-]?0*", "")
    whole = ibis.cases((text.startswith("-"), "-"), else_="") + ibis.cases((digits != "", digits), else_="0")
    is_whole = (text.length() <= MAX_CELL_BYTES) & (text + END).re_search(WHOLE)
    unusual = ibis.or_(text.contains("."), *(text.startswith(mark) for mark in ("+", "-", "0")))
    return ibis.cases((unusual & is_whole, whole), else_=text)


def grid_code(number: Expression, column: NumericColumn) -> Expression:
    """Return the code of a number, in the IEEE operations of ``NumericColumn.code``.

    A number next to the lower bound is not divided: some engines fail if a quotient rounds to zero.
    """
    lower, upper = double(column.lower), double(column.upper)
    above = number - lower
    nearest = (above / double(column.step) + double(0.5)).floor().cast("int64")
    code = ibis.cases(
        (number.isnull(), ibis.null("int64")),
        (number <= lower, 0),  # before the difference, which could overflow
        (number >= upper, _code_in_bounds(column, column.upper)),
        (above < double(column.step * 2.0**-60), 0),
        (nearest > column.steps, column.steps),
        else_=nearest,
    )
    if column.outside == "clamp":
        return code
    return ibis.cases((number.isnull(), ibis.null("int64")), (number.between(lower, upper), code), else_=OUT_OF_BOUNDS)


def _code_in_bounds(column: NumericColumn, number: float) -> int:
    code = column.code(number)
    if code is None:
        raise ValueError("a bound is in bounds")
    return code


def double(number: float) -> Expression:
    """Return a double, cast from text because some engines read a literal with a point as a decimal."""
    return ibis.literal(repr(number)).cast("float64")


def cast_text(dialect: Dialect, text: Expression, kind: str) -> Expression:
    """Return the number of a text; the result is only used if the text is a number."""
    return text.cast(kind) if dialect == "postgres" else text.try_cast(kind)


def sha256_text(dialect: Dialect, text: Expression) -> Expression:
    """Return the SHA-256 hash of a text's UTF-8 bytes, as hexadecimal digits."""
    if dialect != "postgres":
        return text.hexdigest("sha256")
    digest = function("sha256", ("binary",), "binary")(function("convert_to", ("string",) * 2, "binary")(text, "UTF8"))
    return function("encode", ("binary", "string"), "string")(digest, "hex")


@lru_cache
def function(name: str, arguments: tuple[str, ...], result: str) -> Any:
    """Return a built-in function of the engine by its name."""
    one, two = (lambda first: None), (lambda first, second: None)
    kind = ibis.udf.scalar.builtin
    return kind(one if len(arguments) == 1 else two, name=name, signature=(arguments, result))
