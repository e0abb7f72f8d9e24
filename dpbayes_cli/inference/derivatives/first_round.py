"""What the first round tells about the records: their number, and the moments of the columns of the design.

At the first point every record has the same predictor, so that the Hessian is the curvature of a record times the sum
of the products of its columns.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.noisy_observation import NoisyDerivatives

_TYPICAL_VARIANCE, _TYPICAL_ERROR = 0.16, 0.1
"""The guess of a number's variance where the noise hides it, and the standard deviation of the error of this guess.
Before the release, the square of a mean is taken for as large."""
_LEAST_WEIGHT = 0.1
"""The smallest share of complete records that is believed."""


def guess_count(observation: NoisyDerivatives) -> float:
    """Return a guess of the number of records, at least 10."""
    total, design, hessian = observation.total, observation.design, observation.hessians[0]
    if total.kind == "known":
        return float(total.n)
    records = float(hessian[0, 0] if design.intercept else np.trace(hessian) / design.radius**2)
    records /= _curvature(observation)
    return max(records if total.kind == "unbounded" else min(records, float(total.n)), 10.0)


def noisy_moments(observation: NoisyDerivatives, n: float) -> tuple[Floats, float]:
    """Return noisy means of products of columns, shape (width, width), and the standard deviation on the diagonal.

    Args:
        n: the number of records.
    """
    curvature = n * _curvature(observation)
    return observation.hessians[0] / curvature, float(observation.hessian_sds[0, 0]) / curvature


def noise_on_spreads(observation: NoisyDerivatives, n: float) -> float:
    """Return how uncertain the first round leaves how widely numbers vary, for a number of records.

    It is the standard deviation of the eigenvalues of the noise on mean products of columns. The variance of a number,
    scaled to [-1, 1], is often about 0.1.
    """
    return noisy_moments(observation, n)[1] * float(observation.design.width**0.5)


def without_data(prior: CoefficientLaw) -> CoefficientLaw:
    """Return the prior for guesses of means and standard deviations without any data."""
    typical = np.full(len(prior.means), _TYPICAL_VARIANCE)
    return prior.at(np.sqrt(typical), 2.0 * typical)


def prior_at_guesses(observation: NoisyDerivatives) -> CoefficientLaw:
    """Return the prior for guesses of the means and the standard deviations of the columns."""
    moments, error = noisy_moments(observation, guess_count(observation))
    ones = observation.design.ones
    means = np.clip(moments @ ones / max(float(ones @ moments @ ones), _LEAST_WEIGHT), -1.0, 1.0)
    trust = 1.0 / (1.0 + (error / _TYPICAL_ERROR) ** 2)
    variances = _TYPICAL_VARIANCE + trust * (np.diag(moments) - means**2 - _TYPICAL_VARIANCE)
    means /= 1.0 + error**2 / _TYPICAL_VARIANCE
    return observation.prior.at(means, means**2 + np.clip(variances, 0.0, 1.0))


def _curvature(observation: NoisyDerivatives) -> float:
    return float(observation.loss.curvature(observation.points[0].sum(keepdims=True))[0])
