"""A normal variable plus noise: its density, and what it says of the normal variable."""

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
_LEAST = 1e-300


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
        first, second, _ = _normal_plus_laplace(np.abs(residual) * decay.linear, _spread(sd, decay.linear))
        first += second
        return first, np.zeros(len(residual))
    if decay is not None and decay.exact:
        variance = sd**2 + 0.5 / decay.quadratic
        log_density = -0.5 * (residual**2 / variance + np.log(variance))
    else:
        log_density = np.logaddexp.reduce(_log_terms(noise, residual, sd))
    largest = log_density.max(axis=tuple(range(1, log_density.ndim)), keepdims=True)
    return exp_minus(largest - log_density), np.asarray(largest.reshape(len(residual)))


def normal_given_sum(noise: NoiseLaw, residual: Floats, sd: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the scaled density of a centered normal variable plus noise, and what the sum says of the variable.

    For Laplace noise these are Tweedie's formulas: the mean is -sd^2 (log f)', and the variance sd^2 (1 + sd^2 (log
    f)''), if f is the density of the sum.

    Args:
        noise, residual, sd: see ``scaled_density``.

    Returns:
        What ``scaled_density`` returns, the mean of the variable given the sum, and its variance given the sum divided
        by its variance before, elementwise.
    """
    decay = noise.decay
    if decay is not None and decay.exact and decay.exponential:
        spread = _spread(sd, decay.linear)
        first, second, bell = _normal_plus_laplace(np.abs(residual) * decay.linear, spread)
        density = first + second
        floor = np.maximum(density, _LEAST)
        slope = (first - second) / floor
        share = 1.0 + spread**2 * (1.0 - slope**2) - math.sqrt(8.0 / math.pi) * spread * bell / floor
        mean = -np.sign(residual) * sd * spread * slope
        return density, np.zeros(len(residual)), mean, np.clip(share, 0.0, 1.0)
    density, factors = scaled_density(noise, residual, sd)
    if decay is not None and decay.exact:
        known = sd**2 / (sd**2 + 0.5 / decay.quadratic)
        return density, factors, residual * known, 1.0 - known
    terms = _log_terms(noise, residual, sd)
    weights = exp_minus(terms.max(axis=0) - terms)
    mean, square = (np.tensordot(_NODES**power, weights, 1) / weights.sum(axis=0) for power in (1, 2))
    return density, factors, sd * mean, np.clip(square - mean**2, 0.0, 1.0)


def _spread(sd: Floats, per_scale: float) -> Floats:
    return np.asarray(np.maximum(sd * per_scale, _LEAST_SD))


def _log_terms(noise: NoiseLaw, residual: Floats, sd: Floats) -> Floats:
    """Return the logs of the terms of the quadrature over the normal variable, along a new first axis."""
    return np.array(
        [
            noise.log_pmf(np.rint(residual - node * sd).astype(np.int64)) + math.log(weight)
            for node, weight in zip(_NODES, _WEIGHTS, strict=True)
        ]
    )


def _normal_plus_laplace(away: Floats, spread: Floats) -> tuple[Floats, Floats, Floats]:
    """Return both parts of the density of a normal variable plus Laplace noise, and its exponential factor.

    All are in units of the noise scale, and the density is multiplied by four. The first part grows with ``away`` as
    exp(away) times a tail probability of the normal variable, the second falls as exp(-away) times one.

    Args:
        away: the places, not negative.
        spread: the standard deviation of the normal variable.
    """
    wide = spread * math.sqrt(0.5)
    far = away / wide
    far *= 0.5
    near = wide - far
    is_tail = near < 0.0
    first, second = scaled_erfc(wide + far), scaled_erfc(np.abs(near))
    far *= far
    bell = exp_minus(far)
    first *= bell
    second *= bell
    # erfcx(-x) = 2 exp(x^2) - erfcx(x)
    np.negative(second, out=second, where=is_tail)
    wide *= wide
    tail = np.subtract(away, wide, out=wide)
    np.maximum(tail, 0.0, out=tail)
    tail = exp_minus(tail)
    tail *= 2.0
    tail *= is_tail
    second += tail
    return first, second, bell
