"""The moments of the rows of a wide design, and sums over rows that are taken for normal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.eigen import eigh
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.design import Contrast
from dpbayes_cli.core.losses import CurvedLoss
from dpbayes_cli.core.noisy_observation import NoisyDerivatives
from dpbayes_cli.inference.derivatives.average_effects import average_effects
from dpbayes_cli.inference.derivatives.first_round import guess_count, noisy_moments

_NODES, _REACH = 97, 6.0
"""The number of equally spaced points for means over the linear predictor, and the last one in standard deviations; so
many, because means are steep functions of a predictor that varies much."""
LEAST_VARIANCE = 1e-12
"""The smallest variance of a predictor."""


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    """Possible moments of the rows of the design: means, shape (n, width), and covariances, shape (n, width, width)."""

    means: Floats
    covariances: Floats

    def sums(self, loss: CurvedLoss, beta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return means over the rows x of mean(x'beta) x, variance(x'beta) x x' and curvature(x'beta) x x'.

        The rows are taken for normal, so that x is normal given x'beta.

        Args:
            beta: coefficients for each of the moments, shape (n, width).

        Returns:
            Shapes (n, width), (n, width, width) and (n, width, width).
        """
        nodes, shares = normal_nodes()
        slopes = (self.covariances @ beta[:, :, None])[:, :, 0]
        sds = np.sqrt(np.maximum((slopes * beta).sum(axis=1), LEAST_VARIANCE))[:, None]
        slopes /= sds
        mean, variance, curvature, _ = loss.moments((self.means * beta).sum(axis=1)[:, None] + sds * nodes)
        products = self.covariances + self.means[:, :, None] * self.means[:, None]
        crossed = self.means[:, :, None] * slopes[:, None]
        crossed += crossed.transpose(0, 2, 1)

        def mean_products(values: Floats) -> Floats:
            flat, tilted, bent = ((values @ (shares * power))[:, None, None] for power in (1.0, nodes, nodes**2 - 1.0))
            return np.asarray(flat * products + tilted * crossed + bent * slopes[:, :, None] * slopes[:, None])

        by_mean, by_slope = (mean @ (shares * power) for power in (1.0, nodes))
        means = by_mean[:, None] * self.means + by_slope[:, None] * slopes
        return means, mean_products(variance), mean_products(curvature)

    def effects(self, loss: CurvedLoss, beta: Floats, contrasts: Sequence[Contrast]) -> dict[str, Floats]:
        """Return average effects, for coefficients for each of the moments, shape (n, width)."""
        nodes, shares = normal_nodes()
        slopes = (self.covariances @ beta[:, :, None])[:, :, 0]

        def mean_outcomes(columns: slice, instead: Floats) -> Floats:
            own, all_means = beta[:, columns], (self.means * beta).sum(axis=1)
            means = all_means - (self.means[:, columns] * own).sum(axis=1) + instead
            shared = 2.0 * slopes[:, columns] - (self.covariances[:, columns, columns] @ own[:, :, None])[:, :, 0]
            variances = (slopes * beta).sum(axis=1) - (shared * own).sum(axis=1)
            sds = np.sqrt(np.maximum(variances, LEAST_VARIANCE))
            return np.asarray(loss.mean(means[:, None] + sds[:, None] * nodes) @ shares)

        return average_effects(contrasts, beta, mean_outcomes)


def normal_nodes() -> tuple[Floats, Floats]:
    """Return equally spaced standard normal numbers and their probabilities."""
    nodes = np.linspace(-_REACH, _REACH, _NODES)
    shares = np.exp(-0.5 * nodes**2)
    return nodes, shares / shares.sum()


def feature_moments(observation: NoisyDerivatives, hessians: Floats) -> FeatureMoments:
    """Return the moments to which Hessians, shape (n, width, width), are proportional.

    The weight of all records, and the means, are products with the intercept or, without one, with the sum of a text's
    indicators. Without either, the means are taken for 0.
    """
    ones = observation.design.ones
    if ones.any():
        weights = np.maximum(ones @ hessians @ ones, observation.hessian_sds[0, 0])
        means = hessians @ ones / weights[:, None]
    else:
        first, _ = noisy_moments(observation, guess_count(observation))
        weights = np.trace(hessians, axis1=1, axis2=2) / max(float(np.trace(first)), LEAST_VARIANCE)
        means = np.zeros(hessians.shape[:2])
    covariances = hessians / weights[:, None, None] - means[:, :, None] * means[:, None]
    variances, vectors = eigh(covariances)
    variances = np.maximum(variances, 0.0)  # negative ones are errors
    return FeatureMoments(means, vectors @ (variances[:, :, None] * vectors.transpose(0, 2, 1)))
