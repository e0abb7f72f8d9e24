"""Statistics as Ibis expressions, compiled for PostgreSQL, Spark and DuckDB, and evaluated next to the records.

Cells get the same codes as in ``statements``, whose hand-tuned SQL for the embedded engine does without Ibis: importing
Ibis and compiling the first query take 0.3 to 1.4 s, as long as a whole release of a small file.

Expressions are compiled in stages, each a query of the one before, so that a shared expression is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ibis
from ibis.config import Config

from dpbayes_cli.base.cell_grammar import BLANKS, MAX_CELL_BYTES, normal_cell
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import TableCounts
from dpbayes_cli.sources.cell_expressions import (
    END,
    MAX_PLAIN_LENGTH,
    NUMBER,
    PLAIN,
    SIGNIFICANT_DIGITS,
    TO_ZERO,
    TOO_LARGE,
    WHOLE,
    Dialect,
    Expression,
    cast_text,
    double,
    function,
    grid_code,
    normal_text,
    sha256_text,
)
from dpbayes_cli.sources.contributions import MAX_DUPLICATES, OUT_OF_BOUNDS
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.sources.statements import Monomial
from dpbayes_cli.sources.unit_bound import UnitBound

Select = Callable[[Expression], Expression]

EVERY_RECORD = -1
"""The key under which ``keys_query`` counts each record."""

_MAX_PRODUCT = 1 << 62


class _SparkOptions(Config):  # type: ignore[misc] # from Ibis
    """The options that Ibis' compiler for Spark reads; its backend, which has them, would import pandas and more."""

    treat_nan_as_null: bool = False


