"""Texts from a YAML file turned into a typed section: what is wrong is named with its place and a suggestion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from dpbayes_cli.contracts import Section
from dpbayes_cli.errors import SpecError, nearest

Kind = TypeVar("Kind", bound=Section)

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_REQUIRED = re.compile(r"Object missing required field `(.*)`")


def convert_section(
    document: Any, kind: type[Kind], place: str = "", how_to_state: Callable[[str], str] | None = None
) -> Kind:
    """Check a document against the type of a section.

    Args:
        document: nested mappings and lists of texts.
        kind: the type.
        place: where the document stands in its file, dotted; empty for the whole file.
        how_to_state: the hint for a missing key, by its place; None: it belongs into the file.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    try:
        return msgspec.convert(document, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _problem(str(error), kind, place, how_to_state) from None


def _problem(text: str, kind: type[Section], place: str, how_to_state: Callable[[str], str] | None) -> SpecError:
    """Turn a finding of msgspec into an error; an unknown key names the nearest allowed one."""
    message, _, found = text.partition(" - at `$")
    inside = found.rstrip("`").strip(".")
    if match := _UNKNOWN.fullmatch(message):
        hint = nearest(match[1], _keys(kind, [part for part in inside.split(".") if part]))
        return SpecError("unknown key", where=_joined(place, inside, match[1]), hint=hint)
    if match := _REQUIRED.fullmatch(message):
        where = _joined(place, inside, match[1])
        return SpecError("missing", where=where, hint=how_to_state(where) if how_to_state else "state it in the file")
    return SpecError(f"{message[:1].lower()}{message[1:]}", where=_joined(place, inside))


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _keys(kind: Any, path: list[str]) -> list[str]:
    """Return the keys that are allowed at a place."""
    for part in path:
        found = {item.name: item.type for item in msgspec.structs.fields(kind)}
        kind = found.get(part)
        if not (isinstance(kind, type) and issubclass(kind, Section)):
            return []
    return [item.name for item in msgspec.structs.fields(kind)]
