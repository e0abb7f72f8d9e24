"""The privacy cost of noisy gradient descent with many steps, and the likelihood powers that a cost allows.

The potential is U(w) = beta sum_i l(w; x_i) + (tau / 2) |w|^2. D is the largest |grad U(w; X) - grad U(w; X')| over w
and over neighbors X and X'. M is the smoothness of U, and tau is its strong convexity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpbayes_cli.privacy.conversions import bisect_floats, gaussian_delta

_MARGIN = 1e-9
"""Relative margin for the rounding error of a cost in floats."""
_CANCELLATION_ERROR = 2e-14
"""Bound on mu times the relative error that cancellation causes in a delta."""


@dataclass(frozen=True)
class Curvature:
    """Bounds on the gradients and the curvature of the losses, valid for all records.

    Attributes:
        slope: L, the largest gradient norm of one record's loss.
        smoothness: the largest curvature of the sum of losses of all records.
        touched: the number of gradients in which neighbors differ, which is two if a record is replaced.
    """

    slope: float
    smoothness: float
    touched: int = 2

    def gradient_sensitivity(self, power: float) -> float:
        """Return D, the sensitivity of the potential's gradient, at a likelihood power."""
        return self.touched * power * self.slope

    def potential_smoothness(self, power: float, tau: float) -> float:
        """Return M, the smoothness of the potential."""
        return power * self.smoothness + tau


def contraction_gap(step_size: float, tau: float, smoothness: float) -> float:
    """Return 1 - c, where c is the Lipschitz constant of w -> w - h grad U(w); positive for 0 < h < 2 / M.

    Source: the map's derivative is I - h H with H between tau I and M I, so c = max(|1 - h tau|, |1 - h M|). Hence 1 -
        c = min(h tau, 2 - h M), which has no cancellation.
    """
    return min(step_size * tau, 2.0 - step_size * smoothness)


def descent_mu(sensitivity: float, step_size: float, n_steps: int, tau: float, smoothness: float) -> float:
    """Return the mu of Gaussian differential privacy for the release of a Langevin chain's last iterate.

    The chain takes T steps w <- w - h grad U(w) + sqrt(2 h) N(0, I) from a public start. Here c is the Lipschitz
    constant of w -> w - h grad U(w), and D, M and tau are as in the module.

    Privacy: mu^2 = (h D^2 / 2) (1 + c)(1 - c^T) / ((1 - c)(1 + c^T)), for every T, whether or not the chain has mixed.
        A single step has mu = h D / sqrt(2 h). The bound is attained if the gradients of neighbors differ by a constant
        and the Hessian is (1 - c) / h. The chain in double precision has the same cost, by ``chain_arithmetic``.
    Source: Bok, Su and Altschuler 2024 (full batch, strongly convex); the rest is derived here.

    Raises:
        ValueError: the step size is not in (0, 2 / M), so that the map is not a contraction.
    """
    gap = contraction_gap(step_size, tau, smoothness)
    if not (0.0 < step_size < 2.0 / smoothness and 0.0 < tau <= smoothness and n_steps >= 1 and gap > 0.0):
        raise ValueError("the step does not contract: its size must be in (0, 2 / M)")
    power_of_c = math.exp(n_steps * math.log1p(-gap)) if gap < 1.0 else 0.0
    one_minus_power = -math.expm1(n_steps * math.log1p(-gap)) if gap < 1.0 else 1.0
    squared = (step_size * sensitivity**2 / 2.0) * (2.0 - gap) * one_minus_power / (gap * (1.0 + power_of_c))
    return math.sqrt(squared) * (1.0 + _MARGIN)


