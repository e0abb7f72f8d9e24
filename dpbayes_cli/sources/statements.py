"""Statistics as DuckDB SQL: cells are turned into codes, codes are counted or summed, and only integers come out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dpbayes_cli.base.cell_grammar import MAX_KEY_BYTES, NUMBER, WHOLE, normal_cell
from dpbayes_cli.base.duck import fetch
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.statistic import CodeCounts, CountAt, ExactEvidence, Expression, ProductOf, Statistic
from dpbayes_cli.sources.code_sums import counts_of_codes, sums_of_products
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Cells, Records
from dpbayes_cli.sources.records import integers_in_normal_form, literal, without_blanks

if TYPE_CHECKING:
    import duckdb

Monomial = tuple[int, ...]
"""A product of codes, given by the column indices of its factors in ascending order."""

_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
"""Common spellings of a missing value. They are invalid like any text that is not a level, but are recognized
faster."""
_INTEGER_TEXT = re.compile("0|-?[1-9][0-9]{0,18}")
"""A pattern for the text of an integer in normal form, of at most 19 digits."""
_MAX_FILTERS = 16
"""Up to this many levels, comparisons and one filter per count are fastest; beyond it, an enum and GROUP BY are
faster."""


def _normal_levels(column: Column) -> tuple[dict[str, int], dict[str, int]]:
    """Return the codes of the levels by normal form, and by both normal form and declared spelling."""
    normal = {normal_cell(text): code for text, code in column.texts.items()}
    return normal, column.texts | normal


def _fast_level_code(cell: str, column: Column) -> str:
    """Return an expression for the code of a cell's level, NULL if the cell is invalid.

    The cell is first compared with common spellings. Its normal form is computed only if no spelling matches: CASE is
    lazy in DuckDB, unlike coalesce (0.6 s against 3.0 s for 10 million records).
    """
    normal, usual = _normal_levels(column)
    usual |= {f"{level}.0": code for level, code in normal.items() if normal_cell(f"{level}.0") == level}
    normal_form = integers_in_normal_form(without_blanks(cell))
    missing = ", ".join(literal(text) for text in _MISSING if text not in usual)
    rest = f"CASE WHEN {cell} IN ({missing}) THEN NULL ELSE {_cast(normal_form, normal)} END"
    return _compare(cell, usual, rest, 3 * _MAX_FILTERS)


def _compare(text: str, codes: Mapping[str, int], otherwise: str, max_arms: int = _MAX_FILTERS) -> str:
    if len(codes) > max_arms:
        return f"CASE WHEN {_cast(text, codes)} IS NOT NULL THEN {_cast(text, codes)} ELSE {otherwise} END"
    arms = " ".join(f"WHEN {literal(level)} THEN {code}" for level, code in codes.items())
    return f"CASE {text} {arms} ELSE {otherwise} END"


def _cast(text: str, codes: Mapping[str, int]) -> str:
    levels, table = ", ".join(map(literal, codes)), ", ".join(map(str, codes.values()))
    return f"[{table}][enum_code(TRY_CAST({text} AS ENUM({levels}))) + 1]"


def counting_query(relation: str, text: str, column: Column, impute: int | None) -> str:
    """Return a query that reads a relation once, and gives a row (code or NULL, number of records) for each level.

    Args:
        relation: the FROM clause; one row per record.
        text: the expression of the cell's text in the relation.
        column: the column's domain.
        impute: the code of the stand-in for an invalid cell; None if invalid cells are counted under NULL.
    """
    relation = f"(SELECT {text} AS cell FROM {relation})"  # compute the text once, not once per comparison
    level = _fast_level_code("cell", column)
    if impute is not None:
        level = f"coalesce({level}, {impute})"
    records = f"SELECT {level} AS level FROM {relation}"
    if len(column.levels) > _MAX_FILTERS:
        return f"SELECT level, count(*) FROM ({records}) GROUP BY level"
    counts = ", ".join(f"count(*) FILTER (level = {code})" for code in range(len(column.levels)))
    codes = ", ".join(map(str, range(len(column.levels))))
    return f"SELECT unnest([{codes}, NULL]), unnest([{counts}, count(*) FILTER (level IS NULL)]) FROM ({records})"


def _codes(relation: str, texts: Sequence[str], columns: Sequence[NumericColumn], imputes: Sequence[int | None]) -> str:
    """Return the relation of the records' codes, ``code_0`` and so on, NULL if a number is invalid."""
    cells = ", ".join(f"{without_blanks(text)} AS cell_{i}" for i, text in enumerate(texts))
    numbers = ", ".join(_number(f"cell_{i}", column) + f" AS number_{i}" for i, column in enumerate(columns))
    codes = ", ".join(_code(f"number_{i}", columns[i], imputes[i]) + f" AS code_{i}" for i in range(len(columns)))
    return f"(SELECT {codes} FROM (SELECT {numbers} FROM (SELECT {cells} FROM {relation})))"


