"""Bounded contributions: of each privacy unit at most so many records are kept, chosen by a keyed hash.

The choice looks at the unit, at the codes of the record and at a secret key, never at the order of records, so that
every engine and every partitioning of the data keeps the same; a unit with too many records changes its own share and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpbayes_cli.base.cell_grammar import BLANKS, INTEGER, INTEGER_REPLACEMENT
from dpbayes_cli.base.duck import fetch
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.sources.reader import Cells, Reader
from dpbayes_cli.sources.records import literal
from dpbayes_cli.sources.statements import any_code_expression
from dpbayes_cli.sources.unit_bound import UnitBound

if TYPE_CHECKING:
    import duckdb

    from dpbayes_cli.core.columns import AnyColumn

MAX_DUPLICATES = 1 << 20
"""So many equal records of a unit draw lots, for lots take memory; more than any number of records that is kept."""
OUT_OF_BOUNDS = -1
"""The code, before imputation, of a number that is out of bounds where such are dropped: nothing stands for it."""


def unit_expression(text: str) -> str:
    """Return the expression of a record's unit: its text without blanks around it, integers in their normal form."""
    stripped = f"trim({text}, {literal(BLANKS)})"
    whole = f"regexp_replace({stripped}, {literal(INTEGER)}, {literal(INTEGER_REPLACEMENT)})"
    plain = f"left({stripped}, 1) NOT IN ('+', '-', '0') AND NOT contains({stripped}, '.')"
    return f"coalesce(CASE WHEN {plain} THEN {stripped} ELSE {whole} END, '')"


class BoundedReader:
    """Hands a reader the records that are kept.

    Privacy: whether a record is kept is a function of the key and of the records of its own unit: a unit that changes
        changes at most ``most`` kept records, all of them its own. Among k of m equal ones it does not matter which;
        otherwise every k of a unit's records are chosen alike, as the hash is one of random numbers, but that of more
        than ``MAX_DUPLICATES`` equal ones so many have lots.
    Source: mechanisms, conventions (privacy units).
    """

    def __init__(self, reader: Reader, bound: UnitBound, part: int = 0, parts: int = 1) -> None:
        """Wrap a reader.

        Args:
            reader: what the kept records are handed to.
            bound: how many are kept.
            part, parts: of which part of the units; each unit is in one, and takes memory while that is read.
        """
        self._reader, self._bound = reader, bound
        self._part, self._parts = part, parts

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """What is read."""
        return self._reader.columns

    @property
    def records(self) -> int:
        """The number of records that were kept."""
        return self._reader.records

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read the records that are kept; see ``Reader``."""
        names = [f"kept_{i}" for i in range(len(cells.texts))]
        self._reader.run(engine, Cells(self._relation(cells, names), names), abort)

    def _relation(self, cells: Cells, names: Sequence[str]) -> str:
        """Return the relation of the kept records' texts."""
        if cells.unit is None:
            raise TypeError("the source does not say whose a record is")
        texts = ", ".join(f"{text} AS {name}" for text, name in zip(cells.texts, names, strict=True))
        codes = (_told_apart(name, column) for name, column in zip(names, self.columns, strict=True))
        # the number of codes is fixed, and the unit comes last: no two pairs of a unit and codes have one text
        item = "".join(f"{code} || ',' || " for code in codes) + "unit"
        rows = f"SELECT {texts}, {unit_expression(cells.unit)} AS unit FROM {cells.relation}"
        ours = f" WHERE hash(unit) % {self._parts} = {self._part}" if self._parts > 1 else ""
        items = f"SELECT {', '.join(names)}, unit, {item} AS item FROM ({rows}){ours}"
        anyone = ", ".join(f"any_value({name}) AS {name}" for name in names)  # of records that are the same
        groups = f"SELECT {anyone}, unit, item, count(*) AS n FROM ({items}) GROUP BY unit, item"
        twins = f"SELECT *, unnest(range(least(n, {MAX_DUPLICATES}))) AS twin FROM ({groups})"
        ticket = f"sha256({literal(self._bound.key)} || ',' || twin || ',' || item)"
        record = f"struct_pack({', '.join(f'{name} := {name}' for name in names)})"
        most = self._bound.max_contributions
        drawn = f"unnest(arg_min({record}, {ticket}, {most}))" if most > 1 else f"arg_min({record}, {ticket})"
        chosen = f"SELECT {drawn} AS one FROM ({twins}) GROUP BY unit"
        return f"(SELECT {', '.join(f'one.{name} AS {name}' for name in names)} FROM ({chosen}))"


def _told_apart(cell: str, column: AnyColumn) -> str:
    """Return the expression of a code as text, empty where the cell is invalid.

    A number that is dropped because it is out of bounds is another than one that is none: something may stand for that.
    """
    code = f"CAST({any_code_expression(cell, column)} AS VARCHAR)"
    if not isinstance(column, NumericColumn) or column.outside == "clamp":
        return f"coalesce({code}, '')"
    clamped = any_code_expression(cell, replace(column, outside="clamp"))
    return f"coalesce({code}, CASE WHEN {clamped} IS NULL THEN '' ELSE '{OUT_OF_BOUNDS}' END)"


class UnitCounter:
    """Counts the units of all records, where their number is public."""

    columns: Sequence[AnyColumn] = ()

    def __init__(self) -> None:
        self.records = self.units = 0

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Count; see ``Reader``."""
        if cells.unit is None:
            raise TypeError("the source does not say whose a record is")
        query = f"SELECT count(*), count(DISTINCT {unit_expression(cells.unit)}) FROM {cells.relation}"
        ((self.records, self.units),) = fetch(engine, query, abort)
