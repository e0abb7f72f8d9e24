"""The law of the second moments of all records, from which the coefficients of a linear regression are drawn exactly.

Let x be the features and y the target of m records, scaled to [-1, 1], and let C be the Cholesky factor of the
features' covariance matrix in the records (divided by m). Then y has the mean, over the records, and the covariance
with C^-1 x

    level + slopes' (mean of x) + e_0,    t = C' slopes + (e_1, .., e_d),    e_i ~ N(0, variance / m),

and the residual mean square r^2 has the law variance * chi-square(m - d - 1) / m. This holds for any law of the
features: the likelihood of a regression depends on the features only through C and their means. Chains move slopes and
errors, from which the moments follow. Then slopes and level are drawn exactly, given the moments alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from dpbayes_cli.core.record_law import LatentSums
from dpbayes_cli.models.families.regression_coordinates import RegressionCoordinates
from dpbayes_cli.models.families.regression_density import Moments
from dpbayes_cli.models.families.regression_simulation import draw_plug_in

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_RECORDS = 1e9
"""So many records have the moments that the parameters say."""
_MAX_SHARE_OUT_OF_BOUNDS = 1e-3
"""Inference warns if it expects a larger share of the targets to be out of bounds."""


@dataclass(frozen=True)
class RegressionMoments(RegressionCoordinates, LatentSums):
    """Sums, squares and products of a target and its features, and the count of valid records.

    The mean of each column is uniform between its bounds. The standard deviation of each number is w^2 times the
    largest one that is possible with this mean, and w is uniform between 0 and 1; that of an indicator is the largest
    one. All correlation matrices of the features have the same density.

    By default, the residual standard deviation is uniform, slopes are normal with the standard deviation s /
    sqrt(d), and log s is standard normal. As the records lie between the bounds, this is multiplied by exp(-(T /
    a)^2 / 2), where T is the standard deviation of the target in the records, a = ``spread`` (1 - M^2) / 3, and M is
    its mean.

    The coordinates are the logits of the means, features first; the normal scores of w for each feature; u, where r =
    0.15 (u Phi(u) + phi(u)) with the normal distribution Phi and its density phi; sqrt(m / 2) log(variance / r^2),
    unless the variance is known; the coordinates of the slopes, by default those of ``SlopePrior``, else the slopes in
    units of their prior standard deviations; and e_1, .., e_d in units of theirs. The rows of the Cholesky factor of
    the features' correlation matrix are the directions of vectors of normal numbers; the last number of each, its
    pivot, is log(1 + exp(c)) with a coordinate c, and has a chi law. So no coordinate has a prior that becomes narrow
    as another one moves, and no matrix is inverted.
    """

    def evaluate(
        self, points: Floats, totals: Floats
    ) -> tuple[Floats, Floats, Callable[[Floats], tuple[Floats, Floats]]]:
        moments = Moments(self, points, totals)
        return moments.log_prior, moments.sums, moments.pull_back

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
        return draw_plug_in(self, observed, n_records, size, rng)

    def warning(self, points: Floats) -> str:
        """Return a warning if the posterior expects more than one target in a thousand out of bounds."""
        moments = Moments(self, points, np.full(len(points), _MAX_RECORDS))
        mean, sd = moments.mean[:, -1], np.sqrt((moments.root[:, -1] ** 2).sum(axis=1))
        outside = float((ndtr((-1.0 - mean) / sd) + ndtr((mean - 1.0) / sd)).mean())
        if outside <= _MAX_SHARE_OUT_OF_BOUNDS:
            return ""
        return (
            f"a normal law with this fit has {100.0 * outside:.2g} % of the targets beyond the bounds. If so many "
            "recorded targets are at a bound, slopes and the variance are underestimated, because inference ignores "
            "clamping: use wider bounds in another release"
        )
