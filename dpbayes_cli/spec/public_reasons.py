"""Values of a spec that were read from the data, and the public reasons why they may be used.

A bound, a value or a list of keys that somebody looked up in the data is not public knowledge. A tool that fills in
such a value writes the two keys ``value`` and ``public_reason: null`` in its place, anywhere in a spec. The request is
refused until each of these reasons is a text that says where the value comes from: a protocol, a law, a census. A
reason must hold a word of at least three letters that is not a placeholder such as ``none`` or ``TODO``. Reasons are
kept in the spec of the release, but do not change the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpbayes_cli.base.errors import SpecError

REASON, REASONS = "public_reason", "public_reasons"
_VALUE = "value"
_WORD = re.compile(r"[^\W\d_]{3,}")
_PLACEHOLDERS = {"null", "none", "nil", "nan", "true", "false", "todo", "tbd", "fixme", "xxx"}


def with_reasons_apart(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with all reasons moved to ``public_reasons``, by the keys of the values, such as domain.upper.

    Raises:
        SpecError: reasons are missing (the message names all their keys), or a value has two reasons.
    """
    stated = document.get(REASONS)
    if stated is not None and not isinstance(stated, Mapping):
        raise SpecError("expected a mapping from keys such as domain.upper to reasons", where=REASONS)
    plain = {key: value for key, value in document.items() if key != REASONS}
    pairs = [*(stated or {}).items(), *_reasons(plain, "")]
    missing = [place for place, reason in pairs if not _is_reason(reason)]
    if missing:
        raise SpecError(
            f"values that were read from the data have no public reason: {', '.join(missing)}",
            where=f"{missing[0]}.{REASON}",
            hint="check each value against public knowledge, and write as public_reason where it comes from, "
            "such as: the study protocol",
        )
    reasons = dict(pairs)
    if len(reasons) < len(pairs):
        raise SpecError(
            "a value has a second reason beside it", where=REASONS, hint="keep only the reason beside the value"
        )
    plain = _plain(plain)
    return {**plain, REASONS: reasons} if reasons else plain


def unconfirmed_value(value: str) -> dict[str, str]:
    """Return what a spec holds for a value that was read from the data, before anyone has stated a reason."""
    return {_VALUE: value, REASON: "null"}


def _is_reason(reason: Any) -> bool:
    return isinstance(reason, str) and any(word.casefold() not in _PLACEHOLDERS for word in _WORD.findall(reason))


def _reasons(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and the reason of each value that has one; no two places have the same name."""
    if (stated := _value_and_reason(value, place)) is not None:
        yield place, stated[1]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = json.dumps(key, ensure_ascii=False) if re.search(r'[.\["]', key) else key
            yield from _reasons(inner, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _reasons(item, f"{place}[{i}]")


def _value_and_reason(value: Any, place: str = "") -> tuple[Any, Any] | None:
    """Return a value and its reason; None if it has none. On one line, YAML reads the words after a comma as a key."""
    if not isinstance(value, Mapping) or not value.keys() >= {_VALUE, REASON}:
        return None
    reason, more = value[REASON], {key: inner for key, inner in value.items() if key not in {_VALUE, REASON}}
    if more and (not isinstance(reason, str) or any(inner is not None for inner in more.values())):
        raise SpecError(f"expected only {_VALUE} and {REASON}", where=place, hint="put the reason in quotes")
    return value[_VALUE], ", ".join([reason, *more]) if more else reason


def _plain(value: Any) -> Any:
    if (stated := _value_and_reason(value)) is not None:
        return stated[0]
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
