"""Normal posteriors restricted to a ball, under the power of the likelihood at which one draw is epsilon-DP.

This is an idealized form of posterior sampling for linear regression, computed in floats: for simulations only, never
for a release. With |y| <= 1 and |x| <= 1, a record's log likelihood -(y - x'w)^2 / (2 * s^2) is bounded on the ball |w|
<= Q. The log ratio of two records' likelihoods is then bounded, too. Let R be the largest amount by which this log
ratio varies over the ball, for any two records. Then one draw of the posterior under the power T = min(1, epsilon / R)
of the likelihood is epsilon-DP.

Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.2 (a truncated prior); Wang, Fienberg and Smola 2015.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

MASS = 0.99
"""The probability that the unrestricted prior gives to the ball."""
_PROPOSALS_AT_ONCE = 256
_MOST_PROPOSALS = 1 << 24


def ball_radius(prior_variance: float, width: int) -> float:
    """Return the radius Q of the ball to which the prior gives the probability ``MASS``; it is public."""
    from scipy.special import gammaincinv

    return math.sqrt(prior_variance * 2.0 * float(gammaincinv(width / 2.0, MASS)))


def likelihood_range(radius: float, residual_sd: float) -> float:
    """Return R, the largest amount by which the log ratio of two records' likelihoods varies over the ball.

    The log ratio is the difference of the two squared residuals, divided by 2 * s^2. Over the ball, each squared
    residual varies by at most (1 + Q)^2 - max(0, 1 - Q)^2. Two records with targets 1 and rows u and v of norm 1 attain
    R. For Q <= 1 this is so if v = -u; for Q > 1, in two dimensions or more, if u'v = -1 / Q.

    Args:
        radius: Q, the radius of the ball.
        residual_sd: s, the standard deviation of residuals, for targets in [-1, 1].
    """
    spread = (1.0 + radius) ** 2 - max(0.0, 1.0 - radius) ** 2
    return spread / residual_sd**2


def likelihood_power(epsilon: float, radius: float, residual_sd: float) -> float:
    """Return T, the power of the likelihood at which one draw costs epsilon."""
    return min(1.0, epsilon / likelihood_range(radius, residual_sd))


def draw_in_ball(mean: Floats, precision: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Draw once from each of several normal laws restricted to a ball around 0; exact up to rounding in floats.

    Let k be the Lagrange multiplier of the constraint |w| <= Q at the most probable point of the ball. The restricted
    density is proportional to the product of a normal density of precision P + k * I around this point and exp(k *
    (|w|^2 - Q^2) / 2). The second factor is at most one in the ball. So a proposal from the normal density is accepted
    with this probability.

    Args:
        mean: the means of the unrestricted laws, shape (n_laws, width); the result has the same shape.
        precision: P, their precision matrices, shape (n_laws, width, width).
        radius: Q, the radius of the ball.

    Raises:
        ArithmeticError: almost no proposal falls into the ball.
    """
    values, axes = np.linalg.eigh(precision)
    drawn = np.empty(mean.shape)
    for i, (scale, turn, center) in enumerate(zip(values, axes, mean, strict=True)):
        along = turn.T @ center
        k = _multiplier(along, scale, radius)
        middle, sd = along * scale / (scale + k), 1.0 / np.sqrt(scale + k)
        for _ in range(_MOST_PROPOSALS // _PROPOSALS_AT_ONCE):
            u = middle + sd * rng.standard_normal((_PROPOSALS_AT_ONCE, len(sd)))
            squares = np.square(u).sum(axis=1)
            log_chance = np.where(squares <= radius**2, 0.5 * k * (squares - radius**2), -np.inf)
            accepted = np.flatnonzero(np.log(rng.random(_PROPOSALS_AT_ONCE)) < log_chance)
            if len(accepted):
                drawn[i] = turn @ u[accepted[0]]
                break
        else:
            raise ArithmeticError("almost no draw of the law falls into the ball")
    return drawn


def _multiplier(mean: Floats, precision: Floats, radius: float) -> float:
    """Return the least k >= 0 for which (P + k I)^-1 P mean is in the ball, by bisection; P is diagonal."""

    def outside(k: float) -> bool:
        return float(np.square(mean * precision / (precision + k)).sum()) > radius**2

    if not outside(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while outside(high):
        low, high = high, 2.0 * high
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if outside(middle) else (low, middle)
    return high
