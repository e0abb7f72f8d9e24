"""Shorten texts so that they fit a given width in any common font."""

from __future__ import annotations

from collections.abc import Iterable
from string import printable

_NARROW = frozenset("iljtfrIJ .,:;'|!()[]-/\"")
_COMMON = frozenset(printable + "àáâãäåçèéêëìíîïñòóôõöøùúûüýßÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝ") - frozenset("mwMW@%")
_MATHEMATICAL = frozenset("+<>=~#^&")


def ems_of(text: str) -> float:
    """Return an upper estimate of a text's width in units of its font size; only a few rare letters are wider."""
    return sum(map(_letter, text))


def cut_text(text: str, max_ems: float) -> str:
    """Return a text, with an ellipsis in place of its middle if it is wider than ``max_ems`` times its font size.

    The end of the text is kept, because names such as ``age_1`` and ``age_2`` differ at their end.
    """
    if ems_of(text) <= max_ems:
        return text
    room = max_ems - ems_of("…")
    end = _beginning(reversed(text), room / 3.0)[::-1]
    return f"{_beginning(text, room - ems_of(end)).rstrip()}…{end.lstrip()}"


def _beginning(letters: Iterable[str], room: float) -> str:
    kept = ""
    for letter in letters:
        room -= _letter(letter)
        if room < 0.0:
            break
        kept += letter
    return kept


def _letter(letter: str) -> float:
    if letter in _NARROW:
        return 0.47
    if letter in _COMMON:
        return 0.84 if letter.isupper() or letter in _MATHEMATICAL else 0.65
    return 1.0 if letter.isascii() else 1.1
