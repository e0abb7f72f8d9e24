"""A guarantee as curves for figures: delta against epsilon, and the power of a test of neighbors against its level."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

from dpbayes_cli.privacy.conversions import ORDERS, delta_of_rdp, gaussian_delta_above
from dpbayes_cli.privacy.guarantee import Guarantee

_NEGLIGIBLE_DELTA = 1e-12
_N_EPSILONS = 200


@dataclass(frozen=True)
class Tradeoff:
    """All (epsilon, delta) statements that one guarantee implies, in floats.

    Privacy: every number is an upper bound on the privacy loss of the guarantee's mechanism, up to the rounding of
        floats. No charge and no release depends on these numbers.
    Source: ``Guarantee.delta_at``; for a pure epsilon, or an epsilon with a delta, randomized response is the worst
        case (Kairouz, Oh and Viswanath 2015, Theorem 3.3).

    Attributes:
        guarantee: the guarantee.
        renyi: the finite Renyi divergences of the guarantee, at the orders of the grid and at the orders that the
            guarantee stores.
    """

    guarantee: Guarantee
    renyi: tuple[tuple[float, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        stated_orders = [order for order, _ in getattr(self.guarantee, "points", ())]
        values = [(order, self.guarantee.rdp(order)) for order in sorted({*ORDERS, *stated_orders})]
        curve = tuple((float(order), float(value)) for order, value in values if value.is_finite())
        object.__setattr__(self, "renyi", curve)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that is known to hold with an epsilon >= 0."""
        own_delta, pure = float(self.guarantee.delta), float(self.guarantee.epsilon)
        if epsilon >= pure:
            return own_delta
        deltas = [1.0, *(own_delta + delta_of_rdp(order, value, epsilon) for order, value in self.renyi)]
        if self.guarantee.mu.is_finite() and self.guarantee.mu > 0:
            deltas.append(gaussian_delta_above(float(self.guarantee.mu), epsilon))
        if math.isfinite(pure):
            response = -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure))
            deltas.append(own_delta + (1.0 - own_delta) * response)
        return min(deltas)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that is proved to hold with a delta > 0; infinite if none is proved."""
        low, high = 0.0, float(self.guarantee.epsilon_at(Decimal(repr(delta))))
        if not math.isfinite(high):
            return high
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def power(self, level: float) -> float:
        """Return an upper bound on the power of any test of neighbors at a level, the probability of a false positive.

        Privacy: every (epsilon, delta) statement bounds the power by exp(epsilon) * level + delta, and by 1 -
            exp(-epsilon) * (1 - level - delta); the smallest of all these bounds holds.
        Source: Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015 (the region of error rates).
        """
        best = 1.0
        for epsilon in self.epsilons(_N_EPSILONS):
            delta = self.delta(epsilon)
            other_bound = 1.0 - math.exp(-epsilon) * (1.0 - level - delta)
            best = min(best, math.exp(min(epsilon, 700.0)) * level + delta, other_bound)
        return best

    def epsilons(self, count: int) -> list[float]:
        """Return evenly spaced epsilons from 0 to the epsilon at a negligible delta; only 0 if it is infinite."""
        largest = float(self.guarantee.epsilon)
        if not math.isfinite(largest):
            largest = float(self.guarantee.epsilon_at(Decimal(repr(_NEGLIGIBLE_DELTA))))
        if not math.isfinite(largest) or largest <= 0.0:
            return [0.0]
        return [largest * step / (count - 1) for step in range(count)]
