"""Data frames in memory (pandas, Polars or Arrow); every cell is read as text, as from a file."""

from __future__ import annotations

import csv
import io
import math
import numbers
import re
from collections.abc import Generator
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.core.columns import AnyColumn, Column
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.source import Source, cell_blocks

_BLOCK_ROWS = 1 << 14
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""What stands in a text for bytes that are not UTF-8; no engine reads such a text."""
_MAX_BITS = int(MAX_CELL_BYTES * math.log2(10))
"""Integers with more bits have longer texts than a cell may have."""
_SINGLE = {"float", "float32"}
"""The names of single-precision types in Arrow, pandas and Polars."""
_REFUSED = ("date", "time", "duration", "complex", "binary", "list", "struct", "period", "interval", "map", "bytes")
"""A type whose name holds one of these words has no agreed text form."""


class FrameSource(Source):
    """A data frame whose records are rows.

    The text of a cell depends on its own value alone: 1, 1.0 and a decimal 1.00 are the text 1, and booleans are the
    texts true and false. The type of the column plays no part, because a single missing cell can change this type.
    """

    def __init__(self, frame: Any, unit: UnitBound | None = None) -> None:
        super().__init__(unit)
        self._frame = frame

    def _header(self) -> list[str]:
        """Return the names of the columns."""
        return [name for name, _ in _kinds(self._frame)]

    def _check_type(self, name: str, column: AnyColumn | None) -> None:
        """Refuse a type without a text form."""
        kind = dict(_kinds(self._frame))[name]
        if any(word in kind for word in _REFUSED):
            raise SourceError(f"a column of type {kind} cannot be read as text", hint="convert it to text")

    def count_records(self) -> int:
        """Return the number of rows."""
        return len(self._frame)

    def _blocks(self) -> Generator[CellBlock]:
        """See ``Source._blocks``."""
        are_levels = [isinstance(column, Column) for column in self._columns] + [False]
        pairs = zip(self._names, are_levels, strict=False)
        texts = [cell_texts(self._frame, name, is_level=is_level) for name, is_level in pairs]
        for start in range(0, len(self._frame), _BLOCK_ROWS):
            lines = io.StringIO(newline="")
            rows = zip(*(each[start : start + _BLOCK_ROWS] for each in texts), strict=True)
            csv.writer(lines, lineterminator="\n").writerows(rows)
            yield from cell_blocks(io.BytesIO(lines.getvalue().encode()), len(texts))

    def close(self) -> None:
        """Do nothing: the frame belongs to the caller."""


def cell_texts(frame: Any, name: str, *, is_level: bool = False) -> NDArray[Any]:
    """Return the texts of a column's cells, None for missing ones, shape (n_records,); see ``FrameSource``.

    A level, such as the key of a group, is missing if it is a float that may be another integer, rounded by pandas.
    """
    column, text_of = frame[name], _text_of_level if is_level else _text
    is_single = dict(_kinds(frame))[name] in _SINGLE  # so that 0.1 becomes 0.1, not 0.10000000149
    if is_single or (isinstance(getattr(column, "dtype", None), np.dtype) and column.dtype.kind in "iufb"):
        values = np.asarray(column.to_numpy(), dtype=np.float32 if is_single else None)
        distinct, codes = np.unique(values, return_inverse=True)
        return np.array([*map(text_of, distinct), None], dtype=object)[:-1][codes]
    cells = _cells(column)
    known: dict[Any, str | None] = {}
    texts = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        key = (type(cell), cell)
        try:
            text = known[key]
        except KeyError:
            text = known[key] = text_of(cell)
        except TypeError:  # a cell that cannot be hashed has no text
            text = None
        texts[i] = text
    return texts


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column; None for a text that is not UTF-8, which only Arrow can hold."""
    as_list = next(name for name in ("tolist", "to_pylist", "to_list") if hasattr(column, name))
    try:
        return list(getattr(column, as_list)())
    except UnicodeDecodeError:
        arrow = column if as_list == "to_pylist" else column.array.__arrow_array__()
        return [_cell(scalar) for scalar in arrow]


def _cell(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return None


def _kinds(frame: Any) -> list[tuple[str, str]]:
    """Return the name and the type of each column, in lower case; both are public."""
    if hasattr(frame, "schema"):
        schema = frame.schema
        pairs = schema.items() if hasattr(schema, "items") else zip(schema.names, schema.types, strict=True)
    else:
        pairs = zip(frame.columns, frame.dtypes, strict=True)
    return [(str(name), str(kind).lower()) for name, kind in pairs]


def _text(cell: Any) -> str | None:
    """Return the text of a cell; None if it is missing, has no text form, or the text of a number is too long.

    Privacy: no cell raises an error, which would show that a record holds it.
    Source: derived here.
    """
    if isinstance(cell, str):
        return None if _HALF_CHARACTER.search(cell) else cell
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, numbers.Integral):
        return str(int(cell)) if int(cell).bit_length() <= _MAX_BITS else None
    if isinstance(cell, float | np.floating):
        cell = Decimal(str(cell))
    if isinstance(cell, Decimal) and cell.is_finite() and abs(cell.adjusted()) <= MAX_CELL_BYTES:
        return decimal_text(cell)
    return None


def _text_of_level(cell: Any) -> str | None:
    is_float = isinstance(cell, float | np.floating)
    return None if is_float and abs(cell) >= 2.0 ** (np.finfo(type(cell)).nmant + 1) else _text(cell)
