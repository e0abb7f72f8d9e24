"""A commented spec to start from, made from the types that check specs."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.foreign_options import pair_of
from dpbayes_cli.spec.release_spec import spec_type

_EXAMPLES = {"data": "data.csv"}
_ACTIVE = {"model", "domain", *_EXAMPLES}
_IMPUTE = re.compile(r", impute: \w+")


def template(model: str, mechanism: str | None = None) -> str:
    """Return a YAML spec for a model and a mechanism, in which optional keys are commented out.

    Args:
        model: the model's name.
        mechanism: the mechanism's name; None: the model's default.

    Raises:
        SpecError: there is no such model or mechanism, or they do not fit.
    """
    model_class, mechanism_class = pair_of({"model": model, "mechanism": mechanism})
    lines = [f"# A release request: dpbayes release --spec THIS_FILE. Model: {model}.", ""]
    examples = {**_EXAMPLES, **model_class.first_spec, "model": model, "mechanism": mechanism_class.name}
    beside = {**mechanism_class.first_spec, **(model_class.first_spec_drawn if mechanism_class.needs_n else {})}
    if not mechanism_class.needs_n:
        examples = {key: _IMPUTE.sub("", value) for key, value in examples.items()}
    active = {*_ACTIVE, *model_class.first_spec, *(word for key in beside for word in key.split("."))}
    active |= {"mechanism"} if mechanism_class.name != "laplace" else set()
    for item in msgspec.structs.fields(spec_type(model, mechanism_class.name)):
        if item.type in {None, types.NoneType}:  # a key that this model does not have
            continue
        lines += _key(item, examples | beside, active, 0)
    return "\n".join(lines) + "\n"


def _key(
    item: Any, examples: Mapping[str, str], active: Collection[str], depth: int, commented: bool = False
) -> list[str]:
    """Return the lines of one key and of the keys within it, with their descriptions."""
    pad = "  " * depth
    kind, description = _unwrapped(item.type)
    off = commented or (item.name not in active and not item.required)
    mark = "# " if off else ""
    if isinstance(kind, type) and issubclass(kind, Section):
        children = sorted(msgspec.structs.fields(kind), key=lambda each: not (each.required or each.name in active))
        if not children:
            return []
        section_off = off and item.name not in active
        shown = not section_off and any(child.required or child.name in active for child in children)
        lines = [f"{'' if shown else '# '}{pad}{item.name}:"]
        own = {key.removeprefix(f"{item.name}."): value for key, value in examples.items()}
        for child in children:
            lines += _key(child, own, active, depth + 1, commented=not shown)
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
