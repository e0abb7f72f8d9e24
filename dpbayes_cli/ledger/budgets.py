"""Budgets: the totals that an account may spend, and the filter that decides whether one more release fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dpbayes_cli.errors import SpecError
from dpbayes_cli.numeric import decimal_text, exact_difference, exact_sum, parse_decimal
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta, check_epsilon


@dataclass(frozen=True)
class Budget:
    """A total of pure epsilon, or of (epsilon, delta), under basic composition.

    Privacy: a filter: releases may be chosen after seeing earlier ones; sum of epsilons <= epsilon and sum of
        deltas <= delta hold for every release that was let through, in exact decimals.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).

    Attributes:
        epsilon: the total epsilon.
        delta: the total delta; None for a budget of pure epsilon, where no delta may be spent.
    """

    epsilon: Decimal
    delta: Decimal | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)

    @property
    def total(self) -> dict[str, Decimal]:
        """The totals by component."""
        components = {"epsilon": self.epsilon}
        return components if self.delta is None else {**components, "delta": self.delta}

    def remaining(self, charged: Mapping[str, Decimal]) -> dict[str, Decimal]:
        """Return what is left by component, after what was charged."""
        return {name: exact_difference(total, charged[name]) for name, total in self.total.items()}

    def shortfall(self, charged: Mapping[str, Decimal], requested: Guarantee) -> dict[str, Decimal]:
        """Return how much is missing for one more release, by component; empty where it fits."""
        after = added(charged, requested)
        totals = {"epsilon": self.epsilon, "delta": self.delta or Decimal(0)}
        missing = {name: exact_difference(after[name], total) for name, total in totals.items()}
        return {name: amount for name, amount in missing.items() if amount > 0}

    def serialize(self) -> dict[str, str]:
        """Return the stored form."""
        kind = "pure" if self.delta is None else "approximate"
        return {"kind": kind, **texts(self.total)}


def added(charged: Mapping[str, Decimal], guarantee: Guarantee) -> dict[str, Decimal]:
    """Return what was charged with one more guarantee, by basic composition."""
    return {
        "epsilon": exact_sum([charged["epsilon"], guarantee.epsilon]),
        "delta": exact_sum([charged["delta"], guarantee.delta]),
    }


def parse_budget(stored: Mapping[str, str]) -> Budget:
    """Read back what ``serialize`` wrote.

    Raises:
        ValueError: an unknown kind or a malformed number.
    """
    kind = stored.get("kind")
    try:
        if kind == "pure":
            return Budget(parse_decimal(stored["epsilon"]))
        if kind == "approximate":
            return Budget(parse_decimal(stored["epsilon"]), parse_decimal(stored["delta"]))
    except (KeyError, SpecError) as error:
        raise ValueError("malformed budget") from error
    raise ValueError("unknown kind of budget")


def texts(components: Mapping[str, Decimal]) -> dict[str, str]:
    """Return components as decimal strings."""
    return {name: decimal_text(value) for name, value in components.items()}
