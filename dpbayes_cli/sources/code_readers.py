"""Codes of records, block by block, with stand-ins for invalid cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.columns import AnyColumn, RecordPolicy
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Records

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


def imputed_codes(
    blocks: Iterable[Records], columns: Sequence[AnyColumn], policy: RecordPolicy
) -> Iterator[tuple[Records, list[Integers]]]:
    """Yield blocks of records, and the codes of their columns, negative for cells that stay invalid."""
    stand_ins = [impute_code(column, policy) for column in columns]
    for records in blocks:
        yield records, [with_stand_in(records.codes(i), stand_in) for i, stand_in in enumerate(stand_ins)]


class CodeReader:
    """Hands over the codes of the records in order, -1 for an invalid cell.

    Args:
        columns: the columns to read.
        policy: states the stand-in for an invalid cell.
        take: called with each block of codes, shape (n_records, n_columns), and its numbers if ``number`` is given.
        number: the index of a numeric column whose numbers are handed over, too, neither clamped nor rounded, NaN if
            invalid, shape (n_records,).
    """

    def __init__(
        self,
        columns: Sequence[AnyColumn],
        policy: RecordPolicy,
        take: Callable[..., None],
        *,
        number: int | None = None,
    ) -> None:
        self.columns, self.records = columns, 0
        self._policy, self._take, self._number = policy, take, number

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        for records, codes in imputed_codes(blocks, self.columns, self._policy):
            self.records += records.n_records
            numbers = () if self._number is None else (records.numbers(self._number),)
            self._take(np.maximum(np.stack(codes, axis=1), -1), *numbers)
