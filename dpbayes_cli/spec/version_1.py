"""The keys and defaults of version 1 of specs, which identify requests in every later version.

A ledger identifies a release by the digest of its request. Digests must stay the same if a key or a default changes
later. For the digest, a request is therefore always written with the names of version 1, and without the keys that have
their default value of version 1. A key, model or mechanism that is introduced later gets an entry in
``version_1_defaults.json``, which never changes. Plug-ins have no entries: their own names and defaults count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.registry import model_type
from dpbayes_cli.core.section import Section

Names = Mapping[str, Mapping[str, str]]
"""For each section, the keys to be renamed and their new names."""

RENAMED: Names = {
    "sampling": {
        "temperature": "likelihood_power",
        "temper": "power_applies_to",
        "step": "step_size",
        "steps": "n_steps",
        "n_max": "max_records",
    },
    "inference": {"sweeps": "mcmc_sweeps", "sampler": "state_sampler"},
}
"""The keys of version 1 that have another name today."""
RENAMED_FLAGS = {
    "--temperature": "--likelihood-power",
    "--temper": "--power-applies-to",
    "--step": "--step-size",
    "--steps": "--n-steps",
    "--n-max": "--max-records",
    "--chain-sweeps": "--mcmc-sweeps",
}
"""The flags of version 1 that have another name today."""


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    table: Mapping[str, Mapping[str, Any]] = json.loads(
        files(__package__).joinpath("version_1_defaults.json").read_text("utf-8")
    )
    return table


def renamed_keys(stated: Mapping[str, Any]) -> Names:
    """Return the keys of version 1 to be renamed in a spec; keys that belong to plug-ins are not renamed.

    Args:
        stated: a spec as it is written. A spec without a mechanism has the model's default mechanism, and a spec
            without a model counts as one with a built-in model.
    """
    sections = {"sampling": ("mechanisms", _mechanism(stated)), "inference": ("models", stated.get("model"))}
    return {
        section: RENAMED[section]
        for section, (kinds, name) in sections.items()
        if name is None or str(name) in _table()[kinds]
    }


def _mechanism(stated: Mapping[str, Any]) -> Any:
    """Return the mechanism that a spec names, or the default of its plug-in model; None: the default of a built-in."""
    model, mechanism = stated.get("model"), stated.get("mechanism")
    if mechanism is None and isinstance(model, str) and model not in _table()["models"]:
        with suppress(SpecError):
            return model_type(model).default_mechanism
    return mechanism


def with_todays_names(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec of version 1 with the names that its keys have today."""
    return _with_names(stated, renamed_keys(stated))


def with_former_names(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with the names that its keys had in version 1."""
    return _with_names(stated, _former(renamed_keys(stated)))


def _former(names: Names) -> Names:
    return {section: {new: old for old, new in keys.items()} for section, keys in names.items()}


def _with_names(stated: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {
        section: {names.get(section, {}).get(key, key): value for key, value in part.items()}
        if isinstance(part, Mapping)
        else part
        for section, part in stated.items()
    }


def find_renamed_keys(stated: Mapping[str, Any]) -> Iterator[SpecError]:
    """Yield a mistake for each key that is stated by its name in version 1; the hint gives its new name."""
    for section, names in renamed_keys(stated).items():
        part = stated.get(section)
        for key in part if isinstance(part, Mapping) else ():
            if key in names:
                yield SpecError(
                    "this key was renamed",
                    where=f"{section}.{key}",
                    hint=f"write {section}.{names[key]}, or have the file rewritten: dpbayes spec migrate FILE",
                )


def canonical_request(spec: Section, model: str, mechanism: str) -> dict[str, Any]:
    """Return the keys of a spec whose values differ from the defaults of version 1, with the names of version 1."""
    table = _table()
    frozen = {**table["common"], **table["models"].get(model, {}), **table["mechanisms"].get(mechanism, {})}
    return _stated(spec, _former(renamed_keys({"model": model, "mechanism": mechanism})), frozen, "")


def former_prior(model: str) -> dict[str, Any]:
    """Return the default of version 1 for each key of a model's prior that had one; empty for plug-ins."""
    prefix = "prior."
    frozen = _table()["models"].get(model, {})
    return {key.removeprefix(prefix): value for key, value in frozen.items() if key.startswith(prefix)}


def former_inference(options: Iterable[str]) -> dict[str, Any]:
    """Return the values of those inference options that bundles and ledgers of earlier versions do not state."""
    return {"count_prior": "uniform"} if "count_prior" in options else {}


def _stated(section: Section, names: Names, frozen: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the keys whose values differ from the frozen default or, if there is none, from that of the type."""
    stated: dict[str, Any] = {}
    for item in fields_of(type(section)):
        value = getattr(section, item.name)
        name = names.get(place, {}).get(item.name, item.name)
        key = f"{place}.{name}" if place else name
        plain = _stated(value, names, frozen, key) if isinstance(value, Section) else _plain(value)
        if plain != (frozen[key] if key in frozen else _own_default(item)):
            stated[name] = plain
    return stated


def _own_default(item: Any) -> Any:
    """Return the default of a field in the form of JSON; empty for a section, because ``_stated`` skips defaults."""
    default = item.default if item.default_factory is msgspec.NODEFAULT else item.default_factory()
    if isinstance(default, Section):
        return {}
    return default if default is msgspec.NODEFAULT else _plain(default)


def _plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))
