"""Lay out texts and tables in lines that fit the terminal; words (such as IDs, times and hashes) are never broken."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

_GAP = 2
"""The number of blanks between two columns."""
_NUMBER = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?( ?%)?|-|")


def line_width() -> int:
    """Return the number of characters of a line: that of the terminal, 80 if there is no terminal."""
    return max(shutil.get_terminal_size().columns, 20)


def fill_lines(text: str, hanging: int = 0) -> str:
    """Return a text with lines that fit the terminal; the rest of a broken line has ``hanging`` blanks before it."""
    width = line_width()
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width, hanging))


def _broken(line: str, width: int, hanging: int = 0) -> list[str]:
    """Return a line in parts that fit; a number stays with its percent sign."""
    if len(line) <= width:
        return [line]
    text = line.lstrip()
    indent = " " * (len(line) - len(text) + (2 if text.startswith("- ") else hanging))
    parts = textwrap.wrap(
        line.replace(" %", "\u00a0%"),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return [part.replace("\u00a0%", " %") for part in parts]


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, optional: Sequence[str] = ()
) -> list[str]:
    """Return a table as lines of a width; numbers are flush right, and empty columns are left out.

    If the table is too wide, optional columns are left out, the first of them first, until each row fits on one line.
    Then long cells are broken between words. If this is not enough, each row becomes a paragraph.
    """
    table = [column for column in zip(columns, *rows, strict=True) if any(column[1:]) or not rows]
    for name in optional:
        if _total([max(map(len, [*head.split(), *cells])) for head, *cells in table]) <= width:
            break
        table = [column for column in table if column[0] != name]
    widths = _fitting_widths([max(map(len, column)) for column in table], [*map(_least_width, table)], width)
    lines = list(zip(*table, strict=True))
    if _total(widths) > width:
        return [part for line in lines for part in _broken("  ".join(filter(None, line)), width, 4)]
    is_number = [all(map(_NUMBER.fullmatch, column[1:])) for column in table]
    return [part for line in lines for part in _aligned(line, widths, is_number)]


def _aligned(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of one row, whose cells are broken to fit the widths."""
    for texts in zip_longest(*map(_broken, cells, widths), fillvalue=""):
        parts = zip(texts, widths, is_number, strict=True)
        aligned = (text.rjust(width) if flush_right else text.ljust(width) for text, width, flush_right in parts)
        yield (" " * _GAP).join(aligned).rstrip()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _least_width(cells: Sequence[str]) -> int:
    """Return the width of a column whose cells are broken between words; numbers with their units stay whole."""
    return max(max(map(len, [cell] if _NUMBER.fullmatch(cell) else cell.split()), default=0) for cell in cells)


def _fitting_widths(natural: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return column widths: the widest columns are narrowed, but to no less than their longest words."""
    widths = list(natural)
    while _total(widths) > width:
        narrowable = [k for k in range(len(widths)) if widths[k] > least[k]]
        if not narrowable:
            break
        widths[max(narrowable, key=lambda k: widths[k])] -= 1
    return widths
