"""A reference reader: one record at a time, in plain Python, sharing only the grammar with the engine's path."""

from __future__ import annotations

from collections.abc import Sequence

from dpbayes_cli.grammar import normal_cell
from dpbayes_cli.sources.lines import LONGEST_RECORD
from dpbayes_cli.sources.records import Dialect, split_record


def physical_lines(content: bytes) -> list[bytes]:
    """Return the lines of a file: each ends at a line feed; an empty remainder is none."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def level_of(line: bytes, dialect: Dialect, index: int, width: int, levels: Sequence[str]) -> int | None:
    """Return the code of the cell's level, or None where the record is invalid."""
    if len(line) > LONGEST_RECORD:
        return None
    text = line.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r").decode("utf-8", "replace")
    if any((ord(c) < 32 and c != "\t") or c in "\x7f\ufeff" for c in text):
        text = "".join("\x02" if (ord(c) < 32 and c != "\t") or c in "\x7f\ufeff" else c for c in text)
    fields = split_record(text, dialect)
    if fields is None or len(fields) != width:
        return None
    normal = [normal_cell(level) for level in levels]
    cell = normal_cell(fields[index])
    return normal.index(cell) if cell in normal else None


def count(content: bytes, dialect: Dialect, index: int, width: int, levels: Sequence[str]) -> tuple[list[int], int]:
    """Return the number of records of each level, and of all records."""
    records = physical_lines(content)[1:]
    codes = [level_of(record, dialect, index, width, levels) for record in records]
    return [codes.count(code) for code in range(len(levels))], len(records)
