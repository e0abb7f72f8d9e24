"""Count the releases of one price that a budget admits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from dpbayes_cli.base.numeric import exact_multiple, exact_sum
from dpbayes_cli.ledger.budgets import Budget
from dpbayes_cli.privacy.guarantee import Guarantee

_MOST = 2**50
"""A larger number of releases is not sought; releases without a cost would have no largest number."""


def admitted_releases(budget: Budget, guarantee: Guarantee, charged: Mapping[str, Decimal] | None = None) -> int:
    """Return how many more releases with equal guarantees a budget admits, one after the other, at most 2^50.

    Sums of charges only grow, so that the budget admits a number of releases if and only if their sums fit.

    Args:
        charged: the sums of earlier charges; None: there are none.
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
