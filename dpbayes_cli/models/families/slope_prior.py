"""The default prior of slopes, normal with one unknown scale, in coordinates that have standard normal laws."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, lambertw

from dpbayes_cli.base.numeric import LEAST_DIVISOR

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

HIDDEN_VARIANCE = 4.0
"""This divided by the number of slopes is the variance of log s that has no coordinate, but at most 1."""
_STANDARD = np.linspace(-12.0, 12.0, 241)
_AROUND_MODE = np.linspace(-7.0, 7.0, 141)


class SlopePrior:
    """Slopes b of d features in units of their typical size: b ~ N(0, s^2), where log s is standard normal.

    Let log s = sqrt(1 - v) c + sqrt(v) e with standard normal c and e, and v = min(1, 4 / d). The coordinates are y,
    of d numbers, and c, unless v = 1. Slopes divided by exp(sqrt(1 - v) c) have the direction of y, and their length is
    the quantile of its law at the level that |y| has in the chi law. So y is standard normal. If b / s and log s were
    the coordinates, b / s would become narrow where s is large, because the data tell about b; chains hardly go there.
    With v = 1 and many slopes, however, the length |b| would rise steeply with |y|.
    """

    def __init__(self, d: int) -> None:
        self._d, half, variance = d, 0.5 * d, min(1.0, HIDDEN_VARIANCE / d)
        self._seen = math.sqrt(1.0 - variance)
        log_scales, weights = math.sqrt(variance) * _STANDARD, np.exp(-0.5 * _STANDARD**2)
        squares = half * np.exp(2.0 * (log_scales[:, None] - log_scales))
        below, above = (tail(half, squares) @ weights / weights.sum() for tail in (gammainc, gammaincc))
        levels = np.where(below < 0.5, gammaincinv(half, below), gammainccinv(half, above))
        self._log_radii = 0.5 * np.log(2.0 * levels)
        self._log_length = CubicSpline(self._log_radii, log_scales + 0.5 * math.log(d))

    def slopes(self, y: Floats, c: Floats) -> Floats:
        """Return slopes, given y, shape (n, d), and c, shape (n, 1) or (n, 0) if it is no coordinate."""
        return y * self._ratio(y, c)[0][:, None]

    def pull_back(self, y: Floats, c: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        """Convert a gradient by slopes, shape (n, d), to gradients by y and by c."""
        ratio, rise = self._ratio(y, c)
        along = (gradient * y).sum(axis=1)
        of_y = gradient + (rise * along / np.maximum((y**2).sum(axis=1), LEAST_DIVISOR))[:, None] * y
        return ratio[:, None] * of_y, (self._seen * ratio * along)[:, None][:, : c.shape[1]]

    def _ratio(self, y: Floats, c: Floats) -> tuple[Floats, Floats]:
        """Return |b| / |y|, and the derivative of its logarithm by log |y|."""
        x = 0.5 * np.log(np.maximum((y**2).sum(axis=1), LEAST_DIVISOR))
        inside = np.clip(x, self._log_radii[0], self._log_radii[-1])
        rise = self._log_length(inside, 1)
        ratio = np.exp(self._log_length(inside) + rise * (x - inside) - x + self._seen * c.sum(axis=1))
        return ratio, rise - 1.0

    def draw_scales(self, slopes: Floats, rng: np.random.Generator) -> Floats:
        """Draw s given slopes in units of their typical size, shape (n, d); return shape (n,).

        With t = log s, the log density -t^2 / 2 - d t - |b|^2 exp(-2 t) / 2 is concave. It is tabulated between 7
        standard deviations on both sides of its mode.
        """
        square, d = (slopes**2).sum(axis=1)[:, None], self._d
        rest = 0.5 * lambertw(2.0 * math.exp(2.0 * d) * square).real  # d + t = |b|^2 exp(-2 t) at the mode
        t = rest - d + _AROUND_MODE / np.sqrt(1.0 + 2.0 * rest)
        log_density = -0.5 * t**2 - d * t - 0.5 * square * np.exp(-2.0 * t)
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        below = np.zeros_like(density)
        np.cumsum(density[:, 1:] + density[:, :-1], axis=1, out=below[:, 1:])
        levels = rng.random(len(below)) * below[:, -1]
        rows, place = np.arange(len(below)), (below < levels[:, None]).sum(axis=1).clip(1, t.shape[1] - 1)
        low, high = below[rows, place - 1], below[rows, place]
        share = (levels - low) / np.maximum(high - low, LEAST_DIVISOR)
        return np.asarray(np.exp(t[rows, place - 1] + share * (t[rows, place] - t[rows, place - 1])))


@lru_cache(maxsize=4)
def slope_prior(d: int) -> SlopePrior:
    """Return the prior of d slopes."""
    return SlopePrior(d)
