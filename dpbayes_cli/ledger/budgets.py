"""Budgets: the totals that an account may spend, and the filter that decides whether one more release fits.

An analyst chooses a release after seeing earlier ones, so only composition rules for adaptive choices are used. Each
budget sums charges in its lanes: ``epsilon`` and ``delta`` of the (epsilon, delta) statement, ``rho``, ``mu_squared``,
and ``rdp(ORDER)`` at a Renyi order. Sums are exact decimals. A release without a finite cost in a lane makes the sum of
this lane infinite, permanently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text, exact_difference, exact_sum
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta, check_epsilon, check_order, check_rho
from dpbayes_cli.privacy.noisy_descent import mu_of_statement

Lanes = dict[str, Decimal]

_SQUARES = Context(prec=100)
"""A stored mu has 15 digits, so its square is exact."""
_DOWN = Context(prec=12, rounding=ROUND_FLOOR)
_CHECKS = {
    "epsilon": check_epsilon, "delta": check_delta, "order": check_order, "rdp": check_rho, "rho": check_rho,
    "mu": check_rho,
}  # fmt: skip


@dataclass(frozen=True)
class Budget(ABC):
    """A total that an account may spend, in one notion of privacy.

    Privacy: a filter: whatever the order and the adaptive choice of releases, all releases that it allowed together
        keep the account's guarantee.
    Source: design notes, the ledger is a filter.

    Attributes:
        kind: the name of the kind in stored budgets.
        amounts: the fields that state the total; an amendment changes these and nothing else.
    """

    kind: ClassVar[str]
    amounts: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in _CHECKS:
                _CHECKS[field.name](getattr(self, field.name))

    @property
    @abstractmethod
    def notion(self) -> str:
        """The notion of privacy, for messages."""

    @property
    @abstractmethod
    def lanes(self) -> tuple[str, ...]:
        """The names of the sums that are kept below their totals."""

    @property
    @abstractmethod
    def total(self) -> Lanes:
        """The totals by component."""

    @abstractmethod
    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return what was spent, by the components of ``total``; infinite if no guarantee is left."""

    @property
    def shape(self) -> object:
        """The properties of a budget that an amendment must not change."""
        return (self.kind, self.lanes)

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind} | {field.name: decimal_text(getattr(self, field.name)) for field in fields(self)}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with other totals.

        Raises:
            SpecError: the budget has no total of this name.
        """
        if unknown := changes.keys() - set(self.amounts):
            raise SpecError(
                f"{', '.join(sorted(unknown))} cannot be changed in a budget of {self.notion}",
                hint=f"state {', '.join(sorted(self.amounts))}",
            )
        return replace(self, **changes)

    def tightened(self, other: Budget) -> Budget:
        """Return the smaller total of this and another budget, by component; this budget if their kinds differ."""
        if other.shape != self.shape:
            return self
        return self.amended({name: min(getattr(self, name), getattr(other, name)) for name in self.amounts})

    def remaining(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return what remains, by component, at least zero."""
        spent = self.spent(charged)
        return {name: max(Decimal(0), exact_difference(total, spent[name])) for name, total in self.total.items()}

    def shortfall(self, charged: Mapping[str, Decimal], requested: Guarantee) -> Lanes:
        """Return how much is missing for one more release, by component; empty if it fits."""
        return self.excess(self.added(charged, requested))

    def excess(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return by how much the totals are exceeded, by component; empty if they are not."""
        spent = self.spent(charged)
        over = {name: exact_difference(spent[name], total) for name, total in self.total.items()}
        return {name: amount for name, amount in over.items() if amount > 0}

    def requested(self, charged: Mapping[str, Decimal], guarantee: Guarantee) -> Lanes:
        """Return what one more release would spend, by component."""
        before, after = self.spent(charged), self.spent(self.added(charged, guarantee))
        return {
            name: exact_difference(after[name], before[name]) if before[name].is_finite() else before[name]
            for name in after
        }

    def added(self, charged: Mapping[str, Decimal], guarantee: Guarantee) -> Lanes:
        """Return the sums of the lanes after one more release."""
        return {lane: exact_sum([charged[lane], _cost(guarantee, lane)]) for lane in self.lanes}

    @property
    def nothing(self) -> Lanes:
        """The sums of an account that has spent nothing."""
        return {lane: Decimal(0) for lane in self.lanes}


@dataclass(frozen=True)
class _SingleBudget(Budget):
    """A budget with one total and no delta at all: the lane of delta must stay zero."""

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lane of the total, and delta."""
        return (self.amounts[0], "delta")

    @property
    def total(self) -> Lanes:
        """The total in its lane."""
        return {self.lanes[0]: getattr(self, self.amounts[0])}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the sum in the lane of the total; a delta makes it infinite."""
        lane = self.lanes[0]
        return {lane: charged[lane] if charged["delta"] == 0 else Decimal("Infinity")}


@dataclass(frozen=True)
class PureBudget(_SingleBudget):
    """A total of pure epsilon: sum of epsilons <= epsilon.

    Privacy: epsilon-DP of everything together.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).
    """

    kind, amounts, notion = "pure", ("epsilon",), "pure epsilon"
    epsilon: Decimal


@dataclass(frozen=True)
class ConcentratedBudget(_SingleBudget):
    """A total of zero-concentrated differential privacy: sum of rho <= rho.

    Privacy: rho-zCDP of everything together.
    Source: Whitehouse, Ramdas, Rogers and Wu 2023 (zCDP is a filter).
    """

    kind, amounts, notion = "zcdp", ("rho",), "zCDP"
    rho: Decimal


@dataclass(frozen=True)
class RenyiBudget(_SingleBudget):
    """A total of Renyi divergence at one order, which is fixed when the account is opened.

    Privacy: sum of divergences at the order <= rdp: (order, rdp)-RDP of everything together.
    Source: Feldman and Zrnic 2021 (one fixed order is a filter).
    """

    kind, amounts = "rdp", ("rdp",)
    order: Decimal
    rdp: Decimal

    @property
    def notion(self) -> str:
        """RDP at the order."""
        return f"RDP at order {decimal_text(self.order)}"

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lane of the order, and delta."""
        return (lane_of(self.order), "delta")


