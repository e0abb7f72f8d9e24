"""Posterior predictive distributions of a linear regression, which are mixtures of normal distributions.

For a record with features x, a draw (intercept, slopes, variance) predicts N(intercept + slopes' x, variance). The
predictive distribution is the mixture of these normal distributions with equal weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from dpbayes_cli.base.numeric import Floats

_BLOCK_PAIRS = 1 << 21
"""The number of pairs of a record and a draw in memory at a time."""
_QUANTILE_TOLERANCE = 1e-9
"""The search for a quantile ends when its step is smaller than this, in predictive standard deviations."""
_NEWTON_ONLY_STEPS, _MAX_STEPS = 8, 200


def predictive_intervals(draws: Floats, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Return the predictive means, standard deviations and quantiles of the target for new records.

    Args:
        draws: intercept, slopes in the order of the features, and the variance of the target given the features, shape
            (n_draws, n_features + 2); see ``LinearRegression.complete_draws``.
        features: the features in the units of the file, shape (n_records, n_features). All results for a record with a
            NaN are NaN.
        levels: the levels of the quantiles, in (0, 1); 0.05 and 0.95 give the central 90 % interval.

    Returns:
        Means and standard deviations, shape (n_records,), and quantiles, shape (n_records, n_levels), accurate to 1e-6
        standard deviations for the given draws.

    Raises:
        ValueError: the shapes do not fit, or a level is not between 0 and 1.
    """
    _check(draws, features)
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError("levels must be probabilities between 0 and 1")
    variance = draws[:, -1].mean()
    mean = features @ draws[:, 1:-1].mean(axis=0) + draws[:, 0].mean()
    sd = np.empty(len(features))
    quantiles = np.empty((len(features), len(levels)))
    for rows, centers in _blocks(draws, features):
        sd[rows] = np.sqrt(centers.var(axis=1) + variance)
        for k, level in enumerate(levels):
            quantiles[rows, k] = _quantile(centers, np.sqrt(draws[:, -1]), mean[rows], sd[rows], level)
    return mean, sd, quantiles


def log_predictive_densities(draws: Floats, features: Floats, targets: Floats) -> Floats:
    """Return the log predictive densities of targets, shape (n_records,).

    Targets are in the units of the file, shape (n_records,). For draws and features, and for errors, see
    ``predictive_intervals``.
    """
    _check(draws, features)
    log_densities, scale = np.empty(len(features)), np.sqrt(draws[:, -1])
    constant = np.log(scale) + 0.5 * math.log(2.0 * math.pi) + math.log(len(draws))
    for rows, centers in _blocks(draws, features):
        z = (targets[rows, None] - centers) / scale
        log_densities[rows] = logsumexp(-0.5 * z * z - constant, axis=1)
    return log_densities


def _check(draws: Floats, features: Floats) -> None:
    if draws.ndim != 2 or features.ndim != 2 or draws.shape[1] != features.shape[1] + 2 or not len(draws):
        raise ValueError(f"draws of shape {draws.shape} do not fit features of shape {features.shape}")


def _blocks(draws: Floats, features: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield slices of the records, with the mean of the target for each record and draw, shape (n_rows, n_draws)."""
    size = max(1, _BLOCK_PAIRS // len(draws))
    for start in range(0, len(features), size):
        rows = slice(start, start + size)
        yield rows, features[rows] @ draws[:, 1:-1].T + draws[:, 0]


def _quantile(centers: Floats, scale: Floats, mean: Floats, sd: Floats, level: float) -> Floats:
    """Return a quantile of mixtures of normal distributions, by Newton's method for all records at once.

    The quantile lies between the smallest and the largest quantile of the components. A Newton step that leaves this
    bracket is replaced by a bisection. After some steps, every third step is also a bisection, because Newton steps are
    short far out in a tail. Centers have shape (n_records, n_draws), scales (n_draws,), mean and sd (n_records,).
    """
    components = centers + float(ndtri(level)) * scale
    low, high = components.min(axis=1), components.max(axis=1)
    quantile = np.clip(mean + float(ndtri(level)) * sd, low, high)
    open_ = np.flatnonzero(np.isfinite(quantile))
    for i in range(_MAX_STEPS):
        z = (quantile[open_, None] - centers[open_]) / scale
        excess = ndtr(z).mean(axis=1) - level
        density = (np.exp(-0.5 * z * z) / scale).mean(axis=1) / math.sqrt(2.0 * math.pi)
        high[open_] = np.where(excess >= 0.0, quantile[open_], high[open_])
        low[open_] = np.where(excess <= 0.0, quantile[open_], low[open_])
        with np.errstate(all="ignore"):
            proposal = quantile[open_] - excess / density
        inside = (proposal > low[open_]) & (proposal < high[open_]) & (i < _NEWTON_ONLY_STEPS or i % 3 > 0)
        proposal = np.where(inside, proposal, 0.5 * (low[open_] + high[open_]))
        moved = np.abs(proposal - quantile[open_]) > _QUANTILE_TOLERANCE * sd[open_]
        quantile[open_] = proposal
        open_ = open_[moved]
        if not len(open_):
            break
    return np.asarray(quantile)
