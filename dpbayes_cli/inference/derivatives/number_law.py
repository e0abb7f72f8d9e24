"""The law from which atoms of a number are drawn: its density, and scores of the number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri

from dpbayes_cli.base.numeric import Floats

_GRID = np.linspace(-1.0, 1.0, 2049)
_WIDER, _WIDEST = 1.3, 3.0
"""Factors by which the two normal parts of a number's base law are wider than the law that it is adapted to."""
_WIDEST_SHARE = 0.1
_FLAT_SHARE = 0.25
"""The share of a uniform part in the base law of a number with most of its mass near the bounds."""
_LEAST_DENSITY = 1e-6
"""Added to a convex density, whose scores would else be equal where it is nearly 0."""
_MOST = 0.98
_NEWTON_STEPS, _LONGEST_STEP = 60, 5.0


@dataclass(frozen=True, eq=False)
class BaseNumberLaw:
    """A law of a number that is scaled to [-1, 1], with a given mean and sd, and a wider law to draw from.

    If no normal law cut at the bounds has this mean and sd, because the sd is too large, more mass is near the bounds
    than between them, and the scores are normal scores. Otherwise they are the number less its mean, divided by the sd.

    Attributes:
        is_wide: whether the sd is too large for a normal law that is cut at the bounds.
        density: of the law to draw from, on a grid.
        cumulated: the distribution function of this law, on the grid.
        on_grid: the scores.
        log_slopes: the logs of their slopes; for a wide number relative to the largest density, so that the normal law
            of the scores has about as much mass as a spike with this density.
    """

    is_wide: bool
    density: Floats
    cumulated: Floats
    on_grid: Floats
    log_slopes: Floats

    @classmethod
    def of(cls, mean: float, sd: float) -> Self:
        """Return the law of a mean and sd; the work is the same for all."""
        convex = _convex_density(mean, sd)
        near, far = _normal(mean, _WIDER * sd), _normal(mean, _WIDEST * sd)
        density = (1.0 - _WIDEST_SHARE) * near + _WIDEST_SHARE * far + 1e-9 / len(_GRID)
        own = np.full_like(_GRID, _LEAST_DENSITY) + (0.0 if convex is None else convex)
        own /= own.sum()
        scores = ndtri(np.cumsum(own) - 0.5 * own)
        log_slopes = np.log(np.gradient(scores) / (own.max() * math.sqrt(2.0 * math.pi)))
        if convex is None:
            scores, log_slopes = (_GRID - mean) / sd, np.zeros_like(_GRID)
        else:
            density = (1.0 - _FLAT_SHARE) * convex + _FLAT_SHARE / len(_GRID)
        cumulated = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
        return cls(convex is not None, density / cumulated[-1], cumulated / cumulated[-1], scores, log_slopes)

    def at_ranks(self, ranks: Floats) -> Floats:
        """Return the numbers at ranks from 0 to 1."""
        return np.interp(ranks, self.cumulated, _GRID)

    def log_densities(self, values: Floats) -> Floats:
        """Return the log densities of numbers, up to a constant that all laws share."""
        return np.asarray(np.log(np.interp(values, _GRID, self.density)))

    def scores(self, values: Floats) -> Floats:
        """Return the scores of numbers."""
        return np.interp(values, _GRID, self.on_grid)

    def log_slope(self, values: Floats) -> Floats:
        """Return the log slopes of the scores at numbers."""
        return np.interp(values, _GRID, self.log_slopes)


def _normal(mean: float, sd: float) -> Floats:
    density = np.exp(-0.5 * ((_GRID - mean) / sd) ** 2)
    return np.asarray(density / density.sum())


def _convex_density(mean: float, sd: float) -> Floats | None:
    """Return the density exp(a + b x + c x^2) of a mean and sd on the grid if c > 0; None if c <= 0."""
    powers = np.stack([_GRID, _GRID**2])
    mean = float(np.clip(mean, -_MOST, _MOST))
    goal = np.array([mean, mean**2 + min(sd**2, _MOST * (1.0 - mean**2))])
    natural = np.zeros(2)
    for _ in range(_NEWTON_STEPS):  # a convex problem with few and bounded steps
        logs = natural @ powers
        density = np.exp(logs - logs.max())
        density /= density.sum()
        means = powers @ density
        covariance = (powers * density) @ powers.T - np.outer(means, means)
        step = np.linalg.solve(covariance + 1e-9 * np.eye(2), goal - means)
        natural = natural + step / max(1.0, float(np.linalg.norm(step)) / _LONGEST_STEP)
    return np.asarray(density) if natural[1] > 0.0 else None
