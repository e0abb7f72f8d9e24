"""The prior of a release: its intervals for tables, its densities for plots, and its numbers in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import chosen_in, payload_of
from dpbayes_cli.bundle.stated_request import spec_of
from dpbayes_cli.core.coefficient_law import HasCoefficients
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.registry import mechanism_type, model_type
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.spec.version_1 import former_prior

_POINTS = 400


def prior_ends(document: ReleaseDocument, model: Model, tails: Sequence[float]) -> dict[str, list[float]]:
    """Return, for each parameter whose prior is known, the quantiles of the prior at two levels from 0 to 1.

    If draws or estimates were released, no parameter has an entry, because their mechanism may restrict the prior.
    """
    quantiles = None if document.draws else _given_release(document, model).prior_quantiles(np.asarray(tails))
    if quantiles is None:
        return {}
    named = zip(model.parameters, quantiles, strict=True)
    return {name: ends.tolist() for name, ends in named if np.isfinite(ends).all()}


def prior_densities(document: ReleaseDocument, model: Model) -> dict[str, tuple[Floats, Floats]]:
    """Return points and prior densities by parameter, each of shape (n_points,); ``prior_ends`` says for which."""
    if document.draws:
        return {}
    levels = np.linspace(0.0, 1.0, _POINTS + 2)[1:-1]
    quantiles = _given_release(document, model).prior_quantiles(levels)
    densities = {}
    for name, q in zip(model.parameters, () if quantiles is None else quantiles, strict=quantiles is not None):
        steps = np.diff(q)
        if np.isfinite(q).all() and (steps > 0).all():
            densities[name] = (q[:-1] + steps / 2.0, np.diff(levels) / steps)
    return densities


def _given_release(document: ReleaseDocument, model: Model) -> Model:
    """Return the model, with a prior that refers to means and standard deviations given guesses of these."""
    if not (isinstance(model, HasCoefficients) and model.prior.per_sd):
        return model
    from dpbayes_cli.core.noisy_observation import NoisyDerivatives
    from dpbayes_cli.inference.derivatives.first_round import prior_at_guesses

    spec, released = spec_of(document), payload_of(document)
    observed = (released.values, released.noise, document.n_records, released.points)
    observation = mechanism_type(spec.mechanism)().observation(model, spec.policy, *observed)
    prior = prior_at_guesses(require_type(observation, NoisyDerivatives))
    return cast("Model", replace(model, prior=prior))  # type: ignore[type-var]


def prior_text(document: ReleaseDocument) -> str:
    """Return the values of the prior that a release used, and whether it is the default of the model."""
    spec = spec_of(document)
    kind, domain = model_type(spec.model), spec.domain_at(chosen_in(document))
    prior = spec.complete_prior(domain, spec.prior)
    word = "stated"
    if not any(item.required for item in fields_of(kind.prior_type)):
        if prior == spec.complete_prior(domain, kind.prior_type()):
            word = "default"
        elif prior == msgspec.convert(former_prior(spec.model), kind.prior_type):
            word = "default of an earlier version"
    of = " of the mean of all groups" if spec.inference_options.value("pooling") == "partial" else ""
    return f"{', '.join(prior_values(prior).values())}{of} ({word})"


def prior_values(prior: Section) -> dict[str, str]:
    """Return, for each key of a prior that has a value, a text with the key and its numbers, such as "alpha 1"."""
    values = msgspec.to_builtins(prior)
    return {
        key: f"{key} {_numbers(value)}"
        for key, value in values.items()
        if value is not None and value not in ({}, [], ())
    }


def _numbers(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_numbers(part)}" for name, part in value.items()) + "}"
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
