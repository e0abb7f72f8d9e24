"""Profile the columns of a file: kinds, ranges, commonest texts. NOT PRIVATE: for ``dpbayes check`` alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbayes_cli.base.cell_grammar import BLANKS
from dpbayes_cli.base.duck import cursor, fetch
from dpbayes_cli.core.columns import AnyColumn
from dpbayes_cli.sources.file_layout import UTF8, UTF8_MARKED, UTF16, FileLayout
from dpbayes_cli.sources.records import literal
from dpbayes_cli.sources.source import unreadable
from dpbayes_cli.sources.statements import code_expression

COMMONEST = 8
"""So many of the commonest texts of a column are looked at."""
_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")


@dataclass(frozen=True)
class ColumnProfile:
    """What the cells of a column are.

    Attributes:
        name: the name of the column.
        records: the number of cells.
        missing: the number of empty cells and of common spellings of a missing value.
        numbers: the number of cells that are numbers.
        whole: the number of cells that are whole numbers.
        lowest, highest: the range of the numbers; NaN if there are none.
        distinct: about the number of different texts.
        commonest: the commonest texts that are not missing, with their numbers of cells.
    """

    name: str
    records: int
    missing: int
    numbers: int
    whole: int
    lowest: float
    highest: float
    distinct: int
    commonest: tuple[tuple[str, int], ...]

    @property
    def is_numeric(self) -> bool:
        """Whether nearly all cells that are not missing are numbers."""
        return 0 < self.records - self.missing <= 1.05 * self.numbers


def text_relation(path: Path, layout: FileLayout) -> str:
    """Return the FROM clause of a text file whose cells are the texts ``c0``, ``c1``, ...; wrong lines are left out."""
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(layout.names)))
    encoding = {UTF8: "utf-8", UTF8_MARKED: "utf-8", UTF16: "utf-16"}.get(layout.encoding, "latin-1")
    return (
        f"read_csv({literal(str(path))}, auto_detect=false, columns={{{columns}}}, header=false, "
        f"skip={layout.skipped + layout.header}, delim={literal(layout.delimiter)}, quote={literal(layout.quote)}, "
        f"escape={literal(layout.quote)}, encoding='{encoding}', ignore_errors=true, strict_mode=true, "
        f"max_line_size={1 << 22}, compression='auto_detect')"
    )


def parquet_relation(path: Path, names: Sequence[str]) -> str:
    """Return the FROM clause of a Parquet file whose cells are the texts ``c0``, ``c1``, ..."""
    cells = ", ".join(
        f'CAST("{name.replace(chr(34), 2 * chr(34))}" AS VARCHAR) AS c{i}' for i, name in enumerate(names)
    )
    return f"(SELECT {cells} FROM read_parquet({literal(str(path))}))"


def parquet_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file."""
    return tuple(row[0] for row in _rows(f"DESCRIBE SELECT * FROM read_parquet({literal(str(path))})"))


def profile_columns(relation: str, names: Sequence[str]) -> list[ColumnProfile]:
    """Return the profile of each column, in two passes over a relation with the texts ``c0``, ``c1``, ..."""
    n = range(len(names))
    if not names:
        return []
    missing = ", ".join(map(literal, _MISSING))
    cells = ", ".join(f"trim(coalesce(c{i}, ''), {literal(BLANKS)}) AS c{i}" for i in n)
    numbers = ", ".join(f"TRY_CAST(c{i} AS DOUBLE) AS d{i}" for i in n)
    figures = ", ".join(
        f"count(*) FILTER (c{i} IN ({missing})), count(*) FILTER (isfinite(d{i})), "
        f"count(*) FILTER (isfinite(d{i}) AND d{i} = floor(d{i})), min(d{i}) FILTER (isfinite(d{i})), "
        f"max(d{i}) FILTER (isfinite(d{i})), approx_count_distinct(c{i}), "
        f"approx_top_k(c{i}, {COMMONEST}) FILTER (c{i} NOT IN ({missing}))"
        for i in n
    )
    texts = f"(SELECT {cells} FROM {relation})"
    ((records, *flat),) = _rows(f"SELECT count(*), {figures} FROM (SELECT *, {numbers} FROM {texts})")
    found = [flat[7 * i : 7 * i + 7] for i in n]
    counts = [f"count(*) FILTER (c{i} = {literal(text)})" for i in n for text in found[i][6] or ()]
    counted = iter(_rows(f"SELECT {', '.join(counts)} FROM {texts}")[0] if counts else ())
    profiles = []
    for name, (blank, number, whole, lowest, highest, distinct, top) in zip(names, found, strict=True):
        commonest = sorted(((text, next(counted)) for text in top or ()), key=lambda pair: (-pair[1], pair[0]))
        low, high = (math.nan, math.nan) if lowest is None else (lowest, highest)
        profiles.append(ColumnProfile(name, records, blank, number, whole, low, high, distinct, tuple(commonest)))
    return profiles


def commonest_invalid(relation: str, index: int, column: AnyColumn) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return the number of invalid cells of a column under its domain, and the commonest texts among them.

    Args:
        relation: a relation with the texts ``c0``, ``c1``, ...
        index: the index of the column.
        column: its domain.
    """
    cells = f"(SELECT coalesce(c{index}, '') AS cell FROM {relation})"
    invalid = (
        f"SELECT trim(cell, {literal(BLANKS)}) AS text FROM {cells} WHERE {code_expression('cell', column)} IS NULL"
    )
    rows = _rows(
        f"SELECT text, count(*) AS n, sum(count(*)) OVER () FROM ({invalid}) GROUP BY text "
        f"ORDER BY n DESC, text LIMIT {COMMONEST}"
    )
    return (int(rows[0][2]) if rows else 0), tuple((text, n) for text, n, _ in rows)


def _rows(query: str) -> list[tuple[Any, ...]]:
    with cursor(unreadable()) as engine:
        return fetch(engine, query, engine.interrupt)
