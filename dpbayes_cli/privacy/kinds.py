"""The kinds of guarantee: pure DP, (epsilon, delta)-DP, bounded range, zCDP, Gaussian DP and a Renyi curve."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from dpbayes_cli.base.numeric import Number, as_decimal, decimal_text, exact_sum
from dpbayes_cli.privacy import conversions
from dpbayes_cli.privacy.conversions import INFINITE, round_up
from dpbayes_cli.privacy.guarantee import Guarantee, Statement, check_delta, check_epsilon, check_order, check_rho

Points = tuple[tuple[Decimal, Decimal], ...]
_UP = Context(prec=40, rounding=ROUND_CEILING)
_SHORT = Context(prec=15, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
_EXACT = Context(prec=100)


class NoisyShift(NamedTuple):
    """Components of a statistic that change by the same integer, each with discrete Laplace noise of the same scale.

    Attributes:
        scale: the scale of the noise.
        change: the absolute change of each component, positive.
        components: the number of components.
    """

    scale: Decimal
    change: int
    components: int

    @property
    def epsilon(self) -> Decimal:
        """The pure epsilon of one component."""
        return _UP.divide(Decimal(self.change), Decimal(float(self.scale)))

    @property
    def least_epsilon(self) -> Decimal:
        """The pure epsilon of all components, rounded down to 60 digits."""
        return _DOWN.divide(Decimal(self.change * self.components), Decimal(float(self.scale)))


Shifts = tuple[tuple[NoisyShift, ...], ...]


@dataclass(frozen=True)
class PureDP(Guarantee):
    """Pure epsilon-differential privacy, of any mechanism or of discrete Laplace noise.

    Privacy: P(A in E) <= exp(epsilon) P(A' in E) for all neighboring data sets and all events E; delta = 0. If
        ``shifts`` are stated, the mechanism adds independent discrete Laplace noise to integers, and each change
        between neighbors is majorized by one of the shifts at every scale: for each k, the k largest components of the
        change do not add up to more than those of the shift. So its costs are at most those of a shift. The costs of a
        shift are the sums of the costs of its components, because their noise is independent. They are convex, so that
        they also cover a mean of changes, such as that of several records of a unit (``for_units``).
    Source: Dwork, McSherry, Nissim and Smith 2006, Definition 1; the rest is derived here.

    Attributes:
        shifts: shifts that majorize all changes between neighbors; empty if the mechanism is not known, which costs as
            much as randomized response.
    """

    kind: ClassVar[str] = "pure"
    epsilon: Decimal = Decimal(1)
    shifts: Shifts = ()

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        for each in (each for shift in self.shifts for each in shift):
            if not (0.0 < float(each.scale) < math.inf and each.change > 0 and each.components > 0):
                raise ValueError("scales, changes and numbers of components must be positive")
        if not all(self.shifts):
            raise ValueError("a shift must change a component")

    def at_most(self, epsilon: Decimal) -> PureDP:
        """Return the guarantee with a stated epsilon, which must not be below the one that its shifts spend.

        Raises:
            ValueError: the stated epsilon is below the epsilon of a shift.
        """
        spent = [exact_sum(each.least_epsilon for each in shift) for shift in self.shifts]
        if max(spent, default=self.epsilon) > epsilon:
            raise ValueError("a guarantee cannot cost less than its noise")
        return PureDP(epsilon, self.shifts)

    @property
    def former(self) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def rho(self) -> Decimal:
        """epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3), or the sum of this over the components of a shift."""
        return min(self._worst(lambda each: _half_square(each.epsilon)), _half_square(self.epsilon))

    @property
    def mu(self) -> Decimal:
        """The mu that epsilon implies, or the root of the sum of squares over the components of a shift."""
        return _SHORT.plus(root_up(min(self._worst(lambda e: _mu_squared(e.epsilon)), _mu_squared(self.epsilon))))

    def rdp(self, order: Decimal) -> Decimal:
        """Return the Renyi divergence of randomized response, or the sum of divergences over the components."""
        worst = self._worst(lambda each: _laplace_rdp(each.scale, each.change, order))
        return min(worst, _pure_rdp(self.epsilon, order))

    def _worst(self, cost: Callable[[NoisyShift], Decimal]) -> Decimal:
        """Return the largest total cost of a shift, given the cost of one component; infinite without shifts."""
        totals = [exact_sum(_EXACT.multiply(cost(each), Decimal(each.components)) for each in s) for s in self.shifts]
        return max(totals, default=INFINITE)

    def serialize(self) -> dict[str, Any]:
        stored: dict[str, Any] = {"kind": self.kind, "epsilon": decimal_text(self.epsilon)}
        shifts = [[[decimal_text(e.scale), str(e.change), str(e.components)] for e in shift] for shift in self.shifts]
        return {**stored, "shifts": shifts} if shifts else stored


@dataclass(frozen=True)
class ApproximateDP(Guarantee):
    """(epsilon, delta)-differential privacy.

    Privacy: P(A in E) <= exp(epsilon) P(A' in E) + delta for all neighboring data sets and all events E. Outside an
        event of probability delta, such a mechanism is pure epsilon-DP. So it costs delta and the Renyi curve of pure
        epsilon-DP.
    Source: Dwork, Kenthapadi, McSherry, Mironov and Naor 2006; Kairouz, Oh and Viswanath 2015 (the decomposition).
    """

    kind: ClassVar[str] = "approximate"
    epsilon: Decimal = Decimal(1)
    delta: Decimal = Decimal("1e-6")

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @property
    def rho(self) -> Decimal:
        """The rho of the pure part; delta is charged separately."""
        return PureDP(self.epsilon).rho

    def rdp(self, order: Decimal) -> Decimal:
        return PureDP(self.epsilon).rdp(order)


@dataclass(frozen=True)
class BoundedRange(Guarantee):
    """Bounded range, the property of the exponential mechanism: ``parts`` draws, each of range epsilon / parts.

    Privacy: log P(A = a) / P(A' = a) varies by at most epsilon / parts over the outcomes a of one draw; together the
        draws are pure epsilon-DP. A part may also be an adaptive composition of choices, if its epsilon and its Renyi
        curve are not larger than the epsilon and the Renyi curve of one draw with range epsilon / parts. So a cost may
        be computed from epsilon and from the curve, but not from the range itself. If ``points`` hold a Renyi curve of
        all parts together, ``rdp`` returns the smaller of this curve and the general bound. If ``shares`` are stated,
        each draw consists of independent draws with these smaller ranges, whose costs add up.
    Source: Durfee and Rogers 2019; Cesar and Rogers 2021 (order * epsilon^2 / 8).

    Attributes:
        epsilon: the pure epsilon of all parts.
        parts: the number of draws.
        points: (order, divergence) pairs in ascending order; may be empty.
        shares: pairs of the epsilon that all parts spend on one of the independent draws, and the number of such draws;
            empty if a part is one draw.
    """

    kind: ClassVar[str] = "bounded-range"
    epsilon: Decimal = Decimal(1)
    parts: int = 1
    points: Points = ()
    shares: tuple[tuple[Decimal, int], ...] = ()

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        _check_points(self.points)
        if self.parts < 1 or not all(share > 0 and number > 0 for share, number in self.shares):
            raise ValueError("bounded range needs at least one part, and shares must be positive")

    @property
    def former(self) -> BoundedRange:
        return replace(self, shares=())

    @property
    def ranges(self) -> list[tuple[Decimal, int]]:
        """The ranges of independent draws, and the number of draws with each range."""
        return [(_UP.divide(share, Decimal(self.parts)), number * self.parts) for share, number in self._shares]

    @property
    def _shares(self) -> tuple[tuple[Decimal, int], ...]:
        return self.shares or ((self.epsilon, 1),)

    @property
    def rho(self) -> Decimal:
        squares = (_EXACT.multiply(_EXACT.multiply(share, share), Decimal(n)) for share, n in self._shares)
        return _UP.divide(exact_sum(squares), Decimal(8 * self.parts))

    @property
    def mu(self) -> Decimal:
        """The root of the sum of squares of the mus that the epsilons of the draws imply."""
        square = exact_sum(_UP.multiply(_mu_squared(each), Decimal(number)) for each, number in self.ranges)
        return _SHORT.plus(root_up(square))

    def rdp(self, order: Decimal) -> Decimal:
        costs = (n * conversions.bounded_range_rdp(float(each), float(order)) for each, n in self.ranges)
        return min(exact_sum(map(round_up, costs)), _value_at(self.points, order))

    def serialize(self) -> dict[str, Any]:
        stored: dict[str, Any] = {"kind": self.kind, "epsilon": decimal_text(self.epsilon), "parts": str(self.parts)}
        stored |= {"curve": _point_texts(self.points)} if self.points else {}
        return stored | ({"shares": [[decimal_text(e), str(n)] for e, n in self.shares]} if self.shares else {})


@dataclass(frozen=True)
class ZeroConcentrated(Guarantee):
    """rho-zero-concentrated differential privacy.

    Privacy: the Renyi divergence of every order > 1 is at most order * rho.
    Source: Bun and Steinke 2016, Definition 1.1.
    """

    kind: ClassVar[str] = "zcdp"
    rho: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        check_rho(self.rho)

    def rdp(self, order: Decimal) -> Decimal:
        return _UP.multiply(order, self.rho)

    def statement(self, delta: Decimal) -> Statement:
        """Return the best statement over all orders, also those between the orders of the grid."""
        between = Statement(round_up(conversions.epsilon_of_rho(float(self.rho), float(delta))), delta, "zcdp")
        return min([between, super().statement(delta)], key=lambda s: s.epsilon)


@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """mu-Gaussian differential privacy.

    Privacy: telling neighbors apart is no easier than telling N(0, 1) from N(mu, 1). The stated delta(epsilon) is
        exact.
    Source: Dong, Roth and Su 2022, Corollary 2.13; order * mu^2 / 2 for Renyi divergences.
    """

    kind: ClassVar[str] = "gdp"
    mu: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        check_rho(self.rho)

    @property
    def rho(self) -> Decimal:
        return _UP.divide(_UP.multiply(self.mu, self.mu), Decimal(2))

    def rdp(self, order: Decimal) -> Decimal:
        return _UP.multiply(order, self.rho)

    def statement(self, delta: Decimal) -> Statement:
        return Statement(conversions.gaussian_epsilon(float(self.mu), delta), delta, "gdp")

    def delta_at(self, epsilon: Number) -> Decimal:
        return min(Decimal(1), round_up(conversions.gaussian_delta_above(float(self.mu), float(as_decimal(epsilon)))))


@dataclass(frozen=True)
class RenyiCurve(Guarantee):
    """A Renyi curve, finite below an order lambda* and stored on a grid.

    Privacy: the Renyi divergence at a stored order is at most the stored value. Divergences grow with the order, so
        that the value at the next larger stored order is an upper bound between stored orders. Beyond the last stored
        order nothing is guaranteed.
    Source: Mironov 2017; Geumlek, Song and Chaudhuri 2017 (finite lambda*).

    Attributes:
        points: (order, divergence) pairs in ascending order, at least one.
        order_max: lambda*.
    """

    kind: ClassVar[str] = "rdp"
    points: Points = ()
    order_max: Decimal = INFINITE

    def __post_init__(self) -> None:
        _check_points(self.points)
        if not self.points:
            raise ValueError("a Renyi curve needs at least one point")
        if self.points[-1][0] >= self.order_max:
            raise ValueError("the points of a Renyi curve must lie below its order_max")

    def rdp(self, order: Decimal) -> Decimal:
        """Return the value at the smallest stored order >= ``order``; infinite if all stored orders are smaller."""
        return _value_at(self.points, order)

    def serialize(self) -> dict[str, Any]:
        stored: dict[str, Any] = {"kind": self.kind, "curve": _point_texts(self.points)}
        return {**stored, "order_max": decimal_text(self.order_max)} if self.order_max.is_finite() else stored


def _check_points(points: Points) -> None:
    orders = [order for order, _ in points]
    if orders != sorted(set(orders)):
        raise ValueError("the orders of a Renyi curve must ascend")
    for order, value in points:
        check_order(order)
        if not (value.is_finite() and value >= 0):
            raise ValueError("a Renyi divergence must be finite and not negative")


def _value_at(points: Points, order: Decimal) -> Decimal:
    index = bisect_left(points, order, key=lambda point: point[0])
    return points[index][1] if index < len(points) else INFINITE


def _point_texts(points: Points) -> dict[str, str]:
    return {decimal_text(order): decimal_text(value) for order, value in points}


def root_up(square: Decimal) -> Decimal:
    """Return the square root of a decimal, rounded up to 40 digits; infinite if the decimal is."""
    root = _UP.sqrt(square)  # to the nearest, whatever the context says
    return root if not square.is_finite() or _EXACT.multiply(root, root) >= square else root.next_plus(_UP)


def _half_square(value: Decimal) -> Decimal:
    return _UP.divide(_UP.multiply(value, value), Decimal(2))


@lru_cache(maxsize=4096)
def _mu_squared(epsilon: Decimal) -> Decimal:
    mu = round_up(conversions.gaussian_mu(float(epsilon)))
    return _UP.multiply(mu, mu)


@lru_cache(maxsize=4096)
def _pure_rdp(epsilon: Decimal, order: Decimal) -> Decimal:
    return round_up(conversions.pure_rdp(float(epsilon), float(order)))


@lru_cache(maxsize=4096)
def _laplace_rdp(scale: Decimal, change: int, order: Decimal) -> Decimal:
    return round_up(conversions.laplace_rdp(float(change), float(order), float(scale)))
