"""The prior of a release in words: its numbers, and whether they are defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import bounds_of
from dpbayes_cli.bundle.stated_request import spec_of
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.version_1 import former_prior


def prior_text(document: ReleaseDocument) -> str:
    """Return the values of the prior that a release used, and whether it is the default of the model."""
    spec = spec_of(document)
    kind, domain = model_type(spec.model), spec.domain_at(bounds_of(document))
    prior = kind.complete_prior(domain, spec.prior)
    word = "stated"
    if not any(item.required for item in msgspec.structs.fields(kind.prior_type)):
        if prior == kind.complete_prior(domain, kind.prior_type()):
            word = "default"
        elif prior == msgspec.convert(former_prior(spec.model), kind.prior_type):
            word = "default of an earlier version"
    return f"{', '.join(prior_values(prior).values())} ({word})"


def prior_values(prior: Section) -> dict[str, str]:
    """Return, for each key of a prior that has a value, a text with the key and its numbers, such as "alpha 1"."""
    values = msgspec.to_builtins(prior)
    return {key: f"{key} {_numbers(value)}" for key, value in values.items() if value is not None and value != {}}


def _numbers(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_numbers(part)}" for name, part in value.items()) + "}"
    return float_text(value) if isinstance(value, int | float) else str(value)
