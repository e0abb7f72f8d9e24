"""The budget that adds up Renyi divergences at several orders. Also: which budget is opened by default, for a stated
total, and from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cached_property
from typing import Any

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import decimal_text, exact_difference, exact_multiple, exact_sum, parse_decimal
from dpbayes_cli.ledger.budgets import (
    ApproximateBudget,
    Budget,
    ConcentratedBudget,
    GaussianBudget,
    Lanes,
    PureBudget,
    RenyiBudget,
    lane_of,
)
from dpbayes_cli.ledger.schedule_budget import ScheduleBudget, parse_schedule_budget
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta, check_order
from dpbayes_cli.privacy.kinds import PureDP

DEFAULT_EPSILON = Decimal(3)
"""The total epsilon of an account that is opened by its first release."""
TOTAL_WITH_DELTA = f"--epsilon {DEFAULT_EPSILON} --delta 1e-6"
"""The options of an account that pays for releases with and without a pure epsilon, as advice."""
DEFAULT_ORDERS = (Decimal("1.5"), *(Decimal(order) for order in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)))
"""The default Renyi orders of an (epsilon, delta) account; nine tenths of delta are divided equally among them."""

_DOWN = Context(prec=40, rounding=ROUND_FLOOR)
_UP = Context(prec=40, rounding=ROUND_CEILING)
_SHORT = Context(prec=15, rounding=ROUND_CEILING)
_ROUNDING_MARGIN = Decimal("1e-30")
"""A number larger than the rounding error of a few 40-digit operations on numbers below 1e6."""


@dataclass(frozen=True)
class UnionBudget(Budget):
    """A total of epsilon and delta, with divergences at several Renyi orders; each order has a fixed part of delta.

    Privacy: delta is divided when the account is opened: each order l gets a part delta_l, and the deltas of the
        releases themselves get delta_approx. Order l fits if the sum of the divergences at l implies an epsilon, at
        delta_l, of at most the total epsilon. A release is allowed if, after it, some order fits or the sum of epsilons
        is at most epsilon. Proof: partition an event by the first order that fits when all releases are made. Each
        piece is an event under the privacy filter of one order, so the probability of the event is at most exp(epsilon)
        * Q + sum of delta_l, where Q is its probability under the neighboring data. It would be unsound to choose the
        best order at the full delta.
    Source: Feldman and Zrnic 2021; Canonne, Kamath and Steinke 2020; the union bound over orders is derived here.

    Attributes:
        epsilon, delta: the guarantee of all releases together.
        orders: pairs of an order l and its part delta_l, the smallest order first.
        delta_approx: the part of delta for releases that have their own delta.
    """

    kind, amounts, notion = "renyi", ("epsilon", "delta"), "(epsilon, delta) with Renyi composition"
    epsilon: Decimal
    delta: Decimal
    orders: tuple[tuple[Decimal, Decimal], ...]
    delta_approx: Decimal

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = [order for order, _ in self.orders]
        if not listed or listed != sorted(set(listed)):
            raise SpecError("expected one or more different Renyi orders, the smallest first", where="orders")
        for order, part in self.orders:
            check_order(order)
            check_delta(part)
        if self.delta_approx < 0 or exact_sum([self.delta_approx, *(part for _, part in self.orders)]) > self.delta:
            raise SpecError("the parts of delta add up to more than delta", where="orders")

    @classmethod
    def divide(
        cls,
        epsilon: Decimal,
        delta: Decimal,
        orders: tuple[Decimal, ...] = DEFAULT_ORDERS,
        approximate: Decimal = Decimal("0.1"),
    ) -> UnionBudget:
        """Return the budget that divides delta equally among the orders, rounded down.

        Args:
            approximate: the share of delta for releases that have their own delta, which the orders do not get.
        """
        check_delta(delta)
        short = Context(prec=12, rounding=ROUND_FLOOR)
        each = short.divide(delta * (1 - approximate), Decimal(max(1, len(orders))))
        return cls(epsilon, delta, tuple((order, each) for order in sorted(orders)), short.multiply(delta, approximate))

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        return ("epsilon", "delta", *(lane_of(order) for order, _ in self.orders))

    @property
    def shape(self) -> object:
        return (self.kind, self.orders, exact_difference(self.delta, self.delta_approx))

    def implied(self, changes: Mapping[str, Decimal]) -> dict[str, Decimal]:
        """Return the part of delta for the deltas of releases; the parts for the orders stay."""
        orders = exact_difference(self.delta, self.delta_approx)
        rest = exact_difference(changes.get("delta", self.delta), orders)
        if rest < 0:
            raise SpecError(f"the Renyi orders of this account have delta {decimal_text(orders)}: state at least this")
        return {"delta_approx": rest}

    @property
    def total(self) -> Lanes:
        return {"epsilon": self.epsilon, "delta": self.delta}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the smallest epsilon of all composition rules (``routes``), and the spent delta.

        If any release has a delta itself, the parts of delta for the orders count as spent too.
        """
        own_deltas = charged["delta"]
        spent = exact_sum([exact_difference(self.delta, self.delta_approx), own_deltas]) if own_deltas else own_deltas
        return {"epsilon": min(epsilon for _, epsilon in self.routes(charged)), "delta": spent}

    def routes(self, charged: Mapping[str, Decimal]) -> list[tuple[str, Decimal]]:
        """Return the epsilon that each composition rule gives: basic composition first, then each order."""
        renyi = [(lane_of(order), self._epsilon(order, charged[lane_of(order)])) for order, _ in self.orders]
        return [("basic", charged["epsilon"]), *renyi]

    def cost_of_each(self, guarantee: Guarantee, times: int) -> Lanes:
        """Return the cost of one release by the composition rule that gives the smallest epsilon for all of them."""
        one = self.added(self.nothing, guarantee)
        routes = self.routes({lane: exact_multiple(amount, times) for lane, amount in one.items()})
        best, _ = min(routes, key=lambda route: route[1])
        lane = "epsilon" if best == "basic" else best
        return {lane: one[lane], **({"delta": one["delta"]} if one["delta"] else {})}

    def _epsilon(self, order: Decimal, value: Decimal) -> Decimal:
        """Convert a Renyi divergence at an order to an epsilon at the order's part of delta, rounded up."""
        if not value or not value.is_finite():
            return value  # nothing was released, or there is no guarantee at this order
        return max(Decimal(0), _SHORT.plus(_UP.add(value, self._offsets[order])))

    @cached_property
    def _offsets(self) -> dict[Decimal, Decimal]:
        """For each order l, epsilon minus the divergence: log((l-1)/l) - (log delta_l + log l)/(l-1), rounded up."""
        offsets = {}
        for order, part in self.orders:
            less = _UP.subtract(order, Decimal(1))
            first = _UP.ln(_UP.divide(less, order))
            second = _UP.divide(_UP.add(_DOWN.ln(part).copy_negate(), _DOWN.ln(order).copy_negate()), less)
            offsets[order] = _UP.add(_UP.add(first, second), _ROUNDING_MARGIN)
        return offsets

    def serialize(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "orders": {decimal_text(order): decimal_text(part) for order, part in self.orders},
            "delta_approx": decimal_text(self.delta_approx),
        }


