"""Find header lines among the records of a file: a second header line, or the header of a file that was appended."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from dpbayes_cli.base.cell_grammar import NumberMarks, parse_number
from dpbayes_cli.check.column_profile import ColumnProfile, Scan, count_rows, first_rows
from dpbayes_cli.check.file_layout import MISSING, FileLayout
from dpbayes_cli.check.remedies import conversion
from dpbayes_cli.sources.file_mistakes import name_of_copy

_MOST_HEADERS = 3
_ENOUGH = 2


def header_line_advice(layout: FileLayout, path: Path, scan: Scan, profiles: Sequence[ColumnProfile]) -> Iterable[str]:
    """Yield how to remove the lines among the records that seem to be header lines.

    Args:
        scan: reads the file.
        profiles: the profiles of all columns.
    """
    if not layout.header or not profiles:
        return
    first, n_headers = layout.skipped + 2, 0
    for row in first_rows(scan, len(profiles), _MOST_HEADERS):
        if not _is_header(row, profiles, layout.marks):
            break
        n_headers += 1
    if n_headers:
        lines = str(first) if n_headers == 1 else f"{first},{first + n_headers - 1}"
        which = f"line {first} seems" if n_headers == 1 else f"lines {first} to {first + n_headers - 1} seem"
        yield f"{which} to belong to the header; remove what is no record: {_filtered(layout, path, f'sed {lines}d')}"
    may_repeat = all(each.numbers + each.missing < each.records for each in profiles)
    again = count_rows(scan, layout.names) if may_repeat else 0
    if again:
        script = "awk 'NR==1 {head=$0} NR==1 || $0!=head'"
        yield f"the header occurs {again + 1} times in the file; keep the first: {_filtered(layout, path, script)}"


def _is_header(row: Sequence[str | None], profiles: Sequence[ColumnProfile], marks: NumberMarks) -> bool:
    """Return whether a row holds no number, and texts that are found nowhere else in their columns."""
    clues = 0
    for cell, profile in zip(row, profiles, strict=True):
        if cell is None or cell in MISSING:
            continue
        counts = dict(profile.commonest)
        if parse_number(cell, marks=marks) is not None or counts.get(cell, 1) > 1:
            return False
        clues += _ENOUGH if profile.is_numeric else max(counts.values(), default=1) > 1
    return clues >= (_ENOUGH if any(each.is_numeric for each in profiles) else max(_ENOUGH, len(profiles)))


def _filtered(layout: FileLayout, path: Path, script: str) -> str:
    """Return the shell command that applies a script to the file."""
    if conversion(layout, path):
        return f"{script}, in the file that you have converted"
    file = shlex.quote(str(path))
    source = f"gzip -dc {file} | {script}" if path.suffix.lower() == ".gz" else f"{script} {file}"
    return f"{source} > {name_of_copy(str(path), 'table')}"
