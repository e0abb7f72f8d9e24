"""Read YAML safely, as texts, lists and mappings only.

Anchors, aliases, tags, duplicate keys, several documents, deep nesting and large files are refused while the file is
parsed. Scalars stay texts, so that ``0.1`` can later be parsed exactly and ``no`` does not become a truth value.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpbayes_cli.base.errors import SpecError, near_file

_LARGEST_FILE = 1 << 18
_DEEPEST = 16
_MOST_NODES = 50_000
_TOO_DEEP = f"nested deeper than {_DEEPEST} levels"
_NULLS = {"", "~", "null"}
_PROBLEMS = {
    "cannot start any token": (
        "a value or an indentation begins with a character that YAML does not allow there",
        "indent with blanks, not with tabs; put a value that begins with @, ` or % in quotes",
    ),
    "mapping values are not allowed": (
        "a colon stands where no key can be",
        "indent keys of one section equally, see whether the line above has its colon, and put a text that holds a "
        "colon in quotes",
    ),
    "could not find expected ':'": ("a line has no colon after its key", "write it as KEY: VALUE"),
    "unexpected end of stream": ("a quotation mark is not closed", "close the quotes on the same line"),
    "expected ',' or": ("a bracket is not closed", "end a list with ] and a mapping with }"),
    "did not find expected key": (
        "a key is indented differently from the other keys of its section",
        "indent keys of one section equally",
    ),
    "did not find expected '-' indicator": (
        "an entry of a list does not begin with '- '",
        "begin each entry with '- '",
    ),
    "exceeded maximum nesting depth": (_TOO_DEEP, ""),  # some versions of the parser count levels themselves
    "expected <document start>": ("a line does not fit the lines above it", "write each line as KEY: VALUE"),
}
"""By words of the parser's message: the mistake in the spec, and what to do."""
_NOTICED_LATER = ("could not find expected ':'", "unexpected end of stream", "expected ',' or")
"""Words of the parser's message if the mistake may begin in an earlier line than the one that the parser names."""


def read_spec_file(path: Path) -> dict[str, Any]:
    """Read a spec file into nested mappings and lists of texts, with None for an empty value.

    Raises:
        SpecError: the file cannot be read, or is not plain YAML with a mapping at the top.
    """
    try:
        return parse_spec(read_spec_text(path))
    except SpecError as error:
        if error.message.startswith("line "):
            raise SpecError(f"{path}, {error.message}", hint=error.hint) from None
        raise


def read_spec_text(path: Path) -> str:
    """Return the text of a spec file; raise ``SpecError`` if the file cannot be read or is too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SpecError(f"{str(path)!r} is not a regular file", hint="write the spec to a file")
            content = file.read(_LARGEST_FILE + 1)
    except ValueError:
        raise SpecError("the path of the spec holds a NUL character") from None
    except OSError as error:
        raise SpecError(f"cannot read the spec {str(path)!r}: {error.strerror}", hint=near_file(path)) from None
    if len(content) > _LARGEST_FILE:
        raise SpecError(f"{str(path)!r} is larger than {_LARGEST_FILE // 1024} KiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(f"{str(path)!r} is not UTF-8 text", hint="save the spec as UTF-8, in a text editor") from None


def parse_spec(text: str) -> dict[str, Any]:
    """Parse the text of a spec; raise ``SpecError`` unless it is plain YAML with a mapping at the top."""
    document = parse_yaml(text)
    if not isinstance(document, dict):
        stated = "empty" if document is None else "a list" if isinstance(document, list) else "a text"
        raise SpecError(
            f"the spec is {stated}; expected lines of the form KEY: VALUE",
            hint="to start from a template: dpbayes spec init MODEL",
        )
    return document


def parse_yaml(text: str) -> Any:
    """Parse one document of YAML; raise ``SpecError`` if it is malformed, or uses a feature that specs do not need."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        builder = _Builder(yaml.parse(text, Loader=loader))
        return builder.document()
    except (yaml.YAMLError, ValueError) as error:
        raise _malformed(error) from None


def _malformed(error: Exception) -> SpecError:
    """Return the error for text that is not YAML, with the line where the wrong part begins."""
    problem = str(getattr(error, "problem", ""))
    reason, hint = next(
        ((reason, hint) for words, (reason, hint) in _PROBLEMS.items() if words in problem), ("not valid YAML", "")
    )
    began = getattr(error, "context_mark", None) if any(words in problem for words in _NOTICED_LATER) else None
    mark = began or getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return SpecError(f"{place}{reason}", hint=hint)


class _Builder:
    """Builds plain values from a stream of parser events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._nodes = 0

    def document(self) -> Any:
        value: Any = None
        documents = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise _refused(event, "more than one document")
                value = self._value(next(self._events), 0)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        self._nodes += 1
        kind = type(event).__name__
        if kind == "AliasEvent" or getattr(event, "anchor", None) is not None:
            raise _refused(event, "anchors and aliases are not allowed")
        if getattr(event, "tag", None) is not None:
            raise _refused(event, "tags are not allowed")
        if depth > _DEEPEST:
            raise _refused(event, _TOO_DEEP)
        if self._nodes > _MOST_NODES:
            raise _refused(event, f"more than {_MOST_NODES} values")
        if kind == "ScalarEvent":
            plain = event.implicit[0]
            return None if plain and event.value in _NULLS else str(event.value)
        if kind == "SequenceStartEvent":
            return self._sequence(depth)
        return self._mapping(depth)

    def _sequence(self, depth: int) -> list[Any]:
        values = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            values.append(self._value(event, depth + 1))
        return values

    def _mapping(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                raise _refused(event, "a key must be a text")
            if key in values:
                raise _refused(event, f"the key {key!r} appears twice")
            values[key] = self._value(next(self._events), depth + 1)
        return values


def _refused(event: Any, why: str) -> SpecError:
    mark = event.start_mark
    return SpecError(f"line {mark.line + 1}, column {mark.column + 1}: {why}")
