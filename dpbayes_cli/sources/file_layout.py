"""Guess the layout of a text file from its beginning: encoding, delimiter, quote, header. NOT PRIVATE.

A release never guesses. The guess is for ``dpbayes check``, which tells the custodian what to state.
"""

from __future__ import annotations

import codecs
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from dpbayes_cli.base.cell_grammar import BLANKS, parse_number
from dpbayes_cli.sources.records import Dialect, split_record

UTF8, UTF8_MARKED, UTF16, WINDOWS = "UTF-8", "UTF-8 with a byte-order mark", "UTF-16", "Windows-1252"
_CODECS = {UTF8: "utf-8", UTF8_MARKED: "utf-8-sig", UTF16: "utf-16", WINDOWS: "cp1252"}
_DELIMITERS = ",;\t|"
_COMMENT = re.compile(r"\s*(?:#|//|--)")
_HEAD_BYTES = 1 << 18
_BLOCK = 1 << 22
_MAX_HEAD_LINES = 200
_MAX_PREAMBLE = 20
"""So many lines above the header are looked at."""


@dataclass(frozen=True)
class FileLayout:
    """The guessed layout of a text file.

    Attributes:
        encoding: ``UTF8``, ``UTF8_MARKED``, ``UTF16`` or ``WINDOWS``.
        delimiter: the character between the fields of a line.
        quote: the character around texts.
        skipped: the number of lines above the header, such as comments.
        header: whether the first line of the table names the columns.
        names: the names of the columns; ``column1`` and so on without a header.
        lines: the number of lines of the file, the header and lines above it included.
    """

    encoding: str
    delimiter: str
    quote: str
    skipped: int
    header: bool
    names: tuple[str, ...]
    lines: int

    @property
    def codec(self) -> str:
        """The name of the encoding in Python."""
        return _CODECS[self.encoding]


def guess_layout(path: Path) -> FileLayout:
    """Return the guessed layout of a text file, which may be compressed by gzip; an empty file has no columns."""
    encoding, n_lines = _scan(path)
    with _opened(path) as stream:
        head = stream.read(_HEAD_BYTES)
    text = head.decode(_CODECS[encoding], "replace")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if len(head) == _HEAD_BYTES and len(lines) > 1:
        del lines[-1]  # cut in the middle
    lines = [line for line in lines if line.strip()][:_MAX_HEAD_LINES]
    skipped = 0
    while skipped < min(_MAX_PREAMBLE, len(lines)) and _COMMENT.match(lines[skipped]):
        skipped += 1
    table = lines[skipped:]
    quote = "'" if _quoted(table, "'") > _quoted(table, '"') else '"'
    delimiter = max(_DELIMITERS, key=lambda mark: _consistency(table, Dialect(mark, quote)))
    dialect = Dialect(delimiter, quote)
    if not table:
        return FileLayout(encoding, ",", '"', skipped, True, (), n_lines)
    usual = Counter(len(_fields(line, dialect)) for line in table).most_common(1)[0][0]
    title = 0
    while title < min(_MAX_PREAMBLE, len(table) - 1) and len(_fields(table[title], dialect)) < usual:
        title += 1  # a title above the header has fewer fields
    fields = [field.strip(BLANKS) for field in _fields(table[title], dialect)]
    header = not any(parse_number(field) is not None for field in fields)
    names = fields if header else [f"column{k + 1}" for k in range(len(fields))]
    return FileLayout(encoding, delimiter, quote, skipped + title, header, tuple(names), n_lines)


def _scan(path: Path) -> tuple[str, int]:
    """Return the encoding of a file and its number of lines, in one pass."""
    n_lines, last, is_utf8 = 0, b"\n", True
    decoder = codecs.getincrementaldecoder("utf-8")()
    encoding = UTF8
    for i, block in enumerate(_blocks(path)):
        if i == 0:
            if (
                block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                or block[:400].count(0) > len(block[:400]) / 4
            ):
                encoding = UTF16
            elif block.startswith(codecs.BOM_UTF8):
                encoding = UTF8_MARKED
        if encoding != UTF16 and is_utf8:
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                is_utf8 = False
        n_lines += block.count(b"\n")
        last = block[-1:]
    if encoding != UTF16 and not is_utf8:
        encoding = WINDOWS
    return encoding, n_lines + (last not in {b"\n", b"\x00"})


def _blocks(path: Path) -> Iterator[bytes]:
    with _opened(path) as stream:
        while block := stream.read(_BLOCK):
            yield block


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb"))


def _fields(line: str, dialect: Dialect) -> list[str]:
    return split_record(line, dialect) or line.split(dialect.delimiter)


def _quoted(lines: list[str], quote: str) -> int:
    """Return how many fields begin and end with a quote."""
    mark = re.escape(quote)
    return sum(
        len(re.findall(rf"(?:^|[{_DELIMITERS}])[ \t]*{mark}[^{mark}]*{mark}[ \t]*(?=$|[{_DELIMITERS}])", line))
        for line in lines
    )


def _consistency(lines: list[str], dialect: Dialect) -> tuple[float, int]:
    """Return the share of lines with the commonest number of fields, 0 if that is one field; and that number."""
    if not lines:
        return 0.0, 0
    (width, count), *_ = Counter(len(_fields(line, dialect)) for line in lines).most_common(1)
    return (count / len(lines) if width > 1 else 0.0), width
