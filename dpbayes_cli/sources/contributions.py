"""Bounded contributions: at most a stated number of records of each privacy unit is kept, chosen by a keyed hash.

The hash depends on the unit, on the codes of the record and on a secret key, never on the order of records. So every
engine keeps the same records, however the data are partitioned, and a unit with too many records affects no other unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpbayes_cli.base.duck import fetch
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.sources.reader import Cells, Reader, UnitBound
from dpbayes_cli.sources.records import integers_in_normal_form, literal, without_blanks
from dpbayes_cli.sources.statements import code_expression

if TYPE_CHECKING:
    import duckdb

    from dpbayes_cli.core.columns import AnyColumn

MAX_DUPLICATES = 1 << 20
"""If a unit has more equal records than this, the surplus is ignored, which bounds the memory for the choice."""
OUT_OF_BOUNDS = -1
"""The code of a number out of bounds, if such a number drops its record and is not imputed."""


def _unit_expression(cells: Cells) -> str:
    """Return an expression for a record's privacy unit: its text in normal form, without surrounding blanks."""
    if cells.unit is None:
        raise TypeError("the source names no column of privacy units")
    trimmed = without_blanks(cells.unit)
    plain = f"left({trimmed}, 1) NOT IN ('+', '-', '0') AND NOT contains({trimmed}, '.')"
    return f"coalesce(CASE WHEN {plain} THEN {trimmed} ELSE {integers_in_normal_form(trimmed)} END, '')"


class BoundedReader:
    """Hands the kept records to a reader.

    Privacy: whether a record is kept depends only on the key and on the records of its own unit. So replacing the
        records of one unit changes at most ``max_contributions`` kept records, all of which belong to this unit. If the
        hash acts as a random number, all subsets of ``max_contributions`` records of a unit are equally likely. Equal
        records are interchangeable, and at most ``MAX_DUPLICATES`` of them take part.
    Source: design notes, conventions (privacy units).

    Args:
        reader: takes the kept records.
        bound: the unit's column, the contribution bound and the key.
        part, parts: the index of the part of the units to read, and the number of parts; memory holds one part at a
            time.
    """

    def __init__(self, reader: Reader, bound: UnitBound, part: int = 0, parts: int = 1) -> None:
        self._reader, self._bound, self.columns = reader, bound, reader.columns
        self._part, self._parts = part, parts

    @property
    def records(self) -> int:
        """The number of records that were kept."""
        return self._reader.records

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read the kept records; see ``Reader``."""
        names = [f"kept_{i}" for i in range(len(cells.texts))]
        self._reader.run(engine, Cells(self._relation(cells, names), names), abort)

    def _relation(self, cells: Cells, names: Sequence[str]) -> str:
        texts = ", ".join(f"{text} AS {name}" for text, name in zip(cells.texts, names, strict=True))
        codes = (_distinct_code(name, column) for name, column in zip(names, self.columns, strict=True))
        # unambiguous: the number of codes is fixed, and the unit comes last
        item = "".join(f"{code} || ',' || " for code in codes) + "unit"
        rows = f"SELECT {texts}, {_unit_expression(cells)} AS unit FROM {cells.relation}"
        in_part = f" WHERE hash(unit) % {self._parts} = {self._part}" if self._parts > 1 else ""
        items = f"SELECT {', '.join(names)}, unit, {item} AS item FROM ({rows}){in_part}"
        any_texts = ", ".join(f"any_value({name}) AS {name}" for name in names)  # the records of a group are equal
        groups = f"SELECT {any_texts}, unit, item, count(*) AS n FROM ({items}) GROUP BY unit, item"
        duplicates = f"SELECT *, unnest(range(least(n, {MAX_DUPLICATES}))) AS twin FROM ({groups})"
        keyed_hash = f"sha256({literal(self._bound.key)} || ',' || twin || ',' || item)"
        record = f"struct_pack({', '.join(f'{name} := {name}' for name in names)})"
        most = self._bound.max_contributions
        kept = f"unnest(arg_min({record}, {keyed_hash}, {most}))" if most > 1 else f"arg_min({record}, {keyed_hash})"
        chosen = f"SELECT {kept} AS one FROM ({duplicates}) GROUP BY unit"
        return f"(SELECT {', '.join(f'one.{name} AS {name}' for name in names)} FROM ({chosen}))"


def _distinct_code(cell: str, column: AnyColumn) -> str:
    """Return the expression of a code as text, empty if the cell is invalid.

    A number out of bounds that drops its record has the code ``OUT_OF_BOUNDS``. So it differs from an invalid cell,
    which a stand-in may replace.
    """
    if isinstance(column, Column) and column.is_key:
        return f"coalesce(sha256({integers_in_normal_form(without_blanks(cell))}), '')"
    code = f"CAST({code_expression(cell, column)} AS VARCHAR)"
    if not isinstance(column, NumericColumn) or column.outside == "clamp":
        return f"coalesce({code}, '')"
    clamped = code_expression(cell, replace(column, outside="clamp"))
    return f"coalesce({code}, CASE WHEN {clamped} IS NULL THEN '' ELSE '{OUT_OF_BOUNDS}' END)"


class UnitCounter:
    """Counts the privacy units of all records, for guarantees under which the number of units is public."""

    columns: Sequence[AnyColumn] = ()

    def __init__(self) -> None:
        self.records = self.units = 0

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Count; see ``Reader``."""
        query = f"SELECT count(*), count(DISTINCT {_unit_expression(cells)}) FROM {cells.relation}"
        ((self.records, self.units),) = fetch(engine, query, abort)
