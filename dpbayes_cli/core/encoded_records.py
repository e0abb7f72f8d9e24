"""The records of a data set as codes in memory, for chains that visit every record repeatedly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import Column, CutColumn
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers


@dataclass(frozen=True)
class CodedColumns:
    """The data that a chain reads if it updates single records: the code of every cell of ``columns``.

    Each column has a stand-in for invalid cells, so that every record is complete.
    """

    columns: tuple[Column | CutColumn, ...]

    def hold(self, expected: int) -> EncodedRecords:
        """Return an empty collection of encoded records."""
        return EncodedRecords(self)

    def memory(self, n_records: int) -> int:
        """Return how many bytes ``n_records`` records take."""
        return n_records * sum(int(np.dtype(code_type(len(column.levels))).itemsize) for column in self.columns)


@dataclass
class EncodedRecords:
    """The codes of all records, in blocks.

    Attributes:
        rows: the columns to read.
        n_records: the number of records taken in so far.
        blocks: for each block of records the codes of each column, in the smallest type that fits.
    """

    rows: CodedColumns
    n_records: int = 0
    blocks: list[list[Any]] = field(default_factory=list)

    def take(self, codes: Integers) -> None:
        """Add a block of records: their codes, shape (n_records, n_columns).

        Raises:
            ValueError: a cell is invalid, although every column has a stand-in.
        """
        if (codes < 0).any():
            raise ValueError("a record has an invalid cell")
        self.n_records += len(codes)
        columns = enumerate(self.rows.columns)
        self.blocks.append([codes[:, i].astype(code_type(len(column.levels))) for i, column in columns])

    def columns(self) -> list[Integers]:
        """Return the codes of each column, shape (n_records,)."""
        empty = [np.empty(0, dtype=code_type(len(column.levels))) for column in self.rows.columns]
        return [np.concatenate(parts) for parts in zip(empty, *self.blocks, strict=True)]


def code_type(n_levels: int) -> Any:
    """Return the smallest NumPy type that fits the codes of ``n_levels`` levels."""
    return np.min_scalar_type(max(n_levels - 1, 0)).type
