"""Bounded contributions: at most a stated number of records of each privacy unit is kept, chosen by a keyed hash.

The hash depends on the unit, on the codes of the record and on a secret key, never on the order of records. So every
engine keeps the same records, however the data are partitioned, and a unit with too many records affects no other unit.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.duck import fetch
from dpbayes_cli.core.columns import Column, NumericColumn, n_codes
from dpbayes_cli.sources.reader import MISSING, OUT_OF_BOUNDS, Cells, Reader, Records, UnitBound
from dpbayes_cli.sources.records import integers_in_normal_form, literal, without_blanks
from dpbayes_cli.sources.statements import code_expression

if TYPE_CHECKING:
    import duckdb

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.columns import AnyColumn

_BLOCK_RECORDS = 1 << 20
MAX_DUPLICATES = 1 << 20
"""If a unit has more equal records than this, the surplus is ignored, which bounds the memory for the choice."""


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
    Source: derived here.

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

    def read(self, blocks: Iterable[Records]) -> None:
        """Read the kept records; see ``Reader``."""
        self._reader.read(self._kept(blocks))

    def _kept(self, blocks: Iterable[Records]) -> Iterator[KeptRecords]:
        """Yield the kept records; the codes and the units of all records are held in memory."""
        n_columns = len(self.columns)
        units: dict[str, int] = {}
        keys: dict[int, dict[str, int]] = {
            i: {} for i, column in enumerate(self.columns) if isinstance(column, Column) and column.is_key
        }
        kind = np.int32 if max(map(n_codes, self.columns), default=0) < 1 << 31 else np.int64
        parts = [np.empty((1 + n_columns + len(keys), 0), dtype=kind)]
        for records in blocks:
            texts, index = records.texts(-1)
            in_part = (hash(text) % self._parts == self._part for text in texts)
            listed = zip(texts, in_part, strict=True)
            rows = [np.array([units.setdefault(text, len(units)) if mine else -1 for text, mine in listed])[index]]
            rows += [records.codes(i) for i in range(n_columns)]
            for i, numbers in keys.items():
                texts, index = records.texts(i)
                rows.append(np.array([numbers.setdefault(text, len(numbers)) for text in texts])[index])
            parts.append(np.stack(rows)[:, rows[0] >= 0].astype(kind))
        table = np.concatenate(parts, axis=1)
        del parts
        is_kept = np.bincount(table[0])[table[0]] <= min(self._bound.max_contributions, MAX_DUPLICATES)
        chosen = self._chosen(table[:, ~is_kept], [*units], [*map(list, keys.values())], [*keys])
        for kept in (table[:, is_kept], chosen):
            for start in range(0, kept.shape[1], _BLOCK_RECORDS):
                block = kept[:, start : start + _BLOCK_RECORDS]
                numbered = zip(keys.items(), block[1 + n_columns :], strict=True)
                texts_of = {i: ([*numbers], index) for (i, numbers), index in numbered}
                yield KeptRecords(block.shape[1], block[1:].astype(np.int64), texts_of)

    def _chosen(self, table: Integers, units: list[str], keys: list[list[str]], keyed: list[int]) -> Integers:
        """Return the kept records of units with too many records, in the form of ``table``.

        Args:
            table: the unit, the codes and the keys of each record, shape (n_rows, n_records).
            units: the text of each unit.
            keys: for each column of keys the texts.
            keyed: the indices of the columns of keys.
        """
        table = table[:, np.lexsort(table[::-1])]
        starts = np.flatnonzero((np.diff(table, axis=1, prepend=-3) != 0).any(axis=0))
        numbers = np.diff(starts, append=table.shape[1]).tolist()
        items = zip(table[:, starts].T.tolist(), starts.tolist(), numbers, strict=True)
        kept: list[int] = []
        for unit, records in itertools.groupby(items, key=lambda item: item[0][0]):
            hashes = (
                (sha256(f"{self._bound.key},{twin},{item}".encode()).digest(), start)
                for row, start, number in records
                for item in [self._item(row, units[unit], keys, keyed)]
                for twin in range(min(number, MAX_DUPLICATES))
            )
            kept += [start for _, start in heapq.nsmallest(self._bound.max_contributions, hashes)]
        return table[:, kept]

    def _item(self, row: list[int], unit: str, keys: list[list[str]], keyed: list[int]) -> str:
        """Return the text of a record that is hashed; records with the same text are interchangeable."""
        texts = ["" if code == MISSING else str(code) for code in row[1 : 1 + len(self.columns)]]
        for i, known, number in zip(keyed, keys, row[1 + len(self.columns) :], strict=True):
            texts[i] = sha256(known[number].encode()).hexdigest()
        return ",".join([*texts, unit])

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


@dataclass(frozen=True, eq=False)
class KeptRecords:
    """Kept records of text files; see ``Records``."""

    n_records: int
    _codes: Integers
    _texts: Mapping[int, tuple[list[str], Integers]]

    def codes(self, i: int) -> Integers:
        """See ``Records.codes``."""
        codes: Integers = self._codes[i]
        return codes

    def numbers(self, i: int) -> Floats:
        """Refuse: nothing reads plain numbers of privacy units."""
        raise TypeError("privacy units have no plain numbers")

    def texts(self, i: int) -> tuple[list[str], Integers]:
        """See ``Records.texts``."""
        return self._texts[i]


class UnitCounter:
    """Counts the privacy units of all records, for guarantees under which the number of units is public."""

    columns: Sequence[AnyColumn] = ()

    def __init__(self) -> None:
        self.records = self.units = 0

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Count; see ``Reader``."""
        query = f"SELECT count(*), count(DISTINCT {_unit_expression(cells)}) FROM {cells.relation}"
        ((self.records, self.units),) = fetch(engine, query, abort)

    def read(self, blocks: Iterable[Records]) -> None:
        """Count; see ``Reader``."""
        units: set[str] = set()
        for records in blocks:
            self.records += records.n_records
            units.update(records.texts(-1)[0])
        self.units = len(units)
