"""The grammar of a record: how one line of text becomes fields, in Python and as a DuckDB expression.

A line without quotes is split at every delimiter. A line that holds a quote must match a strict grammar: each field
either has no quotes, or is a quoted text with doubled quotes inside and optional blanks around. A line that does not
match, or whose number of fields differs from the header's, is one invalid record: all of its cells are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dpbayes_cli.base.cell_grammar import BLANKS, INTEGER, INTEGER_REPLACEMENT, NumberMarks

_MAX_PATTERN_FIELDS = 256
"""Up to this many fields, a pattern extracts a cell faster than splitting the line does."""


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

    Header lines are split by this function, which is also the reference for tests of the SQL expressions.
    """
    if dialect.quote not in line:
        return line.split(dialect.delimiter)
    field, d, q = dialect.field_pattern, re.escape(dialect.delimiter), dialect.quote
    if not re.fullmatch(f"(?:{field})(?:{d}(?:{field}))*", line):
        return None
    pieces = [match[1] for match in re.finditer(f"(?:^|{d})({field})", line)]
    texts = [(piece, piece.strip(BLANKS)) for piece in pieces]  # if the quote is a tab, the strip removes it
    return [text[1:-1].replace(q + q, q) if q in text else piece for piece, text in texts]


def cell_expression(line: str, index: int, width: int, dialect: Dialect) -> str:
    """Return a DuckDB expression for the text of one cell of a line; if the record is malformed, it is NULL or empty.

    Args:
        line: the SQL expression of the line.
        index: the index of the field, from 0.
        width: the number of fields that a record must have.
        dialect: the layout.
    """
    matches, pieces = _quoted_fields(line, dialect)
    quoted = f"CASE WHEN {matches} AND len({pieces}) = {width} THEN {field_text(pieces, index, dialect)} END"
    d, delimiter = re.escape(dialect.delimiter), literal(dialect.delimiter)
    if width == 1:
        plain = f"CASE WHEN NOT contains({line}, {delimiter}) THEN {line} END"
    elif width <= _MAX_PATTERN_FIELDS:
        pattern = f"^(?:[^{d}]*{d}){{{index}}}([^{d}]*)(?:{d}[^{d}]*){{{width - 1 - index}}}$"
        plain = f"regexp_extract({line}, {literal(pattern)}, 1)"
    else:
        fields = f"string_split({line}, {delimiter})"
        plain = f"CASE WHEN len({fields}) = {width} THEN {fields}[{index + 1}] END"
    return f"CASE WHEN contains({line}, {literal(dialect.quote)}) THEN {quoted} ELSE {plain} END"


def line_settles(width: int, dialect: Dialect, texts: Iterable[str]) -> bool:
    """Return whether every line that equals a valid text is a valid record.

    This requires that records have one field, and that no valid text holds a delimiter or a quote."""
    marks = (dialect.delimiter, dialect.quote)
    return width == 1 and not any(mark in text for text in texts for mark in marks)


def _quoted_fields(line: str, dialect: Dialect) -> tuple[str, str]:
    """Return two expressions for a line with quotes: whether it is well-formed, and its fields with their quotes."""
    field, d = dialect.field_pattern, re.escape(dialect.delimiter)
    whole = literal(f"(?:{field})(?:{d}(?:{field}))*")
    delimited_field = literal(f"{d}({field})")
    # A delimiter is put before the first field, because after an empty match the engine skips a character.
    pieces = f"regexp_extract_all({literal(dialect.delimiter)} || {line}, {delimited_field}, 1)"
    return f"regexp_full_match({line}, {whole})", pieces


def split_relation(relation: str, line: str, width: int, dialect: Dialect) -> str:
    """Return the relation of the records' ``fields``, a list of texts with their quotes, NULL for a malformed record.

    Each record is split once instead of once per cell; ``field_text`` gives the text of a field. ``relation`` is a FROM
    clause with one row per line; for the other arguments see ``cell_expression``.
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


def without_blanks(text: str) -> str:
    """Return a DuckDB expression for a text without the blanks around it."""
    return f"trim({text}, {literal(BLANKS)})"


def with_point(text: str, marks: NumberMarks) -> str:
    """Return a DuckDB expression that writes a number with a decimal point and no thousands marks; empty if invalid."""
    number = f"regexp_extract({without_blanks(text)}, {literal(f'^{marks.pattern}$')})"
    return f"replace(replace({number}, {literal(marks.thousands)}, ''), {literal(marks.decimal)}, '.')"


def integers_in_normal_form(trimmed: str) -> str:
    """Return a DuckDB expression for the normal form of an integer; any other text stays as it is."""
    return f"regexp_replace({trimmed}, {literal(INTEGER)}, {literal(INTEGER_REPLACEMENT)})"


def literal(text: str) -> str:
    """Return a DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"
