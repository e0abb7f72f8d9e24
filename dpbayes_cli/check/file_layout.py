"""Guess the layout of a text file from its beginning: encoding, delimiter, quote, header. NOT PRIVATE.

A release never guesses. The guess is for ``dpbayes check``, which tells the custodian what to state.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from dpbayes_cli.base.cell_grammar import BLANKS, POINT, NumberMarks, parse_number
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.sources.file_mistakes import foreign_format
from dpbayes_cli.sources.lines import clean_lines, first_line, record_blocks
from dpbayes_cli.sources.location import open_bytes
from dpbayes_cli.sources.records import Dialect, split_record

UTF8, UTF8_MARKED, UTF16, WINDOWS = "UTF-8", "UTF-8 with a byte-order mark", "UTF-16", "Windows-1252"
_CODECS = {UTF8: "utf-8", UTF8_MARKED: "utf-8-sig", UTF16: "utf-16", WINDOWS: "cp1252"}
_DELIMITERS = ",;\t|"
_COMMENT = re.compile(r"\s*(?:#|//|--)")
_MARKS = tuple(NumberMarks(marks[0], marks[1:]) for marks in (".,", ",", ".'", ". ", "._", ",.", ", ", ",'"))
"""The decimal and thousands marks to try besides a plain point; of those that fit most cells, the first is chosen."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", ".", "-")
"""Common spellings of a missing value."""
_HEAD_BYTES = 1 << 18
_BLOCK = 1 << 22
_MAX_HEAD_LINES = 200
_MAX_PREAMBLE = 20
"""At most this many lines above the header are skipped."""


@dataclass(frozen=True)
class FileLayout:
    """The guessed layout of a text file.

    Attributes:
        encoding: ``UTF8``, ``UTF8_MARKED``, ``UTF16`` or ``WINDOWS``.
        delimiter: the character between the fields of a line.
        quote: the character that encloses quoted texts.
        skipped: the number of lines above the header, such as comments.
        header: whether the first line of the table names the columns.
        names: the names of the columns; ``column1``, ``column2``, ... if there is no header.
        lines: the number of lines of the file, including the header and the lines above it.
        marks: the decimal and thousands marks of the numbers.
        mixed_ends: whether some lines end with CR LF and others with LF; a release reads both.
        quoted_newlines: whether a quoted text may span lines; never guessed.
    """

    encoding: str
    delimiter: str
    quote: str
    skipped: int
    header: bool
    names: tuple[str, ...]
    lines: int
    marks: NumberMarks = POINT
    mixed_ends: bool = False
    quoted_newlines: bool = False

    @property
    def codec(self) -> str:
        """The name of the encoding in Python."""
        return _CODECS[self.encoding]

    @property
    def is_utf8(self) -> bool:
        """Whether a release can read the encoding."""
        return self.encoding in {UTF8, UTF8_MARKED}

    def with_quoted_newlines(self, path: Path) -> FileLayout:
        """Return the layout if a quoted text may span lines: ``lines`` then counts records."""
        layout = replace(self, quoted_newlines=True)
        return replace(layout, lines=sum(block.count(b"\n") for block in layout_lines(path, layout)))


def guess_layout(path: Path) -> FileLayout:
    """Return the guessed layout of a text file, which may be compressed by gzip; an empty file has no columns.

    Raises:
        SourceError: the file cannot be read, or is not a text file.
    """
    with open_bytes(path) as stream:
        if error := foreign_format(stream.read(4), str(path)):
            raise error
    encoding, n_lines, mixed_ends = _scan(path)
    with open_bytes(path) as stream:
        head = stream.read(_HEAD_BYTES)
    text = head.decode(_CODECS[encoding], "replace")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if len(head) == _HEAD_BYTES and len(lines) > 1:
        del lines[-1]  # incomplete
    numbered = [(i, line) for i, line in enumerate(lines) if line.strip()][:_MAX_HEAD_LINES]
    skipped = 0
    while skipped < min(_MAX_PREAMBLE, len(numbered)) and _COMMENT.match(numbered[skipped][1]):
        skipped += 1
    table = [line for _, line in numbered[skipped:]]
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
    records = [_fields(line, dialect) for line in table[title + 1 :]]
    marks = guess_marks((field for r in records if len(r) == usual for field in r), delimiter)
    header = _names_columns(fields, records, marks)
    names = fields if header else [f"column{k + 1}" for k in range(len(fields))]
    above = numbered[skipped + title][0]
    return FileLayout(encoding, delimiter, quote, above, header, tuple(names), n_lines, marks, mixed_ends)


