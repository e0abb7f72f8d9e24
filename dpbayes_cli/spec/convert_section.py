"""Turn texts from a YAML file into a typed section; an error names the key and suggests a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError, join_mistakes, nearest
from dpbayes_cli.base.numeric import decimal_text, float_text, parse_decimal
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.section import YAML_SCALAR, Section

Kind = TypeVar("Kind", bound=Section)
Exact = Annotated[str, Meta(extra_json_schema=YAML_SCALAR)]
"""A decimal number that is kept exactly."""

HowToState = Callable[[str, Any], str]

_REQUIRED = re.compile(r"Object missing required field `.*`")
_EXPECTED = re.compile(
    r"Expected `(?P<kind>[^`]*)`(?: (?P<limit>>=|<=|>|<|of length(?: >=| <=)?) (?P<value>[^\s,]+))?(?:, got .*)?"
)
_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list, such as [a, b]",
    "object": "KEY: VALUE lines below it",
}
_LIMITS = {
    ">=": "of at least",
    "<=": "of at most",
    ">": "above",
    "<": "below",
    "of length >=": "at least",
    "of length <=": "at most",
    "of length": "exactly",
}
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_MOST_SHOWN = 100
"""How many characters of a wrong text a message repeats."""
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?", re.ASCII)


def exact_number(section: Section, name: str) -> Decimal | None:
    """Return an exact number of a section, or None if it is not stated; rewrite its text in plain digits.

    Raises:
        ValueError: the text is not a plain decimal number.
    """
    text = getattr(section, name)
    if text is None:
        return None
    try:
        exact = parse_decimal(text)
    except ValueError as error:
        raise ValueError(f"{name} is {text!r}, {error}") from None
    msgspec.structs.force_setattr(section, name, decimal_text(exact))
    return exact


def convert_section(document: Any, kind: type[Kind], place: str = "") -> Kind:
    """Check a document against the type of a section.

    Args:
        document: nested mappings and lists of texts.
        place: the dotted place of the document in its file; empty for the whole file.

    Raises:
        SpecError: keys are unknown or missing, or have wrong values; the error names every such key.
    """
    try:
        return msgspec.convert(document, kind, strict=False)
    except (msgspec.ValidationError, SpecError) as error:
        raise join_mistakes([*find_mistakes(document, kind, place)] or [SpecError(str(error), where=place)]) from None


def find_mistakes(document: Any, kind: Any, place: str = "", how_to_state: HowToState | None = None) -> list[SpecError]:
    """Return every mistake in a document: unknown and missing keys, wrong values.

    A rule about several keys of a section is checked only if each key is right by itself.

    Args:
        document: nested mappings and lists of texts.
        kind: the expected type: a section, a collection or a scalar.
        place: the dotted place of the document in its file.
        how_to_state: a function that returns the hint for a missing key from its place and field; by default, the hint
            says to state the key in the file.
    """
    mistakes: list[SpecError] = []
    right = document
    inner = _type_for(document, kind)
    if isinstance(document, dict) and inner is not None:
        fields, right = _fields(inner), {}
        for key, value in document.items():
            where = f"{place}.{key}" if place else str(key)
            if _is_section(inner) and key not in fields:
                mistakes.append(SpecError("unknown key", where=where, hint=nearest(str(key), fields)))
                continue
            expected = fields[key].type if key in fields else get_args(inner)[1]
            if wrong := find_mistakes(value, expected, where, how_to_state):
                mistakes += wrong
            else:
                right[key] = value
        for key, item in fields.items():
            if item.required and key not in document:
                where = f"{place}.{key}" if place else key
                hint = how_to_state(where, item) if how_to_state else "state it in the file"
                mistakes.append(SpecError("missing", where=where, hint=hint))
    elif isinstance(document, list) and inner is not None:
        for i, value in enumerate(document):
            mistakes += find_mistakes(value, get_args(inner)[0], f"{place}[{i}]", how_to_state)
    if not mistakes or getattr(inner, "has_independent_keys", False):
        wrong_keys = {mistake.where for mistake in mistakes}
        mistakes += [each for each in _own_mistakes(right, kind, place) if each.where not in wrong_keys]
    return mistakes


def _own_mistakes(document: Any, kind: Any, place: str) -> list[SpecError]:
    """Return the mistakes of a value whose parts are right."""
    try:
        msgspec.convert(document, kind, strict=False)
    except SpecError as error:
        return [*error.mistakes]
    except msgspec.ValidationError as error:
        reason, _, _ = str(error).partition(" - at `")
        if _REQUIRED.fullmatch(reason):
            return []  # a wrong key was left out, or its absence is reported already
        if (choices := _choices(kind)) and isinstance(document, str):
            reason = f"{_shown(document)}; expected {' or '.join(choices)}"
            return [SpecError(reason, where=place, hint=nearest(document, choices) if len(choices) > 2 else "")]
        return [SpecError(_in_words(reason, document), where=place, hint=_hint(document, kind))]
    return []


def _in_words(reason: str, value: Any) -> str:
    """Restate msgspec's reason in plain words; return an unknown reason unchanged."""
    if match := _EXPECTED.fullmatch(reason):
        kinds = [kind for kind in match["kind"].split(" | ") if kind != "null"]
        expected = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
        if limit := match["limit"]:
            bound = f"{_LIMITS[limit]} {float_text(float(match['value']))}"
            if "length" in limit:
                return f"has {len(value)} {'characters' if kinds == ['str'] else 'entries'}; expected {bound}"
            expected += f" {bound}"
        return f"{_shown(value)}; expected {expected}"
    return reason


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"is {value[:_MOST_SHOWN]!r}"
    return "is empty" if not value else "is a list" if isinstance(value, list) else "has keys of its own"


def _hint(value: Any, kind: Any) -> str:
    """Return what to type in place of a wrong text; an empty text if the message says so already."""
    if not isinstance(value, str):
        return ""
    if _DECIMAL_COMMA.fullmatch(value):
        if _THOUSANDS.fullmatch(value.strip()):
            return f"write the number without commas: {value.replace(',', '')}"
        return f"write a decimal point: {value.replace(',', '.')}"
    if _type_for({}, kind) is not None and ":" in value:
        return "put a blank after each colon"
    return ""


def _choices(kind: Any) -> list[str]:
    """Return the texts that an enumeration allows; empty for any other type."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [str(each) for each in kind]
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    return [text for each in _parts(kind) for text in _choices(each)]


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types of an annotated type or of a union; empty for any other type."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[:1]
    return get_args(kind) if get_origin(kind) in {Union, UnionType} else ()


def _type_for(document: Any, kind: Any) -> Any:
    """Return the type of section or collection that a mapping or a list must have; None if there is no such type."""
    if parts := _parts(kind):
        return next((fit for each in parts if (fit := _type_for(document, each)) is not None), None)
    if isinstance(document, dict):
        return kind if _is_section(kind) or get_origin(kind) is dict else None
    is_list = get_origin(kind) in {tuple, list} and get_args(kind)[-1] is Ellipsis
    return kind if isinstance(document, list) and is_list else None


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _fields(kind: Any) -> dict[str, Any]:
    """Return the fields of a section by key; empty for any other type."""
    return {item.encode_name: item for item in fields_of(kind)} if _is_section(kind) else {}