def _number(trimmed: str, column: NumericColumn) -> str:
    return f"CASE WHEN {_is_number(trimmed, column)} THEN TRY_CAST({trimmed} AS DOUBLE) END"


def _is_number(trimmed: str, column: NumericColumn | CutColumn) -> str:
    integers = isinstance(column, NumericColumn) and column.integers
    return f"regexp_full_match({trimmed}, {literal(WHOLE if integers else NUMBER)})"


def _code(number: str, column: NumericColumn, impute: int | None) -> str:
    """Return an expression for a number's code, with the IEEE operations of ``NumericColumn.code``."""
    lower, upper = _double(column.lower), _double(column.upper)
    nearest = f"floor(({number} - {lower}) / {_double(column.step)} + 0.5)"
    code = f"CAST(least(greatest({nearest}, 0), {column.steps}) AS BIGINT)"
    if column.outside == "drop":  # a stand-in replaces a cell that is not a number, never a number out of bounds
        code = f"CASE WHEN {number} BETWEEN {lower} AND {upper} THEN {code} END"
    otherwise = "" if impute is None else f" ELSE {impute}"
    return f"CASE WHEN {number} IS NOT NULL AND isfinite({number}) THEN {code}{otherwise} END"


def code_expression(cell: str, column: AnyColumn, *, direct: bool = False) -> str:
    """Return a DuckDB expression for the code of a cell, NULL if it is invalid.

    The expression is short, because a query may hold a thousand such expressions, and each takes memory.

    Args:
        cell: the name of the SQL column that holds the cell.
        column: the column's domain.
        direct: whether the SQL column holds integers (or doubles, if the domain is numeric) instead of texts.
    """
    trimmed, cast_cell = without_blanks(cell), f"CAST({cell} AS DOUBLE)"
    parsed = f"TRY_CAST({trimmed} AS DOUBLE)"
    if isinstance(column, NumericColumn):
        if direct:
            return _code(cast_cell, column, None)
        return f"CASE WHEN {_is_number(trimmed, column)} THEN {_code(parsed, column, None)} END"
    if isinstance(column, CutColumn):
        cuts = enumerate(map(_double, column.cuts))
        arms = " ".join(f"WHEN {cast_cell if direct else parsed} < {cut} THEN {code}" for code, cut in cuts)
        valid = f"{cell} IS NOT NULL" if direct else f"{_is_number(trimmed, column)} AND isfinite({parsed})"
        return f"CASE WHEN {valid} THEN CASE {arms} ELSE {len(column.cuts)} END END"
    if column.finds_keys:
        return f"CASE WHEN {trimmed} <> '' AND strlen({trimmed}) <= {MAX_KEY_BYTES} THEN 0 END"
    normal, usual = _normal_levels(column)
    if direct:
        whole = {level: code for level, code in normal.items() if _INTEGER_TEXT.fullmatch(level)}  # not "-0"
        arms = " ".join(f"WHEN {level} THEN {code}" for level, code in whole.items())
        return f"CASE {cell} {arms} END" if whole else "CAST(NULL AS BIGINT)"
    rest = _cast(integers_in_normal_form(trimmed), normal)
    return _compare(cell, usual, f"CASE WHEN {cell} = '' THEN NULL ELSE {rest} END")


def joined_keys(engine: duckdb.DuckDBPyConnection, index: int, cell: str, column: Column, after: str) -> str:
    """Make a table of keys and their codes; return the JOIN clause by which ``key_INDEX.code`` is the code of a cell.

    Args:
        index: the number of the column.
        cell: the expression of the cell's text.
        column: the column of keys.
        after: the expression of the text of the next column's cell.
    """
    import numpy as np

    texts = {"text": column.levels, "other": column.within} if column.within else {"text": column.levels}
    table = {name: np.array([normal_cell(key) for key in keys], dtype=object) for name, keys in texts.items()}
    engine.register(f"keys_{index}", {**table, "code": np.arange(len(column.levels))})
    engine.execute(f"CREATE OR REPLACE TEMP TABLE key_{index} AS SELECT * FROM keys_{index}")
    engine.unregister(f"keys_{index}")
    cells = zip((cell, after), texts, strict=False)
    equal = (f"{integers_in_normal_form(without_blanks(text))} = key_{index}.{name}" for text, name in cells)
    return f"LEFT JOIN key_{index} ON {' AND '.join(equal)}"


def plain_number_expression(cell: str, column: AnyColumn) -> str:
    """Return a DuckDB expression for a number, neither clamped nor rounded; NaN if it is invalid or not finite.

    Args:
        cell: the name of the SQL column that holds the cell's text.
        column: a numeric column.
    """
    if not isinstance(column, NumericColumn):
        raise TypeError("the column is not numeric")
    number = _number(without_blanks(cell), column)
    return f"CASE WHEN isfinite({number}) THEN {number} ELSE CAST('nan' AS DOUBLE) END"


