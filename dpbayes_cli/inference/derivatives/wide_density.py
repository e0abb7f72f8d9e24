"""The log posterior density of the coefficients of a wide design given moments of the rows, and its gradient.

Given means and covariances of the rows x, the last gradient, which was taken at a point, is

    score + n E[x (mean(x'beta) - mean(x'point))] + noise,

with a score of variance n E[variance(x'beta) x x'], which is integrated out. The rows are taken for
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
        planes = np.stack([means, tilts], axis=2)
        weights = np.stack(
            [variance[:, :2], np.stack([variance[:, 1], variance[:, 2] - variance[:, 0]], axis=1)], axis=1
        )
        total = variance[:, 0, None, None] * covariances + planes @ weights @ planes.transpose(0, 2, 1)
        total *= n
        diagonal = np.arange(len(self._gradient))
        total[:, diagonal, diagonal] += self._noise + _DISCREPANCY**2 * drift**2
        inverse, log_determinants = _invert(total)
        solved = _times(inverse, rest)
        value -= 0.5 * log_determinants + 0.5 * (solved * rest).sum(axis=1)
        # slopes by the expected gradient, and by its covariance; the latter are (solved solved' - inverse) / 2
        by_drift = solved - _DISCREPANCY**2 * drift * (solved**2 - inverse[:, diagonal, diagonal])
        pull = curvature[:, :1] * (_times(covariances, by_drift) + _dot(means, by_drift) * means)
        pull += curvature[:, 1:2] * (_dot(tilts, by_drift) * means + _dot(means, by_drift) * tilts)
        pull += (curvature[:, 2:3] - curvature[:, :1]) * _dot(tilts, by_drift) * tilts
        by_means, by_tilts = (0.5 * (solved * _dot(solved, each) - _times(inverse, each)) for each in (means, tilts))
        levels, crosses, squares = _dot(means, by_means), _dot(means, by_tilts), _dot(tilts, by_tilts)
        levels += 0.5 * _dot(_times(covariances, solved), solved) - squares
        levels -= 0.5 * np.einsum("nij,nij->n", inverse, covariances)[:, None]
        flat, tilted, bent, cubic = (variance_slope[:, k, None] for k in range(4))
        pull += (levels * flat + 2.0 * crosses * tilted + squares * bent) * means
        pull += (levels * tilted + 2.0 * crosses * bent + squares * cubic) * tilts
        both = flat * by_means + tilted * by_tilts
        pull += 2.0 * (_times(covariances, both) - _dot(tilts, both) * tilts)
        return value, slopes + n * pull


def _invert(matrices: Floats) -> tuple[Floats, Floats]:
    """Return the inverses of positive definite matrices and the logs of their determinants, NaN for all others."""
    from scipy.linalg.lapack import dpotrf, dpotri

    inverses, logs = np.empty_like(matrices), np.empty(len(matrices))
    for i, matrix in enumerate(matrices):
        factor, failed = dpotrf(matrix.T, lower=1, clean=0)
        logs[i] = np.nan if failed else 2.0 * np.log(factor.diagonal()).sum()
        inverses[i] = dpotri(factor, lower=1, overwrite_c=1)[0]
    rows, columns = np.tril_indices(matrices.shape[1], -1)
    inverses[:, columns, rows] = inverses[:, rows, columns]
    return inverses, logs


def _times(matrices: Floats, vectors: Floats) -> Floats:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _dot(first: Floats, second: Floats) -> Floats:
    return np.asarray((first * second).sum(axis=1, keepdims=True))
