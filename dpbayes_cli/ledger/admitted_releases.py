"""Compute what a budget still admits: the largest next release, and the number of equal releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Context, Decimal

from dpbayes_cli.base.numeric import exact_difference, exact_multiple, exact_sum
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.ledger.union_budget import UnionBudget
from dpbayes_cli.privacy.guarantee import LARGEST_EPSILON, SMALLEST_EPSILON, Guarantee
from dpbayes_cli.privacy.kinds import BoundedRange, GaussianDP, PureDP, ZeroConcentrated

_THREE_DIGITS = Context(prec=3, rounding=ROUND_FLOOR)
_SMALLEST_MU, _LARGEST_MU = Decimal("1e-11"), Decimal(44)
"""The smallest and largest mu for which mu^2 / 2 is a valid rho."""
Cost = tuple[str, Decimal, Callable[[Decimal], Guarantee]]
_MU: Cost = ("mu", _LARGEST_MU, lambda mu: GaussianDP(max(mu, _SMALLEST_MU)))
_KINDS: dict[str, tuple[Cost, ...]] = {
    "laplace": (("epsilon", LARGEST_EPSILON, PureDP),),
    "ops": (("epsilon", LARGEST_EPSILON, BoundedRange),),
    "gaussian": (("rho", LARGEST_EPSILON, ZeroConcentrated), _MU),
    "gibbs-posterior": (_MU,),
}
"""For each mechanism the name, the largest value and the guarantee of its privacy parameter; of several parameters, the
first that fits is stated."""
_MOST = 2**50
"""A larger number of releases is not sought; releases without a cost would have no largest number."""


def allowances(account: Account) -> dict[str, dict[str, str]]:
    """Return, for each mechanism, the name and the largest allowed value of its privacy parameter in the next release.

    A value is ``"0"`` if no release fits; else it is rounded down to three digits, unless it is what remains.
    """
    return {name: _allowance(account, costs) for name, costs in _KINDS.items()}


def _allowance(account: Account, costs: tuple[Cost, ...]) -> dict[str, str]:
    amounts = {parameter: _largest_fitting(account, maximum, at) for parameter, maximum, at in costs}
    stated = next((parameter for parameter, amount in amounts.items() if amount), costs[0][0])
    return {stated: f"{amounts[stated]:f}"}


def _largest_fitting(account: Account, maximum: Decimal, guarantee_at: Callable[[Decimal], Guarantee]) -> Decimal:
    """Return the largest parameter whose privacy cost fits, by bisection over its logarithm."""

    def fits(value: Decimal) -> bool:
        return (
            not account.exhausted
            and not account.closed
            and not account.budget.shortfall(account.charged, guarantee_at(value))
        )

    if not fits(SMALLEST_EPSILON):
        return Decimal(0)
    remaining = account.remaining.get("epsilon", account.remaining.get("rho", maximum))
    exact = min(remaining, maximum)  # fits if the parameter is the privacy cost itself
    if exact >= SMALLEST_EPSILON and fits(exact) and not fits(min(maximum, exact * Decimal("1.01"))):
        return exact
    low, high = math.log(float(SMALLEST_EPSILON)), math.log(float(maximum))
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(_exp_rounded_down(middle)) else (low, middle)
    return _exp_rounded_down(low)


def _exp_rounded_down(exponent: float) -> Decimal:
    value = _THREE_DIGITS.create_decimal(Decimal(math.exp(exponent)))
    return max(SMALLEST_EPSILON, value)


def remaining_by_route(account: Account) -> list[tuple[str, Decimal]]:
    """Return the remaining epsilon under each composition rule of the budget; an empty list if it has only one rule."""
    if not isinstance(account.budget, UnionBudget) or account.exhausted:
        return []
    total = account.budget.epsilon
    return [
        (name, max(Decimal(0), exact_difference(total, spent)) if spent.is_finite() else Decimal(0))
        for name, spent in account.budget.routes(account.charged)
    ]


def admitted_releases(budget: Budget, guarantee: Guarantee, charged: Mapping[str, Decimal] | None = None) -> int:
    """Return how many more releases with equal guarantees a budget admits, one after the other, at most 2^50.

    Sums of charges only grow, so the budget admits a number of releases if and only if their sums fit.

    Args:
        charged: the sums of earlier charges; None if there are none.
    """
    before = budget.nothing if charged is None else charged
    one = budget.added(budget.nothing, guarantee)

    def fits(times: int) -> bool:
        return not budget.excess(
            {lane: exact_sum([before[lane], exact_multiple(one[lane], times)]) for lane in budget.lanes}
        )

    return _largest(fits)


def _largest(fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``_MOST`` that fits, by doubling and bisection; 0 if 1 does not fit."""
    low, high = 0, 1
    while high <= _MOST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle <= _MOST and fits(middle) else (low, middle)
    return low
