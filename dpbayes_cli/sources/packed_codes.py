"""Records as codes: the engine turns every cell into its code and packs the codes of a record into a few integers.

The engine hands over these integers in blocks of a public size. All contingency tables are counted from the blocks in
one pass. For a small table, each level of a column has a bitmap with one bit per record, and the bits of intersections
are counted. For a large table, the index of each record's cell is computed. Counts add up over blocks and files, so
neither the order nor the partitioning of the records matters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.base.duck import keep_join_order, stream
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, SumsByGroup, TableCounts
from dpbayes_cli.core.statistic_values import released_values
from dpbayes_cli.sources.code_sums import sums_by_key
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Cells, Records
from dpbayes_cli.sources.statements import code_expression, joined_keys, plain_number_expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import duckdb
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers

    Words = NDArray[np.uint64]

_PACKED_BITS = 62
_MAX_BITMAP_CELLS = 256
"""Tables with more cells are counted by the index of the cell, because bitmaps take one bit per record and cell."""


class PackedCodes(ABC):
    """Reads codes of records block by block.

    The code of an invalid cell is one more than the largest code of its column.

    Args:
        columns: the columns to read.
        policy: states the stand-in for an invalid cell.
        plain: the indices of numeric columns whose numbers are also read without clamping or rounding.
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy, plain: tuple[int, ...] = ()) -> None:
        self.columns, self.records = columns, 0
        self._policy, self._plain = policy, plain
        self._sizes = [n_codes(column) for column in columns]
        self._packs = _packs([size.bit_length() for size in self._sizes])

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read all records; see ``Reader``."""
        with keep_join_order(engine):  # or a join with keys would keep all records in memory
            stream(engine, self._query(cells, engine), abort, self._unpack)

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        stand_ins = [impute_code(column, self._policy) for column in self.columns]
        for records in blocks:
            coded = (with_stand_in(records.codes(i), stand_in) for i, stand_in in enumerate(stand_ins))
            codes = [np.where(each < 0, size, each) for each, size in zip(coded, self._sizes, strict=True)]
            self.records += records.n_records
            self._take(Block(records.n_records, codes.__getitem__, self._sizes), [*map(records.numbers, self._plain)])

    def _query(self, cells: Cells, engine: duckdb.DuckDBPyConnection) -> str:
        direct = dict(cells.integers)
        for i, column in enumerate(self.columns):
            if isinstance(column, NumericColumn) and not column.integers and i in cells.doubles:
                direct[i] = cells.doubles[i]
        for i in self._plain:  # plain numbers are parsed from their texts
            direct.pop(i, None)
        named = ", ".join(f"{direct.get(i, text)} AS cell_{i}" for i, text in enumerate(cells.texts))
        codes, relation = [], f"(SELECT {named} FROM {cells.relation})"
        for i, column in enumerate(self.columns):
            if isinstance(column, Column) and column.is_key:  # there may be a million keys
                text, after = (f"CAST(cell_{k} AS VARCHAR)" for k in (i, i + 1))
                join = joined_keys(engine, i, text, column, after)
                relation, code = f"{relation} {join}", f"key_{i}.code"
            else:
                code = imputed_code(f"cell_{i}", column, self._policy, direct=i in direct)
            codes.append(f"CAST(coalesce({code}, {self._sizes[i]}) AS BIGINT) AS code_{i}")
        packed = [
            " | ".join(f"(code_{i} << {shift})" for i, shift in pack) + f" AS pack_{p}"
            for p, pack in enumerate(self._packs)
        ]
        for i in self._plain:
            codes.append(f"{plain_number_expression(f'cell_{i}', self.columns[i])} AS number_{i}")
            packed.append(f"number_{i}")
        rows = f"(SELECT {', '.join(codes)} FROM {relation})"
        return f"SELECT {', '.join(packed)} FROM {rows}"

    def _unpack(self, packed: Sequence[NDArray[Any]]) -> None:
        where = {i: (p, shift) for p, pack in enumerate(self._packs) for i, shift in pack}

        def codes(i: int) -> Integers:
            p, shift = where[i]
            unpacked: Integers = (packed[p] >> shift) & ((1 << self._sizes[i].bit_length()) - 1)
            return unpacked

        self.records += len(packed[0])
        self._take(Block(len(packed[0]), codes, self._sizes), packed[len(self._packs) :])

    @abstractmethod
    def _take(self, block: Block, numbers: Sequence[Floats]) -> None:
        """Take a block of records, and the numbers of each column in ``plain``, shape (n_records,)."""


class CodeReader(PackedCodes):
    """Hands over the codes of the records in order, -1 for an invalid cell.

    Args:
        columns: the columns to read.
        policy: states the stand-in for an invalid cell.
        take: called with each block of codes, shape (n_records, n_columns).
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy, take: Callable[[Integers], None]) -> None:
        super().__init__(columns, policy)
        self._hand_over: Callable[..., None] = take

    def _take(self, block: Block, numbers: Sequence[Floats]) -> None:
        codes = np.stack([block.codes(i) for i in range(len(self._sizes))], axis=1)
        self._hand_over(np.where(codes < np.array(self._sizes), codes, -1), *numbers)


