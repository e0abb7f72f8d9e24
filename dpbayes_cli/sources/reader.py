"""What an engine hands records to, and where it says that they are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import AnyColumn

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Cells:
    """Where an engine finds the records, and in them the text of each column's cell.

    Attributes:
        relation: the FROM clause; one row a record.
        texts: for each column the expression of its cell's text in that relation.
        unit: the expression of the text that says whose the record is, where units are bounded.
        first: of one column of levels, a cheaper expression that settles most records.
        integers: for columns of integers, by their index, the expressions of these.
        doubles: for columns of numbers in double precision, by their index, the expressions of these: their texts read
            back as the same numbers.
    """

    relation: str
    texts: Sequence[str]
    unit: str | None = None
    first: str | None = None
    integers: Mapping[int, str] = field(default_factory=dict)
    doubles: Mapping[int, str] = field(default_factory=dict)


class Reader(Protocol):
    """What records are handed to, by the engine that reads them."""

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """What is read; records with the same codes are the same to it."""
        ...

    @property
    def records(self) -> int:
        """The number of records so far, valid or not."""
        ...

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read all records.

        Args:
            engine: an open cursor.
            cells: where it finds them.
            abort: what ends the query early, called where this thread is interrupted.
        """
        ...
