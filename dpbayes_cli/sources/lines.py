"""Physical lines as records: bytes become sanitized blocks of whole lines, and no record affects another.

DuckDB's CSV reader guesses the line ending from neighboring lines, drops lines that are not UTF-8 or too long, and
splits on a lone carriage return, so one person's cell could change another's record. Here a record ends at a line
feed and nowhere else, and every byte that the engine could take for more than text is replaced within its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 1 << 20
MAX_RECORD_BYTES = 1 << 20
"""A record of more bytes is invalid."""

INVALID = b"\x02"
"""Stands for any control byte inside a record; no declared level can hold it, so the cell is invalid."""

_BOM = b"\xef\xbb\xbf"
_CONTROLS = bytes(b for b in range(0x20) if b not in (0x09, 0x0A)) + b"\x7f"
_TABLE = bytes.maketrans(_CONTROLS, INVALID * len(_CONTROLS))


def first_line(stream: BinaryIO) -> bytes | None:
    """Return the first physical line without its ending or byte-order mark, or None if there is none.

    A line of more than ``MAX_RECORD_BYTES`` bytes is cut a few bytes later, so the caller sees that it is too long.
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

    A line feed ends a record; a carriage return before it belongs to the ending. One byte-order mark at the beginning
    of any record is removed (files that begin with one are often joined). Control bytes and other byte-order marks
    become ``INVALID``, bytes that are not UTF-8 become U+FFFD, a record longer than ``MAX_RECORD_BYTES`` becomes
    ``INVALID`` alone. The number of records yielded is the number of physical lines (a last line without a line feed
    counts, an empty remainder does not). Memory is bounded by the block and the longest record.

    Args:
        stream: binary, buffered.
        skip_header: whether the first line is a header and not a record.
        quote: if it is one byte, records are parsed instead of physical: a line feed between the file's odd quotes and
            the next ones belongs to its record, as ``INVALID``.
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
    """Join an unfinished record with the block that ends it; the result ends in a line feed."""
    if overlong:
        _, newline, rest = head.partition(b"\n")
        return INVALID + newline + rest + b"\n"
    return carry + head + b"\n"


def _hide_quoted_newlines(block: bytes, quote: bytes, quoted: bool) -> tuple[bytes, bool]:
    """Replace the line feeds inside quotes; ``quoted`` says whether the block begins inside."""
    if quote not in block:
        return (block.replace(b"\n", INVALID) if quoted else block), quoted
    parts = block.split(quote)
    for i in range(0 if quoted else 1, len(parts), 2):
        parts[i] = parts[i].replace(b"\n", INVALID)
    return quote.join(parts), quoted ^ (len(parts) % 2 == 0)


def _sanitized(lines: bytes) -> bytes:
    """Make whole lines harmless, each independently of the others."""
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
