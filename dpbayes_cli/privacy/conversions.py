"""Conversions between notions of differential privacy. All of them round up, so that no cost is understated.

Floats are increased by a relative 1e-12 and then rounded up to 15 digits. This margin is far larger than the rounding
error of the formulas here (tested against 50-digit arithmetic).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from typing import Any

from dpbayes_cli.privacy.lazy_numpy import np

INFINITE = Decimal("Infinity")
ORDERS: tuple[Decimal, ...] = (
    *(Decimal(order) / 20 for order in (22, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90)),
    *(Decimal(order) for order in (5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)),
    *(Decimal(order) for order in (160, 192, 256, 384, 512, 768, 1024)),
)
"""The grid of orders at which Renyi curves are stored, and over which statements are minimized."""

_UP = Context(prec=15, rounding=ROUND_CEILING)
_MARGIN = 1 + Decimal("1e-12")
_MIN_DIRECT_MU = 1e-3
"""For a smaller mu, cancellation leaves ``gaussian_delta`` with fewer correct digits than a stated epsilon has."""


def round_up(value: float) -> Decimal:
    """Return a decimal of 15 digits that is at least as large as the real number that a float approximates."""
    if math.isinf(value) or math.isnan(value):
        return INFINITE
    return _UP.create_decimal(Decimal(value) * _MARGIN) if value > 0 else Decimal(0)


def pure_rdp(epsilon: float, order: float) -> float:
    """Return the largest Renyi divergence of order > 1 that pure epsilon-DP allows; randomized response attains it.

    Source: derived here; never above epsilon and order * epsilon^2 / 2 (Bun and Steinke 2016).
    """
    if epsilon < 1e-6:  # cancellation below would lose all digits, and the bound is tight
        return min(epsilon, order * epsilon**2 / 2.0)
    ratio = -math.expm1(-2.0 * (order - 1.0) * epsilon) * math.exp(-epsilon)  # e^-eps - e^-(2 order - 1) eps
    ratio /= 1.0 + math.exp(-(2.0 * order - 1.0) * epsilon)
    exact = epsilon - math.log1p(ratio) / (order - 1.0) + 4e-16 * epsilon * order / (order - 1.0)
    return min(exact, epsilon, order * epsilon**2 / 2.0)


def laplace_rdp(shift: float, order: float, scale: float) -> float:
    """Return the Renyi divergence of order > 1 of discrete Laplace noise from the same noise shifted by an integer.

    Let a = 1 / scale, t = shift * a, m = order - 1 and w = sinh(order a) / (sinh(order a) + sinh(m a)). The sum over
    all integers is w exp(m t) + (1 - w) exp(-order t), whose logarithm divided by m is the divergence. For small m t,
    the sum minus 1 is computed from terms that are all positive, so that no digits cancel. The result grows with the
    shift and is convex in it, because the logarithm of a sum of exponentials is convex.

    Source: derived here, by summing the geometric series of Ghosh et al. 2009.
    """
    a, m = 1.0 / scale, order - 1.0
    t = shift * a
    if m * t < 0.5 and order * a < 0.5:
        one, other = math.sinh(order * a), math.sinh(m * a)
        curved = m * _sinh_minus(order * a) - order * _sinh_minus(m * a)
        less_one = one * _exp_minus(m * t) + other * _exp_minus(-order * t) + t * curved
        return math.log1p(less_one / (one + other)) / m
    ratio = math.exp(-a) * math.expm1(-2.0 * m * a) / math.expm1(-2.0 * order * a)  # (1 - w) / w
    return t + (math.log1p(ratio * math.exp(-(order + m) * t)) - math.log1p(ratio)) / m


def _exp_minus(x: float) -> float:
    """Return exp(x) - 1 - x without cancellation."""
    if abs(x) > 0.5:
        return math.expm1(x) - x
    term, total = x * x / 2.0, 0.0
    for k in range(3, 18):
        before, total, term = total, total + term, term * x / k
        if total == before:
            break  # later terms are smaller
    return total


def _sinh_minus(x: float) -> float:
    """Return sinh(x) - x, for 0 <= x <= 1, without cancellation."""
    term, total = x**3 / 6.0, 0.0
    for k in range(4, 22, 2):
        before, total, term = total, total + term, term * x * x / (k * (k + 1))
        if total == before:
            break  # later terms are smaller
    return total


def gaussian_mu(epsilon: float) -> float:
    """Return the smallest mu for which pure epsilon-DP implies mu-Gaussian DP: 2 Phi^-1(e^epsilon / (1 + e^epsilon)).

    The trade-off curve of randomized response is linear on both sides of its corner, and that of Gaussian DP is convex.
    So it is enough that they meet in the corner.

    Source: Dong, Roth and Su 2022, the trade-off function of pure DP; the rest is derived here.
    """
    from scipy.special import erfinv, ndtri_exp

    if epsilon < 2.0:
        return 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(epsilon / 2.0)))
    return -2.0 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))


def bounded_range_rdp(epsilon: float, order: float) -> float:
    """Return the largest Renyi divergence of order > 1 that epsilon-bounded range allows.

    Source: Cesar and Rogers 2021: order epsilon^2 / 8; bounded range implies pure epsilon-DP.
    """
    return min(pure_rdp(epsilon, order), order * epsilon**2 / 8.0)


def epsilon_of_rdp(order: float, value: float, delta: float) -> float:
    """Return the epsilon at delta that a Renyi divergence at one order implies.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    if delta <= 0.0:
        return math.inf
    return max(0.0, value + math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1.0))