@dataclass(frozen=True)
class GaussianBudget(_SingleBudget):
    """A total of mu-Gaussian differential privacy: sum of mu^2 <= mu^2.

    Only releases with a GDP guarantee have a finite cost in it.

    Privacy: mu-GDP of everything together, hence (epsilon, delta)-DP at every point of the exact curve.
    Source: Smith and Thakurta 2022 (fully adaptive composition of Gaussian differential privacy is a filter).
    """

    kind, amounts, notion = "gdp", ("mu",), "Gaussian differential privacy"
    mu: Decimal

    @classmethod
    def of_statement(cls, epsilon: Decimal, delta: Decimal) -> GaussianBudget:
        """Return the budget of the largest mu that implies (epsilon, delta)-DP, rounded down."""
        check_epsilon(epsilon)
        check_delta(delta)
        return cls(_DOWN.create_decimal(Decimal(mu_of_statement(float(epsilon), float(delta)) * (1.0 - 1e-12))))

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lane of the squares of mu, and delta."""
        return ("mu_squared", "delta")

    @property
    def total(self) -> Lanes:
        """The square of mu."""
        return {"mu_squared": _SQUARES.multiply(self.mu, self.mu)}


@dataclass(frozen=True)
class ApproximateBudget(Budget):
    """A total of (epsilon, delta) under basic composition alone.

    Privacy: sum of epsilons <= epsilon and sum of deltas <= delta: (epsilon, delta)-DP of everything together.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).
    """

    kind, amounts, notion, lanes = "approximate", ("epsilon", "delta"), "(epsilon, delta)", ("epsilon", "delta")
    epsilon: Decimal
    delta: Decimal

    @property
    def total(self) -> Lanes:
        """Epsilon and delta."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return both sums."""
        return {"epsilon": charged["epsilon"], "delta": charged["delta"]}


def component_texts(components: Mapping[str, Decimal]) -> dict[str, str]:
    """Return components as decimal strings, ``inf`` if infinite."""
    return {name: decimal_text(value) if value.is_finite() else "inf" for name, value in components.items()}


def _cost(guarantee: Guarantee, lane: str) -> Decimal:
    """Return the privacy cost of a release in a lane."""
    match lane:
        case "epsilon":
            return guarantee.epsilon
        case "delta":
            return guarantee.delta
        case "rho":
            return guarantee.rho
        case "mu_squared":
            return _SQUARES.multiply(guarantee.mu, guarantee.mu)
        case _:
            return guarantee.rdp(order_of(lane))


def lane_of(order: Decimal) -> str:
    """Return the lane of a Renyi order."""
    return f"rdp({decimal_text(order)})"


def order_of(lane: str) -> Decimal:
    """Return the Renyi order of a lane."""
    return Decimal(lane.removeprefix("rdp(").removesuffix(")"))
