"""Turn texts from a YAML file into a typed section; an error names the key and suggests a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.core.section import YAML_SCALAR, Section

Kind = TypeVar("Kind", bound=Section)
Exact = Annotated[str, Meta(extra_json_schema=YAML_SCALAR)]
"""A decimal number that is kept exactly."""

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_SOME_KEY = "[...]"
_STEP = re.compile(r"\[\.\.\.\]|\[\d+\]|[^.\[]+")
_REQUIRED = re.compile(r"Object missing required field `(.*)`")


def exact_number(section: Section, name: str) -> Decimal | None:
    """Return an exact number of a section, or None if it is not stated; replace its text by its plain spelling.

    Raises:
        ValueError: the text is not a plain decimal number.
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
        place: the dotted place of the document in its file; empty for the whole file.
        how_to_state: function from the place of a missing key to the hint; without it, the hint is to state the key in
            the file.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the message names the first such key and its place.
    """
    try:
        return msgspec.convert(document, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _problem(str(error), document, kind, place, how_to_state) from None


def _problem(
    text: str, document: Any, kind: type[Section], place: str, how_to_state: Callable[[str], str] | None
) -> SpecError:
    """Turn msgspec's message into an error; the hint for an unknown key names the nearest allowed one."""
    message, _, path = text.partition(" - at `$")
    inside, expected = _resolved(path.rstrip("`"), document, kind)
    if match := _UNKNOWN.fullmatch(message):
        hint = nearest(match[1], _fields(expected))
        return SpecError("unknown key", where=_joined(place, inside, match[1]), hint=hint)
    if match := _REQUIRED.fullmatch(message):
        where = _joined(place, inside, match[1])
        return SpecError("missing", where=where, hint=how_to_state(where) if how_to_state else "state it in the file")
    return SpecError(f"{message[:1].lower()}{message[1:]}", where=_joined(place, inside))


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _resolved(path: str, document: Any, kind: Any) -> tuple[str, Any]:
    """Follow msgspec's path to a wrong value, in which ``[...]`` stands for some key of a mapping.

    Returns:
        The path with that key, and the type that is expected there; the type is None if it is neither section nor
        mapping.
    """
    places: list[str] = []
    for part in _STEP.findall(path):
        if part == _SOME_KEY:
            kind = _type_of_values(kind)
            key = _wrong_key(document, kind)
            if key is None:
                return path.strip("."), None
            document = document[key]
            places.append(key)
        elif part.startswith("["):
            document = kind = None
            places[-1] += part
        else:
            document = document.get(part) if isinstance(document, dict) else None
            kind = _fields(kind).get(part)
            places.append(part)
    return ".".join(places), kind


def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a section's keys; empty for any other type."""
    section = isinstance(kind, type) and issubclass(kind, Section)
    return {item.encode_name: item.type for item in msgspec.structs.fields(kind)} if section else {}


def _type_of_values(kind: Any) -> Any:
    """Return the type of a mapping's values, None if the type allows no mapping."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {Union, UnionType}:
        return next((_type_of_values(each) for each in get_args(kind) if get_origin(each) is dict), None)
    return get_args(kind)[1] if get_origin(kind) is dict else None


def _wrong_key(document: Any, kind: Any) -> str | None:
    """Return the first key of a mapping whose value does not have the given type."""
    for key, value in document.items() if isinstance(document, dict) and kind is not None else ():
        try:
            msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            return str(key)
    return None