class NumberReader(CodeReader):
    """Hands over the codes of the records, and the numbers of one column, neither clamped nor rounded.

    Args:
        columns: the columns to read.
        policy: states which public value replaces an invalid cell. An invalid number becomes NaN.
        number: the index of the numeric column.
        take: called with each block of codes, shape (n_records, n_columns), and its numbers, shape (n_records,).
    """

    def __init__(
        self, columns: Sequence[AnyColumn], policy: RecordPolicy, number: int, take: Callable[[Integers, Floats], None]
    ) -> None:
        PackedCodes.__init__(self, columns, policy, (number,))
        self._hand_over = take


class TableTally(PackedCodes):
    """Counts contingency tables; the counts of all files of a data set add up.

    Args:
        columns: columns of levels, or of numbers that are cut into intervals.
        statistic: the statistic to evaluate.
        policy: states the stand-in for an invalid cell.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        super().__init__(columns, policy)
        if any(isinstance(column, NumericColumn) for column in columns):
            raise ValueError("tables need columns of levels")
        self._statistic = statistic
        self._place = {column.role: i for i, column in enumerate(columns)}
        self._tables: list[Integers] = [np.zeros(table.shape, dtype=np.int64) for table in statistic.tables]

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic."""
        return ExactEvidence(released_values(self._statistic, self._tables), self.records)

    def _take(self, block: Block, numbers: Sequence[Floats]) -> None:
        whole = block.valid() if self._statistic.whole_records else None
        for table, total in zip(self._statistic.tables, self._tables, strict=True):
            axes = [self._place[role] for role in table.roles]
            np.add(total, np.reshape(_counted(block, table, axes, whole), table.shape), out=total)


class GroupTally(PackedCodes):
    """Sums up the numbers of each group, and counts its valid records.

    Args:
        columns: the column of keys, the column of larger groups if there are any, and a column of numbers.
        statistic: the statistic to evaluate.
        policy: states the stand-in for an invalid number.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        super().__init__(columns, policy)
        self._expressions = require_type(statistic.expressions[0], SumsByGroup)
        self._counts, self._sums, self._squares = np.zeros((3, self._sizes[0]), dtype=np.int64)

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic, group by group."""
        totals = self._expressions.components(self._sizes[-1] - 1, self._counts, self._sums, self._squares)
        return ExactEvidence(tuple(totals.ravel().tolist()), self.records)

    def _take(self, block: Block, numbers: Sequence[Floats]) -> None:
        keys, codes = block.codes(0), block.codes(len(self._sizes) - 1)
        valid = (keys < self._sizes[0]) & (codes < self._sizes[-1])
        keys, codes = keys[valid], codes[valid]
        self._counts += np.bincount(keys, minlength=self._sizes[0])
        self._sums += sums_by_key(keys, codes, self._sizes[0])
        if self._expressions.squares:
            self._squares += sums_by_key(keys, codes * codes, self._sizes[0])


