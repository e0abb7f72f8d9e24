"""Suggest a spec from the header of a file or from its cells; the latter is NOT PRIVATE.

The header is public. A value that was read from cells gets ``public_reason: null``, and ``release`` refuses it until
the user writes a reason that does not come from the data.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dpbayes_cli.base.cell_grammar import POINT
from dpbayes_cli.base.errors import SourceError, nearest
from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.check.column_profile import ColumnProfile
from dpbayes_cli.check.file_layout import FileLayout
from dpbayes_cli.check.yaml_lines import yaml_lines
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import fields_of
from dpbayes_cli.core.registry import model_names, model_type
from dpbayes_cli.spec.account_name import plain_name
from dpbayes_cli.spec.foreign_options import pair_of
from dpbayes_cli.spec.public_reasons import unconfirmed_value
from dpbayes_cli.spec.yaml_reader import parse_yaml

MANY_LEVELS = 50
"""A column with more distinct texts than this is not treated as categorical."""
_YES = ("yes", "y", "true", "t", "positive", "pos", "ja", "oui", "si", "case", "dead", "died")
_KINDS = {
    "two texts": ("success", "failure"),
    "counts": ("upper",),
    "numbers": ("lower", "upper"),
    "texts": ("categories",),
}
"""The keys of a domain that hold values of a column, by the column's kind as in ``Model.suggested_for``."""
_VALUE_KEYS = {"values", "cuts", *(key for keys in _KINDS.values() for key in keys)}
_LISTS = {"categories", "values", "cuts"}
_NOTES = {
    "success": "the text that counts as a success",
    "failure": "the text that counts as a failure",
    "lower": "the smallest possible value",
    "upper": "the largest possible value",
    "categories": "every possible value",
    "values": "every possible value; for numbers: cuts or bounds",
}
_NO_CUTS = "[]  # ascending numbers that separate the intervals"
_HEAD = "# A release request: dpbayes release --spec THIS_FILE"
_FROM_HEADER = """\
# The columns come from the header alone. Fill in the values from public
# knowledge, never from the data."""
_FEATURES = """\
# A feature of texts has values: [a, b] in place of lower and upper; delete the
# features that you do not need."""
_FEWER = "# Delete the features that you do not need: each widens the intervals of all."
_SECOND = "# Odds and probabilities are those of the second of the target's values."
_FROM_DATA = """\
# NOT PRIVATE: the values below were read from the data. Check each of them
# against public knowledge. Then write in place of null where the value comes
# from, such as: the study protocol. Until then, release refuses this file."""

Fill = Callable[[str, str], str | Mapping[str, str]]
"""A function of a column's name and a key that returns the key's value as YAML; empty if the user must fill it in."""


def spec_from_header(file: str, source: Mapping[str, str], names: Sequence[str], model: str | None = None) -> str:
    """Return a YAML spec with the columns of a header; the user must fill in the values.

    Args:
        file: the file's path.
        source: the keys of the layout that differ from the defaults, as YAML.
        names: the names in the header.
        model: the model's name; if None, the spec offers one model for each kind of column.
    """
    lines = [_HEAD, _FROM_HEADER, f"# columns: {', '.join(names)}", ""]
    if model is not None:
        chosen = pair_of({"model": model})[0]
        if "{values" in chosen.first_spec.get("features", ""):
            lines.insert(-1, _FEATURES)
        column = names[0] if chosen.column_names is Model.column_names else ""
        return _joined([*lines, *_body(file, source, names, column, chosen, _blank)])
    lines += ["# Keep the model that suits the column, and delete the others.", ""]
    lines += yaml_lines({"data": _yaml(file), **_section("source", source), "column": _yaml(names[0])})
    for i, (kind, keys) in enumerate(sorted(_KINDS.items())):
        block = yaml_lines({"model": usual_model(kind), "domain": {key: _blank("", key) for key in keys}})
        lines += ["", f"# {kind}", *(f"# {line}" if i else line for line in block)]
    return _joined([*lines, "", "privacy:", "  epsilon: 1"])


