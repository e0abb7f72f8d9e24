"""Readers of codes: contingency tables, sums of groups, and records that are handed over block by block.

All contingency tables are counted from the blocks of records in one pass. For a small table, each level of a column has
a bitmap with one bit per record, and the bits of intersections are counted. For a large table, the index of each
record's cell is computed. Counts add up over blocks and files, so neither the order nor the partitioning of the records
matters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, SumsByGroup, TableCounts
from dpbayes_cli.core.statistic_values import released_values
from dpbayes_cli.sources.code_sums import sums_by_key
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers

    Words = NDArray[np.uint64]

_MAX_BITMAP_CELLS = 256
"""Tables with more cells are counted by the index of the cell, because bitmaps take one bit per record and cell."""


class BlockReader(ABC):
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

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        stand_ins = [impute_code(column, self._policy) for column in self.columns]
        for records in blocks:
            coded = (with_stand_in(records.codes(i), stand_in) for i, stand_in in enumerate(stand_ins))
            codes = [np.where(each < 0, size, each) for each, size in zip(coded, self._sizes, strict=True)]
            self.records += records.n_records
            self._take(Block(records.n_records, codes, self._sizes), [*map(records.numbers, self._plain)])

    @abstractmethod
    def _take(self, block: Block, numbers: Sequence[Floats]) -> None:
        """Take a block of records, and the numbers of each column in ``plain``, shape (n_records,)."""


class CodeReader(BlockReader):
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
        codes = np.stack(block.codes, axis=1)
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
        BlockReader.__init__(self, columns, policy, (number,))
        self._hand_over = take


class TableTally(BlockReader):
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


class GroupTally(BlockReader):
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
        keys, codes = block.codes[0], block.codes[-1]
        valid = (keys < self._sizes[0]) & (codes < self._sizes[-1])
        keys, codes = keys[valid], codes[valid]
        self._counts += np.bincount(keys, minlength=self._sizes[0])
        self._sums += sums_by_key(keys, codes, self._sizes[0])
        if self._expressions.squares:
            self._squares += sums_by_key(keys, codes * codes, self._sizes[0])


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
        codes = block.codes[axis]
        index = index * size + codes
        valid &= codes < size
    return np.bincount(index[valid], minlength=table.size)


class Block:
    """The codes of a block of records; the bitmaps of a column are computed when needed.

    Args:
        n_records: the number of records.
        codes: the codes of each column, shape (n_records,).
        sizes: the number of codes of each column, which is the code of an invalid cell.
    """

    def __init__(self, n_records: int, codes: Sequence[Integers], sizes: Sequence[int]) -> None:
        self.n_records, self.codes, self._sizes = n_records, codes, sizes
        self._bitmaps: dict[int, list[Words]] = {}

    def bitmaps(self, column: int) -> list[Words]:
        """Return for each level of a column a bitmap with one bit per record, shape (n_words,)."""
        if column not in self._bitmaps:
            codes = self.codes[column]
            self._bitmaps[column] = [_bitmap(codes == level) for level in range(self._sizes[column])]
        return self._bitmaps[column]

    def valid(self) -> Words:
        """Return the bitmap of the records that are valid in all columns, shape (n_words,)."""
        mask = np.ones(self.n_records, dtype=bool)
        for codes, size in zip(self.codes, self._sizes, strict=True):
            mask &= codes < size
        return _bitmap(mask)


def _bitmap(mask: NDArray[np.bool_]) -> Words:
    """Pack truth values into words of 64 bits."""
    packed = np.packbits(mask)
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)
