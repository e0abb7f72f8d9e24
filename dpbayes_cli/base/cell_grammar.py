r"""The public grammar of cells, the same in every engine; it decides which texts mean the same level.

A cell is stripped of spaces and tabs at both ends. An integer may be written with a sign, leading zeros and a zero
fraction. So ``1``, ``+1``, ``01``, ``1.0`` and ``1.`` mean the same level, but ``1e0``, ``1_000`` and digits of other
scripts are plain text. All other texts are compared letter by letter. The patterns are in the common subset of RE2,
Java and Python's ``re``, so that an engine can evaluate them where the data are.

Numbers in texts may be stated to have other marks than a point (``NumberMarks``). Such a number is respelled with a
point before anything else looks at it; levels, privacy units and columns of numbers are never respelled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

BLANKS = " \t"
MAX_CELL_BYTES = 4096  # a cell of more bytes than this, in UTF-8 and including blanks at its ends, counts as missing
MAX_KEY_BYTES = 128  # a longer text is no key of a group, if keys are found in the data
INTEGER = r"^(?:\+|(-))?0*([0-9]+)(?:\.0*)?$"
INTEGER_REPLACEMENT = r"\1\2"

NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
WHOLE = r"[+-]?[0-9]+(?:\.0*)?"

_INTEGER = re.compile(INTEGER, re.ASCII)
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that could fake a line, control a terminal or change the reading direction; not allowed in names."""
_UNSEEN = re.compile(f"{CONTROL_CHARACTERS.pattern}|[\xad\u061c\u200b-\u200f\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_FORBIDDEN_IN_LEVELS = re.compile(f"{CONTROL_CHARACTERS.pattern}|[\ufeff\ufffd]")


@dataclass(frozen=True)
class NumberMarks:
    """The marks in numbers that are written as texts, as the user states them."""

    decimal: str = "."  # the mark before the decimals, a point or a comma
    thousands: str = ""  # the mark that may stand between groups of three digits; empty if there is none

    @property
    def pattern(self) -> str:
        """The pattern of a number with these marks, without backslashes, which some engines read differently."""
        whole = "[0-9]+"
        if self.thousands:
            whole = f"([0-9]+|[0-9]{{1,3}}([{self.thousands}][0-9]{{3}})+)"
        return f"[+-]?({whole}([{self.decimal}][0-9]*)?|[{self.decimal}][0-9]+)([eE][+-]?[0-9]{{1,3}})?"


POINT = NumberMarks()


def normal_cell(text: str) -> str:
    """Return the normal form of a cell; two cells mean the same level if their normal forms are equal."""
    stripped = text.strip(BLANKS)
    if stripped[:1] not in "+-0" and "." not in stripped:
        return stripped
    match = _INTEGER.fullmatch(stripped)
    return f"{match[1] or ''}{match[2]}" if match else stripped


def parse_number(text: str, *, integers: bool = False, marks: NumberMarks = POINT) -> float | None:
    """Return the number in a cell, None if the cell holds no number.

    A number has ASCII digits, and may have a sign, a point and an exponent. NaN, infinities, underscores and numbers
    beyond the largest double (``1e400``) are not accepted. With ``integers``, ``2.0`` is accepted, but ``2.5`` and
    ``2e0`` are not.
    """
    stripped = text.strip(BLANKS)
    if marks != POINT:
        if not re.fullmatch(marks.pattern, stripped, re.ASCII):
            return None
        stripped = stripped.replace(marks.thousands, "").replace(marks.decimal, ".")
    if not re.fullmatch(WHOLE if integers else NUMBER, stripped, re.ASCII):
        return None
    number = float(stripped)
    return number if math.isfinite(number) else None


def escape(text: str, characters: re.Pattern[str] = CONTROL_CHARACTERS) -> str:
    """Return a text with these characters escaped."""
    return characters.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def make_visible(text: str) -> str:
    """Return a text with its control characters and invisible marks escaped, so that no two texts look alike."""
    return escape(text, _UNSEEN)


def is_publishable_key(text: str) -> bool:
    """Return whether a key that is found in the data, in normal form, may be published; other keys are no keys.

    The rule depends on the key alone: it is not empty, has no control character and at most ``MAX_KEY_BYTES`` bytes.
    """
    return bool(text) and not _FORBIDDEN_IN_LEVELS.search(text) and len(text.encode("utf-8")) <= MAX_KEY_BYTES


def check_levels(levels: Sequence[str]) -> None:
    """Refuse declared levels that no cell could match, and two levels that one cell would match, with a ValueError."""
    seen: dict[str, str] = {}
    for level in levels:
        if level != level.strip(BLANKS) or not level:
            raise ValueError(f"{level!r} is empty, or begins or ends with a blank")
        if _FORBIDDEN_IN_LEVELS.search(level):
            raise ValueError(f"{level!r} holds a control character")
        if len(level.encode("utf-8")) > MAX_CELL_BYTES:
            raise ValueError(f"{level[:20]!r}... is longer than {MAX_CELL_BYTES} bytes")
        if normal_cell(level) in seen:
            raise ValueError(f"{seen[normal_cell(level)]!r} and {level!r} mean the same cell; leave one out")
        seen[normal_cell(level)] = level
