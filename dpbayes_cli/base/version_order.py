"""Which of two versions of dpbayes came first."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})(?:\.[0-9]{1,6})?", re.ASCII)


def is_before(version: object, release: tuple[int, int]) -> bool:
    """Return whether a version, such as ``0.3.0``, is before a release, such as ``(0, 4)``; False for other texts."""
    numbers = _NUMBERS.fullmatch(version) if isinstance(version, str) else None
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < release
