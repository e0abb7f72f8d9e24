"""The law of the groups' coordinates, and its integrals against functions that are linear between nodes.

With partial pooling, the coordinate of group g is eta_g ~ Normal(center, spread^2), restricted to the domain. The
center has the stated prior of the coordinate. The spread has a half-normal prior. Its scale is half the length of an
interval of the coordinate: the interval in which the mean of a number lies in the middle eight tenths of the range
between the public bounds. Without pooling, each group has the stated prior.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from dpbayes_cli.core.record_law import ScalarLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_TABLE_POINTS = 8193
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_REACH_SDS = 9.0
_MOST_NATS = 600.0


def normal_weights(nodes: Floats, center: Floats, spread: Floats, excess: Floats | None = None) -> Floats:
    """Return the integrals of the hat function of each node against normal densities restricted to the nodes' range.

    A function that is linear between nodes thus has the expectation sum(weights * values), however narrow the normal
    law is.

    Args:
        nodes: ascending, shape (n_groups, n_nodes); the first and the last node are the same for all groups.
        center, spread: shape (n_laws,).
        excess: ``normal_excess`` at the nodes, shape (n_groups, n_nodes, n_laws), if it is known; it is overwritten.

    Returns:
        Shape (n_groups, n_nodes, n_laws); the sum over nodes is one.
    """
    if excess is None:
        excess = normal_excess(nodes, center, spread)
    per_gap = 1.0 / np.diff(nodes, axis=1)[..., None]
    # E[max(x - X, 0)] = max(x - m, 0) + excess; the weights are the differences of the slopes of both terms
    slopes = (nodes[:, 1:, None] - center) * per_gap
    np.clip(slopes, 0.0, 1.0, out=slopes)
    weights = np.empty_like(excess)
    np.subtract(slopes[:, 1:], slopes[:, :-1], out=weights[:, 1:-1])
    weights[:, 0], weights[:, -1] = slopes[:, 0], 1.0 - slopes[:, -1]
    np.subtract(excess[:, 1:], excess[:, :-1], out=slopes)
    slopes *= per_gap
    weights[:, :-1] += slopes
    weights[:, 1:] -= slopes
    low, high = ((nodes[0, end] - center) / spread for end in (0, -1))
    weights[:, 0] -= ndtr(low)
    weights[:, -1] -= ndtr(-high)
    np.maximum(weights, 0.0, out=weights)
    weights *= np.exp(np.minimum(-_log_normal_mass(low, high), _MOST_NATS))
    return weights


def normal_excess(x: Floats, center: Floats, spread: Floats) -> Floats:
    """Return E[max(X - x, 0)] if x is above the center of the normal variable X, else E[max(x - X, 0)].

    Args:
        x: any shape.
        center, spread: shape (n_laws,).

    Returns:
        Shape (*x.shape, n_laws).
    """
    z = np.abs(x[..., None] - center) / spread
    tails = erfcx(z * math.sqrt(0.5))
    tails *= z
    tails *= -0.5
    tails += 1.0 / math.sqrt(2.0 * math.pi)
    z *= z
    z *= -0.5
    tails *= np.exp(z, out=z)
    tails *= spread
    return np.asarray(tails)


def _log_normal_mass(low: Floats, high: Floats) -> Floats:
    """Return log P(low < Z < high) of a standard normal variable, elementwise."""
    flip = low > 0.0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return np.asarray(log_ndtr(high) + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_ndtr(high), -1e-12))))


def prior_weights(nodes: Floats, law: ScalarLaw) -> Floats:
    """Return the integrals of the hat functions against the stated prior, shape (n_groups, n_nodes, 1)."""
    low, high = float(nodes[0, 0]), float(nodes[0, -1])
    grid = np.linspace(low, high, _TABLE_POINTS)
    density = np.exp(law.log_prior(grid[:, None]) - law.log_prior(grid[:, None]).max())
    step = grid[1] - grid[0]
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0) * step])
    twice = np.concatenate([[0.0], np.cumsum((mass[1:] + mass[:-1]) / 2.0) * step]) / mass[-1]
    steep = np.diff(np.interp(nodes, grid, twice), axis=1) / np.diff(nodes, axis=1)
    ends = np.zeros((len(nodes), 1))
    return np.maximum(np.diff(np.concatenate([ends, steep, ends + 1.0], axis=1), axis=1), 0.0)[..., None]


def log_hyperprior(law: ScalarLaw, scale: float, center: Floats, log_spread: Floats) -> Floats:
    """Return the log prior density of (center, log spread), up to a constant, elementwise.

    Args:
        law: the law with the stated prior of the coordinate.
        scale: the scale of the half-normal prior of the spread.
        center, log_spread: shape (n,).
    """
    low, high = law.prior_range
    inside = (center >= low) & (center <= high)
    with np.errstate(over="ignore"):
        spread = log_spread - 0.5 * np.exp(2.0 * (log_spread - math.log(scale)))
    return np.where(inside, law.log_prior(np.clip(center, low, high)[:, None]) + spread, -np.inf)


def parameter_moments(
    law: ScalarLaw, domain: tuple[float, float], center: Floats, spread: Floats
) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of the groups' parameter, given the law of their coordinate."""
    low = np.maximum(domain[0], center - _REACH_SDS * spread)[:, None]
    high = np.minimum(domain[1], center + _REACH_SDS * spread)[:, None]
    points = (low + high) / 2.0 + (high - low) / 2.0 * _NODES
    weights = _WEIGHTS * np.exp(-0.5 * ((points - center[:, None]) / spread[:, None]) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    values = law.parameters(points[..., None])[..., 0]
    mean = (weights * values).sum(axis=1)
    return mean, np.sqrt((weights * (values - mean[:, None]) ** 2).sum(axis=1))


def draw_coordinates(domain: tuple[float, float], center: Floats, spread: Floats, rng: np.random.Generator) -> Floats:
    """Draw the coordinate of a new group for each pair of center and spread, shape (n,); centers are in the domain."""
    low, high = (ndtr((end - center) / spread) for end in domain)
    return np.clip(center + spread * ndtri(low + (high - low) * rng.random(len(center))), *domain)
