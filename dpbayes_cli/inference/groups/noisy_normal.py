"""The density of a normal variable plus noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.tabulated import exp_minus, scaled_erfc
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_LEAST_SD = 1e-7
"""The least standard deviation of the normal variable, in noise scales; smaller ones change nothing."""


def scaled_density(noise: NoiseLaw, residual: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return the density of a centered normal variable plus noise, divided by one factor for each first index.

    For discrete Laplace noise this is the closed form for continuous Laplace noise, and for discrete Gaussian noise
    that for normal noise. If log-probabilities of the noise have another form, Gauss-Hermite quadrature is used.

    Args:
        noise: the noise.
        residual: the observed value minus the mean of the normal variable, with at least two axes.
        sd: the standard deviation of the normal variable, of the same shape; it may be zero.

    Returns:
        The scaled density, elementwise, and the log of the factor, shape (len(residual),), up to a constant of the
        noise.
    """
    decay = noise.decay
    if decay is not None and decay.exact and decay.exponential:
        density = _normal_plus_laplace(np.abs(residual) * decay.linear, np.maximum(sd * decay.linear, _LEAST_SD))
        return density, np.zeros(len(residual))
    if decay is not None and decay.exact:
        variance = sd**2 + 0.5 / decay.quadratic
        log_density = -0.5 * (residual**2 / variance + np.log(variance))
    else:
        log_density = np.logaddexp.reduce(
            [
                noise.log_pmf(np.rint(residual - node * sd).astype(np.int64)) + math.log(weight)
                for node, weight in zip(_NODES, _WEIGHTS, strict=True)
            ]
        )
    largest = log_density.max(axis=tuple(range(1, log_density.ndim)), keepdims=True)
    return exp_minus(largest - log_density), np.asarray(largest.reshape(len(residual)))


def _normal_plus_laplace(away: Floats, spread: Floats) -> Floats:
    """Return the density at ``away`` >= 0 of a normal variable of standard deviation ``spread`` plus Laplace noise.

    Both are in units of the noise scale, and the density is multiplied by four.
    """
    wide = spread * math.sqrt(0.5)
    far = away / wide
    far *= 0.5
    near = wide - far
    is_tail = near < 0.0
    # erfcx(-x) = 2 exp(x^2) - erfcx(x)
    result = scaled_erfc(np.abs(near))
    np.negative(result, out=result, where=is_tail)
    result += scaled_erfc(wide + far)
    far *= far
    result *= exp_minus(far)
    wide *= wide
    tail = np.subtract(away, wide, out=wide)
    np.maximum(tail, 0.0, out=tail)
    tail = exp_minus(tail)
    tail *= 2.0
    tail *= is_tail
    result += tail
    return result
