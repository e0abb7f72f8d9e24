"""Refuse the options of a request that only other mechanisms or models read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.inference_options import GroupInference
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import INFERENCE, PRIVACY, SAMPLING, Options, fields_of, notes_of
from dpbayes_cli.core.registry import (
    check_supports,
    mechanism_type,
    model_names,
    model_type,
    supported_pairs,
    supporting_mechanisms,
)
from dpbayes_cli.spec.groups_section import finds_keys

SECTIONS = (PRIVACY, SAMPLING, INFERENCE)
"""The sections whose keys depend on model and mechanism."""


def pair_of(document: Mapping[str, Any]) -> tuple[type[Model], type[Mechanism]]:
    """Return the model and the mechanism that a spec names; if it names no mechanism, the model's default.

    Raises:
        SpecError: the spec names no model or an unknown one, or its mechanism does not support the model.
    """
    name = document.get("model")
    if not isinstance(name, str):
        hint = f"--model NAME, one of: {', '.join(model_names())}; dpbayes check FILE suggests a model for each column"
        raise SpecError("no model is stated", where="model", hint=hint)
    model = model_type(name)
    stated = document.get("mechanism")
    if not isinstance(stated, str | None):
        raise SpecError("expected the name of one mechanism", where="mechanism", hint=f"e.g. {model.default_mechanism}")
    mechanism = mechanism_type(_default_mechanism(model, document) if stated is None else stated)
    check_supports(mechanism, model)
    return model, mechanism


def _default_mechanism(model: type[Model], document: Mapping[str, Any]) -> str:
    stated = {
        (section, key)
        for section in SECTIONS
        if isinstance(part := document.get(section), Mapping)
        for key, value in part.items()
        if value is not None
    }
    today = _all_read(model, model.default_mechanism)
    for other in filter(None, (model.former_default, model.default_with_delta)):
        if stated & _all_read(model, other) - today:
            return other
    return model.default_mechanism


@lru_cache(maxsize=256)
def _all_read(model: type[Model], mechanism: str) -> frozenset[tuple[str, str]]:
    read = mechanism_type(mechanism)
    return frozenset((section, key) for section in SECTIONS for key in names_in(_read(model, read, section), section))


def inference_options(model: type[Model], mechanism: type[Mechanism], *, grouped: bool = False) -> type[Options]:
    """Return the options that the inference of a model reads; there are none if the mechanism releases draws.

    Args:
        grouped: whether the records are divided into groups.
    """
    if grouped:
        return GroupInference
    return model.inference_options if mechanism.post_processing else Options


def find_foreign_keys(document: Mapping[str, Any], kind: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """Yield section and key of each option in a document that its type of specs, ``kind``, does not have."""
    types = {item.name: item.type for item in fields_of(kind)}
    for section in SECTIONS:
        stated = document.get(section)
        if isinstance(stated, Mapping):
            allowed = types[section].__struct_fields__
            yield from ((section, key) for key in stated if key not in allowed)


def find_foreign_options(document: Mapping[str, Any], kind: type[msgspec.Struct]) -> Iterator[SpecError]:
    """Yield a mistake for each option of another mechanism or model; the hint names those that read it.

    Args:
        document: a spec as it is written.
        kind: the type of specs for its model and mechanism.
    """
    for section, key in find_foreign_keys(document, kind):
        readers = _readers(section, key)
        if not readers:
            continue  # an unknown key, which the check of the section refuses
        model, mechanism = pair_of(document)
        here = [by.name for of, by in readers if of is model]
        elsewhere = list(dict.fromkeys(of.name for of, _ in readers))
        yield SpecError(
            f"mechanism {mechanism.name!r} does not use this option with model {model.name!r}",
            where=f"{section}.{key}",
            hint=f"leave it out, or choose a mechanism that uses it: {', '.join(here)}"
            if here
            else f"leave it out: no mechanism uses it with this model, only with: {', '.join(elsewhere)}",
        )


def request_to(document: Mapping[str, Any], mechanism: str) -> dict[str, Any]:
    """Return a spec with ``mechanism``, without the options that only other mechanisms of the model read."""
    model = model_type(document["model"])
    others = [mechanism_type(name) for name in supporting_mechanisms(model)]
    read = mechanism_type(mechanism)
    request = {**document, "mechanism": mechanism}
    for section in SECTIONS:
        if isinstance(stated := document.get(section), Mapping):
            foreign_here = {key for by in others for key in names_in(_read(model, by, section), section)}
            foreign_here -= {*names_in(_read(model, read, section), section)}
            foreign_here -= {"delta"} if finds_keys(document) else set()  # the delta of the keys
            request[section] = {key: value for key, value in stated.items() if key not in foreign_here}
    return request


def names_in(options: type[Options], section: str) -> list[str]:
    """Return the names of the options that belong to a section of a spec."""
    return [item.name for item in fields_of(options) if notes_of(item.type)["section"] == section]


@lru_cache(maxsize=256)
def _readers(section: str, key: str) -> list[tuple[type[Model], type[Mechanism]]]:
    return [(of, by) for of, by in supported_pairs() if key in names_in(_read(of, by, section), section)]


def _read(model: type[Model], mechanism: type[Mechanism], section: str) -> type[Options]:
    return inference_options(model, mechanism) if section == INFERENCE else mechanism.options_for(model)
