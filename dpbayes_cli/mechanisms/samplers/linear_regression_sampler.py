"""The tempered posterior of a regression line with known residual variance, on a public grid of bounded lines.

All numbers are scaled to [-1, 1]. A line has slopes and a level, which is its height at the midpoints of the features'
bounds. For features within their bounds, the line's heights are between level - sum |slope_j| and level + sum
|slope_j|. The support is the set of lines whose heights stay between two public bounds: an L1 ball. The grid is a
lattice in this ball, small enough to enumerate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers, normalize
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.mechanisms.samplers.tempering import UP, DrawRequest, calibrate_power, weighted_moments
from dpbayes_cli.models.families.capabilities import NormalRegression, ScaledRegression
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK, CellWeights, cell_weights
from dpbayes_cli.privacy.lazy_numpy import np

MAX_POINTS = 1 << 17
_MAX_RESOLUTION = 256
_COARSEST = 6
"""The least number of grid steps from the center of the support to a corner; coarser grids cannot resolve slopes."""
_COARSENED_RESOLUTION = 12
_MAX_LOG_TERMS = 1e13


@dataclass(frozen=True)
class LineCover:
    """The public lattice of lines with level = middle + step * k_0 and slope_j = step * k_j, where sum |k| <= G.

    Attributes:
        n_features: the number of slopes.
        resolution: G.
        low, high: the scaled bounds on a line's heights, -1 <= low < high <= 1.
    """

    n_features: int
    resolution: int
    low: Fraction
    high: Fraction

    @property
    def middle(self) -> Fraction:
        """The height halfway between ``low`` and ``high``."""
        return (self.low + self.high) / 2

    @property
    def step(self) -> Fraction:
        """The distance between neighboring levels, and between neighboring slopes."""
        return (self.high - self.low) / (2 * self.resolution)

    def spread(self, variance: Fraction) -> Fraction:
        """Return R, the range over all lines of the log likelihood ratio of two records, for the scaled variance w.

        Privacy: let b and b' be the heights of a line at two records (x, y) and (x', y'). The log likelihood ratio is f
            = log p(y | x) - log p(y' | x') = [(y' - b')^2 - (y - b)^2] / (2 w). Let c and c' be the heights of a second
            line. Each record contributes one term, so that f differs between the two lines by at most [g(c', b') + g(b,
            c)] / (2 w). Here g(p, q) is the maximum of (q - y)^2 - (p - y)^2 over |y| <= 1, which is q^2 - p^2 + 2 |q -
            p|. For q > p, g = (q - p)(q + p + 2) grows with q and falls with p, because both are in [-1, 1]; the case q
            < p follows by a change of signs. So g is largest if p and q are low and high, and f varies by at most (high
            - low)(2 + |low + high|) / w, for any number of features. The bound is attained. Along one feature, one line
            goes from low to high and the other from high to low. The records are at the two ends of this feature, and y
            and y' are both at the end of [-1, 1] that is farther from (low + high) / 2.
        Source: Zhang et al. 2016 sec. 5.2 and assumption 1 (bounded support); Wang, Fienberg and Smola 2015.
        """
        return (self.high - self.low) * (2 + abs(self.low + self.high)) / variance

    def points(self) -> Integers:
        """Return the integers k of all lattice points, shape (n_points, n_features + 1), in lexical order."""
        return lattice_ball(self.n_features + 1, self.resolution)


def count_points(dimension: int, radius: int) -> int:
    """Return the number of integer points with sum |k| <= radius."""
    return sum(2**i * math.comb(dimension, i) * math.comb(radius, i) for i in range(min(dimension, radius) + 1))


@lru_cache(maxsize=2)
def lattice_ball(dimension: int, radius: int) -> Integers:
    """Return the integer points with sum |k| <= radius, shape (n_points, dimension), in lexical order."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(dimension):
        remaining = radius - np.abs(rows).sum(axis=1)
        parents = np.repeat(np.arange(len(rows)), 2 * remaining + 1)
        starts = np.cumsum(2 * remaining + 1) - (2 * remaining + 1)
        rows = np.column_stack([rows[parents], np.arange(len(parents)) - starts[parents] - remaining[parents]])
    return rows


