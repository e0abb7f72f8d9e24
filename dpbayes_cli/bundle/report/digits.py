"""Numbers with no more digits than their interval warrants."""

from __future__ import annotations

import math

_MAX_DECIMALS, _MAX_SIZE = 6, 1e12
"""Numbers that need more decimals, or that are larger, are shown in scientific notation."""


def rounded(value: float, width: float) -> str:
    """Return a number as text, rounded to the second digit of its interval's width; four digits without a width."""
    if not 0.0 < width < math.inf or not math.isfinite(value):
        return f"{value:.4g}"
    place = math.floor(math.log10(float(f"{width:.2g}"))) - 1
    size = max(abs(value), width)
    if place < -_MAX_DECIMALS or size >= _MAX_SIZE:
        return f"{value:.{min(max(math.floor(math.log10(size)) - place + 1, 2), 17)}g}"
    return f"{round(value, -place) + 0.0:,.{max(-place, 0)}f}"


def percent(share: float, width: float) -> str:
    """Return a share from 0 to 1 in percent; see ``rounded``."""
    return f"{rounded(100.0 * share, 100.0 * width)} %"


def size_text(width: float, is_share: bool, unit: str = " percentage points") -> str:
    """Return a width with two significant digits; the width of an interval of shares is in percentage points."""
    shown = 100.0 * width if is_share else width
    return rounded(shown, shown) + (unit if is_share else "")