def imputed_code(cell: str, column: AnyColumn, policy: RecordPolicy, *, direct: bool) -> str:
    """Return a DuckDB expression for the code of a cell or its stand-in, NULL if it is invalid.

    Nothing stands in for a number out of bounds that drops its record. For the arguments see ``code_expression``.
    """
    impute, code = impute_code(column, policy), code_expression(cell, column, direct=direct)
    if impute is None:
        return code
    stand_in = str(impute)
    if isinstance(column, NumericColumn) and column.outside == "drop":
        clamped = code_expression(cell, replace(column, outside="clamp"), direct=direct)
        stand_in = f"CASE WHEN {clamped} IS NULL THEN {impute} END"
    return f"coalesce({code}, {stand_in})"


def _counted(block: Block, table: TableCounts, axes: Sequence[int], whole: Words | None) -> Any:
    """Return the counts of a table's cells in C order."""
    if table.size <= _MAX_BITMAP_CELLS:
        partial: list[Words | None] = [whole]
        for axis in axes[:-1]:
            partial = [level if left is None else left & level for left in partial for level in block.bitmaps(axis)]
        cells = (level if left is None else left & level for left in partial for level in block.bitmaps(axes[-1]))
        return [int(np.bitwise_count(cell).sum()) for cell in cells]
    index = np.zeros(block.n_records, dtype=np.int64)
    valid = np.ones(block.n_records, dtype=bool)
    if whole is not None:
        valid = np.unpackbits(whole.view(np.uint8))[: block.n_records].astype(bool)
    for axis, size in zip(axes, table.shape, strict=True):
        codes = block.codes(axis)
        index = index * size + codes
        valid &= codes < size
    return np.bincount(index[valid], minlength=table.size)


def _packs(widths: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Distribute codes over integers; return for each integer its columns and the lowest bit of each column."""
    packs: list[list[tuple[int, int]]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        if used + width > _PACKED_BITS:
            packs.append([])
            used = 0
        packs[-1].append((i, used))
        used += width
    return packs


class Block:
    """The codes of a block of records; the bitmap of a level is computed when needed.

    Args:
        n_records: the number of records.
        codes: returns the codes of a column; it is not cached: the codes of a thousand columns would take a gigabyte.
        sizes: the number of codes of each column, which is the code of an invalid cell.
    """

    def __init__(self, n_records: int, codes: Callable[[int], Integers], sizes: Sequence[int]) -> None:
        self.n_records, self._unpacked, self._sizes = n_records, codes, sizes
        self._codes: dict[int, Integers] = {}
        self._bitmaps: dict[int, list[Words]] = {}

    def codes(self, column: int) -> Integers:
        """Return the codes of a column, shape (n_records,)."""
        if column not in self._codes:
            self._codes[column] = self._unpacked(column)
        return self._codes[column]

    def bitmaps(self, column: int) -> list[Words]:
        """Return for each level of a column a bitmap with one bit per record, shape (n_words,)."""
        if column not in self._bitmaps:
            codes = self.codes(column)
            self._bitmaps[column] = [_bitmap(codes == level) for level in range(self._sizes[column])]
            del self._codes[column]
        return self._bitmaps[column]

    def valid(self) -> Words:
        """Return the bitmap of the records that are valid in all columns, shape (n_words,)."""
        mask = np.ones(self.n_records, dtype=bool)
        for column, size in enumerate(self._sizes):
            mask &= self._unpacked(column) < size
        return _bitmap(mask)


def _bitmap(mask: NDArray[np.bool_]) -> Words:
    """Pack truth values into words of 64 bits."""
    packed = np.packbits(mask)
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)
