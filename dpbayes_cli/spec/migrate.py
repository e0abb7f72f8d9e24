"""Rewrite a spec of version 1: its keys get the names of today, and a mechanism that was the default is written out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.spec.foreign_options import find_foreign_keys, pair_of
from dpbayes_cli.spec.release_spec import type_of
from dpbayes_cli.spec.version_1 import Names, renamed_keys
from dpbayes_cli.spec.yaml_reader import parse_spec


class RenamedKey(NamedTuple):
    """A key of a spec that was renamed since version 1.

    Attributes:
        section: the section of the key.
        old, new: its former and its present name.
        start, end: the position of the key in the text, quotes included.
    """

    section: str
    old: str
    new: str
    start: int
    end: int


def migrate_text(text: str) -> tuple[str, list[RenamedKey]]:
    """Return the text of a spec with the names that its keys have today, and the keys that were renamed.

    Raises:
        SpecError: the text is not plain YAML with a mapping at the top, or states a key by both of its names.
    """
    names = renamed_keys(parse_spec(text))
    keys = sorted(_old_keys(text, names), key=lambda each: each.start)
    for each in reversed(keys):
        quote = text[each.start] if text[each.start] in "'\"" else ""
        text = f"{text[: each.start]}{quote}{each.new}{quote}{text[each.end :]}"
    return text, keys


def with_former_mechanism(text: str) -> tuple[str, str | None]:
    """Return a spec that names its mechanism, and this mechanism, if versions before 0.4 had another default.

    The mechanism is None if it is named already, or is today's default too.
    """
    document = parse_spec(text)
    with suppress(SpecError):
        model, mechanism = pair_of(document)
        former = model.former_default
        if document.get("mechanism") is None and former not in {"", mechanism.name}:
            root = _root(text)
            (value,) = (value for key, value in root.value if key.value == "model")
            end = value.end_mark.index
            if root.flow_style:
                return f"{text[:end]}, mechanism: {former}{text[end:]}", former
            line = text.find("\n", end)
            head, tail = (f"{text}\n", "") if line < 0 else (text[: line + 1], text[line + 1 :])
            return f"{head}mechanism: {former}\n{tail}", former
    return text, None


def unread_options(text: str) -> list[str]:
    """Return the options of a spec (as section.key) that its mechanism does not use; none if its model is unknown."""
    document = parse_spec(text)
    with suppress(SpecError):
        return [f"{section}.{key}" for section, key in find_foreign_keys(document, type_of(document))]
    return []


def _old_keys(text: str, names: Names) -> Iterator[RenamedKey]:
    import yaml

    for section, part in _root(text).value:
        renamed = names.get(section.value, {})
        stated = {key.value: key for key, _ in part.value} if isinstance(part, yaml.MappingNode) else {}
        for old in stated.keys() & renamed.keys():
            new = renamed[old]
            if new in stated:
                raise SpecError(
                    f"{new} is stated too; it is the new name of this key",
                    where=f"{section.value}.{old}",
                    hint="leave one of them out",
                )
            yield RenamedKey(section.value, old, new, stated[old].start_mark.index, stated[old].end_mark.index)


def _root(text: str) -> Any:
    import yaml

    return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
