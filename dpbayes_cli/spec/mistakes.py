"""Find all mistakes of a release request, each with its place and a hint to paste.

A request is built by checks that stop at the first mistake. This module runs if one of them fails, and looks for the
others, so that a user corrects a spec once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from dpbayes_cli.base.cell_grammar import CONTROL_CHARACTERS
from dpbayes_cli.base.errors import SpecError, nearest, nearest_word
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.registry import model_names, model_type, supporting_mechanisms
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.convert_section import find_mistakes
from dpbayes_cli.spec.foreign_options import SECTIONS, find_foreign_options, pair_of
from dpbayes_cli.spec.key_lines import key_lines, without_stand_ins
from dpbayes_cli.spec.request_flags import FLAGS
from dpbayes_cli.spec.version_1 import find_renamed_keys

_COMMON = ("dataset", "data", "column", "on_invalid", "records", "source")
"""The keys whose checks depend neither on the model nor on the mechanism."""
_COSTS = ("epsilon", "rho", "mu")
"""The options that state a privacy cost."""
_ANY_TEXT = "TEXT"
_EXAMPLES = {
    "privacy.epsilon": "1",
    "bounds.private.epsilon": "0.1",
    "bounds.private.high": "100",
    "by.values": "keys.txt",
}

TypeFor = Callable[[type[Model], type[Mechanism], Mapping[str, Any]], type[Section]]
"""A function from a model, a mechanism and a request to the type of its specs; it may raise ``SpecError``."""


def mistakes_in(
    document: Mapping[str, Any], common: type[Section], type_for: TypeFor, *, needs_cost: bool
) -> list[SpecError]:
    """Return all mistakes of a request, in the order of its keys.

    If the name of the model or of the mechanism is unknown, the rest is checked for the nearest name.

    Args:
        document: nested mappings and lists of texts, from a file and flags.
        common: the type that all specs extend.
        type_for: see ``TypeFor``.
        needs_cost: whether a privacy cost must be stated.
    """
    mistakes = [*control_characters(document), *find_renamed_keys(document)]
    rank, document = {key: i for i, key in enumerate(document)}, _without(document, mistakes)
    stated = {key: value for key, value in document.items() if key in _COMMON}
    mistakes += find_mistakes({**stated, "model": _ANY_TEXT, "domain": {}, "prior": {}}, common)
    rest = {key: value for key, value in document.items() if key not in _COMMON}
    privacy = rest.get("privacy") or {}
    pair = _guessed_pair(rest, mistakes)
    if pair is None:
        known = common.__struct_fields__
        mistakes += [SpecError("unknown key", where=key, hint=nearest(key, known)) for key in rest if key not in known]
    else:
        mistakes += _mistakes_of_pair(rest, *pair, type_for)
    if needs_cost and isinstance(privacy, Mapping) and all(privacy.get(key) is None for key in _COSTS):
        hint = "state it in the spec or with --eps 1"
        mistakes.append(SpecError("missing", where="privacy.epsilon", hint=hint))
    return sorted(mistakes, key=lambda each: rank.get(each.where.partition(".")[0], len(rank)))


def _mistakes_of_pair(
    document: dict[str, Any], model: type[Model], mechanism: type[Mechanism], type_for: TypeFor
) -> list[SpecError]:
    document = {**document, "model": model.name, "mechanism": mechanism.name}
    try:
        kind = type_for(model, mechanism, document)
    except SpecError as error:
        return [error]
    mistakes = [*find_foreign_options(document, kind)]
    how_to_state = partial(_how_to_state, model, may_find_bounds=document.get("bounds") is None)
    others = find_mistakes(_without(document, mistakes), kind, how_to_state=how_to_state)
    return mistakes + [_naming_keys(each, model) if each.reason == "missing" else each for each in others]


def _naming_keys(mistake: SpecError, model: type[Model]) -> SpecError:
    """Return the mistake of a missing key; if the domain is missing, its message names the flags or keys to state."""
    if mistake.where != "domain":
        return mistake
    needed = [each.where for each in find_mistakes({}, model.domain_type, "domain")]
    names = [FLAGS[key].names[-1] if key in FLAGS else key.partition(".")[2] for key in needed]
    return SpecError(f"missing; {model.name} needs {', '.join(names)}", where=mistake.where, hint=mistake.hint)


def _guessed_pair(document: dict[str, Any], mistakes: list[SpecError]) -> tuple[type[Model], type[Mechanism]] | None:
    """Return the model and the mechanism that a request names or, if a name is wrong, the nearest ones.

    Add a mistake for each wrong name. If no mechanism has a similar name, remove the options of mechanisms from the
    document, because they cannot be checked.
    """
    if any(mistake.where in {"model", "mechanism"} for mistake in mistakes):
        return None
    try:
        return pair_of(document)
    except SpecError as error:
        mistakes.append(error)
    name = document.get("model")
    model = nearest_word(name, model_names()) if isinstance(name, str) else None
    if model is None:
        return None
    allowed = supporting_mechanisms(model_type(model))
    stated = document.get("mechanism")
    mechanism = nearest_word(stated, allowed) if isinstance(stated, str) else None
    if mechanism is None and stated is not None:
        for section in SECTIONS:
            document.pop(section, None)
    return pair_of({"model": model, "mechanism": mechanism})


def _without(document: Mapping[str, Any], mistakes: list[SpecError]) -> dict[str, Any]:
    wrong = {mistake.where for mistake in mistakes}
    return {
        section: {key: value for key, value in part.items() if f"{section}.{key}" not in wrong}
        if isinstance(part, dict)
        else part
        for section, part in document.items()
        if section not in wrong or section == "model"
    }


def control_characters(document: Any, where: str = "") -> Iterator[SpecError]:
    """Yield a mistake for each key or text with a control character; a single tab is allowed, as a delimiter."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from control_characters(key, where)
            yield from control_characters(value, f"{where}.{key}".lstrip("."))
    elif isinstance(document, list | tuple):
        for item in document:
            yield from control_characters(item, where)
    elif isinstance(document, str) and document != "\t" and CONTROL_CHARACTERS.search(document):
        yield SpecError(
            f"{document[:100]!r} holds a control character", where=where, hint="state printable characters only"
        )


