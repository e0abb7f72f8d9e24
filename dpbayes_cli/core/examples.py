"""What a model shows of itself: small instances that every test of the battery runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """A small instance of a model: its records can be listed, and its draws are quick.

    Attributes:
        domain, prior: as a spec states them.
        complete: the domain under which no record is invalid, where columns state what stands in for an invalid cell
            or the model needs nothing; None: what stands in is stated beside the domain (``on_invalid``).
        support: the public range of the parameter for draws; None: the model's own.
        drawn: whether the mechanisms that draw from posteriors and serve the model serve this instance of it.
    """

    domain: Mapping[str, Any] = field(default_factory=dict)
    prior: Mapping[str, Any] = field(default_factory=dict)
    complete: Mapping[str, Any] | None = None
    support: tuple[float, float] | None = None
    drawn: bool = True


def discrete_example(domain: Mapping[str, Any]) -> Example:
    """Return the example of a domain whose columns state values or cuts; the last one stands in where none does yet."""
    return Example(domain, complete=_with_stand_ins(domain))


def _with_stand_ins(section: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: _with_stand_ins(part) if isinstance(part, Mapping) else part for key, part in section.items()}
    codes = section.get("values") or section.get("cuts")
    return found if codes is None else {"impute": str(codes[-1]), **found}
