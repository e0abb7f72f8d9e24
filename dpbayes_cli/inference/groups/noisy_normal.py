"""The density of a normal variable plus noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_LEAST_SD = 1e-7
"""The least standard deviation of the normal variable, in noise scales; smaller ones change nothing."""


def log_density(noise: NoiseLaw, residual: Floats, sd: Floats) -> Floats:
    """Return the log density, elementwise, of a centered normal variable plus noise.

    For discrete Laplace noise this is the closed form for continuous Laplace noise, and for discrete Gaussian noise
    that for normal noise. If log-probabilities of the noise have another form, Gauss-Hermite quadrature is used.

    Args:
        noise: the noise.
        residual: the observed value minus the mean of the normal variable.
        sd: the standard deviation of the normal variable; it may be zero.
    """
    decay = noise.decay
    if decay is None or not decay.exact:
        log_terms = [
            noise.log_pmf(np.rint(residual - node * sd).astype(np.int64)) + math.log(weight)
            for node, weight in zip(_NODES, _WEIGHTS, strict=True)
        ]
        return np.asarray(np.logaddexp.reduce(log_terms) - 0.5 * math.log(2.0 * math.pi))
    if not decay.exponential:
        variance = sd**2 + 0.5 / decay.quadratic
        return np.asarray(-0.5 * (residual**2 / variance + np.log(2.0 * np.pi * variance)))
    spread = np.maximum(sd * decay.linear, _LEAST_SD)
    away = np.abs(residual) * decay.linear
    near = log_ndtr(away / spread - spread) - away
    far = log_ndtr(-away / spread - spread) + away
    return np.asarray(0.5 * spread**2 + np.logaddexp(near, far) + math.log(decay.linear / 2.0))
