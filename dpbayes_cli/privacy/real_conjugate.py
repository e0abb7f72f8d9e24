"""Conjugate families for numbers: Poisson counts, waiting times, failures before a success, and normal values.

Source: Geumlek, Song and Chaudhuri 2017, Theorems 12-15; the rest is derived here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy import conjugate, coordinate
from dpbayes_cli.privacy.conjugate import ConjugateFamily, gain_term, loss_term, prior_plus_data
from dpbayes_cli.privacy.coordinate import Lattice, LogGamma, log_gamma_ends, spacing_for
from dpbayes_cli.privacy.grid import EXACT


@dataclass(frozen=True)
class _GammaFamily(ConjugateFamily):
    """Numbers in [0, bound] with a Gamma(shape, rate) prior; their sum adds to the shape or to the rate."""

    shape: float
    rate: float
    bound: float
    n: int

    @abstractmethod
    def gains(self, total: Fraction) -> tuple[Fraction, Fraction]:
        """Return how much records with this sum add to the shape and to the rate, at a likelihood power of one."""

    def draw(self, sums: Sequence[Fraction], r: float, m: float, size: int) -> list[tuple[float, ...]]:
        of_shape, of_rate = self.gains(sums[0])
        law = LogGamma(prior_plus_data(self.shape, m, r, of_shape), prior_plus_data(self.rate, m, r, of_rate))
        return [(math.exp(y),) for y in self.lattice(r, m).draw(law, size)]

    def moments(self, sums: Sequence[Fraction], r: float, m: float) -> tuple[float, float]:
        of_shape, of_rate = map(float, self.gains(sums[0]))
        shape, rate = self.shape / m + r * of_shape, self.rate / m + r * of_rate
        return shape / rate, math.sqrt(shape) / rate


@dataclass(frozen=True)
class GammaShapeFamily(_GammaFamily):
    """Poisson counts x in [0, bound] with a Gamma(shape, rate) prior; sum x adds to the shape, n adds to the rate.

    Privacy: the divergence grows with |x - x'|, so in the worst case x and x' are 0 and bound. It falls with the sum of
        the other records, which is zero in the worst case. In the worst case, the divergence is the larger of
        ``gain_term`` and ``loss_term`` at shape / m, with r * bound in place of r.
    Source: Geumlek et al. 2017, sec. 3.2; the rest is derived here.
    """

    def gains(self, total: Fraction) -> tuple[Fraction, Fraction]:
        return total, Fraction(self.n)

    def order_max(self, r: float, m: float) -> float:
        return 1.0 + self.shape / (m * r * self.bound)

    def divergence(self, order: float, r: float, m: float) -> float:
        if order >= self.order_max(r, m):
            return math.inf
        a, shift = self.shape / m, r * self.bound
        return max(gain_term(a, order, shift), loss_term(a, order, shift))

    def lattice(self, r: float, m: float) -> Lattice:
        least, most, rate = self.shape / m, self.shape / m + r * self.n * self.bound, self.rate / m + r * self.n
        largest_order = min(conjugate.LARGEST_ORDER, self.order_max(r, m))
        spacing = spacing_for(1.0 / math.sqrt(most + largest_order * r * self.bound))
        return Lattice(*log_gamma_ends(least, most, rate, rate), spacing, least)


@dataclass(frozen=True)
class GammaRateFamily(_GammaFamily):
    """Waiting times x in [0, bound] with a Gamma(shape, rate) prior; sum x adds to the rate, n adds to the shape.

    Privacy: let k be the shape, and b1 and b2 the rates of two neighbors, which differ by at most r bound. The
        divergence k [order log b1 - log(order b1 - (order - 1) b2)] / (order - 1) - k log b2 depends on b2 / b1 alone,
        and is largest at the smallest rates, at which the sum of the other records is zero.
    Source: derived here; lambda* = 1 + rate / (r bound), and D grows with n.
    """

    def gains(self, total: Fraction) -> tuple[Fraction, Fraction]:
        return Fraction(self.n), total

    def order_max(self, r: float, m: float) -> float:
        return 1.0 + self.rate / (m * r * self.bound)

    def divergence(self, order: float, r: float, m: float) -> float:
        if order >= self.order_max(r, m):
            return math.inf
        k, b, shift = self.shape / m + r * self.n, self.rate / m, r * self.bound

        def of_ratio(ratio: float) -> float:  # ratio: b2 / b1 - 1
            gap = 1.0 - (order - 1.0) * ratio
            if gap < conjugate.MIN_RELATIVE_GAP:
                return math.inf
            first, second = -math.log1p(-(order - 1.0) * ratio) / (order - 1.0), -math.log1p(ratio)
            error = conjugate.DIFFERENCE_ERROR * (abs(first) + abs(second) + 1.0 / (gap * (order - 1.0)))
            return k * (first + second + error)

        return max(of_ratio(shift / b), of_ratio(-shift / (b + shift)))

    def lattice(self, r: float, m: float) -> Lattice:
        shape, rate = self.shape / m + r * self.n, self.rate / m
        ends = log_gamma_ends(shape, shape, rate, rate + r * self.n * self.bound)
        return Lattice(*ends, spacing_for(1.0 / math.sqrt(shape)), shape)


@dataclass(frozen=True)
class BetaFailuresFamily(ConjugateFamily):
    """Failures x in [0, bound] before a fixed number of successes, with a Beta prior on the success probability.

    At a likelihood power of one the posterior is Beta(alpha + successes * n, beta + sum x).

    Privacy: if the first shape is A, the log-partition of the second shape b is F(b) = log G(b) - log G(A + b), so that
        the divergence D is ``gain_term`` or ``loss_term`` at b, minus the same term at A + b. F is convex, so that D
        grows with |x - x'|, and in the worst case x and x' are 0 and bound. F' is concave (its second derivative is
        psi_2(b) - psi_2(A + b) < 0), and the middle one of the three arguments of F in D is their weighted mean. So D
        does not grow with b, and is largest if the sum of the other records is zero.
    Source: Geumlek, Song and Chaudhuri 2017, Theorem 15 (Beta posteriors); lambda* = 1 + beta / (r m bound).
    """

    alpha: float
    beta: float
    successes: float
    bound: float
    n: int

    def order_max(self, r: float, m: float) -> float:
        return 1.0 + self.beta / (m * r * self.bound)

    def _first(self, r: float, m: float) -> float:
        return self.alpha / m + r * self.successes * self.n

    def divergence(self, order: float, r: float, m: float) -> float:
        if order >= self.order_max(r, m):
            return math.inf
        b, shift = self.beta / m, r * self.bound
        total = self._first(r, m) + b
        return max(term(b, order, shift) - term(total, order, shift, at_least=True) for term in (gain_term, loss_term))

    def lattice(self, r: float, m: float) -> Lattice:
        a, b = self._first(r, m), self.beta / m
        return conjugate.logit_lattice(min(a, b), a + b + r * self.n * self.bound, r * self.bound, self.order_max(r, m))

    def draw(self, sums: Sequence[Fraction], r: float, m: float, size: int) -> list[tuple[float, ...]]:
        a = prior_plus_data(self.alpha, m, r, Fraction(self.successes) * self.n)
        law = coordinate.LogitBeta(a, prior_plus_data(self.beta, m, r, sums[0]))
        return [(coordinate.expit(y),) for y in self.lattice(r, m).draw(law, size)]

    def moments(self, sums: Sequence[Fraction], r: float, m: float) -> tuple[float, float]:
        a, b = self._first(r, m), self.beta / m + r * float(sums[0])
        return a / (a + b), math.sqrt(a * b / (a + b + 1.0)) / (a + b)


@dataclass(frozen=True)
class NormalFamily(ConjugateFamily):
    """Normal values x in [lower, upper] of known variance with a normal prior on their mean.

    Privacy: all posteriors have the same variance v, and the means of neighbors differ by at most shift = r (upper -
        lower) v / variance: the divergence is at most order * shift^2 / (2 v), for every order.
    Source: Geumlek et al. 2017, sec. 3.3; Mironov 2017, Proposition 7.
    """

    mean: float
    prior_variance: float
    variance: float
    lower: float
    upper: float
    n: int

    def order_max(self, r: float, m: float) -> float:
        return math.inf

    def _posterior_variance(self, r: float, m: float) -> float:
        return 1.0 / (1.0 / (m * self.prior_variance) + r * self.n / self.variance)

    def divergence(self, order: float, r: float, m: float) -> float:
        v = self._posterior_variance(r, m)
        shift = r * (self.upper - self.lower) * v / self.variance
        return order * shift * shift / (2.0 * v)

    def lattice(self, r: float, m: float) -> Lattice:
        v = self._posterior_variance(r, m)
        prior, weight = self.mean / (m * self.prior_variance), r * self.n / self.variance
        ends = [v * (prior + weight * end) for end in (self.lower, self.upper)]
        reach, spacing = math.sqrt(2.0 * coordinate.TAIL_NATS * v), spacing_for(math.sqrt(v), math.inf)
        low, high = min(ends) - reach, max(ends) + reach
        if max(abs(low), abs(high)) > 2.0**44 * math.sqrt(v):
            raise SpecError(
                "the posterior mean may be too many standard deviations from zero for a grid in double precision",
                where="domain",
                hint="shift the values, their bounds and the prior toward zero",
            )
        return Lattice(low, high, spacing, 1.0 / math.sqrt(v))

    def draw(self, sums: Sequence[Fraction], r: float, m: float, size: int) -> list[tuple[float, ...]]:
        with localcontext(EXACT):
            weight = Decimal(r) / Decimal(self.variance)
            prior = 1 / (Decimal(m) * Decimal(self.prior_variance))
            variance = 1 / (prior + weight * self.n)
            mean = variance * (Decimal(self.mean) * prior + weight * conjugate.to_decimal(sums[0]))
        return [(y,) for y in self.lattice(r, m).draw(coordinate.NormalCoordinate(mean, variance), size)]

    def moments(self, sums: Sequence[Fraction], r: float, m: float) -> tuple[float, float]:
        v = self._posterior_variance(r, m)
        return v * (self.mean / (m * self.prior_variance) + r * float(sums[0]) / self.variance), math.sqrt(v)
