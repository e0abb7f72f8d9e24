"""Contingency tables of many families of columns, counted in one pass over codes that stream out of the engine.

Blocks of codes are counted with bitmaps (one bit per record, one bitmap per level) or, for large tables, by cell index.
Counts add up over blocks and files, so that neither order nor partitioning matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, TableCounts, released_values
from dpbayes_cli.sources.packed_codes import Block, PackedCodes
from dpbayes_cli.sources.statements import Tally

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.sources.packed_codes import Words

_MAX_BITMAP_CELLS = 256
"""Larger tables are counted by index: bitmaps take an eighth of a byte per record and cell."""


def tally_for(columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> Tally | TableTally:
    """Return a tally for a statistic."""
    return (TableTally if statistic.tables else Tally)(columns, statistic, policy)


class TableTally(PackedCodes):
    """Counts of contingency tables over the records; the files of a data set add up.

    Args:
        columns: columns of levels and of cut numbers.
        statistic: the statistic to evaluate.
        policy: states the stand-in for an invalid cell.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        import numpy as np

        super().__init__(columns, policy)
        if any(isinstance(column, NumericColumn) for column in columns):
            raise ValueError("tables need columns of levels")
        self._statistic = statistic
        self._place = {column.role: i for i, column in enumerate(columns)}
        self._tables: list[Integers] = [np.zeros(table.shape, dtype=np.int64) for table in statistic.tables]

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic."""
        return ExactEvidence(released_values(self._statistic, self._tables), self.records)

    def _take(self, block: Block) -> None:
        import numpy as np

        whole = block.valid(range(len(self._place))) if self._statistic.whole_records else None
        for table, total in zip(self._statistic.tables, self._tables, strict=True):
            axes = [self._place[role] for role in table.roles]
            np.add(total, np.reshape(_counted(block, table, axes, whole), table.shape), out=total)


def _counted(block: Block, table: TableCounts, axes: Sequence[int], whole: Words | None) -> Any:
    """Return the counts of a table's cells in C order."""
    import numpy as np

    if table.size <= _MAX_BITMAP_CELLS:
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
