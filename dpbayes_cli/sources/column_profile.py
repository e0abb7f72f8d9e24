"""Profile the columns of a file: their kinds, ranges and most common texts. NOT PRIVATE: for ``dpbayes check``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.cell_grammar import BLANKS, POINT, NumberMarks, normal_cell
from dpbayes_cli.base.duck import cursor, fetch
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn
from dpbayes_cli.sources.file_layout import MISSING, FileLayout, layout_lines
from dpbayes_cli.sources.line_relation import LINE_READER, field_text, pipe_blocks, split_relation
from dpbayes_cli.sources.location import share_read
from dpbayes_cli.sources.records import (
    Dialect,
    integers_in_normal_form,
    literal,
    with_point,
    without_blanks,
)
from dpbayes_cli.sources.source import unreadable
from dpbayes_cli.sources.statements import code_expression

if TYPE_CHECKING:
    import duckdb

_SAMPLE = 100_000
MANY_NUMBERS = 100
"""If a column has more distinct numbers than this, the profile does not list the most common ones."""
COMMONEST = 8
"""The number of most common texts in a profile."""
_PIPE = "\x03"  # no cell holds it: control bytes are replaced
_COLUMNS_AT_ONCE = 32
"""The time and the memory of one pass grow faster than the number of its columns: 1,000 columns need 19 GB."""


@dataclass(frozen=True)
class ColumnProfile:
    """A summary of the cells of a column.

    Attributes:
        name: the name of the column.
        records: the number of cells.
        missing: the number of cells that are empty or a common spelling of a missing value.
        numbers: the number of cells that are numbers.
        whole: the number of cells that are whole numbers.
        lowest, highest: the range of the numbers; NaN if there are none.
        distinct: the number of distinct texts that are not missing values; approximate if there are ``COMMONEST`` or
            more.
        commonest: the most common of these texts with their frequencies; empty for a column with more than
            ``MANY_NUMBERS`` distinct numbers.
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
    def may_be_id(self) -> bool:
        """Whether nearly every cell has a text of its own, as in a column of IDs; numbers with decimals are no IDs.

        One cell may be missing, such as that of a second header line.
        """
        return self.whole == self.numbers and self.missing <= 1 and self.distinct > 0.9 * self.records

    @property
    def is_numeric(self) -> bool:
        """Whether nearly all cells that are not missing are numbers."""
        return 0 < self.records - self.missing <= 1.05 * self.numbers


@dataclass(frozen=True)
class Relation:
    """The FROM clause of a file, with columns of texts ``c0``, ``c1``, ...

    Attributes:
        cells: expressions of the texts, by the index of their column.
        records: the FROM clause of the records, in which ``_PIPE`` stands for a pipe with the lines of the file.
        lines: a function that yields these lines in blocks; None if the engine reads the file itself.
    """

    cells: Mapping[int, str]
    records: str
    lines: Callable[[], Iterator[bytes]] | None = None

    def __str__(self) -> str:
        return f"(SELECT {', '.join(f'{cell} AS c{i}' for i, cell in self.cells.items())} FROM {self.records})"

    def only(self, indices: Iterable[int]) -> Relation:
        """Return the relation with these columns alone, which the engine understands sooner."""
        return replace(self, cells={i: self.cells[i] for i in indices})


def text_relation(path: Path, layout: FileLayout) -> Relation:
    """Return the records of a text file as a release reads them; malformed lines are skipped."""
    dialect = Dialect(layout.delimiter, layout.quote)
    lines = f"read_csv('{_PIPE}', {LINE_READER}, skip={layout.skipped + layout.header})"
    line = "coalesce(line, '')"  # the engine reads an empty line as NULL
    fields = split_relation(lines, line, len(layout.names), dialect)
    cells = {i: field_text("fields", i, dialect) for i in range(len(layout.names))}
    return Relation(cells, f"{fields} WHERE fields IS NOT NULL", partial(layout_lines, path, layout))


