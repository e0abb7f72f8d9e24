"""Statistics as Ibis expressions: one set, compiled for PostgreSQL, Spark and DuckDB, and run where the records are.

The same cells mean the same codes as in ``statements``, whose SQL for the embedded engine is tuned by hand and needs no
Ibis: its import and the first query take 0.3 to 1.4 s, as a whole release of a small file does, and are paid only where
an engine is named.

Expressions are compiled in stages, each a query of the one before, so that what is used twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ibis
from ibis.config import Config

from dpbayes_cli.base.cell_grammar import BLANKS, LONGEST_CELL, normal_cell
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import TableCounts
from dpbayes_cli.sources.cell_expressions import (
    END,
    LONGEST_PLAIN,
    NUMBER,
    PLAIN,
    SIGNIFICANT,
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

_MOST_ADDED = 1 << 62


class _SparkOptions(Config):  # type: ignore[misc] # a class of Ibis
    """What Ibis' compiler for Spark asks: what its backend states, whose import takes pandas and more."""

    treat_nan_as_null: bool = False


class Statements:
    """The queries of one engine.

    Args:
        dialect: the engine's SQL.
        relation: a query of one row a record, of the texts ``text_0`` and so on of the columns, and of ``owner``, the
            text that says whose the record is, where units are bounded.
        columns: the columns' domains.
        bound: whose records are bounded, and how; None: each record is a unit of its own.
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
        """Return the query of one row: the records, the valid ones, and sums of products of codes over these.

        Raises:
            SourceError: the grid is so fine that a product of codes is no integer of 64 bits.
        """
        steps = [column.steps if isinstance(column, NumericColumn) else 0 for column in self._columns]
        self._code(policy)
        whole = self._valid

        def select(rows: Expression) -> Expression:
            sums = {}
            for m, monomial in enumerate(monomials):
                product, largest = _code(rows, monomial[0]), steps[monomial[0]]
                for i in monomial[1:]:
                    product, largest = product * _code(rows, i), largest * steps[i]
                if largest >= _MOST_ADDED:
                    raise SourceError("the grid is too fine for sums in this engine", hint="read files: no --engine")
                sums[f"sum_{m}"] = product.cast("decimal(38, 0)").sum(where=whole(rows))  # beyond 64 bits
            return rows.agg(records=rows.count(), valid=rows.count(where=whole(rows)), **sums)

        return self._query(select)

    def code_query(self, policy: RecordPolicy) -> str:
        """Return the query of one row a code of the one column that occurs: (code or NULL, number of records)."""
        self._code(policy)
        return self._query(lambda rows: rows.group_by("code_0").agg(n=rows.count()))

    def keys_query(self, policy: RecordPolicy, tables: Sequence[TableCounts], *, whole_records: bool) -> str:
        """Return the query of one row a cell of contingency tables that is not empty: (key, number of records).

        The cells of all tables are numbered one after the other, each table in C order; ``EVERY_RECORD`` is the key of
        all records. A record is read once: it adds to one cell of every table.
        """
        self._code(policy)
        place = {column.role: i for i, column in enumerate(self._columns)}

        def select(rows: Expression) -> Expression:
            keys, first = [ibis.literal(EVERY_RECORD, type="int64")], 0
            for table in tables:
                key: Expression = ibis.literal(0, type="int64")
                for role, size in zip(table.roles, table.shape, strict=True):
                    key = key * size + _code(rows, place[role])  # NULL where the cell is invalid
                counted = ibis.cases((self._valid(rows), key + first)) if whole_records else key + first
                keys.append(counted.cast("int64"))
                first += table.size
            return rows.select(key=ibis.array(keys).unnest())

        self._add(select, {"key": "int64"})
        return self._query(lambda rows: rows.group_by("key").agg(n=rows.count()))

    def count_query(self) -> str:
        """Return the query of one row, the number of units: of records, where each is one."""
        if self._bound is None:
            return self._query(lambda rows: rows.agg(n=rows.count()))
        self._trim()
        self._shape()
        return self._query(lambda rows: rows.agg(n=rows.unit.nunique()))

    def _query(self, select: Select) -> str:
        fence = " OFFSET 0" if self._dialect == "postgres" else ""  # or its planner would repeat an expression each use
        names = [f"stage_{i} AS ({stage}{fence if i else ''})" for i, stage in enumerate(self._stages)]
        return f"WITH {', '.join(names)} {self._compiled(select)}"

    def _compiled(self, select: Select) -> str:
        if self._dialect == "pyspark":
            ibis.options.pyspark = _SparkOptions()
        rows = ibis.table(self._schema, name=f"stage_{len(self._stages) - 1}")
        return str(ibis.to_sql(select(rows), dialect=self._dialect, pretty=False))

    def _add(self, select: Select, schema: dict[str, str]) -> None:
        """Add a stage, of rows of a schema."""
        self._stages.append(self._compiled(select))
        self._schema = schema

    def _valid(self, rows: Expression) -> Expression:
        """Return whether all of a record's cells are valid."""
        return ibis.and_(*(_code(rows, i).notnull() for i in range(len(self._columns))))

    def _code(self, policy: RecordPolicy) -> None:
        """Add the stages of the codes, NULL where a cell is invalid, of the records that count."""
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
                found = rows[f"code_{i}"]
                stand_in = found if impute is None else ibis.coalesce(found, ibis.literal(impute, type="int64"))
                codes[f"code_{i}"] = ibis.cases((found.isnull() | (found != OUT_OF_BOUNDS), stand_in))
            return rows.select(**codes)

        self._add(select, {f"code_{i}": "int64" for i in range(len(self._columns))})

    def _trim(self) -> None:
        """Add the stage of the texts without blanks around them."""
        trim = function("trim" if self._dialect == "duckdb" else "btrim", ("string", "string"), "string")

        def select(rows: Expression) -> Expression:
            return rows.select(**{name: trim(rows[name], BLANKS) for name in self._schema})

        self._add(select, dict(self._schema))

    def _shape(self) -> None:
        """Add the stage of what a text is: levels and units in their normal form, numbers by how they are written."""
        numeric = [isinstance(column, NumericColumn | CutColumn) for column in self._columns]

        def select(rows: Expression) -> Expression:
            found = {}
            for i, column in enumerate(self._columns):
                text = rows[f"text_{i}"]
                if isinstance(column, Column):  # most records need no pattern: 6 s in place of 14 s for 3 million
                    usual = [normal_cell(level) for level in column.levels]
                    text = ibis.cases((text.isin(usual), text), else_=normal_text(text))
                found[f"text_{i}"] = text
                if numeric[i]:
                    whole = isinstance(column, NumericColumn) and column.integers
                    short = text.length() <= LONGEST_PLAIN
                    plain = short & (text + END).re_search(WHOLE if whole else PLAIN)
                    any_number = (text.length() <= LONGEST_CELL) & (text + END).re_search(WHOLE if whole else NUMBER)
                    found[f"shape_{i}"] = ibis.cases((plain, 1), (any_number, 2)).cast("int64")
            if self._bound is not None:
                found["unit"] = ibis.coalesce(normal_text(rows.owner), "")
            return rows.select(**found)

        schema = {f"text_{i}": "string" for i in range(len(self._columns))}
        schema |= {f"shape_{i}": "int64" for i, numbers in enumerate(numeric) if numbers}
        self._add(select, schema | ({"unit": "string"} if self._bound is not None else {}))

    def _parts(self) -> None:
        """Add the stage of the parts of unusual numbers: 0.DIGITS times ten to the POINT, leading zeros removed."""
        shaped = [name.removeprefix("shape_") for name in self._schema if name.startswith("shape_")]

        def select(rows: Expression) -> Expression:
            found = {}
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
                found[f"digits_{i}"] = ibis.cases((unusual, stripped))
                found[f"point_{i}"] = ibis.cases((unusual, (shift + point).cast("int64")))
            return rows.mutate(**found)

        schema = {f"digits_{i}": "string" for i in shaped} | {f"point_{i}": "int64" for i in shaped}
        self._add(select, self._schema | schema)

    def _numbers(self) -> None:
        """Add the stage of the numbers, rounded as ``float`` rounds a text, NULL where a cell is none.

        No text that is cast is too large for a double or rounded to zero: some engines end with an error there.
        """
        shaped = [name.removeprefix("shape_") for name in self._schema if name.startswith("shape_")]

        def select(rows: Expression) -> Expression:
            found = {}
            for i in shaped:
                digits, point, text = rows[f"digits_{i}"], rows[f"point_{i}"], rows[f"text_{i}"]
                rest = digits.substr(SIGNIFICANT)
                sticky = ibis.cases((rest.re_search("[1-9]"), "1"), else_="")
                kept = (digits.substr(0, SIGNIFICANT) + sticky).re_replace("0+$", "")
                sign = ibis.cases((text.startswith("-"), "-"), else_="")
                written = sign + "0." + kept + "e" + point.cast("string")
                found[f"number_{i}"] = ibis.cases(
                    (rows[f"shape_{i}"] == 1, cast_text(self._dialect, text, "float64")),
                    (digits == "", double(0.0)),
                    ((point > 309) | ((point == 309) & (kept >= TOO_LARGE)), ibis.null("float64")),
                    ((point < -323) | ((point == -323) & (kept <= TO_ZERO)), double(0.0)),
                    (rows[f"shape_{i}"] == 2, cast_text(self._dialect, written, "float64")),
                )
            others = [name for name in self._schema if name.startswith("text_") and name[5:] not in shaped]
            return rows.select(*others, **found, **({"unit": rows.unit} if self._bound is not None else {}))

        schema = {name: "string" for name in self._schema if name.startswith("text_") and name[5:] not in shaped}
        schema |= {f"number_{i}": "float64" for i in shaped}
        self._add(select, schema | ({"unit": "string"} if self._bound is not None else {}))

    def _raw_codes(self) -> None:
        """Add the stage of the codes as they are, before an invalid cell counts as anything."""

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
        """Add the stages that keep of each unit's records so many, the same as ``BoundedReader`` keeps.

        Privacy: as there. Records with the same codes are numbered in any order, for it does not matter which is which.
        Source: mechanisms, conventions (privacy units).
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

        def drawn(rows: Expression) -> Expression:
            text = ibis.literal(f"{bound.key},") + rows.twin.cast("string") + "," + rows.item
            return rows.mutate(ticket=sha256_text(self._dialect, text))

        def ranked(rows: Expression) -> Expression:
            own = ibis.window(group_by=[rows.unit], order_by=[rows.ticket])
            return rows.select(*codes, "unit", rank=ibis.row_number().over(own).cast("int64"))

        self._add(itemized, schema | {"item": "string"})
        self._add(numbered, schema | {"item": "string", "twin": "int64"})
        self._add(lambda rows: rows.filter(rows.twin < MAX_DUPLICATES), schema | {"item": "string", "twin": "int64"})
        self._add(drawn, schema | {"item": "string", "twin": "int64", "ticket": "string"})
        self._add(ranked, schema | {"rank": "int64"})
        self._add(lambda rows: rows.filter(rows["rank"] < bound.max_contributions), dict(self._schema))


def _code(rows: Expression, column: int) -> Expression:
    return rows[f"code_{column}"]