def delta_of_rdp(order: float, value: float, epsilon: float) -> float:
    """Return the delta at epsilon that a Renyi divergence at one order implies; see ``epsilon_of_rdp``."""
    if math.isinf(value):
        return 1.0
    exponent = (order - 1.0) * (value - epsilon + math.log1p(-1.0 / order)) - math.log(order)
    return min(1.0, math.exp(exponent)) if exponent < 0.0 else 1.0


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta at epsilon of mu-Gaussian differential privacy; cancellation makes it inexact for small mu.

    Source: Dong, Roth and Su 2022, Corollary 2.13, as exp(-a^2 / 2) [erfcx(a) - erfcx(b)] / 2 if that is stable.
    """
    from scipy.special import erfcx

    low, high = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    root = math.sqrt(2.0)
    if low > 0.0:
        return float(0.5 * math.exp(-low * low / 2.0) * (erfcx(low / root) - erfcx(high / root)))
    second = 0.5 * math.exp(epsilon - high * high / 2.0) * float(erfcx(high / root))
    return 0.5 * math.erfc(low / root) - second


def gaussian_delta_above(mu: float, epsilon: float) -> float:
    """Return a tight upper bound, at least 1e-304, on the delta at epsilon of mu-Gaussian differential privacy."""
    return min(1.0, math.exp(max(gaussian_log_delta(mu, epsilon), -700.0)))


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return the logarithm of the delta at epsilon of mu-Gaussian differential privacy, rounded up.

    Let a = epsilon / mu - mu / 2 and b = a + mu, and let m = (1 - Phi) / phi be the Mills ratio, whose derivative is
    m'(x) = x m(x) - 1. Then delta = phi(a) (m(a) - m(b)). The difference is the integral of 1 - x m(x) from a to b,
    which has no cancellation for small mu. For large delta, 1 - delta = Phi(a) + phi(a) m(b) has no cancellation
    either. An error of t units in the last place of mu, epsilon, a, b or x m moves the logarithm by less than 2 t u (1
    + b)^2, u = 2^-53, because |a| <= b and 1 - x m >= 1 / (3 + x^2). The result and the caller's logarithm of a delta
    are rounded, too. Adding 16 u ((1 + b)^2 + |log mu|) to the result covers all these errors. Over an interval of
    length 1, Gauss quadrature with twelve nodes integrates this smooth function more precisely than a float can hold.

    Source: Dong, Roth and Su 2022, Corollary 2.13; Gordon 1941 (1 - x m <= 1 / (1 + x^2) for x >= 0).
    """
    from scipy.special import erfcx

    low, high = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    error = 16.0 * 2.0**-53 * ((1.0 + high) ** 2 + abs(math.log(mu)))
    root = math.sqrt(2.0)
    if mu > 1.0 and low <= 0.0:
        complement = 0.5 * math.erfc(-low / root) + 0.5 * math.exp(-low * low / 2.0) * float(erfcx(high / root))
        return math.log1p(-complement * (1.0 - error))
    if mu > 1.0:
        return math.log(0.5 * float(erfcx(low / root) - erfcx(high / root))) - low * low / 2.0 + error
    nodes, weights = _nodes()
    x = low + (nodes + 1.0) * mu / 2.0
    integrand = 1.0 - x * math.sqrt(math.pi / 2.0) * erfcx(x / root)
    integrand = np.where(x > 1.0, np.minimum(np.maximum(integrand, 0.0) + 2.0**-50, 1.0 / (1.0 + x * x)), integrand)
    return math.log(mu / math.sqrt(8.0 * math.pi) * float(weights @ integrand)) - low * low / 2.0 + error


@cache
def _nodes() -> Any:
    return np.polynomial.legendre.leggauss(12)


def gaussian_epsilon(mu: float, delta: Decimal) -> Decimal:
    """Return the smallest epsilon, rounded up, for which mu-Gaussian DP implies (epsilon, delta)-DP.

    Privacy: the exact delta at this epsilon is not above ``delta``, by ``gaussian_log_delta``. Earlier versions of this
        tool computed the epsilon by ``gaussian_delta``. The same epsilon is returned whenever ``gaussian_log_delta``
        proves it, which it nearly always does unless mu is tiny.
    Source: a bisection whose upper end is returned.
    """
    if delta <= 0:
        return INFINITE
    log_delta = float(delta.ln())
    if mu >= _MIN_DIRECT_MU:
        direct = round_up(_first_failure(lambda epsilon: gaussian_delta(mu, epsilon) > float(delta)))
        if gaussian_log_delta(mu, float(direct)) <= log_delta:
            return direct
    return round_up(_first_failure(lambda epsilon: gaussian_log_delta(mu, epsilon) > log_delta))


def bisect_floats(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the last float in [low, high] that satisfies a monotone condition, and the next float."""
    for _ in range(200):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _first_failure(holds: Callable[[float], bool]) -> float:
    """Return the smallest number >= 0 at which a monotone condition fails."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2.0 * high
    return bisect_floats(holds, low, high)[1]


def rho_of_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP by ``epsilon_of_rho``."""
    return bisect_floats(lambda rho: epsilon_of_rho(rho, delta) <= epsilon, 0.0, max(1.0, epsilon) * 4.0)[0]


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the epsilon at delta that rho-zCDP implies, minimized over the order.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12, for the line order * rho.
    """
    if rho <= 0.0 or delta <= 0.0:
        return 0.0 if rho <= 0.0 else math.inf
    best = 1.0 + math.sqrt(-math.log(delta) / rho)  # close to the best order; a golden-section search follows
    low, high = 1.0 + (best - 1.0) / 16.0, 1.0 + (best - 1.0) * 16.0
    golden = (math.sqrt(5.0) - 1.0) / 2.0

    def at(order: float) -> float:
        return epsilon_of_rdp(order, order * rho, delta)

    for _ in range(100):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if at(left) <= at(right) else (left, high)
    return at((low + high) / 2.0)