@dataclass(frozen=True)
class LinearRegressionSampler(Sampler):
    """The tempered posterior of a regression line on the lattice of lines within bounds.

    Privacy: the weight of a line is exp(-T * sum of (y - height)^2 / (2 * variance)) times a base measure that does not
        depend on the data. Replacing a record changes the log weights by a function of range at most T * R, where R is
        ``LineCover.spread``. The sum of squares is computed exactly from the integer statistic. Rounding the log
        weights to decimals and the weights to integers adds less than ``GRID_SLACK``.
    Source: Zhang et al. 2016 sec. 5.2; Wang, Fienberg and Smola 2015; the rest is derived here.
    """

    slow_moments: ClassVar[bool] = True  # the lattice has up to a hundred thousand lines

    line: ScaledRegression
    n_records: int
    likelihood_power: Decimal
    power_applies_to: PowerTarget
    cover: LineCover

    def second_moments(self, values: Sequence[int]) -> list[list[int]]:
        """Return the upper triangle of the sums of products of (1, target, features), in units of 1 / (2 * steps^2)."""
        d, left = len(self.line.bounds), iter(values)
        moments = [[0] * (d + 1) for _ in range(d + 1)]
        moments[0][0] = 2 * self.n_records * self.line.steps**2
        for i in range(1, d + 1):
            moments[0][i] = next(left)
            for j in range(i, d + 1):
                moments[i][j] = next(left) * (2 if i == j else 1)
        return moments

    def squares(self, values: Sequence[int]) -> tuple[list[int], int]:
        """Return the exact sums of squared residuals of all points, over one common denominator."""
        d, cover, moments = len(self.line.bounds), self.cover, self.second_moments(values)
        # residual = (y - middle) - step (k_0 + sum of k_j x_j), as integers over the common denominator ``scale``
        scale = math.lcm(cover.middle.denominator, cover.step.denominator)
        middle, step = int(cover.middle * scale), int(cover.step * scale)
        k = cover.points().astype(object)
        weights = [-middle - step * k[:, 0], np.full(len(k), scale, dtype=object)]
        weights += [-step * k[:, j] for j in range(1, d)]
        total = np.zeros(len(k), dtype=object)
        for i in range(d + 1):
            for j in range(i, d + 1):
                total = total + weights[i] * weights[j] * (moments[i][j] * (1 if i == j else 2))
        return total.tolist(), 2 * self.line.steps**2 * scale**2

    def exact_logs(self, values: Sequence[int]) -> list[Decimal]:
        """Return the unnormalized log weights of all points in ``EXACT`` arithmetic."""
        squares, unit = self.squares(values)
        twice = Fraction(self.line.variance) * 2
        factor = Fraction(self.likelihood_power) / (unit * twice)
        power = EXACT.divide(Decimal(-factor.numerator), Decimal(factor.denominator))
        prior = self._log_prior()
        return [EXACT.fma(power, Decimal(s), p) for s, p in zip(squares, prior, strict=True)]

    def _log_prior(self) -> list[Decimal]:
        """Return the log prior of all points: floats that do not depend on the data and are used as exact numbers."""
        cover, line = self.cover, self.line
        k = cover.points() * float(cover.step)
        level = float(cover.middle) + k[:, 0] + k[:, 1:] @ np.array(line.prior_mean[1:]) - line.prior_mean[0]
        penalty = np.column_stack([level, k[:, 1:]]) ** 2 @ np.array(line.prior_precision)
        power = float(self.likelihood_power) if self.power_applies_to == "joint" else 1.0
        return list(map(Decimal, (-0.5 * power / line.variance * penalty).tolist()))

    def weights(self, values: Sequence[int]) -> CellWeights:
        """Return the integer weights of the points, computed from exact integer statistics."""
        logs = self.exact_logs(values)
        return cell_weights(np.array(logs, dtype=np.float64), logs.__getitem__)

    def is_possible(self, draw: Sequence[float]) -> bool:
        points = self.coefficients()
        return len(draw) == points.shape[1] and bool(np.isclose(points, np.asarray(draw), rtol=1e-12).all(axis=1).any())

    def coarsened(self) -> LinearRegressionSampler:
        return replace(self, cover=replace(self.cover, resolution=min(self.cover.resolution, _COARSENED_RESOLUTION)))

    def coefficients(self) -> Floats:
        """Return intercept and slopes of all points in the units of the file, shape (n_points, n_features + 1)."""
        half, middle = np.array([((high - low) / 2.0, (high + low) / 2.0) for low, high in self.line.bounds]).T
        scaled = self.cover.points() * float(self.cover.step)
        slopes = scaled[:, 1:] * half[0] / half[1:]
        level = middle[0] + half[0] * (float(self.cover.middle) + scaled[:, 0])
        return np.column_stack([level - slopes @ middle[1:], slopes])

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        coefficients = self.coefficients()
        return [tuple(coefficients[point].tolist()) for point in self.weights(values).draw(size)]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        masses = normalize(np.array(self.exact_logs(values), dtype=np.float64))
        return weighted_moments(masses, self.coefficients()[:, 0])

    def nonprivate_sd(self, values: Sequence[int]) -> float:
        line, unit = self.line, 2.0 * self.line.steps**2
        upper = np.array([[m / unit for m in row] for row in self.second_moments(values)])
        moments = np.delete(np.delete(upper + np.triu(upper, 1).T, 1, axis=0), 1, axis=1)
        level = np.array([1.0, *line.prior_mean[1:]])
        slopes = np.diag([0.0, *line.prior_precision[1:]])
        precision = moments + line.prior_precision[0] * np.outer(level, level) + slopes
        gradient = np.array([1.0, *(-(low + high) / (high - low) for low, high in line.bounds[1:])])
        half = (line.bounds[0][1] - line.bounds[0][0]) / 2.0
        return half * math.sqrt(line.variance * float(gradient @ np.linalg.solve(precision, gradient)))