def default_budget(guarantee: Guarantee, delta: Decimal | None) -> Budget:
    """Return the budget of an account that its first release opens.

    It is a total of pure epsilon if the release has a pure epsilon or states no delta. Otherwise it is a total of
    epsilon and of the stated delta; it is converted to Gaussian DP if the release fits only then. If the release has a
    delta of its own, see ``budget_of_deltas``.
    """
    kinds: list[Budget] = [PureBudget(DEFAULT_EPSILON)]
    if guarantee.delta:
        kinds = [budget_of_deltas(guarantee.delta)]
    elif delta is not None and not guarantee.epsilon.is_finite():
        kinds = [UnionBudget.divide(DEFAULT_EPSILON, delta), GaussianBudget.of_statement(DEFAULT_EPSILON, delta)]
    return next((budget for budget in kinds if not budget.shortfall(budget.nothing, guarantee)), kinds[0])


def budget_of_deltas(delta: Decimal) -> UnionBudget:
    """Return the budget of an account whose releases have deltas of their own, such as this one.

    The total of delta is ten times as large; half of it pays for the deltas of releases.
    """
    return UnionBudget.divide(DEFAULT_EPSILON, exact_multiple(delta, 10), approximate=Decimal("0.5"))


def amended_budget(budget: Budget, changes: Mapping[str, Decimal]) -> Budget:
    """Return a budget with other totals; a total of pure epsilon may get a delta.

    Raises:
        SpecError: the budget has no total of a stated name.
    """
    if isinstance(budget, PureBudget) and "delta" in changes:
        budget, changes = UnionBudget.divide(budget.epsilon, changes["delta"]), {**changes}
        del changes["delta"]
    return budget.amended(changes)


