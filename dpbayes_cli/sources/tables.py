"""Contingency tables of many families of columns, in one pass: codes stream out of the engine and are counted.

The engine turns every cell into its code and packs the codes of a record into a few integers; these come in blocks of a
public size and are counted as bitmaps (one bit a record, one bitmap a level) or, for large tables, by their index.
Counts add up over blocks and files, so that neither order nor partition matters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.duck import stream
from dpbayes_cli.sources.source import Cells, impute_code
from dpbayes_cli.sources.statements import Tally, code_expression, cut_expression
from dpbayes_cli.statistic import Statistic, Statistics, TableCounts, released_values

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import numpy as np
    from numpy.typing import NDArray

    from dpbayes_cli.numeric import Integers

    Words = NDArray[np.uint64]

_PACKED_BITS = 62
_MOST_BITMAPS = 256
"""Tables of more cells are counted by index: a bitmap costs an eighth of a byte a record and cell."""


def tally_for(columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> Tally | TableTally:
    """Return what counts the records of a statistic."""
    return (TableTally if statistic.tables else Tally)(columns, statistic, policy)


class PackedCodes(ABC):
    """Reads codes of records, packed into a few integers, block by block; an invalid cell is the code after the last.

    Args:
        columns: columns of levels and of cut numbers.
        policy: what an invalid cell counts as.
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> None:
        self._columns = [column for column in columns if not isinstance(column, NumericColumn)]
        if len(self._columns) < len(columns):
            raise ValueError("tables are of levels")
        self._policy = policy
        self._sizes = [len(column.levels) for column in self._columns]
        self._packs = _packs([size.bit_length() for size in self._sizes])
        self.records = 0

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read all records; see ``Reader``."""
        stream(engine, self._query(cells), abort, self._unpack)

    def _query(self, cells: Cells) -> str:
        """Return the query of one row a record."""
        named = ", ".join(f"{cells.integers.get(i, text)} AS cell_{i}" for i, text in enumerate(cells.texts))
        codes = []
        for i, column in enumerate(self._columns):
            impute = impute_code(column, self._policy)
            invalid = self._sizes[i] if impute is None else impute
            code = _code(f"cell_{i}", column, integers=i in cells.integers)
            codes.append(f"CAST(coalesce({code}, {invalid}) AS BIGINT) AS code_{i}")
        packed = [
            " | ".join(f"(code_{i} << {shift})" for i, shift in pack) + f" AS pack_{p}"
            for p, pack in enumerate(self._packs)
        ]
        return (
            f"SELECT {', '.join(packed)} FROM (SELECT {', '.join(codes)} FROM (SELECT {named} FROM {cells.relation}))"
        )

    def _unpack(self, packed: Sequence[NDArray[Any]]) -> None:
        block = _Block(packed, self._packs, self._sizes)
        self.records += block.n_records
        self._take(block)

    @abstractmethod
    def _take(self, block: _Block) -> None:
        """Take a block of records."""


class TableTally(PackedCodes):
    """What one pass over the columns of a statistic of tables found; tallies of several files add up.

    Args:
        columns: columns of levels and of cut numbers.
        statistic: what is to be evaluated.
        policy: what an invalid cell counts as.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        import numpy as np

        super().__init__(columns, policy)
        self._statistic = statistic
        self._place = {column.role: i for i, column in enumerate(columns)}
        self._tables: list[Integers] = [np.zeros(table.shape, dtype=np.int64) for table in statistic.tables]

    def evidence(self) -> Statistics:
        """Return the components of the statistic."""
        return Statistics(released_values(self._statistic, self._tables), self.records)

    def _take(self, block: _Block) -> None:
        """Count a block of records."""
        import numpy as np

        whole = block.valid(range(len(self._place))) if self._statistic.whole_records else None
        for table, total in zip(self._statistic.tables, self._tables, strict=True):
            axes = [self._place[role] for role in table.roles]
            np.add(total, np.reshape(_counted(block, table, axes, whole), table.shape), out=total)


