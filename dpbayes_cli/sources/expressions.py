"""Statistics as Ibis expressions, which are compiled for PostgreSQL, Spark and DuckDB.

Cells get the same codes as in ``cell_codes``. A query is compiled in stages, each of which reads the stage before, so
that a shared expression is computed once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import ibis
from ibis.config import Config

from dpbayes_cli.base.cell_grammar import BLANKS, MAX_CELL_BYTES, NumberMarks, normal_cell
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.second_moments import Factor
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import TableCounts
from dpbayes_cli.sources.cell_expressions import (
    END,
    WHOLE,
    Dialect,
    Expression,
    cast_text,
    double,
    function,
    grid_code,
    literal,
    normal_text,
    sha256_text,
    with_point,
    without_controls,
)
from dpbayes_cli.sources.contributions import MAX_DUPLICATES
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.sources.reader import EVERY_RECORD, OUT_OF_BOUNDS, Monomial, UnitBound

_NUMBER = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?[|]$"
_PLAIN = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)[|]$"
_MAX_PLAIN_LENGTH = 300
"""A number without exponent of at most this length neither overflows a double nor is rounded to zero."""
_SIGNIFICANT_DIGITS = 800
"""The rounding of a decimal to a double depends on its first 767 digits, and on whether any later digit is not 0."""
_TOO_LARGE = str(((1 << 54) - 1) << 970).rstrip("0")
"""The digits of the smallest number that overflows a double, about 0.17977 * 10^309."""
_TO_ZERO = str(5**1075).rstrip("0")
"""The digits of the largest number that a double rounds to zero, about 0.24703 * 10^-323."""

_PAIR = "\x1f"
"""Stands between the texts of a pair of keys. No key holds a control character, so a pair of cells that makes the same
text is the same pair."""
_MAX_PRODUCT = 1 << 62


class _SparkOptions(Config):  # type: ignore[misc] # from Ibis
    """Options of Ibis' compiler for Spark; Ibis defines them in its Spark backend, which would import pandas."""

    treat_nan_as_null: bool = False


