"""The interface between sources and readers: the cells of the records, the reader, and the contribution bound."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import AnyColumn

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Cells:
    """The relation of the records, and SQL expressions for their cells.

    Attributes:
        relation: the FROM clause; one row per record.
        texts: for each column the expression of its cell's text.
        unit: the expression of the ID of the record's privacy unit; None if contributions are not bounded.
        first: for a single column of levels, a cheap expression that equals the level of most records.
        integers: for columns of integers, expressions with integer values, by column index.
        doubles: for columns of doubles, expressions with double values, by column index; they equal the numbers that
            ``texts`` spell.
    """

    relation: str
    texts: Sequence[str]
    unit: str | None = None
    first: str | None = None
    integers: Mapping[int, str] = field(default_factory=dict)
    doubles: Mapping[int, str] = field(default_factory=dict)


class Reader(Protocol):
    """A computation on the records, such as a count, that the engine runs."""

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
