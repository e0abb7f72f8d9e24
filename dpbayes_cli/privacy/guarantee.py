"""The interface of a guarantee, which states its privacy cost in every notion of privacy.

The meaning of a stored guarantee never changes, because the ledger derives every balance from the guarantees that it
stores. All costs are exact decimals, rounded up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Number, as_decimal, decimal_text
from dpbayes_cli.privacy.conversions import INFINITE, ORDERS, delta_of_rdp, epsilon_of_rdp, round_up

SMALLEST_EPSILON = Decimal("1e-12")
LARGEST_EPSILON = Decimal(1000)


@dataclass(frozen=True)
class Statement:
    """An (epsilon, delta) statement and the rule that gave it.

    Attributes:
        epsilon, delta: the numbers of the statement; epsilon is infinite if no statement can be made.
        route: the name of the rule, such as ``rdp(8)``.
        at_edge: whether the best order is at an end of the grid, so that an order outside the grid may be better.
    """

    epsilon: Decimal
    delta: Decimal
    route: str
    at_edge: bool = False


class Guarantee(ABC):
    """A guarantee of differential privacy under the neighbor relation that the account and the release state.

    Privacy: every number that a guarantee returns is an upper bound on the privacy loss of its mechanism.
    Source: docs/explanation/guarantee.md; docs/explanation/budgets.md.
    """

    kind: ClassVar[str]

    @property
    def epsilon(self) -> Decimal:
        """The epsilon of pure DP, or of (epsilon, delta)-DP with ``delta``; infinite if the guarantee is neither."""
        return INFINITE

    @property
    def delta(self) -> Decimal:
        """The delta that is charged in addition to any other cost; zero except for (epsilon, delta) guarantees."""
        return Decimal(0)

    @property
    def rho(self) -> Decimal:
        """The parameter of zCDP, apart from ``delta``, which is charged separately; infinite if there is none."""
        return INFINITE

    @property
    def mu(self) -> Decimal:
        """The parameter of Gaussian differential privacy; infinite if the guarantee does not state one."""
        return INFINITE

    @property
    def order_max(self) -> Decimal:
        """The order (lambda*) at and above which the Renyi divergence is infinite or unknown."""
        return INFINITE

    @property
    def former(self) -> Guarantee:
        """The guarantee that earlier versions stated and charged for the same mechanism."""
        return self

    @abstractmethod
    def rdp(self, order: Decimal) -> Decimal:
        """Return the Renyi divergence at an order > 1, in nats; infinite if no bound is known."""

    def serialize(self) -> dict[str, Any]:
        """Return the form that the ledger stores: a JSON object whose leaves are strings."""
        return {"kind": self.kind, **{name: decimal_text(value) for name, value in vars(self).items()}}

    def statement(self, delta: Decimal) -> Statement:
        """Return the (epsilon, delta) statement with the smallest provable epsilon; delta 0 asks for pure DP."""
        if delta < self.delta:
            return Statement(INFINITE, delta, "none")
        routes = [Statement(self.epsilon, delta, "basic")]
        remaining = float(delta - self.delta)
        if remaining > 0.0:
            orders = [
                Statement(round_up(epsilon_of_rdp(float(order), float(value), remaining)), delta, f"rdp({order})")
                for order, value in self._finite_curve()
            ]
            if orders:
                best = min(orders, key=lambda s: s.epsilon)
                routes.append(replace(best, at_edge=best in (orders[0], orders[-1])))
        return min(routes, key=lambda s: s.epsilon)

    def epsilon_at(self, delta: Number) -> Decimal:
        """Return the smallest epsilon for which (epsilon, delta)-DP is proved; infinite if there is none.

        >>> cost = dpb.plan(dpb.models.BetaBernoulli(), dpb.mechanisms.Gaussian(rho="0.005")).guarantee()
        >>> f"{cost.epsilon_at('1e-6'):.3f}"
        '0.430'
        """
        return self.statement(as_decimal(delta)).epsilon

    def delta_at(self, epsilon: Number) -> Decimal:
        """Return the smallest delta for which (epsilon, delta)-DP is proved; 1 if there is none.

        >>> cost = dpb.plan(dpb.models.BetaBernoulli(), dpb.mechanisms.Gaussian(rho="0.005")).guarantee()
        >>> f"{cost.delta_at(0.5):.0e}"
        '4e-8'
        """
        epsilon = as_decimal(epsilon)
        if epsilon >= self.epsilon:
            return self.delta
        deltas = [round_up(delta_of_rdp(float(o), float(v), float(epsilon))) for o, v in self._finite_curve()]
        return min([Decimal(1), *(self.delta + delta for delta in deltas)])

    def _finite_curve(self) -> list[tuple[Decimal, Decimal]]:
        return [(order, value) for order in ORDERS if (value := self.rdp(order)).is_finite()]


def check_epsilon(epsilon: Decimal) -> None:
    """Refuse an epsilon below 1e-12 or above 1000."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise SpecError(
            f"epsilon is {epsilon:g}; allowed: 1e-12 to {decimal_text(LARGEST_EPSILON)}", where="privacy.epsilon"
        )


def check_delta(delta: Decimal) -> None:
    """Refuse a delta below 1e-30, or of 1 and more."""
    if not Decimal("1e-30") <= delta < 1:
        raise SpecError(f"delta is {delta:g}; allowed: 1e-30 and more, below 1", where="delta")


def check_rho(rho: Decimal) -> None:
    """Refuse a rho below 1e-24 or above 1000."""
    if not Decimal("1e-24") <= rho <= LARGEST_EPSILON:
        raise SpecError(f"rho is {decimal_text(rho)}; allowed: 1e-24 to 1000", where="privacy.rho")


def check_mu(mu: Decimal) -> None:
    """Refuse a mu below 1.5e-12 or above 44.7, for which mu^2 / 2 might not be a valid rho."""
    if not Decimal("1.5e-12") <= mu <= Decimal("44.7"):
        raise SpecError(f"mu is {decimal_text(mu)}; allowed: 1.5e-12 to 44.7", where="privacy.mu")


def check_order(order: Decimal) -> None:
    """Refuse an order (lambda) below 1.1 or above 1024, the range of stored curves."""
    if not ORDERS[0] <= order <= ORDERS[-1]:
        raise SpecError(
            f"the order is {decimal_text(order)}; allowed: {ORDERS[0]} to {ORDERS[-1]}", where="privacy.order"
        )
