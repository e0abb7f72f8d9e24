"""Contingency tables of many families of columns, in one pass: codes stream out of the engine and are counted.

The engine turns every cell into its code and packs the codes of a record into a few integers; these come in blocks of a
public size and are counted as bitmaps (one bit a record, one bitmap a level) or, for large tables, by their index.
Counts add up over blocks and files, so that neither order nor partition matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.columns import AnyColumn, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.duck import stream
from dpbayes_cli.sources.source import impute_code
from dpbayes_cli.sources.statements import NOTHING, Tally, code_expression, cut_expression
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


class PackedCodes:
    """How the codes of a record travel: packed into a few integers, an invalid cell as the code after the last.

    Args:
        columns: columns of levels and of cut numbers.
        policy: what an invalid cell counts as.
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> None:
        if any(isinstance(column, NumericColumn) for column in columns):
            raise ValueError("tables are of levels")
        self._columns, self._policy = columns, policy
        self.sizes = [0 if isinstance(column, NumericColumn) else len(column.levels) for column in columns]
        self.packs = _packs([size.bit_length() for size in self.sizes])

    def query(self, relation: str, texts: Sequence[str], integers: Mapping[int, str]) -> str:
        """Return the query of one row a record; see ``Tally.run``."""
        cells = ", ".join(f"{integers.get(i, text)} AS cell_{i}" for i, text in enumerate(texts))
        codes = []
        for i, column in enumerate(self._columns):
            impute = impute_code(column, self._policy)
            invalid = self.sizes[i] if impute is None else impute
            code = _code(f"cell_{i}", column, integers=i in integers)
            codes.append(f"CAST(coalesce({code}, {invalid}) AS BIGINT) AS code_{i}")
        packed = [
            " | ".join(f"(code_{i} << {shift})" for i, shift in pack) + f" AS pack_{p}"
            for p, pack in enumerate(self.packs)
        ]
        return f"SELECT {', '.join(packed)} FROM (SELECT {', '.join(codes)} FROM (SELECT {cells} FROM {relation}))"


class TableTally:
    """What one pass over the columns of a statistic of tables found; tallies of several files add up.

    Args:
        columns: columns of levels and of cut numbers.
        statistic: what is to be evaluated.
        policy: what an invalid cell counts as.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        import numpy as np

        self._statistic = statistic
        self._packed = PackedCodes(columns, policy)
        self._place = {column.role: i for i, column in enumerate(columns)}
        self._tables: list[Integers] = [np.zeros(table.shape, dtype=np.int64) for table in statistic.tables]
        self.records = 0

    def run(
        self,
        engine: duckdb.DuckDBPyConnection,
        relation: str,
        texts: Sequence[str],
        abort: Callable[[], None],
        first: str | None = None,
        integers: Mapping[int, str] = NOTHING,
    ) -> None:
        """Count the records of a relation; see ``Tally.run``."""
        stream(engine, self._packed.query(relation, texts, integers), abort, self._add)

    def evidence(self) -> Statistics:
        """Return the components of the statistic."""
        return Statistics(released_values(self._statistic, self._tables), self.records)

    def _add(self, block: Sequence[NDArray[Any]]) -> None:
        """Count a block of packed codes."""
        import numpy as np

        counted = _Block(block, self._packed.packs, self._packed.sizes)
        self.records += counted.n_records
        whole = counted.valid(range(len(self._place))) if self._statistic.whole_records else None
        for table, total in zip(self._statistic.tables, self._tables, strict=True):
            axes = [self._place[role] for role in table.roles]
            np.add(total, np.reshape(_counted(counted, table, axes, whole), table.shape), out=total)


class CodeReader:
    """Hands the codes of the records over, in their order, -1 for an invalid cell: for predictions, not for releases.

    Args:
        columns: columns of levels and of cut numbers.
        policy: what an invalid cell counts as.
        take: called with every block of codes, shape (n_records, n_columns).
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy, take: Callable[[Integers], None]) -> None:
        self._packed, self._take = PackedCodes(columns, policy), take
        self.records = 0

    def run(
        self,
        engine: duckdb.DuckDBPyConnection,
        relation: str,
        texts: Sequence[str],
        abort: Callable[[], None],
        first: str | None = None,
        integers: Mapping[int, str] = NOTHING,
    ) -> None:
        """Read the records of a relation; see ``Tally.run``."""
        stream(engine, self._packed.query(relation, texts, integers), abort, self._add)

    def _add(self, block: Sequence[NDArray[Any]]) -> None:
        import numpy as np

        found = _Block(block, self._packed.packs, self._packed.sizes)
        self.records += found.n_records
        sizes = self._packed.sizes
        codes = np.stack([found.codes(i) for i in range(len(sizes))], axis=1)
        self._take(np.where(codes < np.array(sizes), codes, -1))


def _code(cell: str, column: AnyColumn, *, integers: bool) -> str:
    """Return the expression of a code, NULL where the cell is invalid."""
    if isinstance(column, CutColumn):
        return cut_expression(cell, column, integers=integers)
    if isinstance(column, NumericColumn):
        raise ValueError("tables are of levels")
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
