"""Small instances of a model, on which the conformance tests run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """A small instance of a model, with quick draws and so few possible records that a test can list them all.

    Attributes:
        domain, prior: the sections of the spec for this instance.
        complete: the domain with a stand-in for invalid cells in every column that needs one; None if ``on_invalid``
            states the stand-in instead.
        support: the public range of the parameter for draws; None for the model's default.
        drawn: whether mechanisms that release posterior draws support this instance.
    """

    domain: Mapping[str, Any] = field(default_factory=dict)
    prior: Mapping[str, Any] = field(default_factory=dict)
    complete: Mapping[str, Any] | None = None
    support: tuple[float, float] | None = None
    drawn: bool = True


def discrete_example(domain: Mapping[str, Any]) -> Example:
    """Return an example for a domain; a column without a stand-in gets its last value or cut point as the stand-in."""
    return Example(domain, complete=_with_stand_ins(domain))


def _with_stand_ins(section: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: _with_stand_ins(part) if isinstance(part, Mapping) else part for key, part in section.items()}
    levels = section.get("values") or section.get("cuts")
    return parts if levels is None else {"impute": str(levels[-1]), **parts}
