"""Data sources: check public facts before the charge, and read the records as integer codes after the charge."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import BinaryIO

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, POINT, NumberMarks, parse_number
from dpbayes_cli.base.errors import DpbayesError, SourceError, SpecError
from dpbayes_cli.core.columns import AnyColumn, Column, RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence, FoundGroups, ProductOf, Statistic, SumsByGroup, TableCounts
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.cell_codes import TextRecords, coder_of
from dpbayes_cli.sources.contributions import BoundedReader, UnitCounter
from dpbayes_cli.sources.file_mistakes import has_blanks_between_names, looks_like_no_header, missing_column
from dpbayes_cli.sources.group_tally import GroupTally, KeyTally
from dpbayes_cli.sources.lines import record_blocks
from dpbayes_cli.sources.reader import Reader, UnitBound
from dpbayes_cli.sources.records import Dialect
from dpbayes_cli.sources.tally import CodeTally, SumTally, TableTally, Tally

_QUOTED = Dialect(quoted_newlines=True)
_POSITION = re.compile("[1-9][0-9]{0,5}", re.ASCII)


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

    def __init__(self, unit: UnitBound | None = None, marks: NumberMarks = POINT) -> None:
        self._unit, self._marks = unit, marks
        self._columns: tuple[AnyColumn, ...] = ()
        self._places: list[int] = []
        self._names: list[str] = []

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
        available, unit = self._header(), [] if self._unit is None else [self._unit.column]
        wanted = [*names, *unit]
        self._places = [
            column_index(
                available, name, self._file, is_public=self._is_public, by_position=i < len(names), others=wanted
            )
            for i, name in enumerate(wanted)
        ]
        self._names = [available[place] for place in self._places]
        for name, column in zip(self._names, [*columns, *(None for _ in unit)], strict=True):
            self._check_type(name, column)
        self._columns = tuple(columns)

    _file = ""
    """A file whose header holds the names, as the user types it; empty for a table."""
    _is_public = True
    """Whether the names of the columns come from a schema or the user; names in a file may be cells."""

    @abstractmethod
    def _header(self) -> list[str]:
        """Return the names of all columns."""

    @abstractmethod
    def _check_type(self, name: str, column: AnyColumn | None) -> None:
        """Refuse a column whose type has no text form, or cannot match its domain.

        Args:
            name: the name of the column in the data.
            column: its domain; None for the privacy units.
        """

    @property
    def parts(self) -> int:
        """The number of parts into which the privacy units are divided, so that each part fits into memory."""
        return 1

    @abstractmethod
    def count_records(self) -> int | None:
        """Return the number of records; None for a stream, which cannot be read twice."""

    def count_up_to(self, most: int) -> int | None:
        """Return the number of records, or ``most`` or more if there are so many; None for a stream.

        Call it only if the number of records is public.
        """
        return self.count_records()

    def scan(self, reader: Reader) -> None:
        """Hand all records to a reader, in one pass.

        Raises:
            SourceError: the data cannot be read to the end; the message reveals nothing about a record.
        """
        blocks = self._blocks()
        if not self._columns:
            raise ValueError("check first")
        coders = [coder_of(column, self._marks_of(i)) for i, column in enumerate(reader.columns or self._columns)]
        try:
            with closing(blocks):
                reader.read(TextRecords(block, coders) for block in blocks)
        except (DpbayesError, BrokenPipeError):  # a reader may print records, and whoever reads these may stop
            raise
        except Exception:  # noqa: BLE001 - its text might quote a cell
            raise unreadable() from None

    @abstractmethod
    def _blocks(self) -> Generator[CellBlock]:
        """Yield blocks of the cells of the columns and, last, of the privacy units."""

    def _marks_of(self, i: int) -> NumberMarks:
        """Return the marks of the numbers of a column."""
        return self._marks

    def count(self) -> int | None:
        """Return the number of privacy units, or of records if each record is a unit; None for a stream."""
        if self._unit is None or self.is_stream:
            return self.count_records() if self._unit is None else None
        counter = UnitCounter()
        self.scan(counter)
        return counter.units

    def read(self, reader: Reader) -> None:
        """Hand the records to a reader: all records or, if contributions are bounded, the kept records of each unit.

        Choosing the kept records takes memory for each unit. Therefore, a large file is read several times, each time
        for one part of the units.
        """
        if self._unit is None:
            self.scan(reader)
            return
        parts = 1 if self.is_stream else self.parts
        for part in range(parts):
            self.scan(BoundedReader(reader, self._unit, part, parts))

    def statistics(self, statistic: Statistic, policy: RecordPolicy) -> ExactEvidence:
        """Evaluate a statistic exactly; see ``read``."""
        tally = self._tally(statistic, policy)
        self.read(tally)
        return tally.statistics()

    def _tally(self, statistic: Statistic, policy: RecordPolicy) -> Tally:
        """Return what evaluates a statistic."""
        if not self._columns:
            raise ValueError("check first")
        first = statistic.expressions[0]
        if isinstance(first, TableCounts):
            return TableTally(self._columns, statistic, policy)
        if isinstance(first, FoundGroups):
            return KeyTally(self._columns, policy)
        if isinstance(first, SumsByGroup):
            return GroupTally(self._columns, statistic, policy)
        if isinstance(first, ProductOf):
            return SumTally(self._columns, statistic, policy)
        return CodeTally(self._columns, statistic, policy)

    @abstractmethod
    def close(self) -> None:
        """Close open files and connections."""


def cell_blocks(stream: BinaryIO, n_columns: int) -> Iterator[CellBlock]:
    """Yield blocks of the cells of a table, given as CSV by an engine that quotes cells with line feeds.

    Args:
        stream: the records.
        n_columns: the number of cells of a record.
    """
    longest = (2 * MAX_CELL_BYTES + 3) * n_columns
    for lines in record_blocks(stream, skip_header=False, quote=b'"', max_bytes=longest):
        yield CellBlock(lines, _QUOTED, n_columns, range(n_columns), are_lines=False)


def column_index(
    names: Sequence[str],
    wanted: str | None,
    file: str = "",
    *,
    is_public: bool = True,
    by_position: bool = True,
    others: Sequence[str | None] = (),
) -> int:
    """Return the index of a column among the names in the data.

    If any column has a number as its name, positions are refused: the name may be misspelled, or the first line may be
    a record instead of a header. Privacy units are never named by position, because the same position may hold another
    column in other data of the account.

    Args:
        names: the names of the columns in the data.
        wanted: the name that the user stated; None for the only column, if possible besides the ``others``.
        file, is_public: see ``missing_column``.
        by_position: whether ``wanted`` may be the position of a column, counted from 1.
        others: the names of other columns that are read.

    Raises:
        SourceError: the column is missing, several columns have its name, or no name is stated although there are
            several columns.
    """
    is_name = is_public or not (looks_like_no_header(names) or has_blanks_between_names(names))
    unnamed = [i for i, name in enumerate(names) if name not in others] or range(len(names))
    if wanted is None and len(unnamed) == 1 and is_name:
        return unnamed[0]
    if wanted is not None and names.count(wanted) == 1:
        return names.index(wanted)
    may_be_position = by_position and wanted is not None and wanted not in names
    if may_be_position and all(parse_number(name) is None for name in names):
        position = int(wanted) if wanted is not None and _POSITION.fullmatch(wanted) else 0
        if 0 < position <= len(names):
            return position - 1
    raise missing_column(names, wanted, file, is_public=is_public)


def check_boolean(column: AnyColumn) -> None:
    """Refuse a declared domain that a boolean column cannot match.

    Raises:
        SpecError: the column has levels that are neither ``true`` nor ``false``.
    """
    if isinstance(column, Column) and column.finds_keys:
        return
    texts = column.texts if isinstance(column, Column) else {}
    if {texts[text] for text in ("true", "false") if text in texts} != set(texts.values()) or not texts:
        raise SpecError(
            "the column is boolean: its values are true and false",
            where="domain",
            hint="declare these values, e.g. --success true --failure false",
        )
