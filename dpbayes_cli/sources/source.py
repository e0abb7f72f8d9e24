"""A data source: checked before the charge by what is public, read once after it, for integers only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.base.grammar import normal_cell, parse_number
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import Statistic, Statistics
from dpbayes_cli.sources.location import Location, TableLocation
from dpbayes_cli.sources.records import Dialect

if TYPE_CHECKING:
    import duckdb

    from dpbayes_cli.sources.contributions import UnitBound


def unreadable() -> SourceError:
    """Return the error for data that the engine cannot read; why is not said, for the reason might quote a cell."""
    return SourceError("the engine could not read the data", hint="is the file complete?")


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


class Source(ABC):
    """One data set, read by one engine.

    ``check`` uses public facts only (existence, permissions, header or schema) and runs before the charge;
    ``statistics`` reads the records, once. No message of either depends on a record.
    """

    _columns: tuple[AnyColumn, ...] = ()

    def __init__(self, unit: UnitBound | None = None) -> None:
        self._unit = unit

    @property
    @abstractmethod
    def is_stream(self) -> bool:
        """Whether the records can be read only once."""

    @property
    def hands_over_records(self) -> bool:
        """Whether records can be read one by one; see ``scan``."""
        return True

    @property
    @abstractmethod
    def record_unit(self) -> str:
        """What one record is, for the report: a physical line, a parsed record, a row."""

    @abstractmethod
    def check(self, columns: Sequence[AnyColumn], names: Sequence[str | None]) -> None:
        """Resolve the columns and refuse what cannot work.

        Args:
            columns: the columns that the model reads.
            names: their names in the file; None where the file has one column.

        Raises:
            SourceError: no such column, a malformed header, files that differ, a type that cannot be read as text.
            SpecError: the declared domain cannot match the column's type.
        """

    @property
    def parts(self) -> int:
        """How many parts of the units are read one after the other, so that each fits into memory."""
        return 1

    @abstractmethod
    def count_records(self) -> int | None:
        """Count the records where that needs no second reading of a stream; None for a stream."""

    @abstractmethod
    def scan(self, reader: Reader) -> None:
        """Hand all records to a reader, in one pass.

        Raises:
            SourceError: the data cannot be read to their end; nothing about a record is said.
        """

    def count(self) -> int | None:
        """Count the units: the records, where each is one; see ``count_records``."""
        from dpbayes_cli.sources.contributions import UnitCounter

        found = self.count_records() if self._unit is None else None
        if self._unit is None or self.is_stream:
            return found
        counter = UnitCounter()
        self.scan(counter)
        return counter.units

    def read(self, reader: Reader) -> None:
        """Hand the records to a reader: all of them in one pass, or of each unit as many as count; see ``scan``.

        Units are held in memory, and large files are read several times, for a part of the units each.
        """
        from dpbayes_cli.sources.contributions import BoundedReader

        if self._unit is None:
            self.scan(reader)
            return
        parts = 1 if self.is_stream else self.parts
        for part in range(parts):
            self.scan(BoundedReader(reader, self._unit, part, parts))

    def statistics(self, statistic: Statistic, policy: RecordPolicy) -> Statistics:
        """Evaluate a statistic exactly, in one pass; see ``read``."""
        from dpbayes_cli.sources.tables import tally_for

        tally = tally_for(self._columns, statistic, policy)
        self.read(tally)
        return tally.evidence()

    @abstractmethod
    def close(self) -> None:
        """Release what is still open."""


def source_for(
    location: Location, dialect: Dialect, form: str | None, unit: UnitBound | None = None, master: str | None = None
) -> Source:
    """Return the source that reads a location.

    Args:
        location: the files.
        dialect: the layout of text files.
        form: ``csv`` or ``parquet``, or None: by the names of the files.
        unit: whose records are bounded; None: each record is a unit of its own.
        master: where the Spark is that reads them; None: the embedded engine does, or the server of a table.
    """
    if master is not None:
        from dpbayes_cli.sources.spark import SparkSource

        return SparkSource(location, master, unit)
    if isinstance(location, TableLocation):
        from dpbayes_cli.sources.postgres import PostgresSource

        return PostgresSource(location.address, unit)
    if (form or location.format) == "parquet":
        from dpbayes_cli.sources.parquet import ParquetSource

        return ParquetSource(location, unit)
    from dpbayes_cli.sources.delimited import DelimitedSource

    return DelimitedSource(location, dialect, unit)


def column_index(names: list[str], wanted: str | None) -> int:
    """Find a column by its name among public names, which are never repeated in a message.

    Raises:
        SourceError: not there, there twice, or not named though there are several.
    """
    if wanted is None:
        if len(names) != 1:
            raise SourceError("the file has more than one column", hint="name the column: --column NAME")
        return 0
    if names.count(wanted) > 1:
        raise SourceError(f"the header names the column {wanted!r} more than once")
    if wanted not in names:
        raise SourceError(
            f"the header has no column {wanted!r}",
            hint="names are compared exactly; for a file without header give --no-header and --columns",
        )
    return names.index(wanted)


def check_boolean(column: AnyColumn) -> None:
    """Refuse a boolean column whose declared domain its cells cannot match.

    Raises:
        SpecError: the levels are not ``true`` and ``false``.
    """
    levels = column.levels if isinstance(column, Column) else ()
    if not levels or not {"true", "false"} >= set(levels):
        raise SpecError(
            "the column is boolean, and its cells are the texts true and false",
            where="domain",
            hint="state them: --success true --failure false",
        )


def impute_code(column: AnyColumn, policy: RecordPolicy) -> int | None:
    """Return the code of the level or number that an invalid cell counts as, or None where it is dropped.

    Raises:
        SpecError: the stated value is not in the domain.
    """
    stated = policy.impute if column.impute is None else column.impute
    if stated is None:
        return None
    if isinstance(column, CutColumn):
        number = parse_number(stated)
        if number is None:
            raise SpecError(
                f"{stated!r} is no number, as {column.role} is",
                where=_place_of_impute(column),
                hint="impute any number: it counts in the interval that holds it",
            )
        return column.code(number)
    if isinstance(column, NumericColumn):
        number = parse_number(stated, integers=column.integers)
        if number is None or not column.lower <= number <= column.upper:
            raise SpecError(
                f"{stated!r} is not in the domain of the {column.role}",
                where=_place_of_impute(column),
                hint=f"impute a number from {column.lower:g} to {column.upper:g}",
            )
        code = column.code(number)
        if code is None:
            raise SpecError(f"{stated!r} is out of bounds", where=_place_of_impute(column))
        return code
    normal = [normal_cell(level) for level in column.levels]
    if normal_cell(stated) not in normal:
        raise SpecError(
            f"{stated!r} is not in the domain of the {column.role}",
            where=_place_of_impute(column),
            hint=f"impute one of: {', '.join(column.levels[:20])}",
        )
    return normal.index(normal_cell(stated))


def _place_of_impute(column: AnyColumn) -> str:
    """Return where a spec states what an invalid cell counts as."""
    return "on_invalid" if column.impute is None else f"{column.role}.impute"
