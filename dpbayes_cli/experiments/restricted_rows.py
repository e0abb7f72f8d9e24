"""Draws, in floats, of rows of probabilities from tempered posteriors whose entries have a public lower bound.

This is an idealized form of posterior sampling of a Bayes net: for simulations only, never for a release. Let a table
have rows of K entries, all at least a0. Then the log ratio of two records' likelihoods under the table varies by at
most R = 2 * log((1 - (K - 1) * a0) / a0), however many rows there are, because each record depends on one row only. A
draw under the power T = min(1, epsilon / R) of the likelihood is epsilon-DP.

Source: Wang, Fienberg and Smola 2015; Zhang, Rubinstein and Dimitrakakis 2016, sec. 4; Damien and Walker 2001
(truncated Beta laws by pairs).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_SWEEPS = 40
"""Sweeps of the Gibbs chain; in each, a row's entries are paired at random, and each pair is redrawn."""
_TINY = 1e-290
"""Below this probability of an interval, the difference of two distribution functions has too few digits."""


def least_entry(n_values: int) -> float:
    """Return the public lower bound on the entries of a row of ``n_values`` entries."""
    return min(0.1, 0.5 / n_values)


def table_power(epsilon: float, n_values: int) -> float:
    """Return the power of the likelihood at which one draw of a table costs epsilon."""
    least = least_entry(n_values)
    return min(1.0, epsilon / (2.0 * math.log((1.0 - (n_values - 1) * least) / least)))


def draw_restricted(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw rows from Dirichlet laws restricted to entries of at least ``least``, which is below 1 / n_values.

    Rows of two entries are exact draws. Longer rows are the last state of a Gibbs chain that starts from equal entries.
    An update redraws how a random pair of entries divides its sum.

    Args:
        shape: the Dirichlet parameters, shape (n_rows, n_values), with n_values at least two.
    """
    n_rows, n_values = shape.shape
    rows = np.full((n_rows, n_values), 1.0 / n_values)
    every = np.arange(n_rows)[:, None]
    for _ in range(1 if n_values == 2 else _SWEEPS):
        order = rng.permuted(np.tile(np.arange(n_values), (n_rows, 1)), axis=1)
        pairs = n_values // 2
        first, second = order[:, :pairs], order[:, pairs : 2 * pairs]
        total = rows[every, first] + rows[every, second]
        low = np.minimum(least / total, 0.5)  # rounding must not turn the ends around
        share = draw_truncated_beta(shape[every, first], shape[every, second], low, 1.0 - low, rng)
        rows[every, first], rows[every, second] = share * total, (1.0 - share) * total
    return rows


def draw_truncated_beta(a: Floats, b: Floats, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Draw from Beta(a, b) restricted to [low, high], by inversion.

    If the probability of [low, high] underflows, an exponential draw from the more probable end is exact up to
    rounding.
    """
    from scipy.special import betainc, betaincinv

    turned = a < b  # so that the mass is towards 1, and the distribution function at both ends keeps its digits
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