def sums_with_delta(charged: Mapping[str, Decimal], budget: UnionBudget) -> Lanes:
    """Return what the sums of an account of pure epsilon amount to in an account with a delta.

    Privacy: releases whose epsilons add up to epsilon are, together, epsilon-DP, and at each order the sum of their
        divergences is at most the divergence of randomized response at epsilon: two such releases of epsilons a and b
        are (a + b)-DP, and divergences of independent draws add up. So the sums are never too small.
    Source: derived here.
    """
    before, epsilon = {**budget.nothing, "delta": charged["delta"]}, charged["epsilon"]
    if not epsilon:
        return before
    if not epsilon.is_finite():
        return dict.fromkeys(budget.nothing, Decimal("Infinity"))
    return budget.added(before, PureDP(epsilon))


def stated_budget(
    amounts: Mapping[str, Decimal], orders: Sequence[Decimal] = (), *, basic: bool = False, gaussian: bool = False
) -> Budget:
    """Return the budget with a total in one notion of privacy.

    Args:
        amounts: ``epsilon``, ``epsilon`` and ``delta``, ``rho``, ``mu``, or ``rdp`` and ``order``.
        orders: the Renyi orders among which delta is divided; only with delta.
        basic: whether to use basic composition only; only with delta.
        gaussian: whether to convert the total to Gaussian differential privacy; only with delta.

    Raises:
        ValueError: the amounts state no total, or more than one.
    """
    totals = dict(amounts)
    delta, order = totals.pop("delta", None), totals.pop("order", None)
    if len(totals) != 1:
        raise ValueError("state one total: --epsilon E [--delta D], --rho R, --mu M, or --rdp V --order L")
    ((name, total),) = totals.items()
    if (name == "rdp") != (order is not None):
        raise ValueError("--rdp and --order go together")
    if delta is not None and name != "epsilon":
        raise ValueError("--delta needs --epsilon")
    if (basic or orders or gaussian) and (delta is None or sum(map(bool, (basic, orders, gaussian))) > 1):
        raise ValueError("--orders, --basic and --gaussian exclude each other, and need --delta")
    if order is not None:
        return RenyiBudget(order, total)
    if name == "rho":
        return ConcentratedBudget(total)
    if name == "mu":
        return GaussianBudget(total)
    if name != "epsilon":
        raise ValueError(f"there is no total {name!r}; expected epsilon, rho, mu or rdp")
    if delta is None:
        return PureBudget(total)
    if gaussian:
        return GaussianBudget.of_statement(total, delta)
    if basic:
        return ApproximateBudget(total, delta)
    return UnionBudget.divide(total, delta, tuple(orders)) if orders else UnionBudget.divide(total, delta)


_KINDS: dict[object, type[Budget]] = {
    budget.kind: budget for budget in (PureBudget, ApproximateBudget, RenyiBudget, ConcentratedBudget, GaussianBudget)
}


def parse_budget(stored: Mapping[str, Any]) -> Budget:
    """Return the budget that ``serialize`` stored; raise ``ValueError`` if its kind or a number is not valid."""
    values = dict(stored)
    kind = values.pop("kind", None)
    try:
        if kind == UnionBudget.kind:
            orders = sorted((parse_decimal(o), parse_decimal(part)) for o, part in values.pop("orders").items())
            return UnionBudget(orders=tuple(orders), **{key: parse_decimal(text) for key, text in values.items()})
        if kind == ScheduleBudget.kind:
            return parse_schedule_budget(values)
        if kind in _KINDS:
            return _KINDS[kind](**{key: parse_decimal(text) for key, text in values.items()})
    except (KeyError, TypeError, AttributeError, SpecError) as error:
        raise ValueError("malformed budget") from error
    raise ValueError("unknown kind of budget")
