"""Records as codes: the engine turns every cell into its code and packs the codes of a record into a few integers.

These stream out in blocks of a public size; only codes leave the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.duck import stream
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.sources.imputation import impute_code
from dpbayes_cli.sources.reader import Cells
from dpbayes_cli.sources.statements import any_code_expression, plain_number_expression

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import numpy as np
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers

    Words = NDArray[np.uint64]

_PACKED_BITS = 62


class PackedCodes(ABC):
    """Reads codes of records, packed into a few integers, block by block; an invalid cell has the code after the last.

    Args:
        columns: the columns to read.
        policy: states the stand-in for an invalid cell.
    """

    _plain: tuple[int, ...] = ()
    """The numeric columns that also leave the engine unclamped, each in its own column after the packed ones."""

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> None:
        self._columns, self._policy = columns, policy
        self._sizes = [n_codes(column) for column in columns]
        self._packs = _packs([size.bit_length() for size in self._sizes])
        self.records = 0

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """The columns to read."""
        return self._columns

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read all records; see ``Reader``."""
        stream(engine, self._query(cells), abort, self._unpack)

    def _query(self, cells: Cells) -> str:
        reals = [
            i for i, column in enumerate(self._columns) if isinstance(column, NumericColumn) and not column.integers
        ]
        direct = {**cells.integers, **{i: cells.doubles[i] for i in reals if i in cells.doubles}}
        direct = {
            i: cell for i, cell in direct.items() if i not in self._plain
        }  # plain numbers are parsed from their texts
        named = ", ".join(f"{direct.get(i, text)} AS cell_{i}" for i, text in enumerate(cells.texts))
        codes = []
        for i, column in enumerate(self._columns):
            impute = impute_code(column, self._policy)
            invalid = self._sizes[i] if impute is None else impute
            code = any_code_expression(f"cell_{i}", column, direct=i in direct)
            codes.append(f"CAST(coalesce({code}, {invalid}) AS BIGINT) AS code_{i}")
        packed = [
            " | ".join(f"(code_{i} << {shift})" for i, shift in pack) + f" AS pack_{p}"
            for p, pack in enumerate(self._packs)
        ]
        for i in self._plain:
            codes.append(f"{plain_number_expression(f'cell_{i}', self._columns[i])} AS number_{i}")
            packed.append(f"number_{i}")
        return (
            f"SELECT {', '.join(packed)} FROM (SELECT {', '.join(codes)} FROM (SELECT {named} FROM {cells.relation}))"
        )

    def _unpack(self, packed: Sequence[NDArray[Any]]) -> None:
        block = Block(packed, self._packs, self._sizes)
        self.records += block.n_records
        self._take(block)

    @abstractmethod
    def _take(self, block: Block) -> None:
        """Take a block of records."""


class CodeReader(PackedCodes):
    """Hands over the codes of the records in order, -1 for an invalid cell.

    Args:
        columns: the columns to read.
        policy: states the stand-in for an invalid cell.
        take: called with each block of codes, shape (n_records, n_columns).
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy, take: Callable[[Integers], None]) -> None:
        super().__init__(columns, policy)
        self._hand_over = take

    def _take(self, block: Block) -> None:
        import numpy as np

        sizes = self._sizes
        codes = np.stack([block.codes(i) for i in range(len(sizes))], axis=1)
        self._hand_over(np.where(codes < np.array(sizes), codes, -1))


class NumberReader(CodeReader):
    """Hands over the codes of the records, and the numbers of one column, neither clamped nor rounded.

    Args:
        columns: what is read.
        policy: states the stand-in for an invalid cell; an invalid number is NaN.
        number: the index of the numeric column.
        take: called with each block of codes, shape (n_records, n_columns), and its numbers, shape (n_records,).
    """

    def __init__(
        self,
        columns: Sequence[AnyColumn],
        policy: RecordPolicy,
        number: int,
        take: Callable[[Integers, Floats], None],
    ) -> None:
        super().__init__(columns, policy, lambda codes: take(codes, self._numbers))
        self._plain = (number,)
        self._numbers: Floats

    def _unpack(self, packed: Sequence[NDArray[Any]]) -> None:
        self._numbers = packed[-1]
        super()._unpack(packed[:-1])


def _packs(widths: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Distribute codes over integers; return for each integer its columns and where their bits begin."""
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
    """The codes of a block of records, and the bitmaps of their levels, computed when needed."""

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
        """Return for each level of a column a bitmap with one bit per record, shape (n_words,)."""
        if column not in self._bitmaps:
            codes = self.codes(column)
            self._bitmaps[column] = [bitmap(codes == level) for level in range(self._sizes[column])]
            del self._codes[column]
        return self._bitmaps[column]

    def valid(self, columns: Sequence[int]) -> Words:
        """Return the bitmap of the records that are valid in all columns, shape (n_words,)."""
        import numpy as np

        mask = np.ones(self.n_records, dtype=bool)
        for column in columns:
            mask &= self._unpacked(column) < self._sizes[column]
        return bitmap(mask)

    def _unpacked(self, column: int) -> Integers:
        """Return the codes of a column without keeping them: those of a thousand columns would take a gigabyte."""
        p, shift = self._where[column]
        codes: Integers = (self._packed[p] >> shift) & ((1 << self._sizes[column].bit_length()) - 1)
        return codes


def bitmap(mask: NDArray[np.bool_]) -> Words:
    """Pack truth values into words of 64 bits."""
    import numpy as np

    packed = np.packbits(mask)
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)