def mu_of_statement(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-Gaussian differential privacy implies (epsilon, delta)-DP.

    For a small mu, delta is a difference of nearly equal numbers, and its relative error grows as 1 / mu.
    """
    high = 2.0 * math.sqrt(2.0 * (epsilon + 1.0)) + 10.0

    def fits(mu: float) -> bool:
        return gaussian_delta(mu, epsilon) * (1.0 + 1e-12 + _CANCELLATION_ERROR / mu) <= delta

    return bisect_floats(fits, 0.0, high)[0]


def minami_likelihood_power(epsilon: float, delta: float, slope: float, tau: float) -> float:
    """Return the likelihood power that Minami's Theorem 7 allows for an exact draw.

    Source: Minami, Arai, Sato and Nakagawa 2016, Theorem 7; delta = exp(-(tau / 8 L^2 beta^2)(epsilon - 2 L^2 beta^2 /
        tau)^2) for epsilon > 2 L^2 beta^2 / tau.
    """
    logs = 2.0 * math.log(1.0 / delta)
    return math.sqrt(tau) * 2.0 * epsilon / (math.sqrt(logs + 2.0 * epsilon) + math.sqrt(logs)) / (2.0 * slope)


def minami_delta(epsilon: float, power: float, slope: float, tau: float) -> float:
    """Return the delta of Minami's Theorem 7 at a likelihood power; 1 if the theorem's condition fails."""
    margin = epsilon - 2.0 * (slope * power) ** 2 / tau
    return math.exp(-tau * margin**2 / (8.0 * (slope * power) ** 2)) if margin > 0.0 else 1.0


def minami_corollary(epsilon: float, delta: float, slope: float, tau: float) -> float:
    """Return the likelihood power of Minami's Corollary 8; for large epsilon, Theorem 7 does not imply this corollary.

    Source: Minami et al. 2016, Corollary 8: beta = (epsilon / 2 L) sqrt(tau / (1 + 2 log(1 / delta))).
    """
    return epsilon / (2.0 * slope) * math.sqrt(tau / (1.0 + 2.0 * math.log(1.0 / delta)))


def diffuse_likelihood_power(order: float, epsilon: float, slope: float, tau: float) -> float:
    """Return the likelihood power at which an exact draw has Renyi divergence epsilon between neighbors at an order.

    Source: Geumlek, Song and Chaudhuri 2017, Theorem 17 and Algorithm 5: order (2 beta L)^2 / (2 tau) = epsilon.
    """
    return math.sqrt(epsilon * tau / (2.0 * order)) / slope


def concentrated_precision(order: float, epsilon: float, slope: float, power: float) -> float:
    """Return the prior precision at which an exact draw has Renyi divergence epsilon between neighbors at an order.

    Source: Geumlek, Song and Chaudhuri 2017, Theorem 16 and Algorithm 4: tau = 2 L^2 beta^2 order / epsilon.
    """
    return 2.0 * (slope * power) ** 2 * order / epsilon


def certificate(width: int, tau: float, smoothness: float, gamma: float) -> tuple[float, int]:
    """Return step size and number of steps at which Langevin Monte Carlo is within total variation gamma of its target.

    The last iterate has this distance from the target if the start is drawn from N(mode, I / M), which is not public.

    Raises:
        ValueError: the dimension d is below 2, or gamma is not in (0, 1/2).

    Source: Minami et al. 2016, Proposition 13 (from Dalalyan 2014, Corollary 1): h = 2 tau gamma^2 / (d M^2 B) and T =
        d M^2 B^2 / (4 tau^2 gamma^2), B = 4 log(1 / gamma) + d log(M / tau); eq. 17 lost a square.
    """
    if not (width >= 2 and 0.0 < gamma < 0.5):
        raise ValueError("Proposition 13 needs two dimensions or more, and gamma in (0, 1/2)")
    b = 4.0 * math.log(1.0 / gamma) + width * math.log(smoothness / tau)
    step_size = 2.0 * tau * gamma**2 / (width * smoothness**2 * b)
    return step_size, math.ceil(width * (smoothness * b / (2.0 * tau * gamma)) ** 2)


def largest_likelihood_power(cost: Callable[[float], float], target: float, most: float) -> float:
    """Return the largest likelihood power up to ``most`` whose mu is at most a target; mu grows with the power."""
    return most if cost(most) <= target else bisect_floats(lambda power: cost(power) <= target, 0.0, most)[0]
