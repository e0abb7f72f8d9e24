"""The tempered posterior of a regression line of known variance on a public grid of lines that stay within bounds.

All numbers are scaled to [-1, 1]. A line is (level, slopes), the level being its height in the middle of the features'
bounds; on the box of the features it takes the values level +- sum |slope_j|. The support is the set of lines that stay
between two public heights there: an L1 ball around its middle, of which an enumerable lattice is the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.options import PowerTarget
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.mechanisms.samplers.tempering import UP, DrawRequest, Tempering, calibrate_power
from dpbayes_cli.models.families.capabilities import Line, LinearPosterior
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK, CellWeights, cell_weights

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

MAX_POINTS = 1 << 17
_FINEST = 256
_COARSEST = 6
"""Grid steps from the middle of the support to its corners; with fewer a grid says next to nothing about a slope."""
_COARSE_ENOUGH = 12
_LARGEST_LOG = 1e13


@dataclass(frozen=True)
class LineCover:
    """The public lattice of lines: level = middle + reach k_0 / G, slope_j = reach k_j / G, sum of all |k| <= G.

    Attributes:
        n_features: the number of slopes.
        resolution: G.
        low, high: the heights between which a line stays, scaled, -1 <= low < high <= 1.
    """

    n_features: int
    resolution: int
    low: Fraction
    high: Fraction

    @property
    def middle(self) -> Fraction:
        """Half way between the heights."""
        return (self.low + self.high) / 2

    @property
    def step(self) -> Fraction:
        """The distance between neighboring levels, or slopes."""
        return (self.high - self.low) / (2 * self.resolution)

    def spread(self, variance: Fraction) -> Fraction:
        """Return R for two records of scaled numbers, of a scaled variance w.

        Privacy: f = log p(y | x) - log p(y' | x') = [(y' - b')^2 - (y - b)^2] / (2 w), b and b' the line's heights at
            the two records. For two lines, a second one of heights c and c', f changes by [g(c', b') + g(b, c)] / (2 w)
            with g(p, q) = max over |y| <= 1 of (q - y)^2 - (p - y)^2 = q^2 - p^2 + 2 |q - p|, a sum over the records
            apart. With all heights in [low, high], g is largest at its ends: for q > p it is (q - p)(q + p + 2), which
            grows with q and falls with p, q, -p <= 1, else the same with signs turned. So f varies by at most
            (high - low)(2 + |low + high|) / w, for any number of features. Attained by the lines that cross from low to
            high and back along one feature, records at its two ends, and y, y' at the end that is farther. (A record
            against none: half of that; but posterior draws need complete records.)
        Source: Zhang et al. 2016 sec. 5.2 and assumption 1 (bounded support); Wang, Fienberg and Smola 2015.
        """
        return (self.high - self.low) * (2 + abs(self.low + self.high)) / variance

    def points(self) -> Integers:
        """Return the lattice's k, shape (n_points, n_features + 1), in lexical order."""
        return lattice_ball(self.n_features + 1, self.resolution)


def count_points(dimension: int, radius: int) -> int:
    """Return the number of integer points with sum |k| <= radius."""
    return sum(2**i * math.comb(dimension, i) * math.comb(radius, i) for i in range(min(dimension, radius) + 1))


@lru_cache(maxsize=2)
def lattice_ball(dimension: int, radius: int) -> Integers:
    """Return the integer points with sum |k| <= radius, shape (n_points, dimension), in lexical order."""
    import numpy as np

    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(dimension):
        left = radius - np.abs(rows).sum(axis=1)
        parents = np.repeat(np.arange(len(rows)), 2 * left + 1)
        starts = np.cumsum(2 * left + 1) - (2 * left + 1)
        rows = np.column_stack([rows[parents], np.arange(len(parents)) - starts[parents] - left[parents]])
    return rows