def spec_from_data(
    file: str,
    source: Mapping[str, str],
    profiles: Sequence[ColumnProfile],
    levels: Callable[[str], Sequence[str]],
    *,
    column: str | None = None,
    model: str | None = None,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Return a YAML spec whose values come from the data. NOT PRIVATE: each value has ``public_reason: null``.

    Args:
        file: the file's path.
        source: the keys of the layout that differ from the defaults, as YAML.
        profiles: the profiles of the columns.
        levels: a function that returns all texts of the column with a given name.
        column: the column, or the target of a model of several columns; if None, the first column that suits the model
            (any model if none is stated), preferably one that does not seem to hold IDs, and no target.
        model: the model's name; if None, the usual model for the column.
        kept: what the user stated in the sections privacy and by, which the spec must keep.

    Raises:
        SourceError: there is no such column, or no column has a usual model.
    """
    by_name = {profile.name: profile for profile in profiles}
    target = column or ""
    column = column or usual_column(profiles, model)
    if column not in by_name:
        raise SourceError(
            "no column holds numbers, or between two and 50 different texts"
            if column is None
            else f"there is no column {column!r}",
            hint="name a model: dpbayes spec init MODEL --from FILE --not-private"
            if column is None
            else nearest(column, by_name),
        )
    name = model or suggested_model(by_name[column])
    if not name:
        raise SourceError(
            f"there is no usual model for the column {column!r}",
            hint="name a model: dpbayes spec init MODEL --from FILE --not-private",
        )

    def fill(of: str, key: str) -> str | Mapping[str, str]:
        profile = by_name.get(of)
        if profile is None:
            return ""
        if key == "cuts":  # the profile knows no useful ones
            return _NO_CUTS if _is_measured(profile) else ""
        value = _found(profile, key, levels)
        return unconfirmed_value(value) if value else ""

    kind = pair_of({"model": name})[0]
    head, names = [_HEAD, _FROM_DATA], list(by_name)
    if kind.column_names is not Model.column_names:
        if "{values" in kind.first_spec.get("features", ""):
            head.append(_FEWER)
        if "target.values" in kind.first_spec:
            head.append(_SECOND)
        column = target
        ids = [profile.name for profile in profiles if profile.may_be_id and profile.name != target]
        if ids and len(ids) < len(names):
            names = [each for each in names if each not in ids]
            head.append(f"# left out, because each cell differs, as in IDs: {', '.join(ids)}")
    return _joined([*head, "", *_body(file, source, names, column, kind, fill, kept or {})])


def layout_keys(layout: FileLayout) -> dict[str, str]:
    """Return the keys of a spec's source that differ from their defaults under a layout, as YAML."""
    delimiter = "tab" if layout.delimiter == "\t" else layout.delimiter
    texts = {"delimiter": delimiter, "quote": layout.quote, **asdict(layout.marks)}
    defaults = {"delimiter": ",", "quote": '"', **asdict(POINT)}
    keys = {key: _yaml(text) for key, text in texts.items() if text != defaults[key]}
    return keys if layout.header else {**keys, "header": "false", "columns": _yaml(layout.names)}


def release_command(data: str, suggestion: str) -> list[str]:
    """Return the command of a suggested spec, with words in capitals for bounds; empty if flags cannot state the spec.

    Args:
        data: the data as the user named them.
        suggestion: the spec; see ``spec_from_data``.

    Returns:
        The command and its flags, each with its value; a terminal may break the line between them.
    """
    spec = parse_yaml(suggestion)
    domain = [each.get("value") if isinstance(each, dict) else each for each in spec["domain"].values()]
    texts = [text for value in domain if isinstance(value, list) for text in value]
    if "column" not in spec or None in domain or any("," in text for text in texts):
        return []
    values = dict(zip(spec["domain"], domain, strict=True))
    values |= {key: key.upper() for key in _KINDS["numbers"] if key in values}
    source = {key: value for key, value in spec.get("source", {}).items() if key != "header"}
    protection = {key: value for key, value in spec["privacy"].items() if key != "epsilon"}
    groups = {"by": spec["by"]["column"], "groups": "FILE"} if "by" in spec else {}
    account = {key: spec[key] for key in ("dataset",) if key in spec}
    flags = {"model": spec["model"], "column": spec["column"], **source, **values, **groups, **protection}
    flags |= {**account, "eps": 1}
    shown = {key: ",".join(value) if isinstance(value, list) else str(value) for key, value in flags.items()}
    return [
        f"dpbayes release {shlex.quote(data)}{' --no-header' * ('header' in spec.get('source', {}))}",
        *(f"--{key.replace('_', '-')} {shlex.quote(text)}" for key, text in shown.items()),
    ]


def usual_column(profiles: Sequence[ColumnProfile], model: str | None = None) -> str | None:
    """Return the first column that suits a model, or any model; None if no column does. IDs are the last choice."""
    by_rank = sorted(profiles, key=lambda each: each.may_be_id)
    usual = {profile.name: suggested_model(profile) for profile in by_rank}
    suited = [name for name, each in usual.items() if each and model in {None, each}]
    return next(iter([*suited, *(usual if model else ())]), None)


def suggested_model(column: ColumnProfile) -> str:
    """Return the name of the model that most users would choose for a column; empty if there is none."""
    return usual_model(kind_of(column))


def usual_model(kind: str, *, of_target: bool = False) -> str:
    """Return the model that most users would choose for a kind of column, or of target; empty if there is none."""
    suits = "suggested_for_target" if of_target else "suggested_for"
    return next((name for name in model_names() if kind and getattr(model_type(name), suits) == kind), "")


def kind_of(column: ColumnProfile) -> str:
    """Return the kind of a column as in ``Model.suggested_for``; empty for columns without a usual model."""
    if column.distinct <= 1 or column.missing == column.records:
        return ""
    if len(column.commonest) == 2:
        return "two texts"
    if column.is_numeric:
        is_whole = column.whole == column.numbers and column.lowest == 0.0
        return "counts" if is_whole and [text for text, _ in column.commonest[:1]] == ["0"] else "numbers"
    return "texts" if column.distinct <= MANY_LEVELS else ""


def success_and_failure(column: ColumnProfile) -> tuple[str, str, bool]:
    """Return the two texts of a column, success first; and whether they say themselves which of them is the success."""
    texts = sorted(text for text, _ in column.commonest)
    yes = ["1"] if texts == ["0", "1"] else [text for text in texts if text.casefold() in _YES]
    success = (yes or texts)[0]
    return success, next(text for text in texts if text != success), len(yes) == 1


def _blank(_column: str, key: str) -> str:
    blank = "[]" if key in _LISTS else '""' if key in _KINDS["two texts"] else ""  # each is refused until it is filled
    return f"{blank}  # {_NOTES[key]}" if key in _NOTES else ""


def _found(profile: ColumnProfile, key: str, levels: Callable[[str], Sequence[str]]) -> str:
    """Return a domain key's value in the data, as YAML; empty if the data do not determine it."""
    if key in _KINDS["two texts"]:
        if len(profile.commonest) != 2:
            return ""
        success, failure, is_clear = success_and_failure(profile)
        decide = "" if is_clear or key == "failure" else f"  # or {_yaml(failure)}: decide which one you count"
        return _yaml(success if key == "success" else failure) + decide
    if key == "classes":  # of a target: the second is the one whose probability is predicted
        return _yaml([*reversed(success_and_failure(profile)[:2])]) if len(profile.commonest) == 2 else ""
    if key in _KINDS["numbers"]:
        has_bounds = profile.numbers and (profile.is_numeric or profile.distinct > 2 * MANY_LEVELS)  # else few texts
        return float_text(profile.lowest if key == "lower" else profile.highest) if has_bounds else ""
    if key in _LISTS and not _is_measured(profile) and profile.distinct <= 2 * MANY_LEVELS:
        return _yaml(list(levels(profile.name)))
    return ""


def _is_measured(profile: ColumnProfile) -> bool:
    """Return whether a column has too many different numbers to list them as categories."""
    return profile.is_numeric and profile.distinct > 10


def _body(
    file: str,
    source: Mapping[str, str],
    names: Sequence[str],
    column: str,
    model: type[Model],
    fill: Fill,
    kept: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> list[str]:
    document: dict[str, Any] = {"model": model.name, "data": _yaml(file), **_section("source", source)}
    stem = Path(file).name.split(".")[0]
    if stem != plain_name(stem):  # the account cannot have the name of the file
        document["dataset"] = plain_name(stem) or "NAME"
    if model.column_names is Model.column_names:
        document["column"] = _yaml(column)
    costs = {key.removeprefix("privacy."): text for key, text in pair_of({"model": model.name})[1].first_spec.items()}
    if "by" in kept:
        document["by"] = _yaml_values(kept["by"]) | {
            "file": '""  # a file with the public keys of the groups, one a line'
        }
    domain = _domain(model, names, column, fill) | _yaml_values(kept.get("domain", {}))
    return yaml_lines({**document, "domain": domain, "privacy": {**costs, **_yaml_values(kept.get("privacy", {}))}})


def _domain(model: type[Model], names: Sequence[str], column: str, fill: Fill) -> dict[str, Any]:
    fields = {item.name: item for item in fields_of(model.domain_type)}
    if model.column_names is Model.column_names:
        keys = [key for key, item in fields.items() if item.required or key in _VALUE_KEYS]
        return {key: fill(column, key) for key in keys}
    domain: dict[str, Any] = {}
    for key, text in model.first_spec.items():
        example = parse_yaml(text)
        section, _, inner = key.rpartition(".")
        section = section or ("" if key in fields else "target")
        if isinstance(example, dict):  # a mapping of columns
            choices = {tuple(each.keys() & _VALUE_KEYS) for each in example.values()}
            others = [name for name in names if name != column or "target.column" not in model.first_spec]
            domain[key] = {_yaml(name): _of_column(name, choices, fill) for name in others}
        elif section == "target":
            domain.setdefault(section, {})[inner] = _of_target(column, inner, fill)
        elif section:
            domain.setdefault(section, {})[inner] = "[]" if inner in _LISTS else ""
        else:
            domain[key] = _of_target(column, "column", fill) if key == "target" else ""
    return domain


def _of_target(column: str, key: str, fill: Fill) -> str | Mapping[str, str]:
    """Return a key of the target; ``column`` is empty if the user has not stated the target."""
    if key == "column":
        return _yaml(column) if column else "  # the column to predict"
    return (fill(column, "classes" if key == "values" else key) if column else "") or ("[]" if key in _LISTS else "")


def _of_column(name: str, examples: set[tuple[str, ...]], fill: Fill) -> dict[str, Any]:
    """Return one column's part of a domain, with those keys among the alternatives whose values are known."""
    choices = sorted((sorted(keys) for keys in examples), key=lambda keys: keys != ["values"])
    filled = [{key: fill(name, key) for key in keys} for keys in choices]
    two = [each for each in filled if isinstance(of := each.get("values"), Mapping) and of["value"].count('", "') == 1]
    return next((each for each in (*two, *reversed(filled)) if all(each.values())), filled[0])


def _section(name: str, keys: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    return {name: keys} if keys else {}


def _yaml_values(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _yaml_values(each) if isinstance(each, Mapping) else _yaml(each) for key, each in tree.items()}


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
