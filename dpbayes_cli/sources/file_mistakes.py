"""Errors for data that cannot be read as stated; their messages repeat nothing from the data.

The first line of a text file may be a person's record, because not every file has a header. So a message names only the
kind of mistake; ``dpbayes check FILE`` shows the line.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from dpbayes_cli.base.errors import SourceError, nearest_word

_COMMENT = re.compile(r"#|//|--")
_DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'"}
_UTF16_SHARE = 0.25
"""A line is assumed to be UTF-16 if more than this share of its bytes are NUL."""
_FORMATS = {
    b"PAR1": ("is Parquet", "--input-format parquet, or a name that ends in .parquet"),
    b"\x1f\x8b": ("is compressed by gzip", "give it a name that ends in .gz"),
    b"PK\x03\x04": ("is a spreadsheet or a ZIP archive", "export the table as CSV, or unpack the archive"),
}
_MANY_WORDS = 4
"""A header of one field is assumed to hold several column names if it has at least this many words."""


def foreign_format(head: bytes, file: str) -> SourceError | None:
    """Return the error for a file that begins like Parquet, gzip or ZIP; None for any other file."""
    for start, (what, hint) in _FORMATS.items():
        if head.startswith(start):
            return SourceError(f"{file!r} {what}; expected a text file", hint=hint)
    return None


def name_of_copy(file: str, kind: str) -> str:
    """Return the name of a converted copy of a file, quoted for the shell: ``a-utf8.csv`` for ``a.csv`` and ``utf8``.

    The name follows that of the file because accounts are named after files.
    """
    return shlex.quote(f"{PurePath(file.removesuffix('.gz')).stem}-{kind}.csv")


def unusable_first_line(line: bytes, file: str) -> SourceError:
    """Return the error for a first line that cannot be a header, e.g. because of its encoding.

    Args:
        line: the first line; the message does not repeat it.
        file: the name of the file as the user types it.
    """
    if error := foreign_format(line, file):
        return error
    typed = shlex.quote(file)
    utf16 = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or line.count(0) > _UTF16_SHARE * len(line)
    if utf16 and line:
        return SourceError(
            "the file is UTF-16; expected UTF-8",
            hint=f"convert it: iconv -f utf-16 -t utf-8 {typed} > {name_of_copy(file, 'utf8')}",
        )
    if b"\r" in line:
        return SourceError(
            "the lines of the file end with a carriage return alone; expected a line feed",
            hint=f"convert it: tr '\\r' '\\n' < {typed} > {name_of_copy(file, 'lines')}",
        )
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return SourceError(
            "the header line is not UTF-8; the file is probably Windows-1252",
            hint=f"convert it: iconv -f cp1252 -t utf-8 {typed} > {name_of_copy(file, 'utf8')}",
        )
    problem = "holds control bytes" if any(byte < 0x20 and byte != 0x09 for byte in line) else "is malformed"
    return SourceError(
        f"the header line {problem}; expected column names with a delimiter between them", hint=_look(file, "shows it")
    )


def has_blanks_between_names(names: Sequence[str]) -> bool:
    """Return whether a header is one field of several words, which seem to be the names of columns."""
    return len(names) == 1 and len(names[0].split()) >= _MANY_WORDS


def missing_column(names: Sequence[str], wanted: str | None, file: str, *, is_public: bool) -> SourceError:
    """Return the error for a column that is missing, ambiguous or not stated.

    Args:
        names: the names of the columns in the data.
        wanted: the name that the user stated, or None.
        file: the name of the file as the user types it; empty for a table, which ``dpbayes check`` does not show.
        is_public: whether the names come from a schema or the user; the message repeats no other names, because they
            may be cells.
    """
    what = "table" if is_public else "header"
    if not is_public and _COMMENT.match(names[0]):
        return SourceError(
            "the first line looks like a comment, not like a header",
            hint=f"remove the lines above the header, e.g. tail -n +2 {shlex.quote(file)} > "
            f"{name_of_copy(file, 'table')}; " + _look(file, "counts them"),
        )
    marks = [mark for mark in _DELIMITERS if mark in names[0]] if len(names) == 1 and not is_public else []
    if not marks and len(names) == 1 and not is_public and wanted in names[0].split(","):
        marks = [","]
    if marks:
        return SourceError(
            f"the header is a single field that holds {marks[0]!r}, which seems to separate columns",
            hint=f"--delimiter {_DELIMITERS.get(marks[0], marks[0])}; {_look(file, 'shows the header')}",
        )
    if len(names) == 1 and not is_public and has_blanks_between_names(names):
        return SourceError(
            "the header is a single field of several words; blanks seem to separate the columns",
            hint=f"put commas between the fields: tr -s ' ' , < {shlex.quote(file)} > {name_of_copy(file, 'table')}; "
            "if it is one name: --column NAME",
        )
    if wanted is None:
        hint = _look(file, "lists the columns")
        return SourceError(
            "the data have more than one column, and none of them was chosen",
            hint="choose one: --column NAME" + (f"; {hint}" if hint else ""),
        )
    if wanted in names:
        return SourceError(
            f"the {what} names the column {wanted!r} more than once",
            hint=f"choose it by its position: --column {list(names).index(wanted) + 1}; or rename one of them; "
            + _look(file, "lists them"),
        )
    reason = f"the {what} has no column {wanted!r}"
    if "," in wanted:
        return SourceError(
            f"{reason}; --column takes one column",
            hint="make a release of each column, or choose a model of several columns, e.g. --model "
            "multivariate-normal; dpbayes models lists them",
        )
    close = nearest_word(wanted, names)
    if is_public:
        return SourceError(reason, hint=f"did you mean {close!r}?" if close else "")
    if wanted.strip().casefold() in (name.strip().casefold() for name in names):
        reason += ", but one whose name differs in blanks or in upper and lower case"
    elif close:
        reason += ", but one of a similar name"
    look = _look(file, "shows the name" if close else "shows the header", f" --column {shlex.quote(wanted)}")
    return SourceError(reason, hint=look + ("" if close else "; for a file without header: --no-header --columns A,B"))


def looks_like_no_header(names: Sequence[str]) -> bool:
    """Return whether a header of one field seems to be a comment, or to hold another delimiter."""
    return len(names) == 1 and bool(_COMMENT.match(names[0]) or any(mark in names[0] for mark in _DELIMITERS))


def _look(file: str, shows: str, flags: str = "") -> str:
    return f"dpbayes check {shlex.quote(file)}{flags} {shows}" if file else ""