def _names_columns(fields: list[str], records: list[list[str]], marks: NumberMarks) -> bool:
    """Return whether the first line is a header: it holds no number, or a text stands above a column of numbers."""

    def is_number(field: str) -> bool:
        return any(parse_number(field, marks=each) is not None for each in (POINT, marks))

    if not any(map(is_number, fields)):
        return True
    columns = zip(fields, zip(*(record for record in records if len(record) == len(fields)), strict=True), strict=False)
    return any(
        field not in MISSING and not is_number(field) and sum(map(is_number, cells)) > len(cells) / 2
        for field, cells in columns
    )


def guess_marks(cells: Iterable[str], delimiter: str = ",") -> NumberMarks:
    """Return the decimal and thousands marks under which most cells are numbers; in a tie, a plain point.

    If the delimiter is a semicolon, ``1,234`` is read as 1.234, otherwise as 1234. ``0,123`` is never read as 123.
    """
    stripped = [cell.strip(BLANKS) for cell in cells]
    texts = [cell for cell in stripped if cell and not cell.isdigit()]
    first = (POINT, NumberMarks(",")) if delimiter == ";" else (POINT,)
    n_numbers = {
        marks: sum(
            parse_number(text, marks=marks) is not None and text.lstrip("+-")[:2] != f"0{marks.thousands}"
            for text in texts
        )
        for marks in (*first, *_MARKS)
    }
    best: NumberMarks = max(n_numbers, key=n_numbers.__getitem__)
    return best


def read_header(path: Path) -> FileLayout:
    """Return the layout that the first line alone shows; this line is public, and no record is read.

    Raises:
        SourceError: the first line is empty, holds a number, or is not UTF-8.
    """
    with open_bytes(path) as stream:
        line = first_line(stream)
    try:
        text = (line or b"").decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    quote = "'" if _quoted([text], "'") > _quoted([text], '"') else '"'
    delimiter = max(_DELIMITERS, key=text.count)
    names = [field.strip(BLANKS) for field in _fields(text, Dialect(delimiter, quote))]
    if not text.strip() or _COMMENT.match(text) or any(parse_number(name) is not None for name in names):
        raise SourceError(
            "the first line does not name columns",
            hint="dpbayes check FILE shows what the file holds; name a file whose first line is its header",
        )
    return FileLayout(UTF8, delimiter, quote, 0, True, tuple(names), 1)


def layout_lines(path: Path, layout: FileLayout) -> Iterator[bytes]:
    """Yield the lines of a text file in UTF-8, in blocks, as a release reads them."""
    quote = layout.quote.encode() if layout.quoted_newlines else b""
    with open_bytes(path) as stream:
        recoded = stream
        if not layout.is_utf8:
            codec = layout.codec
            if layout.encoding == UTF16:  # without a mark, the codec utf-16 refuses the file
                codec = "utf-16-be" if stream.read(2) == codecs.BOM_UTF16_BE else "utf-16-le"
                stream.seek(0)
            recoded = cast(BinaryIO, codecs.EncodedFile(stream, "utf-8", codec, "replace"))
        yield from map(clean_lines, record_blocks(recoded, skip_header=False, quote=quote))


def first_wrong_line(path: Path, layout: FileLayout) -> tuple[int, bool]:
    """Return the number of the first line that is malformed, from 1, and whether a text in quotes seems to go on."""
    dialect, number = Dialect(layout.delimiter, layout.quote), 0
    for block in layout_lines(path, layout):
        for line in block.decode().split("\n")[:-1]:
            number += 1
            if number > layout.skipped + layout.header:
                fields = split_record(line, dialect)
                if fields is None or len(fields) != len(layout.names):
                    return number, line.count(layout.quote) % 2 == 1
    return 0, False


def _scan(path: Path) -> tuple[str, int, bool]:
    """Return the encoding of a file, its number of lines, and whether only some end with CR LF, in one pass."""
    encoding, n_lines, n_returns, last = "", 0, 0, b"\n"
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_bytes(path) as stream:
        while block := stream.read(_BLOCK):
            if not encoding:
                start = block[:400]
                has_mark = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                encoding = UTF8_MARKED if start.startswith(codecs.BOM_UTF8) else UTF8
                encoding = UTF16 if has_mark or start.count(0) > len(start) / 4 else encoding
            if encoding in {UTF8, UTF8_MARKED}:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    encoding = WINDOWS
            n_lines += block.count(b"\n")
            n_returns += (last + block).count(b"\r\n")
            last = block[-1:]
    return encoding or UTF8, n_lines + (last not in {b"\n", b"\x00"}), 0 < n_returns < n_lines


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
    """Return the share of lines with the most common number of fields, and this number; share 0 if it is 1."""
    if not lines:
        return 0.0, 0
    (width, count), *_ = Counter(len(_fields(line, dialect)) for line in lines).most_common(1)
    return (count / len(lines) if width > 1 else 0.0), width
