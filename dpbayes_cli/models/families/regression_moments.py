"""The law of the second moments of all records, from which the coefficients of a linear regression are drawn exactly.

Let x be the features and y the target of m records, scaled to [-1, 1], and let C be the Cholesky factor of the
features' covariance matrix in the records (divided by m). Then y has the mean, over the records, and the covariance
with C^-1 x

    level + slopes' (mean of x) + e_0,    t = C' slopes + (e_1, .., e_d),    e_i ~ N(0, variance / m),

and the residual mean square r^2 has the law variance * chi-square(m - d - 1) / m. This holds for any law of the
features: the likelihood of a regression depends on the features only through C and their means. Slopes and level have a
normal prior, so that they are integrated out, and drawn exactly given the moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, gammaln, psi

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.record_law import LatentSums

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_TYPICAL_SLOPE = 3.0
"""The typical prior sd of a slope of scaled numbers times the square root of d, in units of the residual sd."""


@dataclass(frozen=True)
class ConjugatePrior:
    """The stated prior of a regression of scaled numbers; see ``LinearRegressionPrior``.

    Attributes:
        mean: the prior means of the target and of the features.
        strength: the weight of the level at the prior means, in records.
        slope_scale: the prior standard deviation of each slope, in units of the residual standard deviation.
        freedom, scatter: the variance is ``scatter`` / chi-square(``freedom``).
    """

    mean: tuple[float, ...]
    strength: float
    slope_scale: tuple[float, ...]
    freedom: float
    scatter: float


@dataclass(frozen=True)
class RegressionMoments(LatentSums):
    """Sums, squares and products of a target and its features, and the count of valid records.

    The mean of each column is uniform between its bounds. The standard deviation of each feature is uniform between 0
    and the largest one that is possible with this mean. All correlation matrices of the features have the same density.

    By default, the residual standard deviation is uniform, slopes are normal with the standard deviation 3 s / sqrt(d)
    times the residual one, and log(s) is standard normal. As the records lie between the bounds, this is multiplied by
    exp(-(T / a)^2 / 2), where T is the standard deviation of the target in the records, a = ``spread`` (1 - M^2) / 3,
    and M is its mean.

    The coordinates are the logits of the means, features first; the logits of the features' standard deviations in units
    of the largest possible ones; the rows of the Cholesky factor of their correlation matrix, divided by the diagonal;
    t; log r; sqrt(m / 2) log(variance / r^2), unless the variance is known; and log s, unless the prior is conjugate.

    Attributes:
        columns: the columns, target first.
        counted: whether the statistic includes the number of valid records.
        spread: see above; None if the prior is conjugate.
        conjugate: the conjugate prior, else None.
        variance: the known variance of the scaled target given the features, else None.
    """

    columns: tuple[NumericColumn, ...]
    counted: bool
    spread: float | None = 1.0
    conjugate: ConjugatePrior | None = None
    variance: float | None = None

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        d = self.size - 1
        sizes = d + 1, d, d * (d - 1) // 2, d, 1, int(self.variance is None), int(self.conjugate is None)
        ends = np.cumsum(sizes).tolist()
        return tuple(slice(end - size, end) for end, size in zip(ends, sizes, strict=True))

    @property
    def dimension(self) -> int:
        return self._slices[-1].stop

    @cached_property
    def _pairs(self) -> tuple[Integers, Integers, Floats]:
        """For each component the indices of its two factors, features first (-1: the constant 1), and its weight."""
        order = np.roll(np.arange(self.size), 1).tolist()
        pairs = []
        for i, first in enumerate(order):
            pairs.append((-1, first, 2.0))
            pairs += [(first, second, 1.0 if first == second else 2.0) for second in order[i:]]
        if self.counted:
            pairs.append((-1, -1, 1.0))
        first, second, weight = (np.array(each) for each in zip(*pairs, strict=True))
        return first, second, weight

    @cached_property
    def half_and_middle(self) -> tuple[Floats, Floats]:
        """Half the range of each column, and its middle, target first."""
        ends = np.array([(column.lower, column.upper) for column in self.columns])
        return (ends[:, 1] - ends[:, 0]) / 2.0, ends.mean(axis=1)

    def evaluate(self, points: Floats, totals: Floats) -> tuple[Floats, Floats, Callable[[Floats], tuple[Floats, Floats]]]:
        """Return the log prior, the sums, and their gradient; see ``LatentSums``."""
        d, unit = self.size - 1, float(self.columns[0].steps) ** 2
        of_mean, of_sd, of_rows, of_t, of_r, of_variance, of_signal = self._slices
        m = totals
        # the features
        mean = 2.0 * expit(points[:, of_mean]) - 1.0
        share = expit(points[:, of_sd])
        sd = np.sqrt(1.0 - mean[:, :-1] ** 2) * share
        entries = points[:, of_rows]
        below = np.zeros((len(points), d, d))
        below[:, *self._below] = entries
        diagonal = 1.0 / np.sqrt(1.0 + (below**2).sum(axis=2))
        rows = below + np.eye(d)
        rows *= diagonal[:, :, None]
        log_prior = np.log((1.0 - mean**2) / 2.0).sum(axis=1) + np.log(share * (1.0 - share)).sum(axis=1)
        log_prior += (d + 1.0) * np.log(diagonal).sum(axis=1)
        # the target
        log_r = points[:, of_r.start]
        unit_of_t = np.exp(np.clip(self._log_unit_of_t(points), -300.0, 300.0))
        t = unit_of_t[:, None] * points[:, of_t]
        log_prior += d * np.log(unit_of_t)
        if self.variance is None:
            xi = points[:, of_variance.start]
            log_ratio = -np.sqrt(2.0 / m) * xi  # of r^2 and the variance
            log_v = 2.0 * log_r - log_ratio
            log_prior += 0.5 * np.log(2.0 / m)
        else:
            log_v = np.full(len(points), math.log(self.variance))
            log_ratio = 2.0 * log_r - log_v
        v, ratio = np.exp(np.clip(log_v, -300.0, 300.0)), np.exp(np.clip(log_ratio, -300.0, 300.0))
        freedom = np.maximum(m - d - 1.0, 1.0)
        log_prior += 0.5 * freedom * (np.log(m / 2.0) + log_ratio) - 0.5 * m * ratio - gammaln(freedom / 2.0)
        of_log_v = np.zeros(len(points))
        if self.variance is None:
            power, scatter = (1.0, 0.0) if self.conjugate is None else (-self.conjugate.freedom, self.conjugate.scatter)
            log_prior += 0.5 * power * log_v - 0.5 * scatter / v
            of_log_v += 0.5 * power + 0.5 * scatter / v
        scale = self._slope_scale(points, sd)
        factor, residual = self._prior_factor(rows, scale, mean, t)
        q = residual.shape[1]
        matrix = _plus_diagonal(factor @ np.swapaxes(factor, 1, 2), 1.0 / m)
        log_determinant = np.linalg.slogdet(matrix)[1]
        inverse = np.linalg.inv(matrix)
        solved = (inverse @ residual[:, :, None])[:, :, 0]
        square = (solved * residual).sum(axis=1) / v
        log_prior += -0.5 * (q * log_v + square) - 0.5 * log_determinant
        of_log_v += 0.5 * (square - q)
        reach = 1.0 - mean[:, -1] ** 2
        tightness = 0.0 if self.spread is None else (3.0 / (self.spread * reach)) ** 2
        r = np.exp(np.clip(log_r, -300.0, 300.0))
        log_prior -= 0.5 * tightness * ((t**2).sum(axis=1) + r**2)
        if self.conjugate is None:
            log_prior -= 0.5 * points[:, of_signal.start] ** 2
        # the sums
        whole = np.zeros((len(points), d + 1, d + 1))
        whole[:, :d, :d] = sd[:, :, None] * rows
        whole[:, d, :d] = t
        whole[:, d, d] = r
        moments = np.ones((len(points), d + 2, d + 2))  # the last row and column stand for the constant 1
        moments[:, :-1, :-1] = whole @ np.swapaxes(whole, 1, 2) + mean[:, :, None] * mean[:, None, :]
        moments[:, -1, :-1] = mean
        first, second, weight = self._pairs
        sums = (m[:, None] * unit) * weight * moments[:, first, second]

        def pull_back(gradient: Floats) -> tuple[Floats, Floats]:
            """Return the gradient of log prior + gradient' sums, by coordinates and by totals."""
            result = np.empty_like(points)
            weighted = np.zeros((len(points), d + 2, d + 2))
            weighted[:, first, second] = gradient * weight * (0.5 * unit * m[:, None])
            weighted += np.swapaxes(weighted, 1, 2)
            of_whole = 2.0 * weighted[:, :-1, :-1] @ whole
            of_means = 2.0 * (weighted[:, :-1, :-1] @ mean[:, :, None])[:, :, 0] + 2.0 * weighted[:, -1, :-1]
            of_total = (gradient * sums).sum(axis=1) / m
            # the target, given the features
            outer = -0.5 * (inverse - solved[:, :, None] * (solved / v[:, None])[:, None, :])
            of_factor = 2.0 * outer @ factor
            of_residual = -solved / v[:, None]
            of_total -= np.trace(outer, axis1=1, axis2=2) / m**2
            of_scaled_rows = np.swapaxes(of_factor[:, q - d :, q - d :], 1, 2)
            by_row = of_scaled_rows * rows
            of_all_rows = of_whole[:, :d, :d] * sd[:, :, None] + of_scaled_rows * scale[:, :, None]
            of_log_sd = (of_whole[:, :d, :d] * whole[:, :d, :d]).sum(axis=2)
            of_whole[:, d] -= (tightness * whole[:, d].T).T
            of_means[:, -1] -= 2.0 * tightness * mean[:, -1] / reach * (whole[:, d] ** 2).sum(axis=1)
            of_t_itself = of_whole[:, d, :d] + of_residual[:, q - d :]
            of_log_unit = (of_t_itself * t).sum(axis=1) + d
            result[:, of_t] = of_t_itself * unit_of_t[:, None]
            result[:, of_r.start] = of_whole[:, d, d] * whole[:, d, d] + of_log_unit
            of_log_scale = by_row.sum(axis=2) * scale
            of_log_sd += of_log_scale
            if self.conjugate is None:
                result[:, of_signal.start] = of_log_scale.sum(axis=1) - points[:, of_signal.start] + of_log_unit
            else:
                of_means[:, :-1] += of_factor[:, 0, 1:] * np.asarray(self.conjugate.slope_scale)
                of_means[:, -1] += of_residual[:, 0]
            of_log_ratio = 0.5 * freedom - 0.5 * m * ratio
            has_freedom = m - d - 1.0 > 1.0
            of_total += has_freedom * 0.5 * (np.log(m / 2.0) + log_ratio - psi(freedom / 2.0))
            of_total += 0.5 * freedom / m - 0.5 * ratio
            if self.variance is None:
                step = np.sqrt(2.0 / m)
                result[:, of_r.start] += 2.0 * of_log_v
                result[:, of_variance.start] = step * (of_log_v - of_log_ratio)
                of_total += 0.5 * step * xi / m * (of_log_ratio - of_log_v) - 0.5 / m
            else:
                result[:, of_r.start] += 2.0 * of_log_ratio
            # the features
            own = of_all_rows[:, *self._below] * diagonal[:, self._below[0]]
            along = (of_all_rows * rows).sum(axis=2) + d + 1.0
            result[:, of_rows] = own - entries * (along * diagonal**2)[:, self._below[0]]
            result[:, of_sd] = of_log_sd * (1.0 - share) + 1.0 - 2.0 * share
            result[:, of_mean] = of_means * (1.0 - mean**2) / 2.0 - mean
            result[:, of_mean][:, :-1] -= 0.5 * mean[:, :-1] * of_log_sd
            return result, of_total

        return log_prior, sums, pull_back

    @cached_property
    def _below(self) -> tuple[Integers, Integers]:
        return np.tril_indices(self.size - 1, -1)

    def _log_unit_of_t(self, points: Floats) -> Floats:
        """Return the log of the scale of t, so that its coordinates have nearly a standard normal prior."""
        unit = points[:, self._slices[4].start]
        return unit if self.conjugate is not None else unit + points[:, self._slices[-1].start]

    def _slope_scale(self, points: Floats, sd: Floats) -> Floats:
        """Return the prior sd of each slope times the sd of its feature, in units of the residual sd, shape (n, d)."""
        if self.conjugate is not None:
            return sd * np.asarray(self.conjugate.slope_scale)
        return np.asarray(sd * np.exp(points[:, self._slices[-1]]) * (_TYPICAL_SLOPE / math.sqrt(self.size - 1)))

    def _prior_factor(self, rows: Floats, scale: Floats, mean: Floats, t: Floats) -> tuple[Floats, Floats]:
        """Return A and z: in units of the residual sd, z is A times the standardized coefficients, plus the errors.

        With the conjugate prior, the first coordinate of z is the target's mean minus its prior mean. By default, z is
        t alone, because the mean is uniform.
        """
        slopes = np.swapaxes(rows * scale[:, :, None], 1, 2)
        if self.conjugate is None:
            return slopes, t
        q = self.size
        factor = np.zeros((len(t), q, q))
        factor[:, 1:, 1:] = slopes
        center = np.asarray(self.conjugate.mean)
        factor[:, 0, 0] = self.conjugate.strength**-0.5
        factor[:, 0, 1:] = (mean[:, :-1] - center[1:]) * np.asarray(self.conjugate.slope_scale)
        return factor, np.concatenate([mean[:, -1:] - center[0], t], axis=1)

    def draw_parameters(self, points: Floats, totals: Floats, rng: np.random.Generator) -> Floats:
        """Draw intercept, slopes and variance given the moments, in the units of the columns; see ``LatentSums``."""
        d = self.size - 1
        of_mean, of_sd, of_rows, of_t, of_r, of_variance, _ = self._slices
        mean = 2.0 * expit(points[:, of_mean]) - 1.0
        sd = np.sqrt(1.0 - mean[:, :-1] ** 2) * expit(points[:, of_sd])
        rows = np.zeros((len(points), d, d))
        rows[:, *self._below] = points[:, of_rows]
        rows += np.eye(d)
        rows /= np.sqrt((rows**2).sum(axis=2, keepdims=True))
        log_v = 2.0 * points[:, of_r.start]
        if self.variance is None:
            log_v += np.sqrt(2.0 / totals) * points[:, of_variance.start]
        else:
            log_v[:] = math.log(self.variance)
        v = np.exp(log_v)
        scale = self._slope_scale(points, sd)
        factor, residual = self._prior_factor(rows, scale, mean, np.exp(self._log_unit_of_t(points))[:, None] * points[:, of_t])
        free = rng.standard_normal(residual.shape)
        errors = rng.standard_normal(residual.shape) / np.sqrt(totals)[:, None]
        matrix = _plus_diagonal(factor @ np.swapaxes(factor, 1, 2), 1.0 / totals)
        away = residual / np.sqrt(v)[:, None] - (factor @ free[:, :, None])[:, :, 0] - errors
        drawn = free + (np.swapaxes(factor, 1, 2) @ np.linalg.solve(matrix, away[:, :, None]))[:, :, 0]
        slopes = np.sqrt(v)[:, None] * drawn[:, -d:] * scale / sd
        if self.conjugate is None:
            level = mean[:, -1] + np.sqrt(v / totals) * rng.standard_normal(len(points))
            level -= (slopes * mean[:, :-1]).sum(axis=1)
        else:
            center = np.asarray(self.conjugate.mean)
            level = center[0] + np.sqrt(v / self.conjugate.strength) * drawn[:, 0] - slopes @ center[1:]
        return self.reported(level, slopes, v)

    def reported(self, level: Floats, slopes: Floats, variance: Floats) -> Floats:
        """Convert parameters of scaled numbers to the units of the columns."""
        half, middle = self.half_and_middle
        slopes = slopes * (half[0] / half[1:])
        intercept = middle[0] + half[0] * level - slopes @ middle[1:]
        last = () if self.variance is not None else (variance[..., None] * half[0] ** 2,)
        return np.concatenate([intercept[..., None], slopes, *last], axis=-1)


def _plus_diagonal(matrices: Floats, diagonal: Floats) -> Floats:
    """Add a number to the diagonal of each matrix in place; also one that hides rounding errors of large entries."""
    index = np.arange(matrices.shape[-1])
    rounding = 1e-13 * np.trace(matrices, axis1=1, axis2=2)
    matrices[:, index, index] += (diagonal + rounding)[:, None]
    return matrices
