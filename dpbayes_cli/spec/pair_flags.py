"""The flags of a model and a mechanism, made from the types of their specs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import INFERENCE, PRIVACY, SAMPLING, fields_of, unwrap
from dpbayes_cli.core.registry import supported_pairs
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.bounds_section import BoundsSection
from dpbayes_cli.spec.release_spec import spec_type
from dpbayes_cli.spec.request_flags import FLAGS, Flag, Group

_NAMED_AFTER_KEYS: dict[str, Group] = {PRIVACY: "Privacy", SAMPLING: "Sampling", INFERENCE: "Inference and output"}
"""The sections whose options have flags named after their keys, and the title under which help lists these flags."""
_SHORT = 20


class KeyFlag(NamedTuple):
    """A key of a spec with its flag, and whether its value is a list."""

    key: str
    flag: Flag
    is_list: bool


def flags_of(model: type[Model], mechanism: type[Mechanism]) -> list[KeyFlag]:
    """Return the flags of requests for a model and a mechanism."""
    keys = dict(_keys(spec_type(model.name, mechanism.name)))
    if model.column_names is not Model.column_names:  # the domain names the columns
        del keys["column"]
    if model.bound_keys and mechanism.post_processing:
        bounds = dict(_keys(BoundsSection, "bounds."))
        ends = () if "lower" in model.bound_keys else ("bounds.private.low", "bounds.private.lower_quantile")
        keys |= {key: item for key, item in bounds.items() if key not in ends}
    listed = [KeyFlag("prior", FLAGS["prior"], is_list=False)]
    listed += [
        _flag(key, item) for key, item in keys.items() if key in FLAGS or key.partition(".")[0] in _NAMED_AFTER_KEYS
    ]
    order = list(FLAGS)
    return sorted(listed, key=lambda each: order.index(each.key) if each.key in FLAGS else len(order))


def all_flags() -> list[KeyFlag]:
    """Return the flags of all models and mechanisms without repetition."""
    return list({each.key: each for pair in supported_pairs() for each in flags_of(*pair)}.values())


def _keys(kind: type[msgspec.Struct], place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a section and of the sections within it."""
    for item in fields_of(kind):
        inner, _ = unwrap(item.type)
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _keys(inner, f"{place}{item.name}.")
        else:
            yield place + item.name, item


def _flag(key: str, item: Any) -> KeyFlag:
    inner, description = unwrap(item.type)
    is_list = get_origin(inner) is tuple
    text = description
    if item.default not in {None, msgspec.NODEFAULT} and "[" not in text:
        text += f" [{item.default}]"
    if key in FLAGS:
        flag = FLAGS[key]
        return KeyFlag(key, flag if flag.text else flag._replace(text=text), is_list)
    section, _, name = key.rpartition(".")
    names = (f"--{name.replace('_', '-')}",)
    return KeyFlag(key, Flag(_NAMED_AFTER_KEYS[section], names, _metavar(inner), text), is_list)


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        choices = "|".join(get_args(kind))
        return choices if len(choices) <= _SHORT else "NAME"
    if get_origin(kind) is tuple:
        return "LOW,HIGH"
    return "N" if kind is int else "X"
