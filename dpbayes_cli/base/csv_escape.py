"""CSV files whose texts a spreadsheet does not run as formulas.

A text that begins like a formula (with ``=``, ``+``, ``-`` or ``@``) or with an apostrophe gets an apostrophe before
it, unless it is a number or a single character. To read the text back, remove one apostrophe at its beginning.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

from dpbayes_cli.base.cell_grammar import NUMBER

_RISKY = re.compile("[=+\\-@\t'\uff1d\uff0b\uff0d\uff20]..*", re.DOTALL)
"""Texts that a spreadsheet may take for formulas; some begin with a full-width character."""
_PLAIN = re.compile(f"{NUMBER}|[+-]?(?:inf|nan)", re.ASCII)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return the lines of a CSV file with every text escaped; numbers and None are not changed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(escape_row, rows))
    return text.getvalue()


def escape_row(row: Iterable[Any]) -> list[Any]:
    """Return the cells of a row, with an apostrophe before each text that a spreadsheet could run."""
    return [
        f"'{cell}" if isinstance(cell, str) and _RISKY.fullmatch(cell) and not _PLAIN.fullmatch(cell) else cell
        for cell in row
    ]
