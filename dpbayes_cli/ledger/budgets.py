"""Budgets: the totals that an account may spend, and the filter that decides whether one more release fits.

An analyst chooses a release after seeing earlier ones, so only composition rules for adaptive choices are used. For
each measure of privacy that its budget needs, an account keeps the sum of its charges, called a lane. The measures are
``epsilon`` and ``delta`` of the (epsilon, delta) guarantee, ``rho``, ``mu_squared``, and ``rdp(ORDER)``, the Renyi
divergence at an order. Sums are exact decimals. A release without a finite cost in a measure makes the sum infinite for
good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache, lru_cache
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text, exact_difference, exact_sum
from dpbayes_cli.privacy.conversions import epsilon_of_rdp, epsilon_of_rho, gaussian_epsilon, rho_of_epsilon, round_up
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta, check_epsilon, check_order, check_rho
from dpbayes_cli.privacy.noisy_descent import mu_of_statement

Lanes = dict[str, Decimal]
"""Sums of charges by name: epsilon, delta, rho, ..."""

_SQUARES = Context(prec=100)
"""The context for squares of mu: a stored mu has 15 digits, so 100 digits hold the exact square."""
_DOWN = Context(prec=12, rounding=ROUND_FLOOR)
_CHECKS = {
    "epsilon": check_epsilon, "delta": check_delta, "order": check_order, "rdp": check_rho, "rho": check_rho,
    "mu": check_rho,
}  # fmt: skip


@dataclass(frozen=True)
class Budget(ABC):
    """A total that an account may spend, in one notion of privacy.

    Privacy: the budget is a privacy filter: all releases that it allows together keep the account's guarantee, in
        whatever order they are made, and even if each is chosen after seeing the earlier ones.
    Source: derived here.

    Attributes:
        kind: the name of this kind of budget in the ledger.
        amounts: the fields that state the total; an amendment can change no other field.
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
        """The names of the sums (lanes) that an account with this budget keeps."""

    @property
    @abstractmethod
    def total(self) -> Lanes:
        """The most that may be spent, by component."""

    @abstractmethod
    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return how much of each component of ``total`` is spent; infinite if no guarantee is left."""

    @property
    def shape(self) -> object:
        """What an amendment of the budget must not change."""
        return (self.kind, self.lanes)

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind} | {field.name: decimal_text(getattr(self, field.name)) for field in fields(self)}

    @property
    def stated(self) -> dict[str, str]:
        """The numbers that a user states to open an account with this budget, by the name of their option."""
        return {each.name: decimal_text(getattr(self, each.name)) for each in fields(self) if each.name in _CHECKS}

    def options(self, word: str, missing: Collection[str] = ()) -> str:
        """Return the options of an amendment of the missing components, or of all, such as ``--epsilon TOTAL``."""
        return " ".join(f"--{name} {word}" for name in [*filter(missing.__contains__, self.amounts)] or self.amounts)

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with other totals; raise ``SpecError`` if it has no total of a stated name."""
        if unknown := changes.keys() - set(self.amounts):
            raise SpecError(
                f"{', '.join(sorted(unknown))} cannot be changed in a budget of {self.notion}",
                hint=f"state {', '.join(sorted(self.amounts))}",
            )
        return replace(self, **changes, **self.implied(changes))

    def implied(self, changes: Mapping[str, Decimal]) -> dict[str, Decimal]:
        """Return the other fields that an amendment changes."""
        return {}

    def tightened(self, other: Budget) -> Budget:
        """Return this budget with the smaller of both budgets' totals by component; unchanged if the shapes differ."""
        if other.shape != self.shape:
            return self
        return self.amended({name: min(getattr(self, name), getattr(other, name)) for name in self.amounts})

    def remaining(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the remaining budget, by component; zero if the total is exceeded."""
        spent = self.spent(charged)
        return {name: max(Decimal(0), exact_difference(total, spent[name])) for name, total in self.total.items()}

    def shortfall(self, charged: Mapping[str, Decimal], requested: Guarantee) -> Lanes:
        """Return by how much one more release would exceed the totals, by component; empty if it fits."""
        return self.excess(self.added(charged, requested))

    def excess(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return by how much sums of charges exceed the totals, by component; empty if no total is exceeded."""
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
        """Return the sums of charges after one more release."""
        return {lane: exact_sum([charged[lane], cost]) for lane, cost in _costs(guarantee, self.lanes).items()}

    def cost_of_each(self, guarantee: Guarantee, times: int) -> Lanes:
        """Return what each of several equal releases adds to the sums that limit the account; infinite if none fits.

        Args:
            times: the number of releases.
        """
        return self.spent(self.added(self.nothing, guarantee))

    def refusal(self, label: str, request_digest: str, guarantee: Guarantee) -> str:
        """Return the reason why a release must not be charged, however much is left; empty if there is none."""
        return ""

    def epsilon_at(self, amounts: Mapping[str, Decimal], delta: Decimal) -> Decimal | None:
        """Return the epsilon at a delta that an amount implies, rounded up; None if the amount has an epsilon itself.

        Args:
            amounts: the total or what is spent, by component.
        """
        return None

    @property
    def nothing(self) -> Lanes:
        """The sums of an account that has spent nothing."""
        return {lane: Decimal(0) for lane in self.lanes}


@dataclass(frozen=True)
class _SingleBudget(Budget):
    """A budget with one total, and no delta: a release with a positive delta never fits."""

    @property
    def lanes(self) -> tuple[str, ...]:
        return (self.amounts[0], "delta")

    @property
    def total(self) -> Lanes:
        return {self.lanes[0]: getattr(self, self.amounts[0])}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the sum that the total bounds; infinite if the sum of deltas is positive."""
        lane = self.lanes[0]
        return {lane: charged[lane] if charged["delta"] == 0 else Decimal("Infinity")}


@dataclass(frozen=True)
class PureBudget(_SingleBudget):
    """A total of pure epsilon, which bounds the sum of the epsilons of all releases.

    Privacy: all releases together are epsilon-DP.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).
    """

    kind, amounts, notion = "pure", ("epsilon",), "pure epsilon"
    epsilon: Decimal


@dataclass(frozen=True)
class ConcentratedBudget(_SingleBudget):
    """A total of zero-concentrated differential privacy, which bounds the sum of the rhos of all releases.

    Privacy: all releases together are rho-zCDP.
    Source: Whitehouse, Ramdas, Rogers and Wu 2023 (zCDP is a filter).
    """

    kind, amounts, notion = "zcdp", ("rho",), "zCDP"
    rho: Decimal

    @classmethod
    def of_statement(cls, epsilon: Decimal, delta: Decimal) -> ConcentratedBudget:
        """Return the budget with the largest rho, rounded down, for which rho-zCDP implies (epsilon, delta)-DP."""
        check_epsilon(epsilon)
        check_delta(delta)
        return cls(_DOWN.create_decimal(Decimal(rho_of_epsilon(float(epsilon), float(delta)) * (1.0 - 1e-11))))

    def epsilon_at(self, amounts: Mapping[str, Decimal], delta: Decimal) -> Decimal:
        return round_up(epsilon_of_rho(float(amounts["rho"]), float(delta)))


@dataclass(frozen=True)
class RenyiBudget(_SingleBudget):
    """A total of Renyi divergence at one order; the order is fixed when the account is opened.

    Privacy: the sum of the releases' divergences at the order is at most rdp, so all releases together are (order,
        rdp)-RDP.
    Source: Feldman and Zrnic 2021 (one fixed order is a filter).
    """

    kind, amounts = "rdp", ("rdp",)
    order: Decimal
    rdp: Decimal

    @property
    def notion(self) -> str:
        return f"RDP at order {decimal_text(self.order)}"

    @property
    def lanes(self) -> tuple[str, ...]:
        return (lane_of(self.order), "delta")

    def epsilon_at(self, amounts: Mapping[str, Decimal], delta: Decimal) -> Decimal:
        return round_up(epsilon_of_rdp(float(self.order), float(amounts[lane_of(self.order)]), float(delta)))


@dataclass(frozen=True)
class GaussianBudget(_SingleBudget):
    """A total of mu-Gaussian differential privacy (GDP): its square bounds the sum of mu^2 of all releases.

    A release without a GDP guarantee has an infinite cost, so that it never fits.

    Privacy: all releases together are mu-GDP, hence (epsilon, delta)-DP at every point of the exact privacy profile.
    Source: Smith and Thakurta 2022 (fully adaptive composition of Gaussian differential privacy is a filter).
    """

    kind, amounts, notion, lanes = "gdp", ("mu",), "Gaussian differential privacy", ("mu_squared", "delta")
    mu: Decimal

    @classmethod
    def of_statement(cls, epsilon: Decimal, delta: Decimal) -> GaussianBudget:
        """Return the budget with the largest mu, rounded down, for which mu-GDP implies (epsilon, delta)-DP."""
        check_epsilon(epsilon)
        check_delta(delta)
        return cls(_DOWN.create_decimal(Decimal(mu_of_statement(float(epsilon), float(delta)) * (1.0 - 1e-12))))

    @property
    def total(self) -> Lanes:
        return {"mu_squared": _SQUARES.multiply(self.mu, self.mu)}

    def epsilon_at(self, amounts: Mapping[str, Decimal], delta: Decimal) -> Decimal:
        return gaussian_epsilon(float(round_up(float(amounts["mu_squared"].sqrt()))), delta)


@dataclass(frozen=True)
class ApproximateBudget(Budget):
    """A total of epsilon and delta under basic composition.

    Privacy: the epsilons sum to at most epsilon and the deltas to at most delta, so all releases together are (epsilon,
        delta)-DP.
    Source: Rogers, Roth, Ullman and Vadhan 2016 (basic composition as a filter).
    """

    kind, amounts, notion, lanes = "approximate", ("epsilon", "delta"), "(epsilon, delta)", ("epsilon", "delta")
    epsilon: Decimal
    delta: Decimal

    @property
    def total(self) -> Lanes:
        return {"epsilon": self.epsilon, "delta": self.delta}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        return {"epsilon": charged["epsilon"], "delta": charged["delta"]}


def component_texts(components: Mapping[str, Decimal]) -> dict[str, str]:
    """Return amounts as decimal strings; ``inf`` if infinite."""
    return {name: decimal_text(value) if value.is_finite() else "inf" for name, value in components.items()}


@lru_cache(maxsize=1024)
def _costs(guarantee: Guarantee, lanes: tuple[str, ...]) -> dict[str, Decimal]:
    """Return what a release adds to each sum; kept, because a charge is first tried and then made."""
    return {lane: _cost(guarantee, lane) for lane in lanes}


def _cost(guarantee: Guarantee, lane: str) -> Decimal:
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


@cache
def lane_of(order: Decimal) -> str:
    """Return the name of the sum of Renyi divergences at an order."""
    return f"rdp({decimal_text(order)})"


@cache
def order_of(lane: str) -> Decimal:
    """Return the Renyi order of a sum of divergences from its name."""
    return Decimal(lane.removeprefix("rdp(").removesuffix(")"))
