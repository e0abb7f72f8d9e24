"""The grammar of a record: how one line of text becomes fields.

A line without quotes is split at every delimiter. A line that holds a quote must match a strict grammar: each field
either has no quotes, or is a quoted text with doubled quotes inside and optional blanks around. A line that does not
match, or whose number of fields differs from the header's, is one invalid record: all of its cells are missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpbayes_cli.base.cell_grammar import BLANKS


@dataclass(frozen=True)
class Dialect:
    """The layout of a text file, which the user states; it is never guessed from the data.

    Attributes:
        delimiter: one printable ASCII character or a tab.
        quote: one printable ASCII character.
        header: whether the first line holds the names of the columns.
        names: the names of the columns, if there is no header.
        quoted_newlines: whether a quoted text may span lines; if so, neighbors differ in a parsed record instead of a
            line.
    """

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    names: tuple[str, ...] = ()
    quoted_newlines: bool = False

    @property
    def field_pattern(self) -> str:
        """The pattern of one field, for lines that hold a quote."""
        blanks = "".join(b for b in BLANKS if b != self.delimiter)
        q, d = re.escape(self.quote), re.escape(self.delimiter)
        return f"[{blanks}]*{q}(?:[^{q}]|{q}{q})*{q}[{blanks}]*|[^{d}{q}]*"


def split_record(line: str, dialect: Dialect) -> list[str] | None:
    """Split one line into the texts of its fields, quotes removed; return None if the line is malformed.

    Header lines are split by this function, and lines in which ``CellBlock`` does not find the cells.
    """
    if dialect.quote not in line:
        return line.split(dialect.delimiter)
    field, d, q = dialect.field_pattern, re.escape(dialect.delimiter), dialect.quote
    if not re.fullmatch(f"(?:{field})(?:{d}(?:{field}))*", line):
        return None
    pieces = [match[1] for match in re.finditer(f"(?:^|{d})({field})", line)]
    texts = [(piece, piece.strip(BLANKS)) for piece in pieces]  # if the quote is a tab, the strip removes it
    return [text[1:-1].replace(q + q, q) if q in text else piece for piece, text in texts]
