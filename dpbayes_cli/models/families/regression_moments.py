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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.record_law import LatentSums
from dpbayes_cli.models.families.regression_density import Moments

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_MAX_SHARE_OUT_OF_BOUNDS = 1e-3
"""Inference warns if it expects a larger share of the targets to be out of bounds."""


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


class Slices(NamedTuple):
    """The places of the coordinates of ``RegressionMoments``, in their order."""

    mean: slice
    sd: slice
    rows: slice
    t: slice
    r: slice
    variance: slice
    signal: slice


@dataclass(frozen=True)
class RegressionMoments(LatentSums):
    """Sums, squares and products of a target and its features, and the count of valid records.

    The mean of each column is uniform between its bounds. The standard deviation of each feature is w^2 times the
    largest one that is possible with this mean, and w is uniform between 0 and 1. All correlation matrices of the
    features have the same density.

    By default, the residual standard deviation is uniform, slopes are normal with the standard deviation s /
    sqrt(d), and log s is standard normal. As the records lie between the bounds, this is multiplied by exp(-(T /
    a)^2 / 2), where T is the standard deviation of the target in the records, a = ``spread`` (1 - M^2) / 3, and M is
    its mean.

    The coordinates are the logits of the means, features first; the logits of w for each feature; the rows of the
    Cholesky factor of their correlation matrix, divided by the diagonal; t / r, or t / s by default; log r; sqrt(m
    / 2) log(variance / r^2), unless the variance is known; and log s, unless the prior is conjugate. So no
    coordinate has a prior that becomes narrow as another one moves.

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
    def slices(self) -> Slices:
        """The places of the coordinates."""
        d = self.size - 1
        sizes = d + 1, d, d * (d - 1) // 2, d, 1, int(self.variance is None), int(self.conjugate is None)
        ends = np.cumsum(sizes).tolist()
        return Slices(*(slice(end - size, end) for end, size in zip(ends, sizes, strict=True)))

    @property
    def dimension(self) -> int:
        return int(self.slices.signal.stop)

    @property
    def unit(self) -> float:
        """The square of a scaled number of 1, in units of the integer statistic."""
        return float(self.columns[0].steps) ** 2

    @cached_property
    def pairs(self) -> tuple[Integers, Integers, Floats]:
        """For each component the indices of its two factors, features first (-1: the constant 1), and its weight."""
        order = np.roll(np.arange(self.size), 1).tolist()
        pairs = []
        for i, first in enumerate(order):
            pairs.append((-1, first, 2.0))
            pairs += [(first, second, 1.0 if first == second else 2.0) for second in order[i:]]
        if self.counted:
            pairs.append((-1, -1, 1.0))
        one, other, weight = zip(*pairs, strict=True)
        return np.array(one), np.array(other), np.array(weight)

    @cached_property
    def below(self) -> tuple[Integers, Integers]:
        """The row and the column of each entry below the diagonal of a matrix of the features."""
        return np.tril_indices(self.size - 1, -1)

    @cached_property
    def half_and_middle(self) -> tuple[Floats, Floats]:
        """Half the range of each column, and its middle, target first."""
        ends = np.array([(column.lower, column.upper) for column in self.columns])
        return (ends[:, 1] - ends[:, 0]) / 2.0, ends.mean(axis=1)

    def evaluate(
        self, points: Floats, totals: Floats
    ) -> tuple[Floats, Floats, Callable[[Floats], tuple[Floats, Floats]]]:
        moments = Moments(self, points, totals)
        return moments.log_prior, moments.sums, moments.pull_back

    @property
    def typical_slope(self) -> float:
        """The prior scale of a slope of scaled numbers, by default."""
        return 1.0 / math.sqrt(self.size - 1)

    def tightness(self, mean: Floats) -> Floats:
        """Return 1 / a^2, given means of the target; 0 if the prior is conjugate."""
        if self.spread is None:
            return np.zeros_like(mean)
        return np.asarray((3.0 / (self.spread * (1.0 - mean**2))) ** 2)

    def draw_parameters(self, points: Floats, totals: Floats, rng: np.random.Generator) -> Floats:
        """Draw intercept, slopes and, unless it is known, variance in the units of the columns; see ``LatentSums``."""
        moments = Moments(self, points, totals)
        return self.reported(*moments.draw_coefficients(rng), moments.variance)

    def data_variance(self, points: Floats, totals: Floats, rng: np.random.Generator) -> Floats:
        first, second = (self.draw_parameters(points, totals, rng) for _ in range(2))
        result = 0.5 * ((first - second) ** 2).mean(axis=0)
        if self.variance is None:
            result[-1] = (first[:, -1] ** 2 * 2.0 / totals).mean()
        return np.asarray(result)

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        from dpbayes_cli.models.families.regression_simulation import draw_plug_in

        return draw_plug_in(self, observed, n_records, size, rng)

    def warning(self, points: Floats) -> str:
        """Return a warning if the posterior expects more than one target in a thousand out of bounds."""
        moments = Moments(self, points, np.ones(len(points)))
        mean, sd = moments.mean[:, -1], np.sqrt((moments.root[:, -1] ** 2).sum(axis=1))
        outside = float((ndtr((-1.0 - mean) / sd) + ndtr((mean - 1.0) / sd)).mean())
        if outside <= _MAX_SHARE_OUT_OF_BOUNDS:
            return ""
        return (
            f"the posterior expects {outside:.1%} of the targets out of bounds, but inference ignores clamping: slopes "
            "and the variance are underestimated; use wider bounds in another release"
        )

    def reported(self, level: Floats, slopes: Floats, variance: Floats) -> Floats:
        """Convert parameters of scaled numbers to the units of the columns."""
        half, middle = self.half_and_middle
        slopes = slopes * (half[0] / half[1:])
        intercept = middle[0] + half[0] * level - slopes @ middle[1:]
        last = () if self.variance is not None else (variance[..., None] * half[0] ** 2,)
        return np.concatenate([intercept[..., None], slopes, *last], axis=-1)
