"""The price of releases that are fixed in advance, by the distribution of their privacy loss.

The accountant is the package dp-accounting, which is loaded only for this purpose. It composes distributions on a grid
of losses. Every loss is rounded so that the computed delta is never below the delta of the mechanism.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import BudgetError, SpecError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.privacy.composition import Composition
from dpbayes_cli.privacy.guarantee import Guarantee, check_delta
from dpbayes_cli.privacy.kinds import ApproximateDP, BoundedRange, GaussianDP, PureDP

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_SMALLEST_DELTA = Decimal("1e-9")
"""The smallest delta at which the rounding errors of doubles are covered by ``_KEPT``."""
_KEPT = 0.999
"""The share of delta at which epsilon is read; the rest covers the rounding errors of doubles."""
_LARGEST_INTERVAL, _FEWEST_STEPS = 1e-4, 50
"""The grid's interval is at most the first, and at most the smallest epsilon divided by the second."""
_MOST_CELLS = 2e6
_UP = Context(prec=6, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class DominatingPair:
    """Two distributions; neighbors of a mechanism are at least as hard to tell apart as these two.

    Attributes:
        epsilon: randomized response with this epsilon; 0 if ``mu`` is positive.
        delta: the probability with which randomized response reveals everything.
        mu: N(0, 1) and N(mu, 1), if it is positive.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    mu: float = 0.0


@dataclass(frozen=True)
class JointPrice:
    """The epsilon of several releases together, at a delta, and the interval of the grid of privacy losses."""

    epsilon: Decimal
    delta: Decimal
    interval: float


def joint_price(releases: Mapping[Guarantee, int], delta: Decimal) -> JointPrice:
    """Return the epsilon of releases together, given how many there are with each guarantee.

    Privacy: each release has a pair of distributions that dominates its mechanism at every epsilon. All pairs are fixed
        in advance, so that the product of the pairs dominates all releases together, in whatever order they are made
        and even if their data change. All rounding is upward.
    Source: Zhu, Dong and Wang 2022, Theorem 10; Doroshenko et al. 2022 (rounding of losses, "connect the dots").

    Raises:
        BudgetError: a guarantee states no pair, or delta is too small for doubles.
        SpecError: dp-accounting is not installed.
    """
    check_delta(delta)
    if delta < _SMALLEST_DELTA:
        raise BudgetError(
            f"a schedule needs a delta of at least 1e-9, because its price is computed in doubles, "
            f"and delta is {decimal_text(delta)}"
        )
    pairs: Counter[DominatingPair] = Counter()
    for guarantee, times in releases.items():
        for pair, count in dominating_pairs(guarantee):
            pairs[pair] += count * times
    interval = _interval(pairs)
    total = None
    for pair, count in pairs.items():
        composed = loss_distribution(pair, interval).self_compose(count)
        total = composed if total is None else total.compose(composed)
    if total is None:
        raise BudgetError("a schedule needs at least one release")
    epsilon = total.get_epsilon_for_delta(float(delta) * _KEPT)
    if not math.isfinite(epsilon):
        raise BudgetError(f"these releases have no finite epsilon at delta {decimal_text(delta)}")
    return JointPrice(_UP.create_decimal(Decimal(max(epsilon, 1e-6))), delta, interval)


def dominating_pairs(guarantee: Guarantee) -> Iterator[tuple[DominatingPair, int]]:
    """Yield pairs, each with its number, whose product dominates every mechanism with a guarantee.

    Privacy: discrete Laplace noise on a component that changes by 1 has privacy losses of plus or minus 1 / scale, so
        that it is randomized response at this epsilon. If no component changes by more than 1, neighbors change at most
        as many components as the stored shift, and fewer changed components are a post-processing of it. This holds for
        each scale separately. If components of a scale change by more than 1, no shift dominates all others. All
        components of this scale together get randomized response at the sum of their epsilons, which dominates every
        mechanism with this pure epsilon.
    Source: Kairouz, Oh and Viswanath 2015 (randomized response dominates pure and (epsilon, delta)-DP); Dong, Roth and
        Su 2022 (Gaussian DP).

    Raises:
        BudgetError: the guarantee states no pair of distributions.
    """
    match guarantee:
        case Composition():
            for part in guarantee.parts:
                yield from dominating_pairs(part)
        case PureDP(shifts=(shift,)):
            for scale in {each.scale for each in shift}:
                same = [each for each in shift if each.scale == scale]
                if all(each.change == 1 for each in same):
                    yield DominatingPair(_up(same[0].epsilon)), sum(each.components for each in same)
                else:
                    yield DominatingPair(_up(sum((each.epsilon * each.components for each in same), Decimal(0)))), 1
        case PureDP() | BoundedRange() | ApproximateDP():
            yield DominatingPair(_up(guarantee.epsilon), float(guarantee.delta)), 1
        case GaussianDP():
            yield DominatingPair(mu=_up(guarantee.mu)), 1
        case _:
            raise BudgetError(
                "a schedule cannot price this mechanism: its guarantee is a curve of Renyi divergences, which gives no "
                "pair of distributions",
                hint="choose a mechanism with a pure epsilon or with Gaussian DP, such as laplace",
            )


def loss_distribution(pair: DominatingPair, interval: float) -> PrivacyLossDistribution:
    """Return the distribution of the privacy loss of a pair on a grid, rounded so that no delta is too small."""
    pmf, distributions = _accountant()
    if pair.mu:
        return distributions.from_gaussian_mechanism(
            math.nextafter(1.0 / pair.mu, 0.0), value_discretization_interval=interval, use_connect_dots=True
        )
    low, high = math.floor(pair.epsilon / interval), math.ceil(pair.epsilon / interval)
    grid = sorted({-high, -low, low, high})
    deltas = [pair.delta + (1.0 - pair.delta) * _response_delta(pair.epsilon, place * interval) for place in grid]
    return distributions.PrivacyLossDistribution(pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas))


def _response_delta(epsilon: float, at: float) -> float:
    """Return the delta of randomized response: the largest P(event) - exp(at) Q(event)."""
    if at >= epsilon:
        return 0.0
    if at <= -epsilon:
        return -math.expm1(at)
    return -math.expm1(at - epsilon) / (1.0 + math.exp(-epsilon))


def _interval(pairs: Mapping[DominatingPair, int]) -> float:
    """Return an interval of the grid at which the composed distribution has at most about ``_MOST_CELLS`` cells."""
    largest = sum(count * pair.epsilon for pair, count in pairs.items())
    variance = sum(count * (pair.epsilon**2 + pair.mu**2) for pair, count in pairs.items())
    spread = 20.0 * math.sqrt(variance) + variance
    spread = min(spread, largest) if largest and not any(pair.mu for pair in pairs) else spread
    finest = min(pair.epsilon or pair.mu for pair in pairs) / _FEWEST_STEPS
    return max(2.0 * spread / _MOST_CELLS, min(_LARGEST_INTERVAL, finest))


def _up(value: Decimal) -> float:
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)


def _accountant() -> tuple[Any, Any]:
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError:
        raise SpecError(
            "a schedule is priced by the package dp-accounting, which is not installed",
            hint="pip install 'dpbayes[schedules]'",
        ) from None
    return pld_pmf, privacy_loss_distribution
