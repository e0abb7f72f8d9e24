"""Laws of normal vectors under the default prior: numbers between the bounds, and correlations of any size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from dpbayes_cli.models.families.wishart_records import WishartRecords, inverse_factor

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.columns import NumericColumn

_MAX_LOG_RATIO = 100.0
"""Logarithms of standard deviations are limited to this, because a search may try values of negligible probability."""
_LEAST_SD = 1e-9
"""The smallest standard deviation in units of half the range; it is far below the grid."""


@dataclass(frozen=True)
class BoundedVectorRecords(WishartRecords):
    """The law of a normal vector whose means are uniform between the bounds, with chi-distributed standard deviations.

    Let p = (mean - lower) / (upper - lower). Then the scale of a standard deviation is spread * (upper - lower) * p *
    (1 - p). With one degree of freedom, its prior is half-normal; with two, the prior of the variance is exponential.
    Each correlation is uniform on [-1, 1]: the correlation matrix is that of an inverse Wishart law with D + 1
    degrees of freedom. The coordinates are the logits of p, the logs of the standard deviations in units of their
    scales, and the entries of Bartlett's decomposition, of which only the correlation matrix is used.

    The fields of ``WishartRecords`` hold a weak prior, which only the plug-in posterior uses.

    Attributes:
        spread: the scale of the standard deviations.
        sd_freedom: the degrees of freedom of the chi law of standard deviations, 1 or 2.
    """

    spread: float = 1.0
    sd_freedom: int = 1

    @property
    def dimension(self) -> int:
        """The number of coordinates: 2 D for means and standard deviations, and D (D + 1) / 2 for correlations."""
        return self.size * (self.size + 5) // 2

    @cached_property
    def _freedoms(self) -> Floats:
        return np.asarray(self.freedom - np.arange(self.size), dtype=np.float64)

    def _entries(self, points: Floats) -> tuple[Floats, Floats]:
        return points[..., 2 * self.size : 3 * self.size], points[..., 3 * self.size :]

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        d = self.size
        logits, normals = rng.logistic(size=(size, d)), rng.standard_normal((size, d, self.sd_freedom))
        log_ratios = np.log(np.linalg.norm(normals, axis=-1))
        return np.hstack([logits, log_ratios, WishartRecords._draw_entries(self, size, rng)])

    def log_prior(self, points: Floats) -> Floats:
        d = self.size
        logits, log_ratios = points[..., :d], np.minimum(points[..., d : 2 * d], _MAX_LOG_RATIO)
        diagonal, below = self._entries(points)
        diagonal = np.minimum(diagonal, _MAX_LOG_RATIO)
        by_column = logits - 2.0 * np.logaddexp(0.0, logits)
        by_column = by_column + self.sd_freedom * log_ratios - 0.5 * np.exp(2.0 * log_ratios)
        by_column = by_column + 0.5 * self._freedoms * diagonal - 0.5 * np.exp(diagonal)
        return np.asarray(by_column.sum(axis=-1) - 0.5 * (below**2).sum(axis=-1))

    def scaled(self, points: Floats) -> tuple[Floats, Floats]:
        d = self.size
        share, rest = expit(points[..., :d]), expit(-points[..., :d])
        ratio = np.exp(np.minimum(points[..., d : 2 * d], _MAX_LOG_RATIO))
        sd = np.maximum(2.0 * self.spread * share * rest * ratio, _LEAST_SD)
        factor = np.swapaxes(inverse_factor(WishartRecords._lower(self, points)), -1, -2)
        factor = factor * (sd / np.sqrt((factor**2).sum(axis=-1)))[..., None]
        return 2.0 * share - 1.0, factor @ np.swapaxes(factor, -1, -2)


def weak_prior(columns: tuple[NumericColumn, ...]) -> tuple[tuple[float, ...], tuple[float, ...], float, float]:
    """Return means, deviations, strength and degrees of freedom of the prior that the plug-in posterior uses."""
    d = len(columns)
    return (0.0,) * d, (0.02,) * d, 0.01, d + 1.0
