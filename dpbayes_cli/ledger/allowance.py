"""What an account would still let through, mechanism by mechanism: for ``budget show``."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal

from dpbayes_cli.base.numeric import exact_difference
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.privacy.guarantee import LARGEST_EPSILON, SMALLEST_EPSILON, Guarantee
from dpbayes_cli.privacy.kinds import BoundedRange, GaussianDP, PureDP, ZeroConcentrated

_THREE_DIGITS = Context(prec=3, rounding=ROUND_FLOOR)
_SMALLEST_MU, _LARGEST_MU = Decimal("1e-11"), Decimal(44)
"""Their mu^2 / 2 are prices that can be stated."""
_KINDS: dict[str, tuple[str, Decimal, Callable[[Decimal], Guarantee]]] = {
    "laplace": ("epsilon", LARGEST_EPSILON, PureDP),
    "ops": ("epsilon", LARGEST_EPSILON, BoundedRange),
    "gaussian": ("rho", LARGEST_EPSILON, ZeroConcentrated),
    "gibbs-posterior": ("mu", _LARGEST_MU, lambda mu: GaussianDP(max(mu, _SMALLEST_MU))),
}


def allowances(account: Account) -> dict[str, dict[str, str]]:
    """Return the largest parameter at which a release of each mechanism would fit next, three digits, rounded down.

    Returns:
        Mechanism to {parameter: value}; ``"0"`` where none fits.
    """
    return {name: {of: f"{_largest(account, most, make):f}"} for name, (of, most, make) in _KINDS.items()}


def _largest(account: Account, most: Decimal, make: Callable[[Decimal], Guarantee]) -> Decimal:
    """Return the largest parameter up to ``most`` that fits, by bisection over exponents; prices grow with it."""

    def fits(value: Decimal) -> bool:
        return not account.exhausted and not account.budget.shortfall(account.charged, make(value))

    if not fits(SMALLEST_EPSILON):
        return Decimal(0)
    left = account.remaining.get("epsilon", account.remaining.get("rho", most))
    exact = min(left, most)  # the remainder itself, where a parameter is the price
    if exact >= SMALLEST_EPSILON and fits(exact) and not fits(min(most, exact * Decimal("1.01"))):
        return exact
    low, high = math.log(float(SMALLEST_EPSILON)), math.log(float(most))
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(_rounded(middle)) else (low, middle)
    return _rounded(low)


def _rounded(exponent: float) -> Decimal:
    value = _THREE_DIGITS.create_decimal(Decimal(math.exp(exponent)))
    return max(SMALLEST_EPSILON, value)


def remaining_by_route(account: Account) -> list[tuple[str, Decimal]]:
    """Return what is left by each route of an account that has several; empty elsewhere."""
    from dpbayes_cli.ledger.union_budget import UnionBudget

    if not isinstance(account.budget, UnionBudget) or account.exhausted:
        return []
    total = account.budget.epsilon
    return [
        (name, max(Decimal(0), exact_difference(total, spent)) if spent.is_finite() else Decimal(0))
        for name, spent in account.budget.routes(account.charged)
    ]
