"""A data source: before the charge only public facts are checked; after the charge the records are read as integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.core.columns import AnyColumn, Column, RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence, Statistic
from dpbayes_cli.sources.reader import Reader, UnitBound


def unreadable() -> SourceError:
    """Return the error for data that the engine cannot read; its message gives no reason, which might quote a cell."""
    return SourceError("the engine could not read the data", hint="is the file complete?")


class Source(ABC):
    """One data set, read by one engine.

    ``check`` uses only public facts (existence, permissions, header or schema) and runs before the charge;
    ``statistics`` reads the records once. No message depends on a record.

    Attributes:
        is_stream: whether the data can be read only once.
        hands_over_records: whether records can be read one by one; see ``scan``.
        record_unit: what a record is, for the report: a physical line, a parsed record or a row.
    """

    is_stream = False
    hands_over_records = True
    record_unit = "row"

    def __init__(self, unit: UnitBound | None = None) -> None:
        self._unit = unit
        self._columns: tuple[AnyColumn, ...] = ()

    @abstractmethod
    def check(self, columns: Sequence[AnyColumn], names: Sequence[str | None]) -> None:
        """Find the columns that the model reads, and refuse data that cannot match the declared domain.

        Args:
            columns: the columns that the model reads.
            names: the names of these columns in the file; None for the only column of a file.

        Raises:
            SourceError: a column is missing, the header is malformed, the files differ in their columns, or a type
                cannot be read as text.
            SpecError: the declared domain cannot match the column's type.
        """

    @property
    def parts(self) -> int:
        """The number of parts into which the privacy units are divided, so that each part fits into memory."""
        return 1

    @abstractmethod
    def count_records(self) -> int | None:
        """Return the number of records; None for a stream, which cannot be read twice."""

    def is_empty(self) -> bool:
        """Return whether there is no record; False for a stream. Only for data whose number of records is public."""
        return self.count_records() == 0

    @abstractmethod
    def scan(self, reader: Reader) -> None:
        """Hand all records to a reader, in one pass.

        Raises:
            SourceError: the data cannot be read to the end; the message reveals nothing about a record.
        """

    def count(self) -> int | None:
        """Return the number of privacy units, or of records if each record is a unit; None for a stream."""
        from dpbayes_cli.sources.contributions import UnitCounter

        if self._unit is None or self.is_stream:
            return self.count_records() if self._unit is None else None
        counter = UnitCounter()
        self.scan(counter)
        return counter.units

    def read(self, reader: Reader) -> None:
        """Hand the records to a reader: all records or, if contributions are bounded, the kept records of each unit.

        Choosing the kept records takes memory for each unit, so that large files are read several times, each time for
        one part of the units.
        """
        from dpbayes_cli.sources.contributions import BoundedReader

        if self._unit is None:
            self.scan(reader)
            return
        parts = 1 if self.is_stream else self.parts
        for part in range(parts):
            self.scan(BoundedReader(reader, self._unit, part, parts))

    def statistics(self, statistic: Statistic, policy: RecordPolicy) -> ExactEvidence:
        """Evaluate a statistic exactly; see ``read``."""
        from dpbayes_cli.sources.packed_codes import TableTally
        from dpbayes_cli.sources.statements import Tally

        tally: Tally | TableTally = (TableTally if statistic.tables else Tally)(self._columns, statistic, policy)
        self.read(tally)
        return tally.statistics()

    @abstractmethod
    def close(self) -> None:
        """Close open files and connections."""


def column_index(names: list[str], wanted: str | None) -> int:
    """Return the index of a column among the names in the file; error messages do not list these names.

    Raises:
        SourceError: the column is missing, several columns have its name, or no name is stated although there are
            several columns.
    """
    other_marks = [mark for mark in ";\t|" if mark in names[0]] if len(names) == 1 else []
    if other_marks and wanted not in names:
        mark = other_marks[0]
        raise SourceError(
            f"the header is a single field that holds {mark!r}, which seems to separate columns",
            hint=f"--delimiter {'tab' if mark == chr(9) else repr(mark)}; dpbayes check FILE shows the header",
        )
    if wanted is None:
        if len(names) != 1:
            raise SourceError(
                "the file has more than one column, and none of them was chosen", hint="name the column: --column NAME"
            )
        return 0
    if names.count(wanted) > 1:
        raise SourceError(f"the header names the column {wanted!r} more than once", hint="rename one of them")
    if wanted not in names:
        similar = wanted.strip().casefold() in (name.strip().casefold() for name in names)
        raise SourceError(
            f"the header has no column {wanted!r}"
            + (", but one whose name differs in blanks or in upper and lower case" if similar else ""),
            hint="dpbayes check FILE shows the header"
            + ("" if similar else "; for a file without header give --no-header and --columns"),
        )
    return names.index(wanted)


def check_boolean(column: AnyColumn) -> None:
    """Refuse a declared domain that a boolean column cannot match.

    Raises:
        SpecError: the levels are not ``true`` and ``false``.
    """
    levels = column.levels if isinstance(column, Column) else ()
    if not levels or not {"true", "false"} >= set(levels):
        raise SpecError(
            "the column is boolean: its values are true and false",
            where="domain",
            hint="declare these values, e.g. --success true --failure false",
        )