def parquet_relation(path: Path, names: Sequence[str]) -> Relation:
    """Return the records of a Parquet file."""
    cells = {i: f'CAST("{name.replace(chr(34), 2 * chr(34))}" AS VARCHAR)' for i, name in enumerate(names)}
    return Relation(cells, f"read_parquet({literal(str(path))})")


def parquet_columns(path: Path) -> dict[str, bool]:
    """Return for each column of a Parquet file whether it holds texts."""
    relation = parquet_relation(path, ())
    rows = _rows(relation, f"DESCRIBE SELECT * FROM {relation.records}")
    return {str(name): str(kind).startswith(("VARCHAR", "ENUM")) for name, kind, *_ in rows}


def profile_columns(relation: Relation, names: Sequence[str], marks: NumberMarks = POINT) -> list[ColumnProfile]:
    """Return the profile of each column, in two passes for every 32 columns.

    Args:
        relation: the FROM clause of a relation with the texts ``c0``, ``c1``, ...
        names: the names of the columns.
        marks: the decimal and thousands marks of the numbers.
    """
    starts = range(0, len(names), _COLUMNS_AT_ONCE)
    batches = (range(start, min(start + _COLUMNS_AT_ONCE, len(names))) for start in starts)
    return [each for n in batches for each in _profile_some(relation.only(n), names, n, marks)]


def _profile_some(relation: Relation, names: Sequence[str], n: range, marks: NumberMarks) -> list[ColumnProfile]:
    cells = ", ".join(f"trim(c{i}, {literal(BLANKS)}) AS c{i}" for i in n)
    texts = f"(SELECT {cells} FROM {relation})"
    numbers = ", ".join(f"TRY_CAST({_spelled(f'c{i}', marks)} AS DOUBLE) AS d{i}" for i in n)
    finite = ", ".join(f"CASE WHEN isfinite(d{i}) THEN d{i} END AS d{i}" for i in n)
    filled = ", ".join(f"CASE WHEN isfinite(d{i}) THEN c{i} ELSE {_unless_missing(f'c{i}')} END AS c{i}" for i in n)
    figures = ", ".join(
        f"count(c{i}), count(d{i}), count(*) FILTER (d{i} = floor(d{i})), min(d{i}), max(d{i}), "
        f"approx_count_distinct(c{i}), approx_top_k(c{i}, {COMMONEST})"
        for i in n
    )
    ((records, *flat),) = _rows(
        relation, f"SELECT count(*), {figures} FROM (SELECT {filled}, {finite} FROM (SELECT *, {numbers} FROM {texts}))"
    )
    profiles = []
    for k, i in enumerate(n):
        name = names[i]
        n_filled, number, whole, lowest, highest, distinct, top = flat[7 * k : 7 * k + 7]
        low, high = (math.nan, math.nan) if lowest is None else (lowest, highest)
        commonest = tuple((text, 0) for text in top or ())
        if len(commonest) < COMMONEST:  # these are all texts
            distinct = len(commonest)
        profile = ColumnProfile(
            name, records, records - n_filled, number, whole, low, high, min(distinct, n_filled), commonest
        )
        is_measure = profile.is_numeric and distinct > MANY_NUMBERS
        profiles.append(replace(profile, commonest=()) if is_measure else profile)
    counts = [
        f"count(*) FILTER (c{i} = {literal(text)})"
        for i, each in zip(n, profiles, strict=True)
        for text, _ in each.commonest
    ]
    counted = iter(_rows(relation, f"SELECT {', '.join(counts)} FROM {texts}")[0] if counts else ())
    for k, each in enumerate(profiles):
        pairs = ((text, next(counted)) for text, _ in each.commonest)
        profiles[k] = replace(each, commonest=tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))))
    return profiles


def _spelled(text: str, marks: NumberMarks) -> str:
    """Return a DuckDB expression that writes a number with a decimal point; a text without marks stays as it is."""
    if marks == POINT:
        return text
    held = " OR ".join(f"contains({text}, {literal(mark)})" for mark in {".", marks.decimal, marks.thousands} - {""})
    return f"CASE WHEN {held} THEN {with_point(text, marks)} ELSE {text} END"


