"""The names that accounts, schedules and studies may have."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def plain_name(name: str) -> str:
    """Return a valid name that is like a text; empty if there is none."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("._-")[:100]


def check_name(name: str) -> None:
    """Raise ``ValueError`` if the name of an account is not a plain word of at most 100 characters."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a valid name; expected a letter or digit, then up to 99 letters, digits, '.', '_' or '-'"
            f"{f', such as {plain!r}' if (plain := plain_name(name)) else ''}"
        )
