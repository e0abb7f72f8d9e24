"""Small instances of a model, on which the conformance tests run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """A small instance of a model: its records can be listed, and its draws are quick.

    Attributes:
        domain, prior: as a spec states them.
        complete: the domain under which no record is invalid, because each column states its stand-in or the model
            needs none; None: ``on_invalid`` states the stand-in, outside the domain.
        support: the public range of the parameter for draws; None: the model's default.
        drawn: whether the mechanisms that draw from the model's posterior also draw from this instance's.
    """

    domain: Mapping[str, Any] = field(default_factory=dict)
    prior: Mapping[str, Any] = field(default_factory=dict)
    complete: Mapping[str, Any] | None = None
    support: tuple[float, float] | None = None
    drawn: bool = True


def discrete_example(domain: Mapping[str, Any]) -> Example:
    """Return the example of a domain whose columns state values or cuts; the last of these is the default stand-in."""
    return Example(domain, complete=_with_stand_ins(domain))


def _with_stand_ins(section: Mapping[str, Any]) -> dict[str, Any]:
    parts = {key: _with_stand_ins(part) if isinstance(part, Mapping) else part for key, part in section.items()}
    levels = section.get("values") or section.get("cuts")
    return parts if levels is None else {"impute": str(levels[-1]), **parts}
