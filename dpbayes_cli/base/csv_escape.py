"""CSV files that a spreadsheet opens as what they are: no text of theirs is run as a formula.

A text that begins with a mark of a formula (``=``, ``+``, ``-``, ``@``) or with an apostrophe gets an apostrophe before
it, unless it is a number or the mark alone. To read the text back, remove one apostrophe at its beginning.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from dpbayes_cli.base.cell_grammar import NUMBER

_RISKY = re.compile("[=+\\-@\t'\uff1d\uff0b\uff0d\uff20]..*", re.DOTALL)
"""What spreadsheets take for a formula, in full width too."""
_PLAIN = re.compile(f"{NUMBER}|[+-]?(?:inf|nan)", re.ASCII)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return the lines of a CSV file, with every text made harmless; numbers and None stay as they are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(escape_row, rows))
    return text.getvalue()


def escape_row(row: Iterable[Any]) -> list[Any]:
    """Return the cells of a row, with an apostrophe before each text that could be taken for a formula."""
    return [f"'{cell}" if isinstance(cell, str) and _is_risky(cell) else cell for cell in row]


def _is_risky(cell: str) -> bool:
    return _RISKY.fullmatch(cell) is not None and not _PLAIN.fullmatch(cell)
