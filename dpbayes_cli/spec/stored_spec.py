"""Read specs that bundles and ledgers hold, including those of earlier versions.

In earlier versions, every spec held the options of all mechanisms, and options that its own mechanism did not read were
ignored. This module drops such options of a stored spec instead of refusing them: old releases must stay readable, and
the options had no effect except on the digest of the request in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.coefficient_law import LawName
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.spec.foreign_options import SECTIONS, find_foreign_keys, inference_options, pair_of
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec, type_of
from dpbayes_cli.spec.version_1 import (
    former_inference,
    former_prior,
    renamed_keys,
    with_former_names,
    with_todays_names,
)

_EARLIER: Mapping[str, Mapping[str, Any]] = {
    "privacy": dict.fromkeys(("epsilon", "delta", "rho", "mu", "order")),
    "sampling": {
        "draws": 1,
        "temper": "likelihood",
        "support": None,
        "selection": "exponential",
        "calibration": "gdp",
        "temperature": None,
        "sampler": "langevin",
        "step": None,
        "steps": None,
        "n_max": None,
        "kernel": "gibbs",
        "sweeps": None,
        "log_weight_epsilon": None,
        "certificate": None,
        "gamma": 0.01,
    },
    "inference": {"method": "noise-aware", "ess": 400, "samples": 4000, "sweeps": 120, "sampler": "blocked"},
}
"""The options that every earlier spec held, by their names in version 1, with their defaults."""
_IGNORED = {section: {**options, **with_todays_names(_EARLIER)[section]} for section, options in _EARLIER.items()}
"""The options of ``_EARLIER`` by their old and their new names; specs of plug-ins keep the old names."""
_LATER = {
    "sampling": ("selection", "calibration", "sampler", "gamma", "kernel"),
    "inference": ("mcmc_sweeps", "state_sampler"),
}
"""The options of ``_EARLIER`` that specs of the first versions did not hold, because there was no choice yet."""
_ADDED: Mapping[str, Mapping[str, Any]] = {
    "prior": {"law": get_args(LawName)[0], "mean": {}, "scale": {}, "correlations": ()},
    "sampling": {},
    "inference": {"samples_per_group": 0, "spread": 1.0},
}
"""Options that were introduced later, with the values by which nothing changes."""


def stored_spec(stored: Mapping[str, Any]) -> ReleaseSpec:
    """Return the spec that a bundle holds."""
    return build_spec(with_former_inference(stored))


def with_former_inference(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored spec without ignored options, but with the inference options that were introduced later.

    These get the values with which the posterior was computed.

    Raises:
        SpecError: there is no such model or mechanism.
    """
    dropped = _foreign(stored)
    whole = {
        section: {key: value for key, value in part.items() if (section, key) not in dropped}
        if isinstance(part, Mapping)
        else part
        for section, part in stored.items()
    }
    options = inference_options(*pair_of(stored), grouped=stored.get("by") is not None)
    if former := former_inference(options.__struct_fields__):
        whole["inference"] = {**former, **(whole.get("inference") or {})}
    return whole


def in_full(stored: Mapping[str, Any], spec: ReleaseSpec) -> dict[str, Any]:
    """Return a stored spec as this version would store it, for comparison with ``stated_in_full`` of its spec."""
    whole = with_former_inference(stored)
    for section, added in _ADDED.items():
        options = getattr(spec, section)
        known = {**{key: _IGNORED[section][key] for key in _LATER.get(section, ())}, **added}
        later = {key: value for key, value in known.items() if getattr(options, key, None) is not None}
        if isinstance(whole.get(section), dict):
            whole[section] = {**later, **whole[section]}
    return whole


def in_full_as_earlier(spec: ReleaseSpec) -> dict[str, Any]:
    """Return ``stated_in_full`` as stored by earlier versions, whose specs held the options of all mechanisms."""
    full = with_former_names(spec.stated_in_full)
    return {**full, **{section: {**options, **full[section]} for section, options in _EARLIER.items()}}


def digest_of_request(stored: Mapping[str, Any], spec: ReleaseSpec) -> str:
    """Return the digest of the request of a stored spec, including the options that were ignored."""
    ignored: dict[str, Any] = {"model": spec.model, "mechanism": spec.mechanism}
    for section, key in _foreign(stored):
        if stored[section][key] != _IGNORED[section][key]:
            ignored.setdefault(section, {})[key] = stored[section][key]
    request = dict(spec.request)
    for section, options in with_former_names(ignored).items():
        if section in SECTIONS:
            request[section] = {**request.get(section, {}), **options}
    return digest("request", canonical_json(request))


def _foreign(stored: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return section and key of the stored options that dpbayes ignored when it stored them.

    An option that is read today, under its new or its old name, is not among them.
    """
    renamed = renamed_keys(stored)
    return [
        (section, key)
        for section, key in find_foreign_keys(stored, type_of(stored))
        if key in _IGNORED[section] and key not in renamed.get(section, {})
    ]


def former_spec(document: dict[str, Any], today: ReleaseSpec) -> ReleaseSpec | None:
    """Return the spec that a document meant in version 1, whose default mechanism, prior and inference were others.

    Args:
        document: the request as the user stated it.
        today: the spec that it states today.

    Returns:
        The former spec; None if it is not valid, or the same as today's.
    """
    prior = {**former_prior(document["model"]), **(document.get("prior") or {})}
    former = {**document, "prior": prior}
    model, mechanism = pair_of(document)
    if model.former_default and document.get("mechanism") is None:
        former["mechanism"] = model.former_default
        mechanism = mechanism_type(model.former_default)
    options = inference_options(model, mechanism, grouped=today.by is not None)
    inference = former_inference(options.__struct_fields__)
    if "mcmc_sweeps" in options.__struct_fields__:
        inference["mcmc_sweeps"] = _EARLIER["inference"]["sweeps"]
    if inference:
        former["inference"] = {**inference, **(document.get("inference") or {})}
    try:
        same_options = mechanism.name == today.mechanism and not inference
        if same_options and msgspec.convert(prior, type(today.prior), strict=False) == today.prior:
            return None
        spec = build_spec(former)
    except (SpecError, msgspec.ValidationError):
        return None
    return None if spec.request == today.request else spec
