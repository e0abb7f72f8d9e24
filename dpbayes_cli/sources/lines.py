"""Physical lines as records: bytes become sanitized blocks of whole lines, and no record affects another.

DuckDB's CSV reader guesses the line ending from neighboring lines, drops lines that are too long or not UTF-8, and
splits lines at a lone carriage return. So one person's cell could change another person's record. Here a record ends
only at a line feed, and every byte that has a special meaning for the engine is replaced within its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 1 << 20
MAX_RECORD_BYTES = 1 << 20
"""A record with more bytes than this is invalid."""

INVALID = b"\x02"
"""Replaces any control byte inside a record. No declared level can hold this character, so the cell is invalid."""

_BOM = b"\xef\xbb\xbf"
_CONTROLS = bytes(b for b in range(0x20) if b not in (0x09, 0x0A)) + b"\x7f"
_TABLE = bytes.maketrans(_CONTROLS, INVALID * len(_CONTROLS))


def first_line(stream: BinaryIO) -> bytes | None:
    """Return the first physical line without its ending or byte-order mark; None if the stream is empty.

    A line of more than ``MAX_RECORD_BYTES`` bytes is cut a few bytes after this limit, so that the caller sees that the
    line is too long.
    """
    line = stream.readline(MAX_RECORD_BYTES + 8)
    if not line:
        return None
    return line.removeprefix(_BOM).removesuffix(b"\n").removesuffix(b"\r")


def holds_control(line: bytes) -> bool:
    """Return whether a line holds a byte that would make a cell invalid, such as a carriage return or NUL."""
    return line.translate(None, _CONTROLS) != line


def record_blocks(stream: BinaryIO, *, skip_header: bool, quote: bytes = b"") -> Iterator[bytes]:
    """Yield blocks of whole sanitized records, each record ended by one line feed.

    A line feed ends a record; a carriage return just before it is removed too. One byte-order mark at the beginning of
    any record is removed, because concatenated files may have such marks in the middle. Control bytes and other
    byte-order marks become ``INVALID``, bytes that are not UTF-8 become U+FFFD, and a record longer than
    ``MAX_RECORD_BYTES`` becomes the single character ``INVALID``. The number of records is the number of physical
    lines; a last line without a line feed counts if it is not empty. Memory use is bounded by the size of a block plus
    ``MAX_RECORD_BYTES``.

    Args:
        stream: binary, buffered.
        skip_header: whether the first line is a header and not a record.
        quote: the quote character, one byte, if quoted texts may span lines; otherwise empty. A line feed after an odd
            number of quotes does not end the record and becomes ``INVALID``.
    """
    carry = b""
    overlong = quoted = False
    while block := stream.read(BLOCK):
        if quote:
            block, quoted = _hide_quoted_newlines(block, quote, quoted)
        head, newline, tail = block.rpartition(b"\n")
        if not newline:
            carry, overlong = _extend(carry, tail, overlong)
            continue
        lines = _finish(carry, overlong, head)
        carry, overlong = _extend(b"", tail, False)
        if skip_header:
            _, _, lines = lines.partition(b"\n")
            skip_header = False
        if lines:
            yield _sanitized(lines)
    if (carry or overlong) and not skip_header:
        yield _sanitized(_finish(carry, overlong, b""))


def _extend(carry: bytes, tail: bytes, overlong: bool) -> tuple[bytes, bool]:
    """Add to an unfinished record, dropping its bytes once it is too long."""
    if overlong or len(carry) + len(tail) > MAX_RECORD_BYTES:
        return b"", True
    return carry + tail, False


def _finish(carry: bytes, overlong: bool, head: bytes) -> bytes:
    """Join an unfinished record with the piece that ends the record; the result ends with a line feed."""
    if overlong:
        _, newline, rest = head.partition(b"\n")
        return INVALID + newline + rest + b"\n"
    return carry + head + b"\n"


def _hide_quoted_newlines(block: bytes, quote: bytes, quoted: bool) -> tuple[bytes, bool]:
    """Replace the line feeds inside quotes; ``quoted`` says whether the block begins inside quotes."""
    if quote not in block:
        return (block.replace(b"\n", INVALID) if quoted else block), quoted
    parts = block.split(quote)
    for i in range(0 if quoted else 1, len(parts), 2):
        parts[i] = parts[i].replace(b"\n", INVALID)
    return quote.join(parts), quoted ^ (len(parts) % 2 == 0)


def _sanitized(lines: bytes) -> bytes:
    """Replace bytes that have a special meaning for the engine, in each line independently."""
    position = 0
    while len(lines) - position > MAX_RECORD_BYTES:
        end = lines.rfind(b"\n", position, position + MAX_RECORD_BYTES + 1)
        if end < 0:
            end = lines.find(b"\n", position)
            lines = lines[:position] + INVALID + lines[end:]
            position += 2
        else:
            position = end + 1
    if b"\r" in lines:
        lines = lines.replace(b"\r\n", b"\n")
    lines = lines.translate(_TABLE)
    if _BOM in lines:
        lines = lines.removeprefix(_BOM).replace(b"\n" + _BOM, b"\n").replace(_BOM, INVALID)
    try:
        lines.decode("utf-8")
    except UnicodeDecodeError:
        lines = lines.decode("utf-8", "replace").encode("utf-8")
    return lines
