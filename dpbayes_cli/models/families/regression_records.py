"""The law of what a record adds to second moments, parametrized by the linear regression of target on features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.models.families.wishart_records import WishartRecords

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MIN_EIGENVALUE = 1e-12
"""Eigenvalues of a correlation matrix below this are rounding errors."""


@dataclass(frozen=True)
class RegressionRecords(WishartRecords):
    """Target and features are jointly normal; the reported parameters are the regression of the target on the features.

    In Bartlett's coordinates, with the target first, scaled numbers have the variance scale_0^2 / A_00^2 and the slopes
    slope_j = -(scale_0 A_j0) / (scale_j A_00). These formulas need only the first column of A, and no matrix inverse.
    Under an inverse Wishart law, this column is independent of the other columns, so that its prior can be stated
    separately. With k = freedom - D - 1 degrees of freedom, the prior is

        variance ~ k * deviation_0^2 / chi-square(2 + k),
        slope_j | variance ~ N(0, variance / (slope_strength * deviation_j^2)),
        level | variance ~ N(prior_mean_0, variance / strength),

    where the level is the value of the regression line at the prior means of the features. This is the conjugate prior
    of linear regression. The prior is independent of the law of the features, whose covariance is inverse Wishart with
    D + k degrees of freedom and the expectation diag(deviation^2). Without noise, the posterior is conjugate for any
    law of the features.

    Attributes:
        slope_strength: the weight of the prior of the slopes, in records.
        variance: the known variance of the scaled target given the features; None if the variance has the prior above.
    """

    slope_strength: float = 1.0
    variance: float | None = None

    @property
    def dimension(self) -> int:
        """The number of coordinates of the joint law, minus one if the variance is known."""
        return super().dimension - (self.variance is not None)

    @cached_property
    def _freedoms(self) -> Floats:
        return np.concatenate([[self.freedom - self.size + 1.0], super()._freedoms[1:]])

    @cached_property
    def _prior_scatter(self) -> Floats:
        slopes = np.asarray(self.deviation)[1:] ** 2 * self.slope_strength
        return np.concatenate([super()._prior_scatter[:1], slopes])

    def _draw_entries(self, size: int, rng: np.random.Generator) -> Floats:
        drawn = super()._draw_entries(size, rng)
        return drawn if self.variance is None else drawn[:, 1:]

    def _entries(self, points: Floats) -> tuple[Floats, Floats]:
        if self.variance is None:
            return super()._entries(points)
        d = self.size
        known = np.full((*points.shape[:-1], 1), np.log(self._scale[0] ** 2 / self.variance))
        return np.concatenate([known, points[..., d : 2 * d - 1]], axis=-1), points[..., 2 * d - 1 :]

    def _lower(self, points: Floats) -> Floats:
        lower = super()._lower(points)
        lower[..., 1:, 0] *= self._scale[1:] / np.sqrt(self._prior_scatter[1:])
        return lower

    def parameters(self, points: Floats) -> Floats:
        """Return intercept and slopes in the units of the columns; also the variance, unless it is known."""
        d, first = self.size, self._lower(points)[..., :, 0]
        slopes = -self._scale[0] * first[..., 1:] / (first[..., :1] * self._scale[1:])
        mean = np.asarray(self.prior_mean) + np.asarray(self.deviation) / self.strength**0.5 * points[..., :d]
        level = mean[..., 0] - (slopes * mean[..., 1:]).sum(axis=-1)
        return self._reported(level, slopes, self.residual_variance(points))

    def residual_variance(self, points: Floats) -> Floats:
        """Return the variance of the scaled target given the features."""
        return np.asarray((self._scale[0] / self._lower(points)[..., 0, 0]) ** 2)

    def _reported(self, level: Floats, slopes: Floats, variance: Floats) -> Floats:
        """Convert parameters of scaled numbers to the units of the columns."""
        half, middle = self.half_and_middle
        slopes = slopes * (half[0] / half[1:])
        intercept = middle[0] + half[0] * level - slopes @ middle[1:]
        last = () if self.variance is not None else (variance[..., None] * half[0] ** 2,)
        return np.concatenate([intercept[..., None], slopes, *last], axis=-1)

    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the sds of the conjugate regression posterior after n records whose sums equal their expectations."""
        half, middle = self.half_and_middle
        mean, covariance = self.scaled(points)
        variance = self.residual_variance(points)
        precision = n_records[..., None, None] * covariance[..., 1:, 1:] + np.diag(self._prior_scatter[1:])
        spread = _inverse_of(precision)
        away = -middle[1:] / half[1:] - mean[..., 1:]
        level = 1.0 / (self.strength + n_records) + np.einsum("...i,...ij,...j->...", away, spread, away)
        slopes = np.diagonal(spread, axis1=-2, axis2=-1) * (half[0] / half[1:]) ** 2
        both = np.concatenate([level[..., None] * half[0] ** 2, slopes], axis=-1)
        if self.variance is not None:
            return np.asarray(np.sqrt(variance[..., None] * both))
        freedom = self._freedoms[0] + n_records
        both *= (variance * freedom / np.maximum(freedom - 2.0, 1e-3))[..., None]
        last = half[0] ** 2 * variance * np.sqrt(2.0 / np.maximum(freedom - 4.0, 1e-3))
        return np.concatenate([np.sqrt(both), last[..., None]], axis=-1)

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the conjugate regression posterior given the nearest positive semidefinite second moments.

        The prior adds positive numbers to the diagonal of the moments. Thus slopes are finite and the residual sum of
        squares is bounded from below, even if the moments are singular. In case the added numbers are lost by rounding,
        eigenvalues of the features' correlation matrix are raised to at least 1e-12.
        """
        posterior = self.conjugate(observed, n_records)
        root = np.sqrt(np.diagonal(posterior.scale)[1:])
        values, vectors = np.linalg.eigh(posterior.scale[1:, 1:] / np.outer(root, root))
        half_inverse = vectors / np.sqrt(np.maximum(values, _MIN_EIGENVALUE)) / root[:, None]
        standard = half_inverse.T @ posterior.scale[1:, 0]
        rest = max(posterior.scale[0, 0] - float(standard @ standard), self._prior_scatter[0])
        chi = rng.chisquare(self._freedoms[0] + posterior.n_records, size)
        variance = rest / chi if self.variance is None else np.full(size, self.variance)
        drawn = standard + np.sqrt(variance)[:, None] * rng.standard_normal((size, self.size - 1))
        slopes = drawn @ half_inverse.T
        level = posterior.location[0] + np.sqrt(variance / posterior.strength) * rng.standard_normal(size)
        return self._reported(level - slopes @ posterior.location[1:], slopes, variance)


def _inverse_of(matrices: Floats) -> Floats:
    """Return inverses of positive definite matrices, computed from their correlation matrices."""
    root = np.sqrt(np.diagonal(matrices, axis1=-2, axis2=-1))
    scale = root[..., :, None] * root[..., None, :]
    return np.asarray(np.linalg.inv(matrices / scale + 1e-13 * np.eye(matrices.shape[-1])) / scale)
