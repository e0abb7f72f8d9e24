"""Delimited text files such as CSV: sanitized lines stream through a pipe into DuckDB."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import BinaryIO

from dpbayes_cli.base.cell_grammar import BLANKS, MAX_CELL_BYTES, POINT, NumberMarks
from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import DpbayesError, SourceError
from dpbayes_cli.core.columns import AnyColumn, Column
from dpbayes_cli.sources.file_mistakes import unusable_first_line
from dpbayes_cli.sources.lines import MAX_RECORD_BYTES, first_line, holds_control, record_blocks
from dpbayes_cli.sources.location import Location, opened
from dpbayes_cli.sources.reader import Cells, Reader, UnitBound
from dpbayes_cli.sources.records import (
    Dialect,
    cell_expression,
    field_text,
    line_settles,
    split_record,
    split_relation,
    with_point,
)
from dpbayes_cli.sources.source import Source, column_index, unreadable

LINE_READER = (
    "auto_detect=false, header=false, columns={'line': 'VARCHAR'}, delim='\x01', quote='', escape='', "
    f"new_line='\\n', max_line_size={4 * MAX_RECORD_BYTES}, buffer_size={16 * MAX_RECORD_BYTES}"
)
"""Options of DuckDB's reader of whole lines as one column: sanitized lines cannot hold its delimiter, the byte 1."""
_MAX_SEPARATE_CELLS = 3
"""Up to this many cells of a line are extracted one by one; if more cells are read, the line is split once."""
_PIPE_BYTES = 1 << 20
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
        self._indices: list[int] = []
        self._unit_index: int | None = None
        self._width = 1
        self._open = ExitStack()
        self._stream: BinaryIO | None = None

    @property
    def parts(self) -> int:
        """See ``Source.parts``."""
        return self._location.size // _PART_BYTES + 1

    def check(self, columns: Sequence[AnyColumn], names: Sequence[str | None]) -> None:
        """Resolve the columns by the header lines, which are public; see ``Source.check``."""
        if self.is_stream:
            path = self._location.paths[0] if self._location.paths else None
            self._stream = self._open.enter_context(opened(path))
            headers = [self._names(self._stream, self._location.text)]
        else:
            headers = []
            for path in self._location.paths:
                with opened(path) as stream:
                    headers.append(self._names(stream, str(path)))
        if any(header != headers[0] for header in headers):
            raise SourceError("the files have different headers")
        self._width, self._indices = len(headers[0]), [self._index(headers[0], name, others=names) for name in names]
        unit = self._unit
        self._unit_index = None if unit is None else self._index(headers[0], unit.column, by_position=False)
        self._columns = tuple(columns)
        with cursor(unreadable()):
            pass  # the engine starts, or aborts, before anything is charged

    def count_records(self) -> int | None:
        """Return the number of records of regular files; None for a stream."""
        return None if self.is_stream else sum(block.count(b"\n") for block in self._blocks())

    def is_empty(self) -> bool:
        """Return whether the files have no record, by reading only their first block; False for a stream."""
        return not self._location.is_stream and next(self._blocks(), None) is None

    def scan(self, reader: Reader) -> None:
        """Hand all records to a reader in one pass; see ``Source.scan``."""
        if not self._columns:
            raise ValueError("check first")
        indices = [*self._indices, *([] if self._unit_index is None else [self._unit_index])]
        split = len(indices) > _MAX_SEPARATE_CELLS
        if split:
            texts = [_short(field_text("fields", index, self._dialect)) for index in indices]
        else:
            cells = [cell_expression("line", index, self._width, self._dialect) for index in indices]
            is_short = f"strlen(line) <= {MAX_CELL_BYTES}"
            texts = [f"CASE WHEN {is_short} THEN {cell} ELSE {_short(cell)} END" for cell in cells]
        unit = None if self._unit_index is None else texts.pop()
        for i, column in enumerate(self._columns):
            if self._has_marks(column):
                texts[i] = with_point(texts[i], self._marks)
        texts_of_levels = self._columns[0].texts if isinstance(self._columns[0], Column) else ()
        first = "line" if line_settles(self._width, self._dialect, texts_of_levels) else None
        with piped(self._blocks()) as pipe, cursor(unreadable()) as engine:
            relation = f"read_csv('/dev/fd/{pipe.reader}', {LINE_READER})"
            if split:
                relation = split_relation(relation, "line", self._width, self._dialect)
            reader.run(engine, Cells(relation, texts, unit, first), pipe.cut)
        if reader.records > pipe.records or (unit is None and reader.records < pipe.records):
            raise SourceError("the engine counted a different number of records than were read; nothing is released")

    def close(self) -> None:
        """Close a stream that is still open."""
        self._open.close()

    def _index(
        self, names: list[str], wanted: str | None, *, by_position: bool = True, others: Sequence[str | None] = ()
    ) -> int:
        """Return the index of a column. Names from a file may be cells, so only stated names count as public."""
        file = str(self._location.paths[0]) if self._location.paths else "FILE"
        is_public = not self._dialect.header
        return column_index(names, wanted, file, is_public=is_public, by_position=by_position, others=others)

    def _names(self, stream: BinaryIO, file: str) -> list[str]:
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

    def _blocks(self) -> Iterator[bytes]:
        """Yield the sanitized records of all files in order."""
        quote = self._dialect.quote.encode("ascii") if self._dialect.quoted_newlines else b""
        if self._stream is not None:
            yield from record_blocks(self._stream, skip_header=False, quote=quote)
            return
        for path in self._location.paths:
            with opened(path) as stream:
                yield from record_blocks(stream, skip_header=self._dialect.header, quote=quote)


def _short(text: str) -> str:
    return f"CASE WHEN strlen({text}) <= {MAX_CELL_BYTES} THEN {text} END"


class _Pipe:
    """A pipe into which a thread writes the records.

    Attributes:
        reader: the file descriptor of the reading end.
        records: the number of records written so far.
    """

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.records = 0
        self._error: Exception | None = None
        self._done = False

    def feed(self, blocks: Iterator[bytes]) -> None:
        """Write all blocks, then close the writing end of the pipe."""
        try:
            with open(self._writer, "wb", buffering=0) as sink:  # noqa: PTH123 - a descriptor
                for block in blocks:
                    self.records += block.count(b"\n")
                    rest = memoryview(block)
                    while rest:
                        rest = rest[sink.write(rest) :]
        except BrokenPipeError:
            pass  # the engine stopped reading and says why
        except Exception as error:  # noqa: BLE001 - raised by the waiting thread
            self._error = error
        finally:
            self._done = True

    def cut(self) -> None:
        """End the engine's input, even while the writing thread waits; the reading end of the pipe stays open."""
        if not self._done:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._writer)
            os.close(null)

    def check(self) -> None:
        """Raise the error that ended the writing thread, but without a library's message, which might quote a cell."""
        if isinstance(self._error, DpbayesError):
            raise self._error
        if self._error is not None:
            raise SourceError("the data could not be read to the end", hint="is the file complete?") from None


@contextmanager
def piped(blocks: Iterator[bytes]) -> Iterator[_Pipe]:
    """Write blocks into a pipe from a thread.

    Raises:
        SourceError: the blocks could not be read to the end; this error replaces the engine's own error.
    """
    pipe = _Pipe()
    feeder = Thread(target=pipe.feed, args=(blocks,), name="feeder", daemon=True)
    feeder.start()
    failure: SourceError | None = None
    try:
        yield pipe
    except SourceError as error:
        failure = error
    finally:
        os.close(pipe.reader)
    feeder.join()
    pipe.check()
    if failure is not None:
        raise failure