def line_sampler(
    model: NormalRegression, request: DrawRequest
) -> tuple[LinearRegressionSampler, Decimal, dict[str, Any]]:
    """Return the tempered posterior of a line on a public lattice, the cost of all draws, and the plan's parameters.

    Raises:
        SpecError: the variance is not known, the support is not within the target's bounds, there are too many features
            to enumerate a lattice, or epsilon is too small.
    """
    n, line = request.n_records, model.scaled_regression()
    d = len(line.bounds)
    resolutions = [g for g in range(_COARSEST, _MAX_RESOLUTION + 1) if count_points(d, g) <= MAX_POINTS]
    if not resolutions:
        raise SpecError(
            f"{d - 1} features are too many for draws: the grid has at least {count_points(d, _COARSEST):,} points; "
            f"allowed: {MAX_POINTS:,}",
            where="mechanism",
            hint="use fewer features, or mechanism: laplace",
        )
    low, high = map(Fraction, line.bounds[0])
    support = tuple(map(Fraction, request.support or line.bounds[0]))
    if not low <= support[0] < support[1] <= high:
        raise SpecError(
            f"the support is {list(map(float, support))}; allowed: heights of the line within the target's bounds",
            where="sampling.support",
            hint=f"{float(low):g},{float(high):g}",
        )
    ends = [(2 * end - low - high) / (high - low) for end in support]
    cover = LineCover(d - 1, resolutions[-1], *ends)
    exact = cover.spread(Fraction(line.variance))
    spread = UP.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    tempering = calibrate_power(request, spread, GRID_SLACK, Decimal(1))
    sampler = LinearRegressionSampler(line, n, tempering.likelihood_power, request.power_applies_to, cover)
    if 4.0 * (n + sum(line.prior_precision)) / line.variance > _MAX_LOG_TERMS:
        reason = "the variance is too small for exact draws with this number of records"
        raise SpecError(reason, where="domain.variance", hint="mechanism: laplace")
    bottom, top = line.bounds[0]
    heights = [float(bottom + (top - bottom) * (float(end) + 1.0) / 2.0) for end in ends]
    parameters = {**tempering.plan_parameters(request), "support": heights, "resolution": cover.resolution}
    return sampler, tempering.charged, parameters
