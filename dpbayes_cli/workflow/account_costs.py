"""State the cost of a release in every kind of account, and how often a new account pays for it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from dpbayes_cli.base.numeric import decimal_text, float_text
from dpbayes_cli.ledger.admitted_releases import admitted_releases
from dpbayes_cli.ledger.budgets import Budget, ConcentratedBudget, GaussianBudget, Lanes, PureBudget
from dpbayes_cli.ledger.union_budget import DEFAULT_EPSILON, UnionBudget, budget_of_deltas
from dpbayes_cli.privacy.guarantee import Guarantee

DELTA = Decimal("1e-6")
"""The delta of the accounts in which a plan states the cost of a release."""

HALF_OF_DELTA = (
    "half of its delta pays for the deltas of releases, and the other half makes many releases cost less epsilon"
)
"""What delta pays for, in an account that was opened by a release with a delta of its own."""

TOTALS = {"pure": "epsilon", "renyi": "epsilon, delta", "zcdp": "rho", "gdp": "mu"}
"""What the total of a new account is stated in, by the kind of its budget."""


@dataclass(frozen=True)
class AccountCost:
    """The cost of a release in one kind of account.

    Attributes:
        kind, notion: the kind of the account's budget, and its notion of privacy.
        total: the total of a new account.
        cost: what one release adds to the sums that limit the account; infinite if the account cannot pay for it.
        times: how many such releases a new account pays for.
    """

    kind: str
    notion: str
    total: Lanes
    cost: Lanes
    times: int

    @property
    def is_finite(self) -> bool:
        """Whether the release has a finite cost in this kind of account."""
        return all(amount.is_finite() for amount in self.cost.values())


def account_costs(guarantee: Guarantee) -> list[AccountCost]:
    """Return the cost of a release in new accounts of epsilon 3: pure, and of three other kinds at delta 1e-6.

    The other kinds are (epsilon, delta) with Renyi composition, zCDP and Gaussian DP. Nothing
    is charged. If the release has a delta of its own, the second account is the one that the release would open.
    """
    pure, approximate, *others = _new_budgets()
    if guarantee.delta:
        approximate = budget_of_deltas(guarantee.delta)
    return [_account_cost(budget, guarantee) for budget in (pure, approximate, *others)]


@cache
def _new_budgets() -> tuple[Budget, ...]:
    return (
        PureBudget(DEFAULT_EPSILON),
        UnionBudget.divide(DEFAULT_EPSILON, DELTA),
        ConcentratedBudget.of_statement(DEFAULT_EPSILON, DELTA),
        GaussianBudget.of_statement(DEFAULT_EPSILON, DELTA),
    )


def _account_cost(budget: Budget, guarantee: Guarantee) -> AccountCost:
    times = admitted_releases(budget, guarantee)
    return AccountCost(budget.kind, budget.notion, budget.total, budget.cost_of_each(guarantee, max(times, 1)), times)


def times_sentence(costs: list[AccountCost]) -> str:
    """Return how often new accounts without and with a delta pay for a release, one sentence."""
    pure, approximate, *others = costs
    epsilon, delta = decimal_text(DEFAULT_EPSILON), decimal_text(approximate.total["delta"])
    if approximate.times == 0:
        neither = f"A new account of epsilon {epsilon}, with or without delta {delta}, cannot pay for such a release"
        best = max(others, key=lambda each: each.times)
        if best.times == 0:
            return f"{neither}."
        return f"{neither}; one of {best.notion} that implies epsilon {epsilon} at this delta pays for {best.times:,}."
    half = "" if pure.is_finite or not approximate.cost.get("delta") else f"; {HALF_OF_DELTA}"
    why = "" if pure.is_finite else ", because the release has no pure epsilon"
    with_delta = f"; if it also has delta {delta}, it pays for {approximate.times:,}{half}"
    if approximate.times == pure.times:
        with_delta = ""
    return f"A new account of epsilon {epsilon} pays for {_releases(pure.times)}{why}{with_delta}."


def _releases(number: int) -> str:
    if number == 0:
        return "no such release"
    return "1 such release" if number == 1 else f"{number:,} such releases"


def shown_amounts(amounts: dict[str, float] | None) -> str:
    """Return amounts as text; epsilon of Renyi DP has its order, as in ``Renyi epsilon 0.29 at order 12``."""
    if amounts is None:
        return "infinite"
    texts = []
    for name, amount in amounts.items():
        renyi, _, order = name.rstrip(")").partition("rdp(")
        shown = float_text(amount) if name == "delta" else f"{amount:.4g}"
        texts.append(
            f"Renyi epsilon {shown} at order {order}" if order else f"{renyi.replace('_squared', '^2')} {shown}"
        )
    return ", ".join(texts)
