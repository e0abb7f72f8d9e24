"""A guarantee as curves, for figures: delta against epsilon, and what a test of one data set against another can do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

from dpbayes_cli.privacy.conversions import ORDERS, delta_of_rdp, gaussian_delta_above
from dpbayes_cli.privacy.guarantee import Guarantee

_SMALLEST = 1e-12
_GRID = 200


@dataclass(frozen=True)
class Tradeoff:
    """The (epsilon, delta) statements that follow from one guarantee, as floats.

    Privacy: every number is an upper bound on the loss of the mechanism that carries the guarantee, up to the rounding
        of floats. Nothing is priced by it, and nothing that is released depends on it.
    Source: ``Guarantee.delta_at``; where there is a pure epsilon, or one beside a delta, randomized response of it is
        the worst case (Kairouz, Oh and Viswanath 2015, Theorem 3.3).

    Attributes:
        guarantee: the promise.
        renyi: its Renyi curve at the orders of the grid and at those that it states, the finite ones alone.
    """

    guarantee: Guarantee
    renyi: tuple[tuple[float, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        stated = [order for order, _ in getattr(self.guarantee, "points", ())]
        values = [(order, self.guarantee.rdp(order)) for order in sorted({*ORDERS, *stated})]
        curve = tuple((float(order), float(value)) for order, value in values if value.is_finite())
        object.__setattr__(self, "renyi", curve)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that is known to go with an epsilon of at least 0."""
        beside, pure = float(self.guarantee.delta), float(self.guarantee.epsilon)
        if epsilon >= pure:
            return beside
        found = [1.0, *(beside + delta_of_rdp(order, value, epsilon) for order, value in self.renyi)]
        if self.guarantee.mu.is_finite() and self.guarantee.mu > 0:
            found.append(gaussian_delta_above(float(self.guarantee.mu), epsilon))
        if math.isfinite(pure):
            response = -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure))
            found.append(beside + (1.0 - beside) * response)
        return min(found)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that is known to go with a delta > 0; infinite where there is none."""
        high = float(self.guarantee.epsilon_at(Decimal(repr(delta))))
        if not math.isfinite(high):
            return high
        low = 0.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def power(self, level: float) -> float:
        """Return how often at most a test rightly says that a person's record is another, where it says so wrongly.

        Privacy: by every (epsilon, delta) statement at most exp(epsilon) level + delta, and at most
            1 - exp(-epsilon) (1 - level - delta); the smallest of all holds.
        Source: Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015 (the region of error rates).

        Args:
            level: how often it says so wrongly, from 0 to 1.
        """
        best = 1.0
        for epsilon in self.epsilons(_GRID):
            delta = self.delta(epsilon)
            least = 1.0 - math.exp(-epsilon) * (1.0 - level - delta)
            best = min(best, math.exp(min(epsilon, 700.0)) * level + delta, least)
        return best

    def epsilons(self, count: int) -> list[float]:
        """Return epsilons from 0 to where delta has all but vanished, in even steps; just 0 where there is none."""
        most = float(self.guarantee.epsilon)
        if not math.isfinite(most):
            most = float(self.guarantee.epsilon_at(Decimal(repr(_SMALLEST))))
        if not math.isfinite(most) or most <= 0.0:
            return [0.0]
        return [most * step / (count - 1) for step in range(count)]
