"""Translate the names of parameters between version 1 of the release document and today's version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RENAMED = {
    "temperature": "likelihood_power",
    "first_temperature": "first_likelihood_power",
    "temper": "power_applies_to",
}
_RENAMED_OF_CHAINS = {"rho": "likelihood_power", "step": "step_size", "steps": "n_steps"}
"""Renamed for Langevin chains only; in other mechanisms, rho is the parameter of zero-concentrated differential
privacy."""
_CHAINS = frozenset({"gibbs-posterior", "rdp-concentrated", "rdp-diffuse", "rdp-direct"})
_MECHANISMS = _CHAINS | {"gibbs", "map", "ops"}
"""The mechanisms whose parameters were renamed; the parameters of plug-ins keep their names."""


def parameters_today(mechanism: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a version 1 document under today's names."""
    return _renamed(parameters, _names(mechanism, parameters))


def parameters_formerly(mechanism: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a document under their names of version 1."""
    return _renamed(parameters, {new: old for old, new in _names(mechanism, parameters).items()})


def _names(mechanism: str, parameters: Mapping[str, Any]) -> Mapping[str, str]:
    if mechanism in _CHAINS and "tau" in parameters:
        return _RENAMED_OF_CHAINS
    return _RENAMED if mechanism in _MECHANISMS else {}


def _renamed(parameters: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Rename parameters, also within nested parts; the keys of ``tables`` are names of variables and do not change."""
    renamed = {names.get(key, key): value for key, value in parameters.items()}
    for part in ("certificate", "corollary_8"):
        if isinstance(values := renamed.get(part), dict):
            renamed[part] = {names.get(key, key): value for key, value in values.items()}
    if isinstance(tables := renamed.get("tables"), dict):
        renamed["tables"] = {
            name: {names.get(key, key): value for key, value in values.items()} if isinstance(values, dict) else values
            for name, values in tables.items()
        }
    return renamed
