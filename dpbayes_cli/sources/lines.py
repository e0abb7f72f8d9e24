"""Physical lines as records: a file becomes blocks of whole records, and no record affects another.

A record ends only at a line feed. What its bytes mean is decided record by record (``clean_line``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

BLOCK = 1 << 18
MAX_RECORD_BYTES = 1 << 20
"""A record with more bytes than this is invalid."""

INVALID = b"\x02"
"""Replaces any control byte inside a record. No declared level can hold this character, so the cell is invalid."""

BOM = b"\xef\xbb\xbf"
_CONTROLS = bytes(b for b in range(0x20) if b not in (0x09, 0x0A)) + b"\x7f"
_LINES_TABLE = bytes.maketrans(_CONTROLS, INVALID * len(_CONTROLS))
_TABLE = bytes.maketrans(_CONTROLS + b"\n", INVALID * (len(_CONTROLS) + 1))


def first_line(stream: BinaryIO) -> bytes | None:
    """Return the first physical line without its ending or byte-order mark; None if the stream is empty.

    A line of more than ``MAX_RECORD_BYTES`` bytes is cut a few bytes after this limit, so that the caller sees that the
    line is too long.
    """
    line = stream.readline(MAX_RECORD_BYTES + 8)
    if not line:
        return None
    return line.removeprefix(BOM).removesuffix(b"\n").removesuffix(b"\r")


def holds_control(line: bytes) -> bool:
    """Return whether a line holds a byte that would make a cell invalid, such as a carriage return or NUL."""
    return line.translate(None, _CONTROLS) != line


def record_blocks(
    stream: BinaryIO, *, skip_header: bool, quote: bytes = b"", max_bytes: int = MAX_RECORD_BYTES
) -> Iterator[bytes]:
    """Yield blocks of whole records, each record ended by one line feed.

    The number of records is the number of physical lines; a last line without a line feed counts if it is not empty. A
    record longer than ``max_bytes`` becomes the single character ``INVALID``. Memory use is bounded by the size of a
    block plus ``max_bytes``.

    Args:
        stream: binary, buffered.
        skip_header: whether the first line is a header and not a record.
        quote: the quote character, one byte, if quoted texts may span lines; otherwise empty. A line feed after an odd
            number of quotes does not end the record and becomes ``INVALID``.
        max_bytes: the largest number of bytes of a record.
    """
    carry = b""
    overlong = quoted = False
    while block := stream.read(BLOCK):
        if quote:
            block, quoted = _hide_quoted_newlines(block, quote, quoted)
        first = block.find(b"\n") + 1
        if not first:
            overlong = overlong or len(carry) + len(block) > max_bytes
            carry = b"" if overlong else carry + block
            continue
        if overlong or len(carry) + first > max_bytes + 1:
            carry, block = INVALID, block[first - 1 :]
        end = block.rfind(b"\n") + 1
        lines, carry, overlong = carry + block[:end], block[end:], False
        if skip_header:
            lines, skip_header = lines[lines.find(b"\n") + 1 :], False
        if lines:
            yield lines
    if (carry or overlong) and not skip_header:
        yield (INVALID if overlong else carry) + b"\n"


def _hide_quoted_newlines(block: bytes, quote: bytes, quoted: bool) -> tuple[bytes, bool]:
    """Replace the line feeds inside quotes; ``quoted`` says whether the block begins inside quotes."""
    if quote not in block:
        return (block.replace(b"\n", INVALID) if quoted else block), quoted
    array = np.frombuffer(block, np.uint8)
    inside = np.bitwise_xor.accumulate(array == quote[0]) ^ quoted
    hidden = np.where((array == 10) & inside, np.uint8(INVALID[0]), array)  # 10 is a line feed
    return hidden.tobytes(), bool(inside[-1])


def clean_line(line: bytes) -> str:
    """Return the text of a record, without one byte-order mark at its beginning and one carriage return at its end.

    Concatenated files may have byte-order marks in the middle.
    """
    return clean_cell(line.removesuffix(b"\r").removeprefix(BOM))


def clean_cell(cell: bytes) -> str:
    """Return the text of a cell: control bytes and byte-order marks become ``INVALID``, bytes not in UTF-8 U+FFFD."""
    if cell.isalnum():  # ASCII letters and digits
        return cell.decode("ascii")
    return cell.translate(_TABLE).replace(BOM, INVALID).decode("utf-8", "replace")


def clean_lines(lines: bytes) -> bytes:
    """Return whole records in which every line is the text that ``clean_line`` returns, in UTF-8."""
    lines = lines.replace(b"\r\n", b"\n").translate(_LINES_TABLE)
    if BOM in lines:
        lines = lines.removeprefix(BOM).replace(b"\n" + BOM, b"\n").replace(BOM, INVALID)
    return lines.decode("utf-8", "replace").encode("utf-8")
