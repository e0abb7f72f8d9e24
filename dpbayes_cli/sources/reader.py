"""The interface between sources and readers: the records, the reader, and the contribution bound.

A source hands over its records either as a relation of an engine, or block by block as codes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import AnyColumn

if TYPE_CHECKING:
    import duckdb

    from dpbayes_cli.base.numeric import Floats, Integers

OUT_OF_BOUNDS = -1
"""The code of a number out of bounds, if such a number drops its record and is not imputed."""
MISSING = -2
"""The code of any other cell without a valid value, which a stand-in may replace."""


@dataclass(frozen=True)
class Cells:
    """The relation of the records, and SQL expressions for their cells.

    Attributes:
        relation: the FROM clause; one row per record.
        texts: for each column the expression of its cell's text.
        unit: the expression of the ID of the record's privacy unit; None if contributions are not bounded.
        integers: for columns of integers, expressions with integer values, by column index.
        doubles: for columns of doubles, expressions with double values, by column index; they equal the numbers that
            ``texts`` spell.
    """

    relation: str
    texts: Sequence[str]
    unit: str | None = None
    integers: Mapping[int, str] = field(default_factory=dict)
    doubles: Mapping[int, str] = field(default_factory=dict)


class Records(Protocol):
    """A block of records whose cells are read without an engine; the column of privacy units is the last one."""

    @property
    def n_records(self) -> int:
        """The number of records, valid or not."""
        ...

    def codes(self, i: int) -> Integers:
        """Return the codes of a column's cells, ``MISSING`` or ``OUT_OF_BOUNDS`` if invalid, shape (n_records,)."""
        ...

    def numbers(self, i: int) -> Floats:
        """Return the numbers of a column, neither clamped nor rounded, NaN if invalid, shape (n_records,)."""
        ...

    def texts(self, i: int) -> tuple[list[str], Integers]:
        """Return texts in normal form, empty for missing ones, and for each record the index of its text."""
        ...


class Reader(Protocol):
    """A computation on the records, such as a count."""

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """The columns to read; records with the same codes in these columns are interchangeable."""
        ...

    @property
    def records(self) -> int:
        """The number of records read so far, valid or not."""
        ...

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read all records with an open cursor; ``abort`` ends the query if this thread is interrupted."""
        ...

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records, block by block."""
        ...


@dataclass(frozen=True)
class UnitBound:
    """The contribution bound of a privacy unit.

    Records without a unit and malformed records form one unit together.

    Attributes:
        column: the name of the column with the IDs of the privacy units.
        max_contributions: the largest number of records of a unit that are kept.
        key: the secret key of the keyed hash, new for every reading of the data.
    """

    column: str
    max_contributions: int
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