class Statements:
    """The queries of one engine.

    Args:
        dialect: the engine's SQL.
        relation: a query of one row per record with the columns ``text_0``, ``text_1``, ... and, if contributions are
            bounded, ``owner``, the text of the record's privacy unit.
        columns: the columns' domains.
        bound: the contribution bound; None if each record is a privacy unit.
        marks: the decimal and thousands marks of a column of texts, by column index, unless they are a plain point.
    """

    def __init__(
        self,
        dialect: Dialect,
        relation: str,
        columns: Sequence[AnyColumn],
        bound: UnitBound | None = None,
        marks: Mapping[int, NumberMarks] = MappingProxyType({}),
    ) -> None:
        self._dialect, self._columns, self._bound, self._marks = dialect, columns, bound, marks
        self._codes = [f"code_{i}" for i in range(len(columns))]
        self._keyed = [i for i, column in enumerate(columns) if isinstance(column, Column) and column.is_key]
        self._numeric = [i for i, column in enumerate(columns) if not isinstance(column, Column)]
        self._stages = [relation]
        names = [f"text_{i}" for i in range(len(columns))] + ([] if bound is None else ["owner"])
        self._schema = ibis.schema(dict.fromkeys(names, "string"))

    def sum_query(self, policy: RecordPolicy, factors: Sequence[Factor], monomials: Sequence[Monomial]) -> str:
        """Return a query of one row: the numbers of records and of valid records, and the sums of products.

        Raises:
            SourceError: the grid is so fine that a product of codes exceeds 64 bits.
        """
        rows = self._coded(policy)
        codes = [rows[self._codes[factor.column]] for factor in factors]
        values = [
            code if factor.level is None else (code == factor.level).cast("int64")
            for factor, code in zip(factors, codes, strict=True)
        ]
        is_valid, sums = self._valid(rows), {}
        for m, monomial in enumerate(monomials):
            product, largest = values[monomial[0]], factors[monomial[0]].steps
            for i in monomial[1:]:
                product, largest = product * values[i], largest * factors[i].steps
            if largest >= _MAX_PRODUCT:
                raise SourceError(
                    "the products of the columns are too large for this engine", hint="read files without --engine"
                )
            sums[f"sum_{m}"] = product.cast("decimal(38, 0)").sum(where=is_valid)  # sums may exceed 64 bits
        return self._query(rows.agg(records=rows.count(), valid=rows.count(where=is_valid), **sums))

    def code_query(self, policy: RecordPolicy) -> str:
        """Return a query of the only column, with one row (code or NULL, number of records) per code that occurs."""
        rows = self._coded(policy)
        return self._query(rows.group_by("code_0").agg(n=rows.count()))

    def cells_query(self, policy: RecordPolicy, tables: Sequence[TableCounts], *, whole_records: bool) -> str:
        """Return a query with one row (cell, number of records) per nonempty cell of contingency tables.

        The cells of all tables are numbered consecutively, those of each table in C order. The row of the cell
        ``EVERY_RECORD`` holds the number of all records. A record is read once, and counts in one cell of every table.
        """
        rows = self._coded(policy)
        code = {column.role: rows[name] for column, name in zip(self._columns, self._codes, strict=True)}
        keys, first = [ibis.literal(EVERY_RECORD, type="int64")], 0
        for table in tables:
            key: Expression = ibis.literal(0, type="int64")
            for role, size in zip(table.roles, table.shape, strict=True):
                key = key * size + code[role]  # NULL if a cell is invalid
            counted = ibis.cases((self._valid(rows), key + first)) if whole_records else key + first
            keys.append(counted.cast("int64"))
            first += table.size
        rows = self._add(rows.select(key=ibis.array(keys).unnest()))
        return self._query(rows.group_by("key").agg(n=rows.count()))

    def group_query(self, policy: RecordPolicy, *, squares: bool = False) -> str:
        """Return a query of the records of each group; see ``group_tally`` for its rows."""
        rows = self._coded(policy)
        key, code = rows[self._codes[0]], rows[self._codes[-1]]
        is_number = isinstance(self._columns[-1], NumericColumn)
        level = ibis.cases((code.notnull(), ibis.literal(0, type="int64"))) if is_number else code
        rows = self._add(rows.select(key=key, level=level, code=code))
        code = rows.code.cast("int64")
        sums = {"total": code, "squares": code * code} if squares else {"total": code}
        totals = {name: each.cast("decimal(38, 0)").sum() for name, each in sums.items()}
        return self._query(rows.group_by("key", "level").agg(n=rows.count(), **totals))

    def count_query(self) -> str:
        """Return a query of one row: the number of privacy units, or of records if each record is a unit."""
        rows = self._rows if self._bound is None else self._shaped(self._trimmed())
        return self._query(rows.agg(n=rows.count() if self._bound is None else rows.unit.nunique()))

    def _query(self, last: Expression) -> str:
        fence = " OFFSET 0" if self._dialect == "postgres" else ""  # or its planner repeats expressions at each use
        names = [f"keys_{i} AS ({self._keys(i)})" for i in self._keyed if not self._finds_keys(i)]
        names += [f"stage_{i} AS ({stage}{fence if i else ''})" for i, stage in enumerate(self._stages)]
        return f"WITH {', '.join(names)} {self._compiled(last)}"

    def _finds_keys(self, index: int) -> bool:
        column = self._columns[index]
        return isinstance(column, Column) and column.finds_keys

    def _keys(self, index: int) -> str:
        """Return a query of the keys in a column, in normal form, and their codes."""
        column = require_type(self._columns[index], Column)
        levels = [normal_cell(key) for key in column.levels]
        if column.within:
            levels = [f"{key}{_PAIR}{normal_cell(other)}" for key, other in zip(levels, column.within, strict=True)]
        if self._dialect == "duckdb":
            return f"SELECT unnest([{', '.join(map(literal, levels))}]) AS text, unnest(range({len(levels)})) AS code"
        text = json.dumps(levels)
        if self._dialect == "postgres":
            rows = f"json_array_elements_text({literal(text)}::json) WITH ORDINALITY AS k(text, place)"
            return f"SELECT text, (place - 1)::bigint AS code FROM {rows}"
        escaped = text.replace("\\", "\\\\").replace("'", "\\'")
        array = f"posexplode(from_json('{escaped}', 'array<string>'))"
        return f"SELECT col AS text, CAST(pos AS BIGINT) AS code FROM (SELECT {array})"

    def _compiled(self, query: Expression) -> str:
        if self._dialect == "pyspark":
            ibis.options.pyspark = _SparkOptions()
        return str(ibis.to_sql(query, dialect=self._dialect, pretty=False))

    @property
    def _rows(self) -> Expression:
        return ibis.table(self._schema, name=f"stage_{len(self._stages) - 1}")

    def _add(self, query: Expression) -> Expression:
        """Add a stage to the query; return its rows."""
        self._stages.append(self._compiled(query))
        self._schema = query.schema()
        return self._rows

    def _unit(self, rows: Expression) -> dict[str, Expression]:
        return {} if self._bound is None else {"unit": rows.unit}

    def _valid(self, rows: Expression) -> Expression:
        return ibis.and_(*(rows[name].notnull() for name in self._codes))

    def _coded(self, policy: RecordPolicy) -> Expression:
        """Add the stages that compute the codes of the kept records, NULL if a cell is invalid."""
        rows = self._raw_codes(self._numbers(self._parts(self._shaped(self._trimmed()))))
        if self._bound is not None:
            rows = self._kept(rows, self._bound)
        codes = {}
        for name, column in zip(self._codes, self._columns, strict=True):
            impute, raw = impute_code(column, policy), rows[name]
            code = raw if impute is None else ibis.coalesce(raw, ibis.literal(impute, type="int64"))
            is_text = isinstance(column, Column) and column.finds_keys
            codes[name] = raw if is_text else ibis.cases((raw.isnull() | (raw != OUT_OF_BOUNDS), code))
        return self._add(rows.select(**codes))

    def _trimmed(self) -> Expression:
        """Add the stages that remove the blanks around texts, and that write numbers with a decimal point."""
        trim = function("trim" if self._dialect == "duckdb" else "btrim", ("string", "string"), "string")
        rows = self._add(self._rows.select(**{name: trim(self._rows[name], BLANKS) for name in self._schema}))
        spelled = {f"text_{i}": with_point(rows[f"text_{i}"], marks) for i, marks in self._marks.items()}
        return self._add(rows.mutate(**spelled)) if spelled else rows

    def _shaped(self, rows: Expression) -> Expression:
        """Add the stage that brings levels and units into normal form and classifies numbers.

        The shape of a number is 1 if it is short and has no exponent, and 2 otherwise."""
        shaped = {}
        for i, column in enumerate(self._columns):
            text = rows[f"text_{i}"]
            if i in self._keyed:
                text = ibis.coalesce(normal_text(without_controls(text)), "")
            elif isinstance(column, Column):  # most records need no pattern: 6 s instead of 14 s for 3 million
                usual = [normal_cell(spelled) for spelled in column.texts]
                text = ibis.cases((text.isin(usual), text), else_=normal_text(text))
            shaped[f"text_{i}"] = text
            if i in self._numeric:
                whole = isinstance(column, NumericColumn) and column.integers
                short = text.length() <= _MAX_PLAIN_LENGTH
                plain = short & (text + END).re_search(WHOLE if whole else _PLAIN)
                pattern = WHOLE if whole else _NUMBER
                any_number = (text.length() <= MAX_CELL_BYTES) & (text + END).re_search(pattern)
                shaped[f"shape_{i}"] = ibis.cases((plain, 1), (any_number, 2)).cast("int64")
        if self._bound is not None:
            shaped["unit"] = ibis.coalesce(normal_text(without_controls(rows.owner)), "")
        return self._add(rows.select(**shaped))

    def _parts(self, rows: Expression) -> Expression:
        """Add the stage that writes each number of shape 2 (long or with an exponent) as 0.DIGITS * 10^POINT."""
        parts = {}
        for i in self._numeric:
            text = rows[f"text_{i}"]
            unsigned = text.re_replace("^[+-]", "")
            mantissa = unsigned.re_replace("[eE].*", "")
            digits = mantissa.re_replace("[.]", "")
            stripped = digits.re_replace("^0+", "")
            scale = text.re_replace("^[^eE]*[eE]?[+]?", "")
            shift = cast_text(self._dialect, ibis.cases((scale != "", scale), else_="0"), "int64")
            point = mantissa.re_replace("[.].*", "").length() - digits.length() + stripped.length()
            unusual = rows[f"shape_{i}"] == 2
            parts[f"digits_{i}"] = ibis.cases((unusual, stripped))
            parts[f"point_{i}"] = ibis.cases((unusual, (shift + point).cast("int64")))
        return self._add(rows.mutate(**parts))

    def _numbers(self, rows: Expression) -> Expression:
        """Add the stage that turns texts into doubles, rounded as by ``float``; NULL if a cell is not a number.

        Texts that overflow a double or round to zero are not cast, because some engines would fail on them.
        """
        cell = {f"text_{i}": rows[f"text_{i}"] for i in range(len(self._columns)) if i not in self._numeric}
        for i in self._numeric:
            digits, point, text = rows[f"digits_{i}"], rows[f"point_{i}"], rows[f"text_{i}"]
            rest = digits.substr(_SIGNIFICANT_DIGITS)
            sticky = ibis.cases((rest.re_search("[1-9]"), "1"), else_="")
            kept = (digits.substr(0, _SIGNIFICANT_DIGITS) + sticky).re_replace("0+$", "")
            sign = ibis.cases((text.startswith("-"), "-"), else_="")
            written = sign + "0." + kept + "e" + point.cast("string")
            cell[f"number_{i}"] = ibis.cases(
                (rows[f"shape_{i}"] == 1, cast_text(self._dialect, text, "float64")),
                (digits == "", double(0.0)),
                ((point > 309) | ((point == 309) & (kept >= _TOO_LARGE)), ibis.null("float64")),
                ((point < -323) | ((point == -323) & (kept <= _TO_ZERO)), double(0.0)),
                (rows[f"shape_{i}"] == 2, cast_text(self._dialect, written, "float64")),
            )
        return self._add(rows.select(**cell, **self._unit(rows)))

    def _raw_codes(self, rows: Expression) -> Expression:
        """Add the stage that computes the codes before imputation."""
        codes, hashes = {}, {}
        for i, column in enumerate(self._columns):
            if self._finds_keys(i):
                codes[f"code_{i}"] = rows[f"text_{i}"]
                hashes[f"hash_{i}"] = sha256_text(self._dialect, rows[f"text_{i}"])
                continue
            if i in self._keyed:
                keys = ibis.table({"text": "string", "code": "int64"}, name=f"keys_{i}")
                text = rows[f"text_{i}"]
                if require_type(column, Column).within:  # neither text holds the character between them
                    text = text + _PAIR + rows[f"text_{i + 1}"]
                rows = rows.left_join(keys, text == keys.text).drop("text").rename({f"key_{i}": "code"})
                hashes[f"hash_{i}"] = sha256_text(self._dialect, rows[f"text_{i}"])
                code = rows[f"key_{i}"]
            elif isinstance(column, NumericColumn):
                code = grid_code(rows[f"number_{i}"], column)
            elif isinstance(column, CutColumn):
                number = rows[f"number_{i}"]
                arms = [(number < double(cut), code) for code, cut in enumerate(column.cuts)]
                code = ibis.cases((number.isnull(), ibis.null("int64")), *arms, else_=len(column.cuts))
            else:
                arms = [(normal_cell(spelled), code) for spelled, code in column.texts.items()]
                code = rows[f"text_{i}"].cases(*arms)
            codes[f"code_{i}"] = code.cast("int64")
        return self._add(rows.select(**codes, **(hashes if self._bound else {}), **self._unit(rows)))

    def _kept(self, rows: Expression, bound: UnitBound) -> Expression:
        """Add the stages that keep the same records of each privacy unit as ``BoundedReader``.

        Privacy: see ``BoundedReader``. Records with the same codes are interchangeable, so they are numbered in any
            order.
        Source: derived here.
        """
        item = rows.unit
        for i, name in reversed([*enumerate(self._codes)]):
            code = rows[f"hash_{i}"] if i in self._keyed else rows[name].cast("string")
            item = ibis.coalesce(code, "") + "," + item
        rows = self._add(rows.mutate(item=item))
        same = ibis.window(group_by=[rows.unit, rows.item], order_by=[rows[name] for name in self._codes])
        rows = self._add(rows.mutate(twin=ibis.row_number().over(same).cast("int64")))
        rows = self._add(rows.filter(rows.twin < MAX_DUPLICATES))
        text = ibis.literal(f"{bound.key},") + rows.twin.cast("string") + "," + rows.item
        rows = self._add(rows.mutate(ticket=sha256_text(self._dialect, text)))
        own = ibis.window(group_by=[rows.unit], order_by=[rows.ticket])
        rows = self._add(rows.select(*self._codes, "unit", rank=ibis.row_number().over(own).cast("int64")))
        return self._add(rows.filter(rows["rank"] < bound.max_contributions))