class CodeReader(PackedCodes):
    """Hands the codes of the records over, in their order, -1 for an invalid cell: for predictions, not for releases.

    Args:
        columns: columns of levels and of cut numbers.
        policy: what an invalid cell counts as.
        take: called with every block of codes, shape (n_records, n_columns).
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy, take: Callable[[Integers], None]) -> None:
        super().__init__(columns, policy)
        self._hand_over = take

    def _take(self, block: _Block) -> None:
        """Hand the codes of a block over."""
        import numpy as np

        sizes = self._sizes
        codes = np.stack([block.codes(i) for i in range(len(sizes))], axis=1)
        self._hand_over(np.where(codes < np.array(sizes), codes, -1))


def _code(cell: str, column: Column | CutColumn, *, integers: bool) -> str:
    """Return the expression of a code, NULL where the cell is invalid."""
    if isinstance(column, CutColumn):
        return cut_expression(cell, column, integers=integers)
    return code_expression(cell, column, integers=integers)


def _packs(widths: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Distribute codes over integers: for each integer the columns in it and where their bits begin."""
    packs: list[list[tuple[int, int]]] = [[]]
    used = 0
    for i, width in enumerate(widths):
        if used + width > _PACKED_BITS:
            packs.append([])
            used = 0
        packs[-1].append((i, used))
        used += width
    return packs


class _Block:
    """The codes of a block of records, and the bitmaps of their levels, made when they are needed."""

    def __init__(
        self, packed: Sequence[NDArray[Any]], packs: Sequence[Sequence[tuple[int, int]]], sizes: Sequence[int]
    ) -> None:
        self.n_records = len(packed[0])
        self._packed, self._sizes = packed, sizes
        self._where = {i: (p, shift) for p, pack in enumerate(packs) for i, shift in pack}
        self._codes: dict[int, Integers] = {}
        self._bitmaps: dict[int, list[Words]] = {}

    def codes(self, column: int) -> Integers:
        """Return the codes of a column, shape (n_records,)."""
        if column not in self._codes:
            self._codes[column] = self._unpacked(column)
        return self._codes[column]

    def bitmaps(self, column: int) -> list[Words]:
        """Return for each level of a column one bit a record, shape (n_words,)."""
        if column not in self._bitmaps:
            codes = self.codes(column)
            self._bitmaps[column] = [bitmap(codes == level) for level in range(self._sizes[column])]
            del self._codes[column]
        return self._bitmaps[column]

    def valid(self, columns: Sequence[int]) -> Words:
        """Return one bit a record that is valid in all columns."""
        import numpy as np

        mask = np.ones(self.n_records, dtype=bool)
        for column in columns:
            mask &= self._unpacked(column) < self._sizes[column]
        return bitmap(mask)

    def _unpacked(self, column: int) -> Integers:
        """Return the codes of a column and keep none: of a thousand columns they would take a gigabyte."""
        p, shift = self._where[column]
        found: Integers = (self._packed[p] >> shift) & ((1 << self._sizes[column].bit_length()) - 1)
        return found


def bitmap(mask: NDArray[np.bool_]) -> Words:
    """Pack truth values into words of 64 bits."""
    import numpy as np

    packed = np.packbits(mask)
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)


def _counted(block: _Block, table: TableCounts, axes: Sequence[int], whole: Words | None) -> Any:
    """Return the counts of a table's cells in C order."""
    import numpy as np

    if table.size <= _MOST_BITMAPS:
        partial: list[Words | None] = [whole]
        for axis in axes[:-1]:
            partial = [level if left is None else left & level for left in partial for level in block.bitmaps(axis)]
        last = block.bitmaps(axes[-1])
        return [
            int(np.bitwise_count(level if left is None else left & level).sum()) for left in partial for level in last
        ]
    index = np.zeros(block.n_records, dtype=np.int64)
    valid = np.ones(block.n_records, dtype=bool)
    if whole is not None:
        valid = np.unpackbits(whole.view(np.uint8))[: block.n_records].astype(bool)
    for axis, size in zip(axes, table.shape, strict=True):
        codes = block.codes(axis)
        index = index * size + codes
        valid &= codes < size
    return np.bincount(index[valid], minlength=table.size)
