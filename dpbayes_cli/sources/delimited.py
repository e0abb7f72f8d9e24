"""Delimited text files such as CSV, read block by block in fixed memory."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import BinaryIO

from dpbayes_cli.base.cell_grammar import BLANKS, POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.file_mistakes import unusable_first_line
from dpbayes_cli.sources.lines import MAX_RECORD_BYTES, first_line, holds_control, record_blocks
from dpbayes_cli.sources.location import Location, open_bytes
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.records import Dialect, split_record
from dpbayes_cli.sources.source import Source

_PART_BYTES = 1 << 26
"""Privacy units are read in one part for every 64 MiB of files; ten million short records then take 2 GB of memory."""


class DelimitedSource(Source):
    """Text files; a record is a physical line or, if quoted texts may span lines, a parsed record."""

    def __init__(
        self, location: Location, dialect: Dialect, unit: UnitBound | None = None, marks: NumberMarks = POINT
    ) -> None:
        super().__init__(unit, marks)
        self._location, self._dialect = location, dialect
        self.is_stream = location.is_stream
        self.record_unit = "parsed record" if dialect.quoted_newlines else "physical line"
        self._is_public = not dialect.header
        self._file = str(location.paths[0]) if location.paths else "FILE"
        self._width = 1
        self._open = ExitStack()
        self._stream: BinaryIO | None = None

    @property
    def parts(self) -> int:
        """See ``Source.parts``."""
        return self._location.size // _PART_BYTES + 1

    def _header(self) -> list[str]:
        """Read the header lines, which are public."""
        if self.is_stream:
            path = self._location.paths[0] if self._location.paths else None
            self._stream = self._open.enter_context(open_bytes(path))
            headers = [self._header_of(self._stream, self._location.text)]
        else:
            headers = []
            for path in self._location.paths:
                with open_bytes(path) as stream:
                    headers.append(self._header_of(stream, str(path)))
        if any(header != headers[0] for header in headers):
            raise SourceError("the files have different headers", hint="give all files the same header")
        self._width = len(headers[0])
        return headers[0]

    def _check_type(self, name: str, column: AnyColumn | None) -> None:
        """Do nothing: all cells are texts."""

    def count_records(self) -> int | None:
        """Return the number of records of regular files; None for a stream."""
        return self.count_up_to(sys.maxsize)

    def count_up_to(self, most: int) -> int | None:
        """Return the number of records, by reading only the first blocks with ``most`` records; None for a stream."""
        if self.is_stream:
            return None
        count, lines = 0, self._lines()
        while count < most and (block := next(lines, None)):
            count += block.count(b"\n")
        return count

    def close(self) -> None:
        """Close a stream that is still open."""
        self._open.close()

    def _header_of(self, stream: BinaryIO, file: str) -> list[str]:
        if not self._dialect.header:
            return list(self._dialect.names)
        line = first_line(stream)
        if line is None:
            raise SourceError(
                f"the file {file!r} is empty: it has no header line",
                hint="export it again; an empty file often means that an export failed",
            )
        if len(line) > MAX_RECORD_BYTES:
            raise SourceError(f"the header line is longer than {MAX_RECORD_BYTES >> 20} MiB")
        try:
            fields = None if holds_control(line) else split_record(line.decode("utf-8"), self._dialect)
        except UnicodeDecodeError:
            fields = None
        if fields is None:
            raise unusable_first_line(line, file)
        return [field.strip(BLANKS) for field in fields]

    def _blocks(self) -> Generator[CellBlock]:
        """See ``Source._blocks``."""
        for lines in self._lines():
            yield CellBlock(lines, self._dialect, self._width, self._places)

    def _lines(self) -> Iterator[bytes]:
        """Yield the records of all files in order."""
        quote = self._dialect.quote.encode("ascii") if self._dialect.quoted_newlines else b""
        if self._stream is not None:
            yield from record_blocks(self._stream, skip_header=False, quote=quote)
            return
        for path in self._location.paths:
            with open_bytes(path) as stream:
                yield from record_blocks(stream, skip_header=self._dialect.header, quote=quote)
