"""A commented spec to start from, made from the types that check specs."""

from __future__ import annotations

import types

import msgspec

from dpbayes_cli.spec.foreign_options import pair_of
from dpbayes_cli.spec.key_lines import key_lines, without_stand_ins
from dpbayes_cli.spec.release_spec import spec_type

_EXAMPLES = {"data": "data.csv"}
_ACTIVE = {"model", "domain", *_EXAMPLES}


def template(model: str, mechanism: str | None = None) -> str:
    """Return a YAML spec for a model and a mechanism (None: the model's default), with optional keys commented out.

    Raises:
        SpecError: there is no such model or mechanism, or the mechanism does not serve the model.
    """
    model_class, mechanism_class = pair_of({"model": model, "mechanism": mechanism})
    lines = [f"# A release request: dpbayes release --spec THIS_FILE. Model: {model}.", ""]
    own = model_class.first_spec if mechanism_class.needs_n else without_stand_ins(model_class)
    examples = {**_EXAMPLES, **own, "model": model, "mechanism": mechanism_class.name}
    beside = {**mechanism_class.first_spec, **(model_class.first_spec_drawn if mechanism_class.needs_n else {})}
    active = {*_ACTIVE, *model_class.first_spec, *(word for key in beside for word in key.split("."))}
    active |= {"mechanism"} if mechanism_class.name != "laplace" else set()
    for item in msgspec.structs.fields(spec_type(model, mechanism_class.name)):
        if item.type in {None, types.NoneType}:  # a key that this model does not have
            continue
        lines += key_lines(item, examples | beside, active, 0)
    return "\n".join(lines) + "\n"
