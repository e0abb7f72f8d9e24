"""The density of latent second moments of a regression, its gradient, and the coefficients given the moments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import erfcx, expit, gammaln, ndtr, psi

from dpbayes_cli.models.families.slope_prior import slope_prior

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.regression_coordinates import RegressionCoordinates

_TYPICAL_ROOT = 0.15
"""The coordinate of r is nearly proportional to r if r is larger, so that its posterior is not skewed."""
_MAX_LOG = 300.0
_MAX_ROOT = 25.0
"""The coordinate of r is clipped to this absolute value; r is then 4, or below 1e-138."""


class Moments:
    """Second moments at points of the coordinates of ``RegressionMoments``, shape (n, dimension).

    Attributes:
        mean: the means of the scaled numbers, features first, shape (n, d + 1).
        root: the Cholesky factor of their covariance matrix, shape (n, d + 1, d + 1).
        variance: the variance of the target given the features, shape (n,).
        log_prior: the log prior density, shape (n,).
        sums: the sums over all records, in units of the integer statistic, shape (n, n_components).
    """

    def __init__(self, law: RegressionCoordinates, points: Floats, totals: Floats) -> None:
        self._law, self._points, self._m = law, points, totals
        self.root = np.zeros((len(points), law.size, law.size))
        self.log_prior = -0.5 * (points[:, law.slices.normal.start :] ** 2).sum(axis=1)
        self._set_features()
        self._set_variance()
        self._set_target()
        self._set_sums()

    def _set_features(self) -> None:
        law, points, d = self._law, self._points, self._law.size - 1
        share, self._scores = expit(points[:, law.slices.mean]), points[:, law.slices.sd]
        self._width = 2.0 - law.is_indicator
        self.mean = 1.0 - self._width * (1.0 - share)
        largest = np.sqrt(share * (1.0 - share))[:, :-1] * self._width[:-1]
        self._sd = largest * np.where(law.is_indicator[:-1], 1.0, ndtr(self._scores) ** 2)
        self._tilt = 1.0 - 2.0 * share
        pivots = points[:, law.slices.pivots] + law.typical_pivots
        self._pivots, self._steepness = np.logaddexp(0.0, pivots), expit(pivots)
        vectors = np.zeros((len(points), d * d))
        vectors[:, law.below] = points[:, law.slices.rows]
        vectors[:, :: d + 1] = self._pivots
        self._vectors = vectors.reshape(-1, d, d)
        self._inverse_length = 1.0 / np.sqrt((self._vectors**2).sum(axis=2))
        self._rows = self._vectors * self._inverse_length[:, :, None]
        self.root[:, :d, :d] = self._rows * self._sd[:, :, None]
        self.log_prior += np.log(share * (1.0 - share)).sum(axis=1) + np.log(self._steepness).sum(axis=1)
        self.log_prior -= 0.5 * (self._scores**2).sum(axis=1)
        self.log_prior += np.log(self._pivots) @ law.pivot_powers - 0.5 * (self._pivots**2).sum(axis=1)

    def _set_variance(self) -> None:
        """Set the residual mean square r^2 and the variance v: m r^2 / v is a chi-square variable."""
        law, m, prior = self._law, self._m, self._law.conjugate
        u = np.clip(self._points[:, law.slices.r.start], -_MAX_ROOT, _MAX_ROOT)
        self._mills = _mills(u)
        self._rise = self._mills / (1.0 + u * self._mills)  # the derivative of log r by u
        log_r = math.log(_TYPICAL_ROOT) + np.log1p(u * self._mills) - 0.5 * (u**2 + math.log(2.0 * math.pi))
        self.log_prior += np.log(self._rise)
        self.root[:, -1, -1] = _exp(log_r)
        if law.variance is None:
            self._xi = self._points[:, law.slices.variance.start]
            self._log_ratio = -np.sqrt(2.0 / m) * self._xi
            log_v = 2.0 * log_r - self._log_ratio
            self.log_prior += 0.5 * np.log(2.0 / m)
        else:
            log_v = np.full(len(m), math.log(law.variance))
            self._log_ratio = 2.0 * log_r - log_v
        self.variance = _exp(log_v)
        self._ratio = _exp(self._log_ratio)
        self._freedom = np.maximum(m - law.size, 1.0)
        self.log_prior += 0.5 * self._freedom * (np.log(m / 2.0) + self._log_ratio) - 0.5 * m * self._ratio
        self.log_prior -= gammaln(0.5 * self._freedom)
        self._of_log_v = np.zeros(len(m))
        if law.variance is None:
            power, scatter = (1.0, 0.0) if prior is None else (-prior.freedom, prior.scatter)
            self.log_prior += 0.5 * power * log_v - 0.5 * scatter / self.variance
            self._of_log_v += 0.5 * power + 0.5 * scatter / self.variance

    def _set_target(self) -> None:
        """Set the slopes and t = C' slopes + errors, which are the target's coordinates along the features."""
        law, points, prior, d = self._law, self._points, self._law.conjugate, self._law.size - 1
        self._coordinates = points[:, law.slices.slopes], points[:, law.slices.scale]
        if prior is None:
            self._slopes = law.typical_slope * slope_prior(d).slopes(*self._coordinates)
        else:
            self._slope_sd = np.sqrt(self.variance)[:, None] * np.asarray(prior.slope_scale)
            self._slopes = self._slope_sd * self._coordinates[0]
        self._errors = np.sqrt(self.variance / self._m)[:, None] * points[:, law.slices.errors]
        self.root[:, d, :d] = (self._slopes[:, None, :] @ self.root[:, :d, :d])[:, 0] + self._errors
        if prior is not None:  # the mean of the target, given the slopes and the means of the features
            self._offset = self.mean[:, :-1] - np.asarray(prior.mean[1:])
            away = self.mean[:, -1] - prior.mean[0] - (self._slopes * self._offset).sum(axis=1)
            spread = self.variance * (1.0 / prior.strength + 1.0 / self._m)
            self._pull, self._excess = -away / spread, 0.5 * away**2 / spread - 0.5
            self.log_prior += -0.5 * np.log(spread) - 0.5 * away**2 / spread
            self._of_log_v += self._excess
        self._tightness = law.tightness(self.mean[:, -1])
        self.log_prior -= 0.5 * self._tightness * (self.root[:, d] ** 2).sum(axis=1)

    def _set_sums(self) -> None:
        law, k = self._law, self._law.size
        moments = np.ones((len(self._m), k + 1, k + 1))  # the last row and column stand for the constant 1
        np.matmul(self.root, self.root.transpose(0, 2, 1), out=moments[:, :k, :k])
        moments[:, :k, :k] += self.mean[:, :, None] * self.mean[:, None, :]
        moments[:, k, :k] = self.mean
        self.sums = moments.reshape(len(moments), -1)[:, law.entries] * (law.weights * self._m[:, None])

    def pull_back(self, gradient: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of log prior + gradient' sums, by coordinates and by numbers of records."""
        law, d, m, prior = self._law, self._law.size - 1, self._m, self._law.conjugate
        result = np.empty_like(self._points)
        result[:, law.slices.normal.start :] = -self._points[:, law.slices.normal.start :]
        weighted = np.zeros((len(m), (d + 2) ** 2))
        weighted[:, law.entries] = gradient * law.weights * m[:, None]
        both = weighted.reshape(-1, d + 2, d + 2)
        both = both + both.transpose(0, 2, 1)
        of_root = both[:, :-1, :-1] @ self.root
        of_root[:, d] -= self._tightness[:, None] * self.root[:, d]
        of_mean = (both[:, :-1, :-1] @ self.mean[:, :, None])[:, :, 0] + both[:, -1, :-1]
        square, reach = (self.root[:, d] ** 2).sum(axis=1), 1.0 - self.mean[:, -1] ** 2
        of_mean[:, -1] -= 2.0 * self._tightness * self.mean[:, -1] / reach * square
        of_total = (gradient * self.sums).sum(axis=1) / m
        # the target
        of_t = of_root[:, d, :d]
        of_slopes = (self.root[:, :d, :d] @ of_t[:, :, None])[:, :, 0]
        of_errors = (of_t * self._errors).sum(axis=1)
        of_log_v = self._of_log_v + 0.5 * of_errors
        of_total -= 0.5 * of_errors / m
        if prior is not None:
            of_mean[:, -1] += self._pull
            of_mean[:, :-1] -= self._pull[:, None] * self._slopes
            of_slopes -= self._pull[:, None] * self._offset
            of_total -= self._excess / (m**2 / prior.strength + m)
        if prior is None:
            of_slopes, of_scale = slope_prior(d).pull_back(*self._coordinates, law.typical_slope * of_slopes)
            result[:, law.slices.scale] += of_scale
        else:
            of_log_v += 0.5 * (of_slopes * self._slopes).sum(axis=1)
            of_slopes *= self._slope_sd
        result[:, law.slices.slopes] += of_slopes
        result[:, law.slices.errors] += of_t * np.sqrt(self.variance / m)[:, None]
        self._pull_back_variance(of_root[:, d, d], of_total, of_log_v, result)
        # the features
        of_rows = of_root[:, :d, :d] + self._slopes[:, :, None] * of_t[:, None, :]
        of_log_sd = (of_rows * self.root[:, :d, :d]).sum(axis=2)
        of_vectors = of_rows * self._sd[:, :, None] - of_log_sd[:, :, None] * self._rows
        of_vectors = (of_vectors * self._inverse_length[:, :, None]).reshape(-1, d * d)
        result[:, law.slices.rows] += of_vectors[:, law.below]
        of_pivots = of_vectors[:, :: d + 1] + law.pivot_powers / self._pivots - self._pivots
        result[:, law.slices.pivots] = of_pivots * self._steepness + 1.0 - self._steepness
        result[:, law.slices.sd] = 2.0 * of_log_sd * (self._width[:-1] - 1.0) / _mills(self._scores) - self._scores
        of_mean = of_mean * (1.0 - self._tilt**2) / 4.0 * self._width + self._tilt
        of_mean[:, :-1] += 0.5 * self._tilt[:, :-1] * of_log_sd
        result[:, law.slices.mean] = of_mean
        return result, of_total

    def _pull_back_variance(self, of_r: Floats, of_total: Floats, of_log_v: Floats, result: Floats) -> None:
        """Add to gradients what the laws of r and of the variance add."""
        law, m = self._law, self._m
        of_log_r = of_r * self.root[:, -1, -1]
        of_log_ratio = 0.5 * self._freedom - 0.5 * m * self._ratio
        log_chi_square = np.log(m / 2.0) + self._log_ratio - psi(0.5 * self._freedom)
        of_total += np.where(m - law.size > 1.0, 0.5 * log_chi_square, 0.0)
        of_total += 0.5 * self._freedom / m - 0.5 * self._ratio
        if law.variance is not None:
            of_log_r += 2.0 * of_log_ratio
        else:
            step = np.sqrt(2.0 / m)
            of_log_r += 2.0 * of_log_v
            result[:, law.slices.variance.start] = step * (of_log_v - of_log_ratio)
            of_total += 0.5 * step * self._xi / m * (of_log_ratio - of_log_v) - 0.5 / m
        result[:, law.slices.r.start] = (of_log_r - 1.0) * self._rise + 1.0 / self._mills

    def draw_coefficients(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the levels at features of 0, shape (n,), and the slopes, shape (n, d), of the scaled numbers.

        Only moments, variance and the prior deviations of slopes are given; with the default prior, the last are drawn
        first. They say that z = A b + errors with independent errors of variance v / m, and standard normal b, which
        are the slopes in units of their prior deviations. Here z is t. With the conjugate prior, the first coordinates
        of z and b stand for the target's mean and for the level at the prior means.
        """
        d, prior, error_sd = self._law.size - 1, self._law.conjugate, np.sqrt(self.variance / self._m)
        z = self.root[:, d, :d]
        if prior is None:
            typical = self._law.typical_slope
            slope_sd = typical * slope_prior(d).draw_scales(self._slopes / typical, rng)[:, None]
        else:
            slope_sd = self._slope_sd
        factor = (self.root[:, :d, :d] * slope_sd[:, :, None]).transpose(0, 2, 1)
        if prior is not None:
            slopes, factor = factor, np.zeros((len(z), d + 1, d + 1))
            factor[:, 1:, 1:] = slopes
            factor[:, 0, 0] = np.sqrt(self.variance / prior.strength)
            factor[:, 0, 1:] = self._offset * slope_sd
            z = np.concatenate([self.mean[:, -1:] - prior.mean[0], z], axis=1)
        matrix, index = factor @ factor.transpose(0, 2, 1), np.arange(factor.shape[1])
        # also a number that hides rounding errors of large entries
        matrix[:, index, index] += (error_sd**2 + 1e-13 * np.trace(matrix, axis1=1, axis2=2))[:, None]
        drawn = rng.standard_normal(z.shape)
        away = z - (factor @ drawn[:, :, None])[:, :, 0] - error_sd[:, None] * rng.standard_normal(z.shape)
        drawn += (factor.transpose(0, 2, 1) @ np.linalg.solve(matrix, away[:, :, None]))[:, :, 0]
        slopes = drawn[:, -d:] * slope_sd
        if prior is None:
            level = self.mean[:, -1] + error_sd * rng.standard_normal(len(slopes))
            return level - (slopes * self.mean[:, :-1]).sum(axis=1), slopes
        level = prior.mean[0] + factor[:, 0, 0] * drawn[:, 0]
        return level - slopes @ np.asarray(prior.mean[1:]), slopes


def _mills(u: Floats) -> Floats:
    """Return Phi(u) / phi(u)."""
    return np.asarray(math.sqrt(math.pi / 2.0) * erfcx(-math.sqrt(0.5) * u))


def _exp(values: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(values, -_MAX_LOG, _MAX_LOG)))
