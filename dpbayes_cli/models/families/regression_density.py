"""The density of latent second moments of a regression, its gradient, and the coefficients given the moments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, gammaln, psi

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.regression_coordinates import RegressionCoordinates

SIGNAL_SD = 1.0
"""The standard deviation of log s in the default prior; see ``RegressionMoments``."""
_MAX_LOG = 300.0


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
        self.log_prior = np.zeros(len(points))
        self._set_features()
        self._set_variance()
        self._set_target()
        self._set_sums()

    def _set_features(self) -> None:
        law, points, d = self._law, self._points, self._law.size - 1
        self.mean = 2.0 * expit(points[:, law.slices.mean]) - 1.0
        self._share = expit(points[:, law.slices.sd])
        self.sd = np.sqrt(1.0 - self.mean[:, :-1] ** 2) * self._share**2
        rows = np.zeros((len(points), d, d))
        rows[:, *law.below] = points[:, law.slices.rows]
        rows += np.eye(d)
        self._diagonal = 1.0 / np.sqrt((rows**2).sum(axis=2))
        self._rows = rows * self._diagonal[:, :, None]
        self.log_prior += np.log((1.0 - self.mean**2) / 2.0).sum(axis=1)
        self.log_prior += np.log(self._share * (1.0 - self._share)).sum(axis=1)
        self.log_prior += (d + 1.0) * np.log(self._diagonal).sum(axis=1)

    def _set_variance(self) -> None:
        """Set the residual mean square r^2 and the variance v: m r^2 / v is a chi-square variable."""
        law, m, prior = self._law, self._m, self._law.conjugate
        self._log_r = self._points[:, law.slices.r.start]
        if law.variance is None:
            self._xi = self._points[:, law.slices.variance.start]
            self._log_ratio = -np.sqrt(2.0 / m) * self._xi
            log_v = 2.0 * self._log_r - self._log_ratio
            self.log_prior += 0.5 * np.log(2.0 / m)
        else:
            log_v = np.full(len(m), math.log(law.variance))
            self._log_ratio = 2.0 * self._log_r - log_v
        self._log_v, self.variance = log_v, _exp(log_v)
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
        """Set t and its law: z is normal with covariance variance * (A A' + 1 / m), where z is t or contains t.

        With the conjugate prior, the first coordinate of z is the target's mean minus its prior mean. By default, z is
        t alone, because the mean is uniform. Column j of A belongs to coefficient j, in units of its prior deviation.
        """
        law, points, prior, d = self._law, self._points, self._law.conjugate, self._law.size - 1
        log_unit, scale = self._log_r, np.asarray(1.0 if prior is None else prior.slope_scale)
        if prior is None:
            signal = points[:, law.slices.signal]
            log_unit = SIGNAL_SD * signal[:, 0]
            scale = law.typical_slope * _exp(SIGNAL_SD * signal - 0.5 * self._log_v[:, None])
            self.log_prior -= 0.5 * signal[:, 0] ** 2
        self._unit, self._scale = _exp(log_unit), self.sd * scale
        self.t = self._unit[:, None] * points[:, law.slices.t]
        self.log_prior += d * np.log(self._unit)
        factor, self._z = np.swapaxes(self._rows * self._scale[:, :, None], 1, 2), self.t
        if prior is not None:
            center, slopes = np.asarray(prior.mean), factor
            factor = np.zeros((len(points), d + 1, d + 1))
            factor[:, 1:, 1:] = slopes
            factor[:, 0, 0] = prior.strength**-0.5
            factor[:, 0, 1:] = (self.mean[:, :-1] - center[1:]) * np.asarray(prior.slope_scale)
            self._z = np.concatenate([self.mean[:, -1:] - center[0], self.t], axis=1)
        q, index = factor.shape[1], np.arange(factor.shape[1])
        matrix = factor @ np.swapaxes(factor, 1, 2)
        # also a number that hides rounding errors of large entries
        matrix[:, index, index] += (1.0 / self._m + 1e-13 * np.trace(matrix, axis1=1, axis2=2))[:, None]
        self._factor, self._inverse = factor, np.linalg.inv(matrix)
        self._solved = (self._inverse @ self._z[:, :, None])[:, :, 0]
        square = (self._solved * self._z).sum(axis=1) / self.variance
        self.log_prior -= 0.5 * (q * self._log_v + square + np.linalg.slogdet(matrix)[1])
        self._of_log_v += 0.5 * (square - q)

    def _set_sums(self) -> None:
        law, d = self._law, self._law.size - 1
        self.root = np.zeros((len(self._m), d + 1, d + 1))
        self.root[:, :d, :d] = self.sd[:, :, None] * self._rows
        self.root[:, d, :d] = self.t
        self.root[:, d, d] = _exp(self._log_r)
        self._tightness = law.tightness(self.mean[:, -1])
        self.log_prior -= 0.5 * self._tightness * (self.root[:, d] ** 2).sum(axis=1)
        moments = np.ones((len(self._m), d + 2, d + 2))  # the last row and column stand for the constant 1
        moments[:, :-1, :-1] = self.root @ np.swapaxes(self.root, 1, 2)
        moments[:, :-1, :-1] += self.mean[:, :, None] * self.mean[:, None, :]
        moments[:, -1, :-1] = self.mean
        first, second, weight = law.pairs
        self.sums = self._m[:, None] * (law.unit * weight * moments[:, first, second])

    def pull_back(self, gradient: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of log prior + gradient' sums, by coordinates and by numbers of records."""
        law, d, m = self._law, self._law.size - 1, self._m
        result = np.zeros_like(self._points)
        weighted = np.zeros((len(m), d + 2, d + 2))
        first, second, weight = law.pairs
        weighted[:, first, second] = gradient * weight * (0.5 * law.unit * m[:, None])
        weighted += np.swapaxes(weighted, 1, 2)
        of_root = 2.0 * weighted[:, :-1, :-1] @ self.root
        of_root[:, d] -= self._tightness[:, None] * self.root[:, d]
        of_mean = 2.0 * (weighted[:, :-1, :-1] @ self.mean[:, :, None])[:, :, 0] + 2.0 * weighted[:, -1, :-1]
        square, reach = (self.root[:, d] ** 2).sum(axis=1), 1.0 - self.mean[:, -1] ** 2
        of_mean[:, -1] -= 2.0 * self._tightness * self.mean[:, -1] / reach * square
        of_total = (gradient * self.sums).sum(axis=1) / m
        of_log_v = self._of_log_v.copy()
        of_rows, of_log_sd = self._pull_back_target(of_root, of_mean, of_total, of_log_v, result)
        self._pull_back_variance(of_total, of_log_v, result)
        # the features
        row = law.below[0]
        along = (of_rows * self._rows).sum(axis=2) + d + 1.0
        own = of_rows[:, *law.below] * self._diagonal[:, row]
        result[:, law.slices.rows] = own - self._points[:, law.slices.rows] * (along * self._diagonal**2)[:, row]
        result[:, law.slices.sd] = 2.0 * of_log_sd * (1.0 - self._share) + 1.0 - 2.0 * self._share
        of_mean = of_mean * (1.0 - self.mean**2) / 2.0 - self.mean
        of_mean[:, :-1] -= 0.5 * self.mean[:, :-1] * of_log_sd
        result[:, law.slices.mean] = of_mean
        return result, of_total

    def _pull_back_target(
        self, of_root: Floats, of_mean: Floats, of_total: Floats, of_log_v: Floats, result: Floats
    ) -> tuple[Floats, Floats]:
        """Add to gradients what the law of t adds; return the gradients by rows and by log sds of the features."""
        law, prior, d = self._law, self._law.conjugate, self._law.size - 1
        outer = -0.5 * (self._inverse - self._solved[:, :, None] * (self._solved / self.variance[:, None])[:, None, :])
        of_factor, of_z = 2.0 * outer @ self._factor, -self._solved / self.variance[:, None]
        of_total -= np.trace(outer, axis1=1, axis2=2) / self._m**2
        of_scaled_rows = np.swapaxes(of_factor[:, -d:, -d:], 1, 2)
        of_log_scale = (of_scaled_rows * self._rows).sum(axis=2) * self._scale
        of_log_sd = of_log_scale + (of_root[:, :d, :d] * self.root[:, :d, :d]).sum(axis=2)
        of_t = of_root[:, d, :d] + of_z[:, -d:]
        of_log_unit = (of_t * self.t).sum(axis=1) + d
        result[:, law.slices.t] = of_t * self._unit[:, None]
        result[:, law.slices.r.start] = of_root[:, d, d] * self.root[:, d, d]
        if prior is None:
            of_log_v -= 0.5 * of_log_scale.sum(axis=1)
            signal = law.slices.signal.start
            of_log_s = of_log_scale.sum(axis=1) + of_log_unit
            result[:, signal] = SIGNAL_SD * of_log_s - self._points[:, signal]
        else:
            result[:, law.slices.r.start] += of_log_unit
            of_mean[:, :-1] += of_factor[:, 0, 1:] * np.asarray(prior.slope_scale)
            of_mean[:, -1] += of_z[:, 0]
        return of_root[:, :d, :d] * self.sd[:, :, None] + of_scaled_rows * self._scale[:, :, None], of_log_sd

    def _pull_back_variance(self, of_total: Floats, of_log_v: Floats, result: Floats) -> None:
        """Add to gradients what the laws of r and of the variance add."""
        law, m = self._law, self._m
        of_log_ratio = 0.5 * self._freedom - 0.5 * m * self._ratio
        log_chi_square = np.log(m / 2.0) + self._log_ratio - psi(0.5 * self._freedom)
        of_total += np.where(m - law.size > 1.0, 0.5 * log_chi_square, 0.0)
        of_total += 0.5 * self._freedom / m - 0.5 * self._ratio
        if law.variance is not None:
            result[:, law.slices.r.start] += 2.0 * of_log_ratio
            return
        step = np.sqrt(2.0 / m)
        result[:, law.slices.r.start] += 2.0 * of_log_v
        result[:, law.slices.variance.start] = step * (of_log_v - of_log_ratio)
        of_total += 0.5 * step * self._xi / m * (of_log_ratio - of_log_v) - 0.5 / m

    def draw_coefficients(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the levels at features of 0, shape (n,), and the slopes, shape (n, d), of the scaled numbers."""
        d, prior, residual_sd = self._law.size - 1, self._law.conjugate, np.sqrt(self.variance)
        free = rng.standard_normal(self._z.shape)
        errors = rng.standard_normal(self._z.shape) / np.sqrt(self._m)[:, None]
        away = self._z / residual_sd[:, None] - (self._factor @ free[:, :, None])[:, :, 0] - errors
        drawn = free + (np.swapaxes(self._factor, 1, 2) @ (self._inverse @ away[:, :, None]))[:, :, 0]
        slopes = residual_sd[:, None] * drawn[:, -d:] * self._scale / self.sd
        if prior is None:
            level = self.mean[:, -1] + residual_sd / np.sqrt(self._m) * rng.standard_normal(len(slopes))
            return level - (slopes * self.mean[:, :-1]).sum(axis=1), slopes
        level = prior.mean[0] + residual_sd / math.sqrt(prior.strength) * drawn[:, 0]
        return level - slopes @ np.asarray(prior.mean[1:]), slopes


def _exp(values: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(values, -_MAX_LOG, _MAX_LOG)))
