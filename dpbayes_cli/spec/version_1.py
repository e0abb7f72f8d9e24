"""Version 1 of specs: its names of keys, and its defaults, by which every request is identified for good.

A ledger knows a release by the digest of its request. So that a key may get a better name, and a default a better
value, the request is always written with the names and the defaults of version 1: a key is left out if it has the value
that version 1 gave it. A key, model or mechanism that comes later gets its entry in ``version_1_defaults.json`` when it
is introduced, and that entry never changes. What a plug-in adds has none: its own defaults are those that count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from dpbayes_cli.core.section import Section

RENAMED: Mapping[str, Mapping[str, str]] = {
    "sampling": {
        "temperature": "likelihood_power",
        "temper": "power_applies_to",
        "step": "step_size",
        "steps": "n_steps",
        "n_max": "max_records",
    },
    "inference": {"sweeps": "mcmc_sweeps", "sampler": "state_sampler"},
}
"""By section: the keys of version 1 that have another name now."""
_FORMER = {section: {new: old for old, new in names.items()} for section, names in RENAMED.items()}


def with_todays_names(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec of version 1 with the names that its keys have today."""
    return _with_names(stated, RENAMED)


def with_former_names(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with the names that its keys had in version 1."""
    return _with_names(stated, _FORMER)


def _with_names(stated: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        section: {names.get(section, {}).get(key, key): value for key, value in part.items()}
        if isinstance(part, Mapping)
        else part
        for section, part in stated.items()
    }


@cache
def frozen_defaults(model: str, mechanism: str) -> Mapping[str, Any]:
    """Return the defaults of version 1 for a model and a mechanism by dotted key; that of a section is ``{}``."""
    table = json.loads(files(__package__).joinpath("version_1_defaults.json").read_text("utf-8"))
    return {**table["common"], **table["models"].get(model, {}), **table["mechanisms"].get(mechanism, {})}


def without_defaults(section: Section, frozen: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return what a section states beyond the defaults of version 1, with the names of version 1.

    Args:
        section: a spec, or a section of it.
        frozen: the defaults of version 1; where it has none, the type's own counts.
        place: where the section stands in its spec, dotted; empty for the whole spec.
    """
    stated: dict[str, Any] = {}
    for item in msgspec.structs.fields(section):
        value = getattr(section, item.name)
        name = _FORMER.get(place, {}).get(item.name, item.name)
        key = f"{place}.{name}" if place else name
        plain = without_defaults(value, frozen, key) if isinstance(value, Section) else _plain(value)
        if plain != (frozen[key] if key in frozen else _own_default(item)):
            stated[name] = plain
    return stated


def _own_default(item: Any) -> Any:
    """Return the default of a field in plain form; what equals no value if it has none."""
    default = item.default if item.default_factory is msgspec.NODEFAULT else item.default_factory()
    return {} if isinstance(default, Section) else default if default is msgspec.NODEFAULT else _plain(default)


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return json.loads(msgspec.json.encode(value))
