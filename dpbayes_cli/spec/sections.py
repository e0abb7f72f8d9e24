"""Texts from a YAML file turned into a typed section: what is wrong is named with its place and a suggestion."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from dpbayes_cli.contracts import WRITTEN_FREELY, Section
from dpbayes_cli.errors import SpecError, nearest
from dpbayes_cli.numeric import decimal_text, parse_decimal

Kind = TypeVar("Kind", bound=Section)
Exact = Annotated[str, Meta(extra_json_schema=WRITTEN_FREELY)]
"""A decimal number that is kept exactly."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_REQUIRED = re.compile(r"Object missing required field `(.*)`")


def exactly(section: Section, name: str) -> Decimal | None:
    """Return an exact number of a section, None where it is not stated; from then on it has its one plain spelling.

    Raises:
        ValueError: it is no plain decimal number.
    """
    text = getattr(section, name)
    if text is None:
        return None
    try:
        exact = parse_decimal(text)
    except ValueError as error:
        raise ValueError(f"{name} is {text!r}: {error}") from None
    msgspec.structs.force_setattr(section, name, decimal_text(exact))
    return exact


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
