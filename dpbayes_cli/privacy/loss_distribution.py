"""The cost of releases that are fixed in advance, by the distribution of their privacy loss.

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
from dpbayes_cli.base.numeric import decimal_text, short_text
from dpbayes_cli.privacy.composition import Composition, Failure
from dpbayes_cli.privacy.guarantee import SMALLEST_EPSILON, Guarantee, check_delta
from dpbayes_cli.privacy.kinds import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    NoisyShift,
    PureDP,
    Shifts,
    ZeroConcentrated,
)
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    from dpbayes_cli.base.numeric import Floats

_SMALLEST_DELTA = Decimal("1e-9")
"""The smallest delta at which the rounding errors of doubles are covered by ``_KEPT``."""
_KEPT = 0.999
"""The share of delta at which epsilon is read; the rest covers the rounding errors of doubles."""
_LARGEST_INTERVAL, _FEWEST_STEPS = 1e-4, 50
"""The grid's interval is at most the first, and at most the smallest epsilon divided by the second."""
_MOST_CELLS = 2e6
_NEGLIGIBLE = 1e-3
"""The share of the variance of the privacy loss that the grid may add if it is wider than some losses."""
_UP = Context(prec=6, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class DominatingPair:
    """Two distributions that are at least as easy to tell apart as a mechanism's outputs on any two neighbors.

    Attributes:
        epsilon: the pure epsilon, or 0 if ``mu`` is positive.
        delta: the probability with which randomized response reveals everything.
        mu: if positive, the pair is N(0, 1) and N(mu, 1).
        change: the distance between two discrete Laplace laws of scale ``change / epsilon``; 1 is randomized response.
        shifts: if there are any, the upper envelope of the pairs that belong to these shifts.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    mu: float = 0.0
    change: int = 1
    shifts: Shifts = ()


@dataclass(frozen=True)
class JointCost:
    """The cost of several releases together.

    Attributes:
        epsilon: their epsilon together.
        delta: the delta at which it holds.
        interval: the interval of the grid on which privacy losses are rounded up.
    """

    epsilon: Decimal
    delta: Decimal
    interval: float


def joint_cost(releases: Mapping[Guarantee, int], delta: Decimal) -> JointCost:
    """Return the cost of releases together, given how many of them have each guarantee.

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
            f"a schedule needs a delta of at least 1e-9, because its cost is computed in doubles, "
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
        raise BudgetError(
            f"these releases have no finite epsilon at delta {decimal_text(delta)}", hint="a larger delta"
        )
    return JointCost(_UP.create_decimal(Decimal(max(epsilon, 1e-6))), delta, interval)


def dominating_pairs(guarantee: Guarantee) -> Iterator[tuple[DominatingPair, int]]:
    """Yield pairs, and how often each occurs in a product that dominates every mechanism with this guarantee.

    Privacy: the components of a statistic have independent discrete Laplace noise. Let (a, b) be the changes of two
        components with noise of the same scale, a >= b >= 1. The delta of the changes (a + 1, b - 1) is at least that
        of (a, b) at every epsilon. With p = exp(-1 / scale), the difference of the two is 0 at the losses t / scale
        that (a, b) has, except that it is p^((a + b - t) / 2) (1 - p^2) / (1 + p)^2 if abs(t) <= a - b. Both curves are
        linear in exp(epsilon) between these losses. A larger change or a smaller scale has a larger delta, too. So a
        shift dominates all changes that it majorizes. If a guarantee stores several shifts, the pair is their upper
        envelope, because perhaps none of them dominates all others.
    Source: Kairouz, Oh and Viswanath 2015 (randomized response dominates pure and (epsilon, delta)-DP); Dong, Roth and
        Su 2022 (Gaussian DP); Zhu, Dong and Wang 2022 (a curve that no delta exceeds is that of a pair); the rest is
        derived here.

    Raises:
        BudgetError: the guarantee states no pair of distributions.
    """
    match guarantee:
        case Composition():
            for part in guarantee.parts:
                yield from dominating_pairs(part)
        case PureDP(shifts=(shift,)):
            yield from _noise_pairs(shift)
        case BoundedRange():
            for each, number in guarantee.ranges:
                yield DominatingPair(_up(each)), number
        case PureDP() | ApproximateDP():
            shifts = guarantee.shifts if isinstance(guarantee, PureDP) else ()
            yield DominatingPair(_up(guarantee.epsilon), float(guarantee.delta), shifts=shifts), 1
        case Failure():
            yield DominatingPair(_up(SMALLEST_EPSILON), float(guarantee.delta)), 1
        case GaussianDP():
            yield DominatingPair(mu=_up(guarantee.mu)), 1
        case ZeroConcentrated():
            raise BudgetError(
                "a schedule cannot price this mechanism: its guarantee is the rho of zCDP, which gives no pair of "
                "distributions",
                hint=f"for noise of the same size, state privacy: {{mu: {short_text((2 * guarantee.rho).sqrt())}}}",
            )
        case _:
            raise BudgetError(
                "a schedule cannot price this mechanism: its guarantee is a curve of Renyi divergences, which gives no "
                "pair of distributions",
                hint="choose a mechanism with a pure epsilon or with Gaussian DP, such as laplace",
            )


def _noise_pairs(shift: tuple[NoisyShift, ...]) -> Iterator[tuple[DominatingPair, int]]:
    for each in shift:
        yield DominatingPair(_up(each.epsilon), change=each.change), each.components


def loss_distribution(pair: DominatingPair, interval: float) -> PrivacyLossDistribution:
    """Return the distribution of the privacy loss of a pair on a grid, rounded so that no delta is too small."""
    pmf, distributions = _accountant()
    if pair.mu:
        return distributions.from_gaussian_mechanism(
            math.nextafter(1.0 / pair.mu, 0.0), value_discretization_interval=interval, use_connect_dots=True
        )
    high = math.ceil(pair.epsilon / interval)
    if pair.change < high and not pair.shifts:
        losses = np.linspace(-pair.epsilon, pair.epsilon, pair.change + 1) / interval
        grid = np.unique([np.floor(losses), np.ceil(losses)]).astype(np.int64)
    else:
        grid = np.arange(-high, high + 1)
    at = (grid * interval).astype(np.float64)
    deltas = _noise_deltas(pair.epsilon, pair.change, at)
    if pair.shifts:
        deltas = np.minimum(deltas, _envelope(pair.shifts, interval, at))
    deltas = pair.delta + (1.0 - pair.delta) * deltas
    return distributions.PrivacyLossDistribution(pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas))


