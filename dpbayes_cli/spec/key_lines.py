"""The lines of one key of a spec as YAML, with an example and a description, made from its type."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.section import Section

_STAND_IN = re.compile(r", impute: \w+")


def without_stand_ins(model: type[Model]) -> dict[str, str]:
    """Return the examples of a model's first spec without values that replace invalid cells."""
    return {key: _STAND_IN.sub("", value) for key, value in model.first_spec.items()}


def key_lines(
    item: Any, examples: Mapping[str, str], active: Collection[str], depth: int, commented: bool = False
) -> list[str]:
    """Return the lines of one key and of the keys within it, with their descriptions.

    Args:
        item: the field of the key.
        examples: texts by key; a key without one has its default.
        active: the optional keys that are not commented out.
        depth: the number of sections around the key.
        commented: whether all lines are commented out.
    """
    pad = "  " * depth
    kind, description = _unwrapped(item.type)
    off = commented or (item.name not in active and not item.required)
    mark = "# " if off else ""
    if isinstance(kind, type) and issubclass(kind, Section):
        children = sorted(fields_of(kind), key=lambda each: not (each.required or each.name in active))
        if not children:
            return []
        section_off = off and item.name not in active
        shown = not section_off and any(child.required or child.name in active for child in children)
        lines = [f"{'' if shown else '# '}{pad}{item.name}:"]
        own = {key.removeprefix(f"{item.name}."): value for key, value in examples.items()}
        for child in children:
            lines += key_lines(child, own, active, depth + 1, commented=not shown)
        return lines
    default = "{}" if item.default_factory is dict else _shown(item.default)
    value = default if off else examples.get(item.name, default)
    note = f"  # {description}" if description else ""
    first, *rest = value.split("\n")
    return [f"{mark}{pad}{item.name}: {first}{note}", *(f"{mark}{pad}  {line}" for line in rest)]


def _unwrapped(annotation: Any) -> tuple[Any, str]:
    """Return a type without its annotations, and its description."""
    description = ""
    while get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        description = next((n.description for n in notes if getattr(n, "description", None)), description)
    if get_origin(annotation) in {Union, types.UnionType}:
        return None, description
    return annotation, description


def _shown(default: Any) -> str:
    if default is None or default is msgspec.NODEFAULT:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if default == ():
        return "[]"
    text = str(default)
    return f"'{text}'" if text in {",", '"'} else text
