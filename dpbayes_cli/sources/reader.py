"""The protocol of what takes records from an engine, and where the records are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import AnyColumn

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Cells:
    """The relation of the records, and the expressions of their cells.

    Attributes:
        relation: the FROM clause; one row per record.
        texts: for each column the expression of its cell's text in that relation.
        unit: the expression of the text that names the record's unit, if units are bounded.
        first: for a single column of levels, a cheaper expression that decides most records.
        integers: the expressions of integer columns as integers, by column index.
        doubles: the expressions of double columns as doubles, by column index; their texts read back as the same
            numbers.
    """

    relation: str
    texts: Sequence[str]
    unit: str | None = None
    first: str | None = None
    integers: Mapping[int, str] = field(default_factory=dict)
    doubles: Mapping[int, str] = field(default_factory=dict)


class Reader(Protocol):
    """Takes the records from the engine that reads them."""

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """The columns to read; records with the same codes are interchangeable."""
        ...

    @property
    def records(self) -> int:
        """The number of records so far, valid or not."""
        ...

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read all records.

        Args:
            engine: an open cursor.
            cells: where the records are.
            abort: ends the query early; called if this thread is interrupted.
        """
        ...
