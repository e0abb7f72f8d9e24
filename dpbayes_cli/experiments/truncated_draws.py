"""Draw in floats from posteriors restricted to a ball, or to probabilities above a bound; for simulations only."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv, gammaincinv

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy.conversions import bisect_floats

MASS = 0.99  # the probability that the unrestricted prior gives to the ball
_PROPOSALS_AT_ONCE = 256
_MOST_PROPOSALS = 1 << 24
_TRIES = 20  # after so many rejected proposals, a row is drawn by a Gibbs chain instead
_SWEEPS = 40  # sweeps of the Gibbs chain; in each, a row's entries are paired at random, and each pair is redrawn
_TINY = 1e-290  # the probability of an interval below which a difference of distribution functions has too few digits


def ball_radius(prior_variance: float, width: int) -> float:
    """Return the radius Q of the ball to which the prior gives the probability ``MASS``; it is public."""
    return math.sqrt(prior_variance * 2.0 * float(gammaincinv(width / 2.0, MASS)))


def likelihood_range(radius: float, residual_sd: float) -> float:
    """Return R, the largest difference in the ball between two values of the log ratio of two records' likelihoods.

    Targets and norms of rows are at most 1, and s is the standard deviation of residuals. The log ratio is the
    difference of the two squared residuals, divided by 2 * s^2. Over the ball, each squared residual varies by at most
    (1 + Q)^2 - max(0, 1 - Q)^2. Two records with targets 1 and rows u and v of norm 1 attain R if v = -u and Q <= 1, or
    if u'v = -1 / Q and Q > 1.
    """
    spread = (1.0 + radius) ** 2 - max(0.0, 1.0 - radius) ** 2
    return spread / residual_sd**2


def draw_in_ball(mean: Floats, precision: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Draw once from each of several normal laws restricted to a ball around 0; draws are exact up to rounding.

    Let k be the Lagrange multiplier of the constraint |w| <= Q at the most probable point of the ball. The restricted
    density is proportional to the product of a normal density of precision P + k * I around this point and exp(k *
    (|w|^2 - Q^2) / 2). The second factor is at most one in the ball. It is the probability with which a proposal from
    the normal density is accepted.

    Args:
        mean, precision: the unrestricted laws, shapes (n_laws, width) and (n_laws, width, width).

    Source: Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.2 (a truncated prior).
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
    """Return the least k >= 0 for which (P + k I)^-1 P mean is in the ball; P is diagonal."""

    def outside(k: float) -> bool:
        return float(np.square(mean * precision / (precision + k)).sum()) > radius**2

    if not outside(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while outside(high):
        low, high = high, 2.0 * high
    return bisect_floats(outside, low, high)[1]


def least_entry(n_values: int) -> float:
    """Return the public lower bound on the probabilities in a row of ``n_values`` entries."""
    return min(0.1, 0.5 / n_values)


def row_range(n_values: int, least: float) -> float:
    """Return how much the logarithm of a probability in a row can vary if all entries are at least ``least``."""
    return math.log((1.0 - (n_values - 1) * least) / least)


def draw_dirichlet(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw probability vectors, along the last axis, from Dirichlet laws with these parameters."""
    weights = np.maximum(rng.standard_gamma(shape), 1e-290)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def draw_at_least(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw probability vectors, along the last axis, from Dirichlet laws restricted to entries of at least ``least``.

    Draws are exact, by rejection. Vectors whose proposals are all rejected are drawn by ``draw_restricted`` instead.
    """
    flat = shape.reshape(-1, shape.shape[-1])
    rows, left = np.empty(flat.shape), np.arange(len(flat))
    for _ in range(_TRIES):
        rows[left] = draw_dirichlet(flat[left], rng)
        left = left[rows[left].min(axis=1) < least]
        if not len(left):
            break
    else:
        rows[left] = draw_restricted(flat[left], least, rng)
    return rows.reshape(shape.shape)


def draw_restricted(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw rows from Dirichlet laws, shape (n_rows, n_values), restricted to entries of at least ``least``.

    Rows of two entries are exact draws. Longer rows are the last state of a Gibbs chain that starts from equal entries.
    An update keeps the sum of a random pair of entries, and redraws how the pair divides it.

    Source: Damien and Walker 2001 (truncated Beta laws by pairs).
    """
    n_rows, n_values = shape.shape
    rows = np.full((n_rows, n_values), 1.0 / n_values)
    every = np.arange(n_rows)[:, None]
    for _ in range(1 if n_values == 2 else _SWEEPS):
        order = rng.permuted(np.tile(np.arange(n_values), (n_rows, 1)), axis=1)
        pairs = n_values // 2
        first, second = order[:, :pairs], order[:, pairs : 2 * pairs]
        total = rows[every, first] + rows[every, second]
        low = np.minimum(least / total, 0.5)  # rounding must not put the lower end above the upper end
        share = draw_truncated_beta(shape[every, first], shape[every, second], low, 1.0 - low, rng)
        rows[every, first], rows[every, second] = share * total, (1.0 - share) * total
    return rows


def draw_truncated_beta(a: Floats, b: Floats, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Draw from Beta(a, b) restricted to [low, high]: by inversion or, if its probability underflows, near an end."""
    turned = a < b  # the mass is then toward 1, so that the distribution function keeps its digits at both ends
    a, b = np.where(turned, b, a), np.where(turned, a, b)
    low, high = np.where(turned, 1.0 - high, low), np.where(turned, 1.0 - low, high)
    uniform = rng.random(a.shape)
    below = betainc(a, b, low)
    within = betainc(a, b, high) - below
    drawn = betaincinv(a, b, below + uniform * within)
    slope = (a - 1.0) / high - (b - 1.0) / np.maximum(1.0 - high, 1e-300)
    edge = high + np.log1p(-uniform) / np.maximum(slope, 1e-300)
    value = np.clip(np.where(within > _TINY, drawn, edge), low, high)
    return np.asarray(np.where(turned, 1.0 - value, value))
