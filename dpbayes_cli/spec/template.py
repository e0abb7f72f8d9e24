"""A commented spec to start from, made from the types that check it."""

from __future__ import annotations

import types
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from dpbayes_cli.contracts import Section
from dpbayes_cli.spec.release_spec import spec_type

_EXAMPLES = {"epsilon": "1", "categories": "[yes, no, undecided]", "data": "data.csv"}
_ACTIVE = {"model", "privacy", "epsilon", "domain", "categories", "data"}


def template(model: str) -> str:
    """Return a YAML spec for a model: what must be stated is, what may be stated is commented out.

    Raises:
        SpecError: there is no such model.
    """
    lines = [f"# A question for dpbayes: dpbayes release --spec THIS_FILE. Model: {model}.", ""]
    for item in msgspec.structs.fields(spec_type(model)):
        lines += _key(item, model, 0)
    return "\n".join(lines) + "\n"


def _key(item: Any, model: str, depth: int, commented: bool = False) -> list[str]:
    """Return the lines of one key, its description above it."""
    pad = "  " * depth
    kind, description = _unwrapped(item.type)
    off = commented or (item.name not in _ACTIVE and not item.required)
    mark = "# " if off else ""
    if isinstance(kind, type) and issubclass(kind, Section):
        children = msgspec.structs.fields(kind)
        section_off = off and item.name not in _ACTIVE
        active = not section_off and any(child.required or child.name in _ACTIVE for child in children)
        lines = [f"{'' if active else '# '}{pad}{item.name}:"]
        for child in children:
            lines += _key(child, model, depth + 1, commented=not active)
        return lines
    value = model if item.name == "model" else _EXAMPLES.get(item.name, _shown(item.default))
    note = f"  # {description}" if description else ""
    return [f"{mark}{pad}{item.name}: {value}{note}"]


def _unwrapped(annotation: Any) -> tuple[Any, str]:
    """Return a type without its annotations, and the description among them."""
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
