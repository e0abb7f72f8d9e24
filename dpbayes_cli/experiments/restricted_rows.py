"""Rows of probabilities whose every entry has a public least value, drawn from a tempered posterior in floats.

This is the idealized form of what posterior sampling would release of a network: for simulations only, never for a
release. With every entry at least a0, a table's log likelihood ratio of two records has the range
R = 2 log((1 - (K - 1) a0) / a0) whatever the number of its rows, since a record takes part in one of them; a draw under
the power T = min(1, epsilon / R) of the likelihood is epsilon-DP.

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
"""Of pairs, each a perfect matching: a change has then reached every entry of a row many times over."""
_TINY = 1e-290
"""A smaller probability of the range has lost digits in its difference, or all of them."""


def least_entry(n_values: int) -> float:
    """Return the public least value of an entry of a row of so many values."""
    return min(0.1, 0.5 / n_values)


def table_power(epsilon: float, n_values: int) -> float:
    """Return the power of the likelihood at which one draw of a table costs epsilon."""
    least = least_entry(n_values)
    return min(1.0, epsilon / (2.0 * math.log((1.0 - (n_values - 1) * least) / least)))


def draw_restricted(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw rows from Dirichlet laws restricted to entries of at least ``least``.

    Args:
        shape: the Dirichlet parameters, shape (n_rows, n_values), at least two values.
        least: below 1 / n_values.
        rng: the generator.

    Returns:
        Rows that sum to one, the same shape: exact draws of two values, of more the end of a Gibbs chain that redraws
        how random pairs of entries share their sum, from equal entries on.
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

    Where the law lies so far beyond an end that the probability of the range underflows, its density is exponential at
    that end to all digits.
    """
    from scipy.special import betainc, betaincinv

    turned = a < b  # with the mass towards 1 neither end has a probability near 1 unless the law lies within
    a, b = np.where(turned, b, a), np.where(turned, a, b)
    low, high = np.where(turned, 1.0 - high, low), np.where(turned, 1.0 - low, high)
    uniform = rng.random(a.shape)
    below = betainc(a, b, low)
    within = betainc(a, b, high) - below
    drawn = betaincinv(a, b, below + uniform * within)
    slope = (a - 1.0) / high - (b - 1.0) / np.maximum(1.0 - high, 1e-300)
    edge = high + np.log1p(-uniform) / np.maximum(slope, 1e-300)
    found = np.clip(np.where(within > _TINY, drawn, edge), low, high)
    return np.asarray(np.where(turned, 1.0 - found, found))
