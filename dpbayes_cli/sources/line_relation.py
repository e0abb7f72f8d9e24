"""Lines of text files as a relation of DuckDB, which reads them from a pipe, for looking at a file before a release."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from dpbayes_cli.base.errors import DpbayesError, SourceError
from dpbayes_cli.sources.lines import MAX_RECORD_BYTES
from dpbayes_cli.sources.records import Dialect, literal, without_blanks

LINE_READER = (
    "auto_detect=false, header=false, columns={'line': 'VARCHAR'}, delim='\x01', quote='', escape='', "
    f"new_line='\\n', max_line_size={4 * MAX_RECORD_BYTES}, buffer_size={16 * MAX_RECORD_BYTES}"
)
"""Options of DuckDB's reader of whole lines as one column: sanitized lines cannot hold its delimiter, the byte 1."""
_PIPE_BYTES = 1 << 20


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
def pipe_blocks(blocks: Iterator[bytes]) -> Iterator[_Pipe]:
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


def split_relation(relation: str, line: str, width: int, dialect: Dialect) -> str:
    """Return the relation of the records' ``fields``, a list of texts with their quotes, NULL for a malformed record.

    Each record is split once instead of once per cell; ``field_text`` gives the text of a field.

    Args:
        relation: a FROM clause with one row per line.
        line: an expression for the line.
        width: the number of fields that a record must have.
        dialect: the delimiter and the quote.
    """
    matches, quoted = _quoted_fields(line, dialect)
    plain = f"string_split({line}, {literal(dialect.delimiter)})"
    split = f"CASE WHEN NOT contains({line}, {literal(dialect.quote)}) THEN {plain} WHEN {matches} THEN {quoted} END"
    lists = f"(SELECT {split} AS split FROM {relation})"
    return f"(SELECT CASE WHEN len(split) = {width} THEN split END AS fields FROM {lists})"


def field_text(fields: str, index: int, dialect: Dialect) -> str:
    """Return a DuckDB expression for the text of a field, without its quotes."""
    piece, q = f"{fields}[{index + 1}]", literal(dialect.quote)
    trimmed = without_blanks(piece)
    inner = f"replace(substr({trimmed}, 2, length({trimmed}) - 2), {q} || {q}, {q})"
    return f"CASE WHEN contains({piece}, {q}) THEN {inner} ELSE {piece} END"


def _quoted_fields(line: str, dialect: Dialect) -> tuple[str, str]:
    """Return two expressions for a line with quotes: whether it is well-formed, and its fields with their quotes."""
    field, d = dialect.field_pattern, re.escape(dialect.delimiter)
    whole = literal(f"(?:{field})(?:{d}(?:{field}))*")
    delimited_field = literal(f"{d}({field})")
    # A delimiter is put before the first field, because after an empty match the engine skips a character.
    pieces = f"regexp_extract_all({literal(dialect.delimiter)} || {line}, {delimited_field}, 1)"
    return f"regexp_full_match({line}, {whole})", pieces