def _double(number: float) -> str:
    return f"CAST({literal(repr(number))} AS DOUBLE)"


class Tally:
    """Counts or sums of one statistic, added up over the records of all files.

    Args:
        columns: one column of levels, or one or more numeric columns.
        statistic: the statistic to evaluate.
        policy: states the stand-in for an invalid cell.

    Attributes:
        columns: the columns to read; for a histogram, the numeric column with the histogram's grid as its domain.
        sums: whether products of codes are summed; otherwise codes are counted.
        monomials: the products of codes to sum.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        self._statistic, self._policy = statistic, policy
        self._numbers = [column for column in columns if isinstance(column, NumericColumn)]
        first = statistic.expressions[0]
        self._histogram = first.column if isinstance(first, CodeCounts) else None
        if (self._numbers and len(self._numbers) < len(columns)) or (not self._numbers and len(columns) != 1):
            raise ValueError("a statistic reads one column of levels, or numeric columns")
        if self._histogram is not None and [column.role for column in columns] != [self._histogram.role]:
            raise ValueError("a histogram reads one numeric column")
        self.columns: Sequence[AnyColumn] = columns if self._histogram is None else (self._histogram,)
        self.sums = bool(self._numbers) and self._histogram is None
        parts = {part for expression in statistic.expressions for part in _expansion(expression, self._numbers)}
        self.monomials: list[Monomial] = sorted(parts - {()}) if self.sums else []
        self._counts: Counter[int | str | Monomial | None] = Counter()

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Count the records; see ``Reader``."""
        self.add(fetch(engine, self.query(cells), abort))

    def read(self, blocks: Iterable[Records]) -> None:
        """Count the records; see ``Reader``."""
        stand_ins = [impute_code(column, self._policy) for column in self.columns]
        for records in blocks:
            codes = [with_stand_in(records.codes(i), stand_in) for i, stand_in in enumerate(stand_ins)]
            if self.sums:
                self.add([sums_of_products(codes, self.monomials)])
            else:
                self.add(counts_of_codes(codes[0], n_codes(self.columns[0])))

    def query(self, cells: Cells) -> str:
        """Return a query whose rows ``add`` takes; it reads the records once."""
        imputes = [impute_code(column, self._policy) for column in self.columns]
        if not self._numbers:
            column = cast(Column, self.columns[0])
            return counting_query(cells.relation, cells.texts[0], column, imputes[0])
        columns = self._numbers if self._histogram is None else [self._histogram]
        codes = _codes(cells.relation, cells.texts, columns, imputes)
        if not self.sums:
            return f"SELECT code_0, count(*) FROM {codes} GROUP BY code_0"
        whole = " AND ".join(f"code_{i} IS NOT NULL" for i in range(len(columns)))
        products = (" * ".join(f"code_{i}" for i in monomial) for monomial in self.monomials)
        sums = "".join(f", coalesce(sum({product}) FILTER ({whole}), 0)" for product in products)
        return f"SELECT count(*), count(*) FILTER ({whole}){sums} FROM {codes}"

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the rows of one query: (code or NULL, count), or (number of records, number of valid records, sums)."""
        if not self.sums:
            for code, count in rows:
                self._counts[code] += count
            return
        for records, valid, *sums in rows:
            self._counts.update({"records": records, (): valid})
            self._counts.update({m: int(total or 0) for m, total in zip(self.monomials, sums, strict=True)})

    @property
    def records(self) -> int:
        """The number of records, valid or not."""
        return self._counts["records"] if self.sums else self._counts.total()

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic, or its histogram."""
        if self._histogram is not None:
            codes = {code: count for code, count in self._counts.items() if isinstance(code, int)}
            return ExactEvidence((), self.records, codes)
        return ExactEvidence(tuple(map(self._value, self._statistic.expressions)), self.records)

    def _value(self, expression: Expression) -> int:
        if isinstance(expression, CountAt):
            if expression.role != self.columns[0].role:
                raise ValueError("the statistic reads a column whose codes were not counted")
            return self._counts[expression.level]
        return sum(weight * self._counts[part] for part, weight in _expansion(expression, self._numbers).items())


def _expansion(expression: Expression, columns: Sequence[NumericColumn]) -> dict[Monomial, int]:
    """Return a product of codes, centered or not, as a sum of products of plain codes with integer weights."""
    if not isinstance(expression, ProductOf):
        return {}
    indices = {column.role: i for i, column in enumerate(columns)}
    terms: dict[Monomial, int] = {(): expression.weight}
    for role in expression.roles:
        index = indices[role]
        grown: Counter[Monomial] = Counter()
        for monomial, weight in terms.items():
            grown[tuple(sorted((*monomial, index)))] += weight * (2 if expression.centered else 1)
            if expression.centered:
                grown[monomial] -= weight * columns[index].steps
        terms = dict(grown)
    return terms
