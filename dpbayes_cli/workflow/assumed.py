"""The defaults that a release uses because its request does not state the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.bundle.report.prior import prior_values
from dpbayes_cli.core.columns import Column
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.foreign_options import request_to
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.prepare import PreparedRelease
from dpbayes_cli.workflow.pricing import price


def assumed_values(prepared: PreparedRelease, stated: Mapping[str, Any]) -> list[str]:
    """Return one text for each default that a release uses and that can change its result.

    Defaults of inference are left out: they can be changed afterward at no privacy cost.

    Args:
        prepared: the release.
        stated: the request as the user stated it, in a spec file and by flags.
    """
    spec, model = prepared.spec, prepared.model
    texts = [
        *_defaults(spec.domain, _section(stated, "domain"), model),
        *_prior(prepared, _section(stated, "prior")),
    ]
    if prepared.plan.choice is not None:
        texts.append(prepared.plan.choice.described())
    for key, name in (("mechanism", "mechanism"), ("on_invalid", "invalid records")):
        if key not in stated:
            value = "are dropped" if (key, spec.on_invalid) == ("on_invalid", "drop") else getattr(spec, key)
            is_former = prepared.has_former_defaults and value == model.former_default
            texts.append(f"{name} {value}{' (default of an earlier version)' * is_former}")
            if value == model.default_with_delta:
                texts[-1] += _beside_default(prepared, stated)
    if "neighbors" not in _section(stated, "privacy"):
        texts.append(f"neighbors {spec.privacy.neighbors}")
    if "delta" not in _section(stated, "privacy") and spec.stated_delta is not None:
        texts.append(f"delta {decimal_text(spec.stated_delta)} of the account")
    parameters = prepared.plan.parameters
    texts += [f"{name} {parameters[name]}" for name in ("support", "power_applies_to") if name in parameters]
    if prepared.data.is_delimited:
        layout, marks = _section(stated, "source"), {"delimiter": spec.source.delimiter, "quote": spec.source.quote}
        if any(not isinstance(column, Column) for column in model.columns):
            marks |= asdict(spec.source.marks)
        unstated = {key: mark for key, mark in marks.items() if key not in layout}
        texts += [f"{key} {repr(mark) if mark else 'none'}" for key, mark in unstated.items()]
        if "decimal" in unstated and spec.source.delimiter == ";":
            texts.append("a number such as 1,5 is invalid, unless --decimal ,")
    if spec.dataset is None:
        texts.append(f"account {prepared.charge.account}")
    return texts


def _beside_default(prepared: PreparedRelease, stated: Mapping[str, Any]) -> str:
    """Return how large the noise is beside that of the default mechanism without a delta, if that has the epsilon."""
    default = prepared.model.default_mechanism
    if "epsilon" not in _section(stated, "privacy"):
        return ""
    other = price(build_spec(request_to(dict(stated), default))).plan.final_step.noise
    ratio = (prepared.plan.final_step.noise.variance / other.variance) ** 0.5
    return f" (the standard deviation of its noise is {ratio:.2g} times that of {default})"


def _prior(prepared: PreparedRelease, stated: Mapping[str, Any]) -> list[str]:
    """Return one text with the values of the prior, marked as stated or default."""
    values = prior_values(prepared.spec.prior)
    if prepared.spec.bounds is not None and not values.keys() - stated.keys():
        values["rest"] = "the rest derived from the private bounds" if values else "derived from the private bounds"
    default = "default of an earlier version" if prepared.has_former_defaults else "default"
    named = {
        word: ", ".join(text for key, text in values.items() if (key in stated) == (word == "stated"))
        for word in ("stated", default)
    }
    whole = ", ".join(f"{texts} ({word})" for word, texts in named.items() if texts)
    return [f"prior {whole}"] if whole else []


def _section(stated: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = stated.get(key)
    return section if isinstance(section, Mapping) else {}


def _defaults(section: Section, stated: Mapping[str, Any], model: Model) -> Iterator[str]:
    """Yield the keys that the user did not state, with the values that the model uses."""
    columns = [column for column in model.columns if isinstance(column, Column)]
    described = {level: column.described(code) for column in columns for code, level in enumerate(column.levels)}
    uses_texts = False
    for item in fields_of(type(section)):
        if item.name not in stated and not item.required:
            value = getattr(section, item.name)
            value = getattr(getattr(model, "base", model), item.name, None) if value is None else value
            if isinstance(value, str):
                uses_texts = uses_texts or value in described
                yield f"{item.name} {described.get(value, value)}"
            elif isinstance(value, int | float):
                yield f"{item.name} {value:g}"
    if uses_texts:
        yield "cells with any other text are invalid"