def _unless_missing(text: str) -> str:
    longest = max(map(len, MISSING))  # longer texts need no comparison
    return f"CASE WHEN strlen({text}) > {longest} OR {text} NOT IN ({', '.join(map(literal, MISSING))}) THEN {text} END"


def are_grouped(relation: Relation, index: int) -> bool:
    """Return whether each point in the first 100,000 cells of a column may separate thousands, as in 1.234."""
    text = f"trim(c{index}, {literal(BLANKS)})"
    grouped = f"regexp_full_match({text}, '[+-]?[1-9][0-9]{{0,2}}[.][0-9]{{3}}')"
    ((all_grouped,),) = _rows(
        relation, f"SELECT bool_and({grouped}) FROM (FROM {relation} LIMIT {_SAMPLE}) WHERE contains({text}, '.')"
    )
    return bool(all_grouped)


def all_texts(relation: Relation, index: int) -> list[str]:
    """Return all distinct texts of a column that are not missing values, sorted."""
    text = _unless_missing(f"trim(c{index}, {literal(BLANKS)})")
    return [
        text
        for (text,) in _rows(relation, f"SELECT DISTINCT {text} AS t FROM {relation} WHERE t IS NOT NULL ORDER BY t")
    ]


def first_rows(relation: Relation, n_columns: int, n_rows: int) -> list[tuple[str | None, ...]]:
    """Return the first rows of a relation with the texts ``c0``, ``c1``, ..., without blanks around them."""
    cells = ", ".join(f"trim(c{i}, {literal(BLANKS)})" for i in range(n_columns))
    return _rows(relation, f"SELECT {cells} FROM {relation} LIMIT {n_rows}")


def count_rows(relation: Relation, texts: Sequence[str]) -> int:
    """Return the number of rows that hold these texts, one in each column."""
    same = " AND ".join(f"trim(c{i}, {literal(BLANKS)}) = {literal(text)}" for i, text in enumerate(texts))
    ((count,),) = _rows(relation, f"SELECT count(*) FROM {relation} WHERE {same}")
    return int(count)


