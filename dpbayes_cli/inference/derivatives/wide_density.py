"""The log posterior density of the coefficients of a wide design given moments of the rows, and its gradient.

Given means and covariances of the rows x, the last gradient, which was taken at a point, is

    score + n E[x (mean(x'beta) - mean(x'point))] + noise,

with a score of variance n E[variance(x'beta) x x'], which is integrated out. The rows are taken for
normal, so that x is normal given x'beta; an error of each entry of the expectation that is a tenth of what it is at the
center of the coefficients is allowed for.

The covariance of the gradient is a multiple of that of the rows, a diagonal that is the same for all coefficients, and
two more directions. In coordinates in which the first two are diagonal it is inverted in linear time.

Source: derived here.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.feature_moments import LEAST_VARIANCE, FeatureMoments, normal_nodes
from dpbayes_cli.inference.derivatives.first_round import guess_count

_DISCREPANCY = 0.1
"""The standard deviation of the error of the normal law, in each entry of the expected change of the gradient between
the point and the coefficients, as a fraction of this change at the center of the coefficients."""


class WideDensity:
    """The log density of coefficients for each of n possible moments, up to a constant for each.

    Coefficients are whitened: those of each of the moments are center + root @ z. Rows are in coordinates in which
    their covariance is diagonal and that of the noise and the discrepancy is 1.
    """

    def __init__(
        self,
        observation: NoisyDerivatives,
        moments: FeatureMoments,
        prior: CoefficientLaw,
        centers: Floats,
        precisions: Floats,
    ) -> None:
        """Prepare the density; centers, shape (n, width), and precisions, (n, width, width), are rough guesses."""
        self._prior, self._loss, self._n = prior, observation.loss, guess_count(observation)
        point = np.broadcast_to(observation.points[-1], centers.shape)
        at_point = self._n * moments.sums(observation.loss, point)[0]
        drift = at_point - self._n * moments.sums(observation.loss, centers)[0]
        scales = np.sqrt(observation.gradient_sds[-1] ** 2 + (_DISCREPANCY * drift) ** 2)
        variances, turns = eigh(moments.covariances / (scales[:, :, None] * scales[:, None]))
        self._variances = np.maximum(variances, 0.0)  # negative ones are errors
        turns = turns.transpose(0, 2, 1)
        self._means = _times(turns, moments.means / scales)
        self._rest = _times(turns, (observation.gradients[-1] + at_point) / scales)
        self._centers, self._roots = centers, np.linalg.inv(np.linalg.cholesky(precisions)).transpose(0, 2, 1)
        turns = turns * scales[:, None]
        self._turned_centers, self._turned_roots = _times(turns, centers), turns @ self._roots
        nodes, shares = normal_nodes()
        self._nodes, self._powers = nodes, shares[:, None] * nodes[:, None] ** np.arange(4)

    def coefficients(self, whitened: Floats) -> Floats:
        """Return coefficients of several draws for each of the moments, shape (n, n_draws, width)."""
        return np.asarray(self._centers[:, None] + whitened @ self._roots.transpose(0, 2, 1))

    def __call__(self, whitened: Floats) -> tuple[Floats, Floats]:
        """Return log densities and gradients for whitened coefficients of each of the moments, shape (n, width)."""
        value, by_prior = self._prior.log_density(self._centers + _times(self._roots, whitened))
        fit, by_rows = self._of_rows(self._turned_centers + _times(self._turned_roots, whitened))
        slopes = by_prior[:, None] @ self._roots + by_rows[:, None] @ self._turned_roots
        return value + fit, slopes[:, 0]

    def _of_rows(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return log densities of the gradient, and their slopes, in the coordinates of the rows."""
        n, means, variances = self._n, self._means, self._variances
        tilts = variances * beta  # the rows are means + u tilts + an independent rest, for predictors u
        sds = np.sqrt(np.maximum(_dot(tilts, beta), LEAST_VARIANCE))
        tilts /= sds
        outcomes = self._loss.moments(_dot(means, beta) + sds * self._nodes)
        mean, variance, curvature, variance_slope = (each @ self._powers for each in outcomes)  # times powers of u
        rest = self._rest - n * (mean[:, :1] * means + mean[:, 1:2] * tilts)
        # the covariance of the gradient is a diagonal + planes weights planes'
        diagonal = 1.0 + n * variance[:, :1] * variances
        planes = np.stack([means, tilts], axis=2)
        lowered = planes / diagonal[:, :, None]
        weights = n * np.stack(
            [variance[:, :2], np.stack([variance[:, 1], variance[:, 2] - variance[:, 0]], axis=1)], axis=1
        )
        excess = np.eye(2) + planes.transpose(0, 2, 1) @ lowered @ weights
        inverse, determinants = _invert(excess)
        gains = lowered @ weights @ inverse  # the inverse covariance is 1 / diagonal - gains lowered'

        def solve(values: Floats) -> Floats:
            return values / diagonal - _times(gains, _times(lowered.transpose(0, 2, 1), values))

        solved = solve(rest)
        value = -0.5 * (np.log(diagonal).sum(axis=1) + np.log(determinants) + (solved * rest).sum(axis=1))
        # slopes by the expected gradient, and by its covariance; the latter are (solved solved' - inverse) / 2
        pull = curvature[:, :1] * (variances * solved + _dot(means, solved) * means)
        pull += curvature[:, 1:2] * (_dot(tilts, solved) * means + _dot(means, solved) * tilts)
        pull += (curvature[:, 2:3] - curvature[:, :1]) * _dot(tilts, solved) * tilts
        by_means, by_tilts = (0.5 * (solved * _dot(solved, each) - solve(each)) for each in (means, tilts))
        levels, crosses, squares = _dot(means, by_means), _dot(means, by_tilts), _dot(tilts, by_tilts)
        inverse_diagonal = 1.0 / diagonal - (gains * lowered).sum(axis=2)
        levels += 0.5 * _dot(variances, solved**2 - inverse_diagonal) - squares
        flat, tilted, bent, cubic = (variance_slope[:, k, None] for k in range(4))
        pull += (levels * flat + 2.0 * crosses * tilted + squares * bent) * means
        pull += (levels * tilted + 2.0 * crosses * bent + squares * cubic) * tilts
        both = flat * by_means + tilted * by_tilts
        pull += 2.0 * (variances * both - _dot(tilts, both) * tilts)
        return value, n * pull


def _invert(pairs: Floats) -> tuple[Floats, Floats]:
    """Return the inverses of matrices, shape (n, 2, 2), and their determinants, without an error if one is singular."""
    determinants = pairs[:, 0, 0] * pairs[:, 1, 1] - pairs[:, 0, 1] * pairs[:, 1, 0]
    others = np.array([[1.0, -1.0], [-1.0, 1.0]]) * pairs[:, ::-1, ::-1].transpose(0, 2, 1)
    return others / determinants[:, None, None], determinants


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _dot(first: Floats, second: Floats) -> Floats:
    return np.asarray((first * second).sum(axis=1, keepdims=True))
