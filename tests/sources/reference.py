"""A reference reader: one record at a time, in plain Python, sharing only the grammar with the engine's path."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, normal_cell, parse_number
from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.sources.lines import MAX_RECORD_BYTES
from dpbayes_cli.sources.records import Dialect, split_record


def physical_lines(content: bytes) -> list[bytes]:
    """Return the lines of a file: each ends at a line feed; an empty remainder is not a line."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def cells_of(line: bytes, dialect: Dialect, width: int) -> list[str | None] | None:
    """Return the cells of a line, or None if the record is malformed."""
    if len(line) > MAX_RECORD_BYTES:
        return None
    text = line.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r").decode("utf-8", "replace")
    if any((ord(c) < 32 and c != "\t") or c in "\x7f\ufeff" for c in text):
        text = "".join("\x02" if (ord(c) < 32 and c != "\t") or c in "\x7f\ufeff" else c for c in text)
    fields = split_record(text, dialect)
    if fields is None or len(fields) != width:
        return None
    return [None if len(field.encode()) > MAX_CELL_BYTES else field for field in fields]


def level_of(line: bytes, dialect: Dialect, index: int, width: int, levels: Sequence[str]) -> int | None:
    """Return the code of the cell's level, or None if the record is invalid."""
    cells = cells_of(line, dialect, width)
    return None if cells is None else code_of(cells[index], Column("", tuple(levels)))


def with_hidden_newlines(content: bytes, quote: bytes) -> bytes:
    """Return a file in which quoted texts may span lines, without the line feeds inside quotes."""
    parts = content.split(quote)
    return quote.join(part.replace(b"\n", b"\x02") if i % 2 else part for i, part in enumerate(parts))


def code_of(cell: str | None, column: Column | CutColumn, impute: str | None = None) -> int | None:
    """Return the code of a cell or of its stand-in; None if it is invalid and has no stand-in."""
    code: int | None = None
    if cell is not None and isinstance(column, CutColumn):
        number = parse_number(cell)
        code = None if number is None else sum(cut <= number for cut in column.cuts)
    elif cell is not None and isinstance(column, Column):
        meaning = [{level, *texts} for level, texts in zip_longest(column.levels, column.spellings, fillvalue=())]
        matching = (i for i, texts in enumerate(meaning) if normal_cell(cell) in map(normal_cell, texts))
        code = next(matching, None)
    stands_in = column.impute if column.impute is not None else impute
    return code_of(stands_in, replace(column, impute=None)) if code is None and stands_in is not None else code


def codes_of(
    records: Sequence[Sequence[str | None] | None], columns: Sequence[Column | CutColumn], impute: str | None = None
) -> list[list[int | None]]:
    """Return the codes of records given as cells; None is a malformed record, all of whose cells are missing."""
    return [
        [code_of(None if record is None else record[i], column, impute) for i, column in enumerate(columns)]
        for record in records
    ]


def table(codes: Sequence[Sequence[int | None]], axes: Sequence[int], shape: Sequence[int], whole: bool) -> list[int]:
    """Return the counts of a table's cells in C order."""
    counts = Counter(
        tuple(record[axis] for axis in axes)
        for record in codes
        if None not in (record if whole else [record[axis] for axis in axes])
    )
    return [counts[cell] for cell in itertools.product(*map(range, shape))]


def count(content: bytes, dialect: Dialect, index: int, width: int, levels: Sequence[str]) -> tuple[list[int], int]:
    """Return the number of records of each level, and of all records."""
    records = physical_lines(content)[1:]
    codes = [level_of(record, dialect, index, width, levels) for record in records]
    return [codes.count(code) for code in range(len(levels))], len(records)
