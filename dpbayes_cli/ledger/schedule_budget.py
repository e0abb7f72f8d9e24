"""The budget of a schedule: a list of releases that were priced together, each of which may be drawn once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text, parse_decimal
from dpbayes_cli.ledger.budgets import Budget, Lanes
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.privacy.guarantee import Guarantee


class ListedRelease(NamedTuple):
    """What a schedule lists under one label: the digest of the request, and its guarantee."""

    request_digest: str
    guarantee: Guarantee


@dataclass(frozen=True)
class ScheduleBudget(Budget):
    """The total of a schedule, all of which is charged when the account is opened.

    Privacy: the cost of all listed releases together is at most epsilon at delta. The filter admits a release only
        under a listed label, with the request and the guarantee that were priced. A label determines the ID of its
        release, which is charged at most once. So what is released is a part of what was priced, in any order.
    Source: see ``joint_cost``.

    Attributes:
        epsilon, delta: the guarantee of all releases together, as the schedule states it.
        cost: the epsilon that was computed for all releases at delta; at most ``epsilon``.
        text: the canonical text of the schedule, a JSON document.
        guarantees: the guarantee of a release of each entry of the schedule, in the order of the entries.
    """

    kind, amounts, lanes = "schedule", (), ()
    notion = "a schedule, whose releases were priced together"
    epsilon: Decimal
    delta: Decimal
    cost: Decimal
    text: str
    guarantees: tuple[Guarantee, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost > self.epsilon:
            raise ValueError("the cost of the schedule is above its total")
        if not self.listed:
            raise ValueError("the schedule lists no release")

    @cached_property
    def listed(self) -> dict[str, ListedRelease]:
        """The listed releases by their labels."""
        listed: dict[str, ListedRelease] = {}
        for entry, guarantee in zip(json.loads(self.text)["releases"], self.guarantees, strict=True):
            asked = digest("request", canonical_json(entry["request"]))
            for label in labels_of(entry["name"], entry.get("times"), entry.get("dates")):
                if label in listed:
                    raise ValueError(f"the schedule lists the release {label!r} twice")
                listed[label] = ListedRelease(asked, guarantee)
        return listed

    @property
    def shape(self) -> object:
        """All of the budget: no amendment may change a schedule."""
        return self.serialize()

    @property
    def total(self) -> Lanes:
        """Epsilon and delta."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the whole total, which is charged when the account is opened."""
        del charged
        return self.total

    def refusal(self, label: str, request_digest: str, guarantee: Guarantee) -> str:
        """Return why a release is not one of those that were priced, or an empty text."""
        listed = self.listed.get(label)
        if listed is None:
            return f"the release {label!r} is not in the schedule of this account"
        if listed.request_digest != request_digest:
            return f"the schedule lists the release {label!r} with another request"
        if listed.guarantee != guarantee:
            return f"the schedule lists the release {label!r} at another privacy cost"
        return ""

    def shortfall(self, charged: Mapping[str, Decimal], requested: Guarantee) -> Lanes:
        """Return an empty dictionary for the guarantee of a listed release; else an infinite amount."""
        return {} if requested in self.guarantees else {"epsilon": Decimal("Infinity")}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget itself; raise ``BudgetError`` if a change is stated."""
        if changes:
            raise BudgetError(
                "the account holds a schedule, whose total was charged when it was opened: it cannot be changed",
                hint="write another schedule with an account of its own",
            )
        return self

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {
            "kind": self.kind,
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "cost": decimal_text(self.cost),
            "digest": text_digest(self.text),
            "text": self.text,
            "guarantees": [guarantee.serialize() for guarantee in self.guarantees],
        }


def parse_schedule_budget(stored: Mapping[str, Any]) -> ScheduleBudget:
    """Return the budget that ``serialize`` stored, without its kind.

    Raises:
        ValueError, KeyError, TypeError: the stored budget is malformed, or its digest is not that of its text.
    """
    if set(stored) != {"digest", *(field.name for field in fields(ScheduleBudget))}:
        raise ValueError("the schedule lacks a key, or has an unknown one")
    if stored["digest"] != text_digest(stored["text"]):
        raise ValueError("the digest of the schedule is not that of its text")
    epsilon, delta, cost = (parse_decimal(stored[name]) for name in ("epsilon", "delta", "cost"))
    guarantees = tuple(parse_guarantee(each) for each in stored["guarantees"])
    return ScheduleBudget(epsilon, delta, cost, stored["text"], guarantees)


def labels_of(name: str, times: int | None, dates: list[str] | None) -> Iterator[str]:
    """Yield the labels of an entry's releases: its name with a number from 1, or with a date."""
    for suffix in dates if dates is not None else range(1, (times or 0) + 1):
        yield f"{name}-{suffix}"


def text_digest(text: str) -> str:
    """Return the digest of the canonical text of a schedule."""
    return digest("schedule", text.encode("ascii"))