def _how_to_state(model: type[Model], where: str, item: Any, *, may_find_bounds: bool) -> str:
    """Return a hint with flags or YAML lines that state a missing key, with values that are examples."""
    missing = [key.where for key in find_mistakes({}, item.type, where)] if where == "domain" else [where]
    examples = {f"domain.{key}": text for key, text in model.first_spec.items()} | _EXAMPLES
    if all(key in FLAGS for key in missing):
        hint = " ".join(f"{FLAGS[key].names[-1]} {_as_flag(examples.get(key))}" for key in missing)
        hint = f"state it in the spec or with flags, such as {hint}"
        if where.startswith("domain"):
            hint += "; choose values without looking at the data"
    else:
        depth = where.count(".")
        lines = key_lines(item, without_stand_ins(model), {"domain", *model.first_spec}, depth)
        heads = ["  " * i + f"{name}:" for i, name in enumerate(where.split(".")[:-1])]
        shown = [line.partition("  # ")[0].rstrip() for line in lines if not line.startswith("#")]
        hint = "\n".join(["add lines such as these to the spec, with names and values of your own:", *heads, *shown])
    bounds = {f"domain.{key}" for key in model.bound_keys}
    if may_find_bounds and bounds and (where == "domain" or where in bounds):
        low = "--bounds-low 0 " if "lower" in model.bound_keys else ""
        hint += f"\nor have the bounds found privately, at a cost: --bounds-epsilon 0.1 {low}--bounds-high 100"
    return hint


def _as_flag(example: str | None) -> str:
    return example.strip("[]").replace(", ", ",") if example else _ANY_TEXT
