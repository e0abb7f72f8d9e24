"""Budgets: the totals that an account may spend, and the filter that decides whether one more release fits.

An analyst chooses a release after seeing earlier ones, so only composition rules for adaptive choices are used. Charges
are summed by lane: ``epsilon`` and ``delta`` of the (epsilon, delta) statement, ``rho``, and ``rdp(ORDER)`` for each
order of the budget. Sums are exact decimals; a release that has no finite cost in a lane makes it infinite for good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text, exact_difference, exact_sum
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta, check_epsilon, check_order, check_rho

Lanes = dict[str, Decimal]

_SQUARES = Context(prec=100)
"""A stored mu has 15 digits, so its square is exact."""


class Budget(ABC):
    """A total that an account may spend, in one notion of privacy.

    Privacy: a filter: whatever the order and the adaptive choice of releases, all releases that it allowed together
        keep the account's guarantee.
    Source: design notes, the ledger is a filter.
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def lanes(self) -> tuple[str, ...]:
        """The names of the sums that are kept below their totals."""

    @property
    def shape(self) -> object:
        """The properties of a budget that an amendment must not change."""
        return (self.kind, self.lanes)

    @property
    @abstractmethod
    def total(self) -> Lanes:
        """The totals by component."""

    @abstractmethod
    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return what was spent, by the components of ``total``; infinite if no guarantee is left."""

    @abstractmethod
    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""

    @abstractmethod
    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with other totals.

        Raises:
            SpecError: the budget has no total of this name.
        """

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
        """Return what is charged to each lane after one more release."""
        return {lane: exact_sum([charged[lane], _cost(guarantee, lane)]) for lane in self.lanes}

    @property
    def nothing(self) -> Lanes:
        """The lanes of an account that has spent nothing."""
        return {lane: Decimal(0) for lane in self.lanes}


@dataclass(frozen=True)
class PureBudget(Budget):
    """A total of pure epsilon: sum of epsilons <= epsilon, and no delta at all.

    Privacy: epsilon-DP of everything together.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).
    """

    kind: ClassVar[str] = "pure"
    epsilon: Decimal

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Epsilon and delta."""
        return ("epsilon", "delta")

    @property
    def total(self) -> Lanes:
        """The epsilon."""
        return {"epsilon": self.epsilon}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the sum of epsilons; a delta makes it infinite."""
        return {"epsilon": charged["epsilon"] if charged["delta"] == 0 else Decimal("Infinity")}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with another epsilon."""
        check_components(changes, {"epsilon"}, "of pure epsilon")
        return PureBudget(**changes)

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind, **component_texts(self.total)}


@dataclass(frozen=True)
class ApproximateBudget(Budget):
    """A total of (epsilon, delta) under basic composition alone.

    Privacy: sum of epsilons <= epsilon and sum of deltas <= delta: (epsilon, delta)-DP of everything together.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).
    """

    kind: ClassVar[str] = "approximate"
    epsilon: Decimal
    delta: Decimal

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Epsilon and delta."""
        return ("epsilon", "delta")

    @property
    def total(self) -> Lanes:
        """Epsilon and delta."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return both sums."""
        return {"epsilon": charged["epsilon"], "delta": charged["delta"]}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with other totals."""
        check_components(changes, {"epsilon", "delta"}, "of (epsilon, delta)")
        return ApproximateBudget(**{**self.total, **changes})

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind, **component_texts(self.total)}


@dataclass(frozen=True)
class RenyiBudget(Budget):
    """A total of Renyi divergence at one order that is fixed when the account is opened.

    Privacy: sum of divergences at the order <= rdp: (order, rdp)-RDP of everything together.
    Source: Feldman and Zrnic 2021 (one fixed order is a filter).
    """

    kind: ClassVar[str] = "rdp"
    order: Decimal
    rdp: Decimal

    def __post_init__(self) -> None:
        check_order(self.order)
        check_rho(self.rdp)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The order, and delta, which must stay zero."""
        return (lane_of(self.order), "delta")

    @property
    def total(self) -> Lanes:
        """The divergence at the order."""
        return {lane_of(self.order): self.rdp}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the sum; a delta makes it infinite."""
        lane = lane_of(self.order)
        return {lane: charged[lane] if charged["delta"] == 0 else Decimal("Infinity")}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with another total at the same order."""
        check_components(changes, {"rdp"}, f"of RDP at order {decimal_text(self.order)}")
        return RenyiBudget(self.order, changes["rdp"])

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind, "order": decimal_text(self.order), "rdp": decimal_text(self.rdp)}


@dataclass(frozen=True)
class ConcentratedBudget(Budget):
    """A total of zero-concentrated differential privacy.

    Privacy: sum of rho <= rho, and no delta: rho-zCDP of everything together.
    Source: Whitehouse, Ramdas, Rogers and Wu 2023 (zCDP is a filter).
    """

    kind: ClassVar[str] = "zcdp"
    rho: Decimal

    def __post_init__(self) -> None:
        check_rho(self.rho)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Rho, and delta, which must stay zero."""
        return ("rho", "delta")

    @property
    def total(self) -> Lanes:
        """The rho."""
        return {"rho": self.rho}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the sum; a delta makes it infinite."""
        return {"rho": charged["rho"] if charged["delta"] == 0 else Decimal("Infinity")}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with another rho."""
        check_components(changes, {"rho"}, "of zCDP")
        return ConcentratedBudget(**changes)

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind, **component_texts(self.total)}


def component_texts(components: Mapping[str, Decimal]) -> dict[str, str]:
    """Return components as decimal strings, ``inf`` if infinite."""
    return {name: decimal_text(value) if value.is_finite() else "inf" for name, value in components.items()}


def _cost(guarantee: Guarantee, lane: str) -> Decimal:
    if lane == "epsilon":
        return guarantee.epsilon
    if lane == "delta":
        return guarantee.delta
    if lane == "rho":
        return guarantee.rho
    if lane == "mu_squared":
        return _SQUARES.multiply(guarantee.mu, guarantee.mu)
    return guarantee.rdp(Decimal(lane.removeprefix("rdp(").removesuffix(")")))


def lane_of(order: Decimal) -> str:
    """Return the lane of a Renyi order."""
    return f"rdp({decimal_text(order)})"


def check_components(changes: Mapping[str, Decimal], allowed: set[str], what: str) -> None:
    """Refuse to change a component that a budget does not have.

    Raises:
        SpecError: there is an unknown component.
    """
    if unknown := changes.keys() - allowed:
        raise SpecError(
            f"{', '.join(sorted(unknown))} cannot be changed in a budget {what}",
            hint=f"state {', '.join(sorted(allowed))}",
        )
