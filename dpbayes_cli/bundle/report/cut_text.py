"""Texts that fit: how wide a text may be drawn in any common font, and a shorter one that is no wider than asked."""

from __future__ import annotations

from collections.abc import Iterable
from string import printable

_NARROW = frozenset("iljtfrIJ .,:;'|!()[]-/\"")
_COMMON = frozenset(printable + "àáâãäåçèéêëìíîïñòóôõöøùúûüýßÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝ") - frozenset("mwMW@%")
_MATHEMATICAL = frozenset("+<>=~#^&")


def ems(text: str) -> float:
    """Return an upper estimate of a text's width in units of its font size.

    The letters of DejaVu Sans, the widest of the fonts in use, are no wider, a few rare ones excepted.
    """
    return sum(map(_letter, text))


def fitting(text: str, widest: float) -> str:
    """Return a text, or its ends with an ellipsis between them, no wider than so many times its font size.

    The end is kept because it is where the names of a series differ.
    """
    if ems(text) <= widest:
        return text
    room = widest - ems("…")
    end = _beginning(reversed(text), room / 3.0)[::-1]
    return f"{_beginning(text, room - ems(end)).rstrip()}…{end.lstrip()}"


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
