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
_PARTS = ("certificate", "corollary_8")  # parameters that hold further parameters, which were renamed too


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
    """Rename parameters, also within parts and tables; the keys of ``tables`` are variables and keep their names."""

    def rename(part: Any) -> Any:
        return {names.get(key, key): value for key, value in part.items()} if isinstance(part, Mapping) else part

    renamed = {key: rename(value) if key in _PARTS else value for key, value in rename(parameters).items()}
    if isinstance(tables := renamed.get("tables"), Mapping):
        renamed["tables"] = {name: rename(values) for name, values in tables.items()}
    return renamed