class Statements:
    """The queries of one engine.

    Args:
        dialect: the engine's SQL.
        relation: a query of one row per record: the columns as texts ``text_0``, ``text_1``, ...; if units are bounded,
            also ``owner``, the text of the record's unit.
        columns: the columns' domains.
        bound: the contribution bound; None: each record is a unit of its own.
    """

    def __init__(
        self, dialect: Dialect, relation: str, columns: Sequence[AnyColumn], bound: UnitBound | None = None
    ) -> None:
        self._dialect, self._columns, self._bound = dialect, columns, bound
        self._stages = [relation]
        self._schema = {f"text_{i}": "string" for i in range(len(columns))}
        if bound is not None:
            self._schema["owner"] = "string"

    def tally_query(self, policy: RecordPolicy, monomials: Sequence[Monomial]) -> str:
        """Return the query of one row: the number of records, of valid records, and sums of products of their codes.

        Raises:
            SourceError: the grid is so fine that a product of codes exceeds 64 bits.
        """
        steps = [column.steps if isinstance(column, NumericColumn) else 0 for column in self._columns]
        self._code(policy)
        is_valid = self._valid

        def select(rows: Expression) -> Expression:
            sums = {}
            for m, monomial in enumerate(monomials):
                product, largest = _code(rows, monomial[0]), steps[monomial[0]]
                for i in monomial[1:]:
                    product, largest = product * _code(rows, i), largest * steps[i]
                if largest >= _MAX_PRODUCT:
                    raise SourceError(
                        "the products of the columns are too large for this engine", hint="read files without --engine"
                    )
                sums[f"sum_{m}"] = product.cast("decimal(38, 0)").sum(where=is_valid(rows))  # sums may exceed 64 bits
            return rows.agg(records=rows.count(), valid=rows.count(where=is_valid(rows)), **sums)

        return self._query(select)

    def code_query(self, policy: RecordPolicy) -> str:
        """Return the query of one row per code that occurs in the only column: (code or NULL, number of records)."""
        self._code(policy)
        return self._query(lambda rows: rows.group_by("code_0").agg(n=rows.count()))

    def keys_query(self, policy: RecordPolicy, tables: Sequence[TableCounts], *, whole_records: bool) -> str:
        """Return the query of one row per nonempty cell of contingency tables: (key, number of records).

        The cells of all tables are numbered one after the other, each table in C order; ``EVERY_RECORD`` counts
        all records. A record is read once: it adds to one cell of every table.
        """
        self._code(policy)
        place = {column.role: i for i, column in enumerate(self._columns)}

        def select(rows: Expression) -> Expression:
            keys, first = [ibis.literal(EVERY_RECORD, type="int64")], 0
            for table in tables:
                key: Expression = ibis.literal(0, type="int64")
                for role, size in zip(table.roles, table.shape, strict=True):
                    key = key * size + _code(rows, place[role])  # NULL if a cell is invalid
                counted = ibis.cases((self._valid(rows), key + first)) if whole_records else key + first
                keys.append(counted.cast("int64"))
                first += table.size
            return rows.select(key=ibis.array(keys).unnest())

        self._add(select, {"key": "int64"})
        return self._query(lambda rows: rows.group_by("key").agg(n=rows.count()))

    def count_query(self) -> str:
        """Return the query of one row: the number of units, or of records if each record is a unit."""
        if self._bound is None:
            return self._query(lambda rows: rows.agg(n=rows.count()))
        self._trim()
        self._shape()
        return self._query(lambda rows: rows.agg(n=rows.unit.nunique()))

    def _query(self, select: Select) -> str:
        fence = " OFFSET 0" if self._dialect == "postgres" else ""  # or its planner repeats expressions at each use
        names = [f"stage_{i} AS ({stage}{fence if i else ''})" for i, stage in enumerate(self._stages)]
        return f"WITH {', '.join(names)} {self._compiled(select)}"

    def _compiled(self, select: Select) -> str:
        if self._dialect == "pyspark":
            ibis.options.pyspark = _SparkOptions()
        rows = ibis.table(self._schema, name=f"stage_{len(self._stages) - 1}")
        return str(ibis.to_sql(select(rows), dialect=self._dialect, pretty=False))

    def _add(self, select: Select, schema: dict[str, str]) -> None:
        self._stages.append(self._compiled(select))
        self._schema = schema

    def _valid(self, rows: Expression) -> Expression:
        return ibis.and_(*(_code(rows, i).notnull() for i in range(len(self._columns))))

    def _code(self, policy: RecordPolicy) -> None:
        """Add the stages of the codes of the kept records, NULL if a cell is invalid."""
        self._trim()
        self._shape()
        self._parts()
        self._numbers()
        self._raw_codes()
        if self._bound is not None:
            self._keep(self._bound)
        imputes = [impute_code(column, policy) for column in self._columns]

        def select(rows: Expression) -> Expression:
            codes = {}
            for i, impute in enumerate(imputes):
                raw = rows[f"code_{i}"]
                code = raw if impute is None else ibis.coalesce(raw, ibis.literal(impute, type="int64"))
                codes[f"code_{i}"] = ibis.cases((raw.isnull() | (raw != OUT_OF_BOUNDS), code))
            return rows.select(**codes)

        self._add(select, {f"code_{i}": "int64" for i in range(len(self._columns))})

    def _trim(self) -> None:
        """Add the stage of the texts without surrounding blanks."""
        trim = function("trim" if self._dialect == "duckdb" else "btrim", ("string", "string"), "string")

        def select(rows: Expression) -> Expression:
            return rows.select(**{name: trim(rows[name], BLANKS) for name in self._schema})

        self._add(select, dict(self._schema))

    def _shape(self) -> None:
        """Add the stage of normal forms, of levels and units, and of shapes, of numbers: 1 is plain, 2 any other."""
        numeric = [isinstance(column, NumericColumn | CutColumn) for column in self._columns]

        def select(rows: Expression) -> Expression:
            cells = {}
            for i, column in enumerate(self._columns):
                text = rows[f"text_{i}"]
                if isinstance(column, Column):  # most records need no pattern: 6 s instead of 14 s for 3 million
                    usual = [normal_cell(level) for level in column.levels]
                    text = ibis.cases((text.isin(usual), text), else_=normal_text(text))
                cells[f"text_{i}"] = text
                if numeric[i]:
                    whole = isinstance(column, NumericColumn) and column.integers
                    short = text.length() <= MAX_PLAIN_LENGTH
                    plain = short & (text + END).re_search(WHOLE if whole else PLAIN)
                    any_number = (text.length() <= MAX_CELL_BYTES) & (text + END).re_search(WHOLE if whole else NUMBER)
                    cells[f"shape_{i}"] = ibis.cases((plain, 1), (any_number, 2)).cast("int64")
            if self._bound is not None:
                cells["unit"] = ibis.coalesce(normal_text(rows.owner), "")
            return rows.select(**cells)

        schema = {f"text_{i}": "string" for i in range(len(self._columns))}
        schema |= {f"shape_{i}": "int64" for i, numbers in enumerate(numeric) if numbers}
        self._add(select, schema | ({"unit": "string"} if self._bound is not None else {}))

    def _parts(self) -> None:
        """Add the stage of the parts of numbers of shape 2: 0.DIGITS times ten to the POINT, without leading zeros."""
        shaped = [name.removeprefix("shape_") for name in self._schema if name.startswith("shape_")]

        def select(rows: Expression) -> Expression:
            parts = {}
            for i in shaped:
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
            return rows.mutate(**parts)

        schema = {f"digits_{i}": "string" for i in shaped} | {f"point_{i}": "int64" for i in shaped}
        self._add(select, self._schema | schema)

    def _numbers(self) -> None:
        """Add the stage of the numbers, rounded as ``float`` rounds a text, NULL if a cell is not a number.

        No text that is cast overflows a double or rounds to zero: some engines would fail there.
        """
        shaped = [name.removeprefix("shape_") for name in self._schema if name.startswith("shape_")]

        def select(rows: Expression) -> Expression:
            numbers = {}
            for i in shaped:
                digits, point, text = rows[f"digits_{i}"], rows[f"point_{i}"], rows[f"text_{i}"]
                rest = digits.substr(SIGNIFICANT_DIGITS)
                sticky = ibis.cases((rest.re_search("[1-9]"), "1"), else_="")
                kept = (digits.substr(0, SIGNIFICANT_DIGITS) + sticky).re_replace("0+$", "")
                sign = ibis.cases((text.startswith("-"), "-"), else_="")
                written = sign + "0." + kept + "e" + point.cast("string")
                numbers[f"number_{i}"] = ibis.cases(
                    (rows[f"shape_{i}"] == 1, cast_text(self._dialect, text, "float64")),
                    (digits == "", double(0.0)),
                    ((point > 309) | ((point == 309) & (kept >= TOO_LARGE)), ibis.null("float64")),
                    ((point < -323) | ((point == -323) & (kept <= TO_ZERO)), double(0.0)),
                    (rows[f"shape_{i}"] == 2, cast_text(self._dialect, written, "float64")),
                )
            others = [name for name in self._schema if name.startswith("text_") and name[5:] not in shaped]
            return rows.select(*others, **numbers, **({"unit": rows.unit} if self._bound is not None else {}))

        schema = {name: "string" for name in self._schema if name.startswith("text_") and name[5:] not in shaped}
        schema |= {f"number_{i}": "float64" for i in shaped}
        self._add(select, schema | ({"unit": "string"} if self._bound is not None else {}))

    def _raw_codes(self) -> None:
        """Add the stage of the codes before imputation."""

        def select(rows: Expression) -> Expression:
            codes = {}
            for i, column in enumerate(self._columns):
                if isinstance(column, NumericColumn):
                    code = grid_code(rows[f"number_{i}"], column)
                elif isinstance(column, CutColumn):
                    number = rows[f"number_{i}"]
                    arms = [(number < double(cut), code) for code, cut in enumerate(column.cuts)]
                    code = ibis.cases((number.isnull(), ibis.null("int64")), *arms, else_=len(column.cuts))
                else:
                    arms = [(normal_cell(level), code) for code, level in enumerate(column.levels)]
                    code = rows[f"text_{i}"].cases(*arms)
                codes[f"code_{i}"] = code.cast("int64")
            return rows.select(**codes, **({"unit": rows.unit} if self._bound is not None else {}))

        schema = {f"code_{i}": "int64" for i in range(len(self._columns))}
        self._add(select, schema | ({"unit": "string"} if self._bound is not None else {}))

    def _keep(self, bound: UnitBound) -> None:
        """Add the stages that keep a bounded number of each unit's records, the same as ``BoundedReader`` keeps.

        Privacy: as there. Records with the same codes are numbered in any order, because they are interchangeable.
        Source: design notes, conventions (privacy units).
        """
        codes = [f"code_{i}" for i in range(len(self._columns))]
        schema = dict(self._schema)

        def itemized(rows: Expression) -> Expression:
            item = rows.unit
            for name in reversed(codes):
                item = ibis.coalesce(rows[name].cast("string"), "") + "," + item
            return rows.mutate(item=item)

        def numbered(rows: Expression) -> Expression:
            same = ibis.window(group_by=[rows.unit, rows.item], order_by=[rows[name] for name in codes])
            return rows.mutate(twin=ibis.row_number().over(same).cast("int64"))

        def hashed(rows: Expression) -> Expression:
            text = ibis.literal(f"{bound.key},") + rows.twin.cast("string") + "," + rows.item
            return rows.mutate(ticket=sha256_text(self._dialect, text))

        def ranked(rows: Expression) -> Expression:
            own = ibis.window(group_by=[rows.unit], order_by=[rows.ticket])
            return rows.select(*codes, "unit", rank=ibis.row_number().over(own).cast("int64"))

        self._add(itemized, schema | {"item": "string"})
        self._add(numbered, schema | {"item": "string", "twin": "int64"})
        self._add(lambda rows: rows.filter(rows.twin < MAX_DUPLICATES), schema | {"item": "string", "twin": "int64"})
        self._add(hashed, schema | {"item": "string", "twin": "int64", "ticket": "string"})
        self._add(ranked, schema | {"rank": "int64"})
        self._add(lambda rows: rows.filter(rows["rank"] < bound.max_contributions), dict(self._schema))


def _code(rows: Expression, column: int) -> Expression:
    return rows[f"code_{column}"]
