"""Expressions of one cell, which Ibis compiles for each engine: texts, numbers and codes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import ibis

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, NumberMarks
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.sources.lines import BOM, INVALID
from dpbayes_cli.sources.reader import OUT_OF_BOUNDS

Dialect = Literal["duckdb", "postgres", "pyspark"]
Expression = Any
"""An Ibis expression, whose types are not checked here."""
END = "|"
"""A mark that is appended to a text before it is matched. Engines treat $ and backslashes in patterns differently, so
patterns end with this mark and have no backslashes."""
_CONTROLS = "".join(map(chr, [*range(1, 9), *range(10, 32), 127])) + BOM.decode()
WHOLE = "^[+-]?[0-9]+([.]0*)?[|]$"


def with_point(text: Expression, marks: NumberMarks) -> Expression:
    """Return a number written with a decimal point and no thousands marks; NULL if the text is not a number."""
    is_number = (text + END).re_search(f"^{marks.pattern}[{END}]")
    plain = text.replace(marks.thousands, "") if marks.thousands else text
    return ibis.cases((is_number, plain.replace(marks.decimal, ".")))


def normal_text(text: Expression) -> Expression:
    """Return the normal form of a trimmed text; see ``cell_grammar.normal_cell``."""
    digits = text.re_replace("[.].*", "").re_replace("^[+-]?0*", "")
    whole = ibis.cases((text.startswith("-"), "-"), else_="") + ibis.cases((digits != "", digits), else_="0")
    is_whole = (text.length() <= MAX_CELL_BYTES) & (text + END).re_search(WHOLE)
    unusual = ibis.or_(text.contains("."), *(text.startswith(mark) for mark in ("+", "-", "0")))
    return ibis.cases((unusual & is_whole, whole), else_=text)


def grid_code(number: Expression, column: NumericColumn) -> Expression:
    """Return the code of a number, computed by the IEEE operations of ``NumericColumn.code``.

    A number very close to the lower bound gets the code 0 without a division, because some engines fail if a quotient
    rounds to zero.
    """
    lower, upper = double(column.lower), double(column.upper)
    above = number - lower
    nearest = (above / double(column.step) + double(0.5)).floor().cast("int64")
    code = ibis.cases(
        (number.isnull(), ibis.null("int64")),
        (number <= lower, 0),  # before the difference, which could overflow
        (number >= upper, column.code(column.upper)),
        (above < double(column.step * 2.0**-60), 0),
        (nearest > column.steps, column.steps),
        else_=nearest,
    )
    if column.outside == "clamp":
        return code
    return ibis.cases((number.isnull(), ibis.null("int64")), (number.between(lower, upper), code), else_=OUT_OF_BOUNDS)


def double(number: float) -> Expression:
    """Return a double. It is cast from text, because some engines read a literal with a point as a decimal."""
    return ibis.literal(repr(number)).cast("float64")


def cast_text(dialect: Dialect, text: Expression, kind: str) -> Expression:
    """Return the number that a text stands for; callers ignore the result if the text is not a number."""
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


def literal(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def without_controls(text: Expression) -> Expression:
    """Return a text with control characters replaced as in ``clean_cell``; NUL cannot stand in every engine's SQL."""
    return text.translate(_CONTROLS, INVALID.decode() * len(_CONTROLS))