def _noise_deltas(epsilon: float, change: int, at: Floats) -> Floats:
    """Return the deltas of two discrete Laplace laws: the largest P(event) - exp(at) Q(event).

    The best events are half-lines, whose probabilities are geometric sums. All terms are positive.
    """
    nats = epsilon / change
    inside = np.clip(at, -epsilon, epsilon)
    ends = np.clip(np.ceil((change - inside / nats) / 2.0), 1.0, change)
    several = -np.expm1(-ends * nats) - math.exp(-nats) * np.expm1(np.minimum(0.0, inside - (change - ends) * nats))
    one = -np.expm1(inside - epsilon)
    between = np.where(ends > 1.0, several, one) / (1.0 + math.exp(-nats))
    return np.where(at >= epsilon, 0.0, np.where(at <= -epsilon, -np.expm1(np.minimum(at, 0.0)), between))


def _envelope(shifts: Shifts, interval: float, at: Floats) -> Floats:
    """Return the largest delta of several shifts at each of these epsilons.

    Privacy: each delta is computed from losses that are rounded up to the grid. The largest of several convex
        functions of exp(epsilon) is convex, so that it is the delta of a pair.
    Source: Zhu, Dong and Wang 2022 (which curves are the deltas of pairs).
    """
    largest = np.zeros(at.shape)
    for shift in shifts:
        total = None
        for pair, count in _noise_pairs(shift):
            composed = loss_distribution(pair, interval).self_compose(count, tail_mass_truncation=0.0)
            total = composed if total is None else total.compose(composed, tail_mass_truncation=0.0)
        if total is not None:
            largest = np.maximum(largest, total.get_delta_for_epsilon(at))
    return largest


def _interval(pairs: Mapping[DominatingPair, int]) -> float:
    """Return an interval of the grid at which the composed distribution has at most about ``_MOST_CELLS`` cells.

    A grid of interval h adds at most about ``epsilon * h`` to the variance of the loss of a pair. So pairs that hardly
    matter compared with others do not need a grid that is finer than their epsilons.
    """
    largest = sum(count * pair.epsilon for pair, count in pairs.items())
    variance = sum(count * (pair.epsilon**2 + pair.mu**2) for pair, count in pairs.items())
    spread = 20.0 * math.sqrt(variance) + variance
    spread = min(spread, largest) if largest and not any(pair.mu for pair in pairs) else spread
    finest = min(pair.epsilon or pair.mu for pair in pairs) / _FEWEST_STEPS
    negligible = _NEGLIGIBLE * variance / sum(count * (pair.epsilon + pair.mu) for pair, count in pairs.items())
    return max(2.0 * spread / _MOST_CELLS, min(_LARGEST_INTERVAL, max(finest, negligible)))


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
