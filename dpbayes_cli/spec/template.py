"""A commented spec to start from, made from the types that check it."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from dpbayes_cli.core.contracts import Section
from dpbayes_cli.spec.release_spec import spec_type

_EXAMPLES = {
    "epsilon": "1",
    "categories": "[yes, no, undecided]",
    "columns": "{height: {lower: 100, upper: 220}, weight: {lower: 30, upper: 250}}",
    "data": "data.csv",
    "lower": "0",
    "upper": "100",
    "variance": "1",
}
_DRAWN = {"mechanism": "gibbs-posterior", "delta": "1e-6"}
_FEATURES = "\nage: {lower: 18, upper: 100}\nsmoker: {values: [yes, no]}"
_CLASSES = {**_DRAWN, "features": _FEATURES, "column": "ill", "values": "[no, yes]"}
_NUMBERS = {**_DRAWN, "features": _FEATURES, "column": "days"}
_EXAMPLES_OF = {
    "bayes-net": {
        "variables": "\nage: {cuts: [40, 60]}\nsmoker: {values: [yes, no], parents: [age]}\n"
        "ill: {values: [yes, no], parents: [age, smoker]}"
    },
    "hmm": {
        "sequence.column": "region",
        "sequence.values": "[north, south]",
        "time.column": "month",
        "time.values": "[jan, feb, mar]",
        "features": "\nkind: {values: [theft, assault]}\nhurt: {cuts: [1, 3]}",
        "states": "2",
    },
    "linear-regression": {
        "column": "weight",
        "features": "{height: {lower: 100, upper: 220}, age: {lower: 0, upper: 120}}",
    },
    "naive-bayes": {
        "target": "ill",
        "variables": "\nill: {values: [yes, no]}\nage: {cuts: [40, 60]}\nsmoker: {values: [yes, no]}",
    },
    "naive-bayes-mixture": {
        "mechanism": "gibbs",
        "variables": "\nage: {cuts: [40, 60], impute: 50}\nsmoker: {values: [yes, no], impute: no}",
        "classes": "2",
    },
    **dict.fromkeys(("logistic-regression", "probit-regression", "svm"), _CLASSES),
    **dict.fromkeys(("huber-regression", "quantile-regression"), _NUMBERS),
}
"""A value of several lines begins with an empty one. A key of one section alone is written with the section's."""
_ACTIVE = {"model", "privacy", "epsilon", "domain", "categories", "columns", "data", "lower", "upper"}


def template(model: str) -> str:
    """Return a YAML spec for a model: what must be stated is, what may be stated is commented out.

    Raises:
        SpecError: there is no such model.
    """
    lines = [f"# A question for dpbayes: dpbayes release --spec THIS_FILE. Model: {model}.", ""]
    examples = {**_EXAMPLES, **_EXAMPLES_OF.get(model, {}), "model": model}
    for item in msgspec.structs.fields(spec_type(model)):
        if item.type in {None, types.NoneType}:  # a key that this model does not take
            continue
        lines += _key(item, examples, _ACTIVE | (_DRAWN.keys() & examples.keys()), 0)
    return "\n".join(lines) + "\n"


def _key(
    item: Any, examples: Mapping[str, str], active: Collection[str], depth: int, commented: bool = False
) -> list[str]:
    """Return the lines of one key, its description above it."""
    pad = "  " * depth
    kind, description = _unwrapped(item.type)
    off = commented or (item.name not in active and not item.required)
    mark = "# " if off else ""
    if isinstance(kind, type) and issubclass(kind, Section):
        children = msgspec.structs.fields(kind)
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