@dataclass(frozen=True)
class LinearRegressionSampler(Sampler):
    """The tempered posterior of a regression line on the lattice of lines within bounds.

    Privacy: weights exp(-T sum of (y - height)^2 / (2 variance)) times a base measure that no record moves: replacing a
        record changes the log weights by a function of range T R at most, R that of ``LineCover.spread``. The sum of
        squares is an exact integer form of the integer statistic; decimals and integer weights add less
        than ``GRID_SLACK``.
    Source: Zhang et al. 2016 sec. 5.2; Wang, Fienberg and Smola 2015; mechanisms, sampling in finite precision.

    Attributes:
        line: the regression.
        n_records: the public number of complete records.
        likelihood_power: T.
        power_applies_to: whether the prior is tempered too.
        cover: the lattice.
    """

    slow_moments: ClassVar[bool] = True  # a lattice of a hundred thousand lines

    line: Line
    n_records: int
    likelihood_power: Decimal
    power_applies_to: PowerTarget
    cover: LineCover

    def second_moments(self, values: Sequence[int]) -> list[list[int]]:
        """Return the sums of products of (1, target, features), above the diagonal, in units of 1 / (2 steps^2)."""
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
        import numpy as np

        d, cover, moments = len(self.line.bounds), self.cover, self.second_moments(values)
        # the residual is (y - middle) - step (k_0 + sum of k_j x_j): numerators over the denominator of both
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
        """Return the log prior of all points; the same for all data, in floats that are taken as they are."""
        import numpy as np

        cover, line = self.cover, self.line
        k = cover.points() * float(cover.step)
        level = float(cover.middle) + k[:, 0] + k[:, 1:] @ np.array(line.prior_mean[1:]) - line.prior_mean[0]
        away = np.column_stack([level, k[:, 1:]]) ** 2 @ np.array(line.prior_precision)
        power = float(self.likelihood_power) if self.power_applies_to == "joint" else 1.0
        return list(map(Decimal, (-0.5 * power / line.variance * away).tolist()))

    def weights(self, values: Sequence[int]) -> CellWeights:
        """Return the integer weights of the points that exact integer statistics determine."""
        import numpy as np

        logs = self.exact_logs(values)
        return cell_weights(np.array(logs, dtype=np.float64), logs.__getitem__)

    def is_possible(self, draw: Sequence[float]) -> bool:
        """Return whether a draw is a line of the lattice."""
        import numpy as np

        points = self.coefficients()
        return len(draw) == points.shape[1] and bool(np.isclose(points, np.asarray(draw), rtol=1e-12).all(axis=1).any())

    def coarsened(self) -> LinearRegressionSampler:
        """Return the law on a coarser lattice, on whose resolution neither likelihood power nor price depends."""
        return replace(self, cover=replace(self.cover, resolution=min(self.cover.resolution, _COARSE_ENOUGH)))

    def coefficients(self) -> Floats:
        """Return intercept and slopes of all points in the units of the file, shape (n_points, n_features + 1)."""
        import numpy as np

        half, middle = np.array([((high - low) / 2.0, (high + low) / 2.0) for low, high in self.line.bounds]).T
        scaled = self.cover.points() * float(self.cover.step)
        slopes = scaled[:, 1:] * half[0] / half[1:]
        level = middle[0] + half[0] * (float(self.cover.middle) + scaled[:, 0])
        return np.column_stack([level - slopes @ middle[1:], slopes])

    def draw(self, values: Sequence[int], size: int) -> list[tuple[float, ...]]:
        """Draw lattice points exactly."""
        coefficients = self.coefficients()
        return [tuple(coefficients[point].tolist()) for point in self.weights(values).draw(size)]

    def moments(self, values: Sequence[int]) -> tuple[float, float]:
        """Return those of the intercept under the law on the lattice."""
        import numpy as np

        logs = np.array(self.exact_logs(values), dtype=np.float64)
        masses = np.exp(logs - logs.max())
        masses /= masses.sum()
        intercept = self.coefficients()[:, 0]
        mean = float(masses @ intercept)
        return mean, math.sqrt(float(masses @ (intercept - mean) ** 2))

    def plain_sd(self, values: Sequence[int]) -> float:
        """Return the standard deviation of the intercept in the untempered posterior, without privacy or cover."""
        import numpy as np

        line, unit = self.line, 2.0 * self.line.steps**2
        upper = np.array([[m / unit for m in row] for row in self.second_moments(values)])
        whole = np.delete(np.delete(upper + np.triu(upper, 1).T, 1, axis=0), 1, axis=1)
        level = np.array([1.0, *line.prior_mean[1:]])
        slopes = np.diag([0.0, *line.prior_precision[1:]])
        precision = whole + line.prior_precision[0] * np.outer(level, level) + slopes
        gradient = np.array([1.0, *(-(low + high) / (high - low) for low, high in line.bounds[1:])])
        half = (line.bounds[0][1] - line.bounds[0][0]) / 2.0
        return half * math.sqrt(line.variance * float(gradient @ np.linalg.solve(precision, gradient)))


def line_sampler(model: LinearPosterior, asked: DrawRequest) -> tuple[LinearRegressionSampler, Tempering]:
    """Return the tempered posterior of a line on a public lattice, and what a draw from it costs.

    Raises:
        SpecError: the variance is not known, the support is not within the target's bounds, there are more features
            than a lattice can be enumerated for, or epsilon is too small.
    """
    n, line = asked.n_records, model.line()
    d = len(line.bounds)
    fitting = [g for g in range(_COARSEST, _FINEST + 1) if count_points(d, g) <= MAX_POINTS]
    if not fitting:
        raise SpecError(
            f"{d - 1} features are too many for draws: a grid of {_COARSEST} steps has {count_points(d, _COARSEST):,} "
            f"points, and at most {MAX_POINTS:,} are enumerated",
            where="mechanism",
            hint="fewer features, or mechanism: laplace",
        )
    low, high = map(Fraction, line.bounds[0])
    support = tuple(map(Fraction, asked.support or line.bounds[0]))
    if not low <= support[0] < support[1] <= high:
        raise SpecError(
            f"the support is {list(map(float, support))}; allowed: heights of the line within the target's bounds",
            where="sampling.support",
            hint=f"{float(low):g},{float(high):g}",
        )
    ends = [(2 * end - low - high) / (high - low) for end in support]
    cover = LineCover(d - 1, fitting[-1], *ends)
    exact = cover.spread(Fraction(line.variance))
    spread = UP.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    found = calibrate_power(asked, spread, GRID_SLACK, Decimal(1))
    sampler = LinearRegressionSampler(line, n, found.likelihood_power, asked.power_applies_to, cover)
    if 4.0 * (n + sum(line.prior_precision)) / line.variance > _LARGEST_LOG:
        raise SpecError("the variance is too small for exact weights of so many records", where="domain.variance")
    return sampler, found


def line_parameters(sampler: LinearRegressionSampler, found: Tempering, asked: DrawRequest) -> dict[str, Any]:
    """Return what a plan says about a lattice and a likelihood power."""
    low, high = sampler.line.bounds[0]
    ends = [float(low + (high - low) * (float(end) + 1.0) / 2.0) for end in (sampler.cover.low, sampler.cover.high)]
    more = {"support": ends, "resolution": sampler.cover.resolution}
    return {**found.plan_parameters(asked), **more}
