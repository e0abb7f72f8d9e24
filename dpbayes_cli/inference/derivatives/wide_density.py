"""The log posterior density of the coefficients of a wide design given moments of the rows, and its gradient.

Given means and covariances of the rows x, the last gradient, which was taken at a point, is

    score + n E[x (mean(x'point) - mean(x'beta))] + noise,

up to signs, with a score of variance n E[variance(x'beta) x x'], which is integrated out. The rows are taken for
normal, so that x is normal given x'beta; an error of each entry of the expectation that is a tenth of it is allowed
for.

Source: derived here.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.feature_moments import LEAST_VARIANCE, FeatureMoments, normal_nodes
from dpbayes_cli.inference.derivatives.first_round import guess_count

_DISCREPANCY = 0.1
"""The standard deviation of the error of the normal law, in each entry of the expected change of the gradient between
the point and the coefficients, as a fraction of this change."""


class WideDensity:
    """The log density of coefficients for each of n possible moments, up to a constant.

    Coefficients are whitened: those of each of the moments are center + root @ z.
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
        self._moments, self._prior, self._loss = moments, prior, observation.loss
        self._n = guess_count(observation)
        self._gradient, self._noise = observation.gradients[-1], observation.gradient_sds[-1] ** 2
        point = np.broadcast_to(observation.points[-1], centers.shape)
        self._at_point = self._n * moments.sums(observation.loss, point)[0]
        self._products = moments.covariances + moments.means[:, :, None] * moments.means[:, None]
        nodes, shares = normal_nodes()
        self._nodes, self._powers = nodes, shares[:, None] * nodes[:, None] ** np.arange(4)
        self._centers, self._roots = centers, np.linalg.inv(np.linalg.cholesky(precisions)).transpose(0, 2, 1)

    def coefficients(self, whitened: Floats) -> Floats:
        """Return coefficients of several draws for each of the moments, shape (n, n_draws, width)."""
        return np.asarray(self._centers[:, None] + whitened @ self._roots.transpose(0, 2, 1))

    def __call__(self, whitened: Floats) -> tuple[Floats, Floats]:
        """Return log densities and gradients for whitened coefficients of each of the moments, shape (n, width)."""
        value, slopes = self._of_coefficients(self.coefficients(whitened[:, None])[:, 0])
        return value, (slopes[:, None] @ self._roots)[:, 0]

    def _of_coefficients(self, beta: Floats) -> tuple[Floats, Floats]:
        n, means, covariances = self._n, self._moments.means, self._moments.covariances
        value, slopes = self._prior.log_density(beta)
        tilts = _times(covariances, beta)  # the rows are means + u tilts + an independent rest, for predictors u
        sds = np.sqrt(np.maximum(_dot(tilts, beta), LEAST_VARIANCE))
        tilts /= sds
        outcomes = self._loss.moments(_dot(means, beta) + sds * self._nodes)
        mean, variance, curvature, variance_slope = (each @ self._powers for each in outcomes)  # times powers of u
        drift = self._at_point - n * (mean[:, :1] * means + mean[:, 1:2] * tilts)
        rest = self._gradient + drift
        # the covariance of the gradient
        crossed = (n * variance[:, 1:2] * means)[:, :, None] * tilts[:, None]
        total = (n * variance[:, 0])[:, None, None] * self._products + crossed + crossed.transpose(0, 2, 1)
        total += (n * (variance[:, 2:3] - variance[:, :1]) * tilts)[:, :, None] * tilts[:, None]
        diagonal = np.arange(len(self._gradient))
        total[:, diagonal, diagonal] += self._noise + _DISCREPANCY**2 * drift**2
        inverse = np.linalg.inv(total)
        solved = _times(inverse, rest)
        value -= 0.5 * np.linalg.slogdet(total)[1] + 0.5 * (solved * rest).sum(axis=1)
        # the slope of the value with respect to the expected gradient, and to its covariance
        by_total = 0.5 * (solved[:, :, None] * solved[:, None] - inverse)
        by_drift = solved - 2.0 * _DISCREPANCY**2 * drift * by_total[:, diagonal, diagonal]
        pull = curvature[:, :1] * _times(self._products, by_drift)
        pull += curvature[:, 1:2] * (_dot(tilts, by_drift) * means + _dot(means, by_drift) * tilts)
        pull += (curvature[:, 2:3] - curvature[:, :1]) * _dot(tilts, by_drift) * tilts
        by_means, by_tilts = _times(by_total, means), _times(by_total, tilts)
        levels, crosses, squares = _dot(means, by_means), _dot(means, by_tilts), _dot(tilts, by_tilts)
        levels += (by_total * covariances).sum(axis=(1, 2))[:, None] - squares
        flat, tilted, bent, cubic = (variance_slope[:, k, None] for k in range(4))
        pull += (levels * flat + 2.0 * crosses * tilted + squares * bent) * means
        pull += (levels * tilted + 2.0 * crosses * bent + squares * cubic) * tilts
        both = flat * by_means + tilted * by_tilts
        pull += 2.0 * (_times(covariances, both) - _dot(tilts, both) * tilts)
        return value, slopes + n * pull


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _dot(first: Floats, second: Floats) -> Floats:
    return np.asarray((first * second).sum(axis=1, keepdims=True))