def commonest_invalid(
    relation: Relation, index: int, column: AnyColumn, marks: NumberMarks = POINT
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return the number of cells that are invalid under the column's domain, and the most common of their texts.

    Args:
        relation: a relation with the texts ``c0``, ``c1``, ...
        index: the index of the column.
        column: the column's domain.
        marks: the decimal and thousands marks that the user stated.
    """
    cells = f"(SELECT coalesce(c{index}, '') AS cell, {_as_read(index, column, marks)} AS number FROM {relation})"
    invalid = (
        f"SELECT trim(cell, {literal(BLANKS)}) AS text FROM {cells} WHERE {code_expression('number', column)} IS NULL"
    )
    rows = _rows(
        relation,
        f"SELECT text, count(*) AS n, sum(count(*)) OVER () FROM ({invalid}) GROUP BY text "
        f"ORDER BY n DESC, text LIMIT {COMMONEST}",
    )
    return (int(rows[0][2]) if rows else 0), tuple((text, n) for text, n, _ in rows)


def count_beyond(
    relation: Relation, index: int, column: NumericColumn, marks: NumberMarks = POINT
) -> tuple[int, int, float, int]:
    """Return how many cells are numbers below and above the bounds, and the commonest of these with its frequency.

    See ``commonest_invalid``.
    """
    number = f"TRY_CAST({_as_read(index, column, marks)} AS DOUBLE)"
    low, high = f"x < {column.lower!r}", f"x > {column.upper!r}"
    rows = _rows(
        relation,
        "SELECT coalesce(sum(n) FILTER (low) OVER (), 0), coalesce(sum(n) FILTER (NOT low) OVER (), 0), x, n FROM "
        f"(SELECT x, {low} AS low, count(*) AS n FROM (SELECT {number} AS x FROM {relation}) "
        f"WHERE isfinite(x) AND ({low} OR {high}) GROUP BY x) ORDER BY n DESC, x LIMIT 1",
    )
    below, above, number_beyond, count = rows[0] if rows else (0, 0, math.nan, 0)
    return int(below), int(above), float(number_beyond), int(count)


def mean_and_variance(
    relation: Relation, index: int, column: NumericColumn, marks: NumberMarks = POINT
) -> tuple[float, float] | None:
    """Return the mean and the variance of the numbers of a column after clamping; None if there are too few."""
    number = f"TRY_CAST({_as_read(index, column, marks)} AS DOUBLE)"
    clamped = f"greatest({column.lower!r}, least({column.upper!r}, x))"
    ((mean, variance),) = _rows(
        relation,
        f"SELECT avg(y), var_samp(y) FROM (SELECT {clamped} AS y FROM (SELECT {number} AS x FROM {relation}) "
        "WHERE isfinite(x))",
    )
    return None if mean is None or variance is None else (float(mean), float(variance))


def count_valid_records(relation: Relation, columns: Sequence[tuple[int, AnyColumn, NumberMarks]]) -> int:
    """Return the number of records that are valid in all columns; each has its index, domain and marks."""
    cells = ", ".join(f"{_as_read(*each)} AS cell_{k}" for k, each in enumerate(columns))
    valid = " AND ".join(_is_valid(k, each) for k, (_, each, _) in enumerate(columns))
    ((n_valid,),) = _rows(relation, f"SELECT count(*) FROM (SELECT {cells} FROM {relation}) WHERE {valid}")
    return int(n_valid)


def count_keys(
    relation: Relation, columns: Sequence[tuple[int, AnyColumn, NumberMarks]], least: float
) -> tuple[int, int]:
    """Return the number of keys with a valid record, and of those with at least ``least`` valid records.

    The first column is that of the keys; see ``count_valid_records``.
    """
    cells = ", ".join(f"{_as_read(*each)} AS cell_{k}" for k, each in enumerate(columns))
    valid = " AND ".join(f"{code_expression(f'cell_{k}', each)} IS NOT NULL" for k, (_, each, _) in enumerate(columns))
    key = integers_in_normal_form(without_blanks("cell_0"))
    numbers = f"SELECT count(*) AS n FROM (SELECT {cells} FROM {relation}) WHERE {valid} GROUP BY {key}"
    ((n_keys, n_large),) = _rows(relation, f"SELECT count(*), count(*) FILTER (n >= {least!r}) FROM ({numbers})")
    return int(n_keys), int(n_large)


def _is_valid(k: int, column: AnyColumn) -> str:
    """Return a DuckDB condition that cell k is valid; of a pair of keys, that cells k and k + 1 hold a listed pair."""
    if not isinstance(column, Column) or not column.within:
        return f"{code_expression(f'cell_{k}', column)} IS NOT NULL"
    pairs = zip(map(normal_cell, column.levels), map(normal_cell, column.within), strict=True)
    listed = ", ".join(f"({literal(key)}, {literal(other)})" for key, other in pairs)
    key, other = (integers_in_normal_form(without_blanks(f"cell_{i}")) for i in (k, k + 1))
    return f"({key}, {other}) IN ({listed})"


def _as_read(index: int, column: AnyColumn, marks: NumberMarks) -> str:
    """Return a DuckDB expression for the text of a cell; if it is a number, with a decimal point."""
    cell = f"coalesce(c{index}, '')"
    return cell if marks == POINT or isinstance(column, Column) else with_point(cell, marks)


_RUNNING: list[duckdb.DuckDBPyConnection] = []


def share_done() -> float | None:
    """Return the finished fraction of the current pass over the file; None if the file is not being read."""
    try:
        return max(float(_RUNNING[-1].query_progress()), 0.1) / 100.0
    except IndexError:
        return share_read()


def _rows(relation: Relation, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, which names the relation once."""
    lines = nullcontext() if relation.lines is None else pipe_blocks(relation.lines())
    with lines as pipe, cursor(unreadable()) as engine:
        if pipe is not None:
            return fetch(engine, query.replace(_PIPE, f"/dev/fd/{pipe.reader}"), pipe.cut)
        engine.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
        _RUNNING.append(engine)
        try:
            return fetch(engine, query, engine.interrupt)
        finally:
            _RUNNING.remove(engine)
