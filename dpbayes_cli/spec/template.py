"""A commented spec to start from, made from the types that check it."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from dpbayes_cli.core.contracts import Section
from dpbayes_cli.spec.foreign_options import pair_of
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
_FEATURES = "\nage: {lower: 18, upper: 100}\nsmoker: {values: [yes, no]}"
_CLASSES = {"features": _FEATURES, "column": "ill", "values": "[no, yes]"}
_NUMBERS = {"features": _FEATURES, "column": "days"}
_EXAMPLES_OF = {
    "bayes-net": {
        "variables": "\nage: {cuts: [40, 60], impute: 50}\nsmoker: {values: [yes, no], parents: [age], impute: no}\n"
        "ill: {values: [yes, no], parents: [age, smoker], impute: no}"
    },
    "hmm": {
        "sequence.column": "region",
        "sequence.values": "[north, south]",
        "time.column": "month",
        "time.values": "[jan, feb, mar]",
        "features": "\nkind: {values: [theft, assault], impute: theft}\nhurt: {cuts: [1, 3], impute: 0}",
        "states": "2",
    },
    "linear-regression": {
        "column": "weight",
        "features": "{height: {lower: 100, upper: 220}, age: {lower: 0, upper: 120}}",
    },
    "naive-bayes": {
        "target": "ill",
        "variables": "\nill: {values: [yes, no], impute: no}\nage: {cuts: [40, 60], impute: 50}\n"
        "smoker: {values: [yes, no], impute: no}",
    },
    "naive-bayes-mixture": {
        "variables": "\nage: {cuts: [40, 60], impute: 50}\nsmoker: {values: [yes, no], impute: no}",
        "classes": "2",
    },
    **dict.fromkeys(("logistic-regression", "probit-regression", "svm"), _CLASSES),
    **dict.fromkeys(("huber-regression", "quantile-regression"), _NUMBERS),
}
"""A value of several lines begins with an empty one. A key of one section alone is written with the section's."""
_IMPUTE = re.compile(r", impute: \w+")
_COMPLETE = {
    "beta-bernoulli": {"on_invalid": "impute:0"},
    "dirichlet-categorical": {"on_invalid": "impute:undecided"},
    "gamma-exponential": {"on_invalid": "impute:1", "support": "[0.01, 100]"},
    "gamma-poisson": {"on_invalid": "impute:1", "support": "[0.01, 100]"},
    "hmm": {"sequence.impute": "north", "time.impute": "jan"},
    "linear-regression": {"on_invalid": "impute:100", "variance": "100"},
    "normal-mean": {"on_invalid": "impute:50"},
}
"""What posterior draws need of a model beside: that every record is complete, and a public range of the parameter."""
_NEEDED: dict[str, dict[str, str]] = {
    "gaussian": {"delta": "1e-6"},
    "gibbs-posterior": {"delta": "1e-6"},
    "rdp-direct": {"alpha": "10", "beta": "10", "concentration": "10", "shape": "300", "rate": "300"},
}
"""What the price of a mechanism needs beside epsilon; that of true posteriors, priors with some weight."""
_ACTIVE = {"model", "privacy", "epsilon", "domain", "categories", "columns", "data", "lower", "upper"}


def template(model: str, mechanism: str | None = None) -> str:
    """Return a YAML spec for a model and a mechanism: what must be stated is, what may be stated is commented out.

    Args:
        model: the model's name.
        mechanism: the mechanism's; None: the model's own.

    Raises:
        SpecError: there is no such model or mechanism, or they do not fit.
    """
    _, answers = pair_of({"model": model, "mechanism": mechanism})
    lines = [f"# A question for dpbayes: dpbayes release --spec THIS_FILE. Model: {model}.", ""]
    examples = {**_EXAMPLES, **_EXAMPLES_OF.get(model, {}), "model": model, "mechanism": answers.name}
    needed = {**_NEEDED.get(answers.name, {}), **(_COMPLETE.get(model, {}) if answers.needs_n else {})}
    if not answers.needs_n:
        examples = {key: _IMPUTE.sub("", value) for key, value in examples.items()}
    active = {*_ACTIVE, *(key.rpartition(".")[2] for key in needed)}
    active |= {"mechanism"} if answers.name != "laplace" else set()
    active |= {"sampling"} if "support" in needed else set()
    if answers.name == "rdp-direct":  # what a true posterior costs is its prior's to say
        active = (active | {"prior"}) - {"epsilon"}
    examples |= needed
    for item in msgspec.structs.fields(spec_type(model, answers.name)):
        if item.type in {None, types.NoneType}:  # a key that this model does not take
            continue
        lines += _key(item, examples, active, 0)
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
