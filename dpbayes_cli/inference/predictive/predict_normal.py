"""What a posterior of a linear regression says about new targets: a mixture over draws of normal laws.

Of a record with features x a draw (intercept, slopes, variance) makes N(intercept + slopes' x, variance); its law given
the posterior is their mixture in equal parts. Its distribution function is a mean of normal ones, and its quantiles are
found by Newton's method between the smallest and the largest quantile of the parts, for all records at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_BLOCK = 1 << 21
"""Pairs of a record and a draw that are held at once."""
_TOLERANCE = 1e-9
"""Steps of quantiles below this, in predictive standard deviations, end the search."""
_PATIENCE, _MOST_STEPS = 8, 200


def predictive_intervals(draws: Floats, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Return mean, standard deviation and quantiles of the target of new records.

    Args:
        draws: intercept, slopes in the order of the features, and the variance of the target given the features, shape
            (n_draws, n_features + 2); see ``LinearRegression.complete_draws``.
        features: in the units of the file, shape (n_records, n_features). A record with a NaN has NaN in all answers.
        levels: probabilities of (0, 1): 0.05 and 0.95 are the ends of the central 90 % interval.

    Returns:
        Means and standard deviations, shape (n_records,), and quantiles, shape (n_records, n_levels), exact to 1e-6
        standard deviations for the given draws.

    Raises:
        ValueError: the shapes do not fit, or a level is not between 0 and 1.
    """
    _check(draws, features)
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError("levels are probabilities between 0 and 1")
    variance = draws[:, -1].mean()
    mean = features @ draws[:, 1:-1].mean(axis=0) + draws[:, 0].mean()
    sd = np.empty(len(features))
    quantiles = np.empty((len(features), len(levels)))
    for rows, centres in _blocks(draws, features):
        sd[rows] = np.sqrt(centres.var(axis=1) + variance)
        for k, level in enumerate(levels):
            quantiles[rows, k] = _quantile(centres, np.sqrt(draws[:, -1]), mean[rows], sd[rows], level)
    return mean, sd, quantiles


def log_predictive_densities(draws: Floats, features: Floats, targets: Floats) -> Floats:
    """Return the log predictive densities of observed targets, in the units of the file, shape (n_records,).

    The arguments are those of ``predictive_intervals``, and the observed targets, shape (n_records,).
    """
    _check(draws, features)
    found, scale = np.empty(len(features)), np.sqrt(draws[:, -1])
    constant = np.log(scale) + 0.5 * math.log(2.0 * math.pi) + math.log(len(draws))
    for rows, centres in _blocks(draws, features):
        away = (targets[rows, None] - centres) / scale
        found[rows] = logsumexp(-0.5 * away * away - constant, axis=1)
    return found


def _check(draws: Floats, features: Floats) -> None:
    if draws.ndim != 2 or features.ndim != 2 or draws.shape[1] != features.shape[1] + 2 or not len(draws):
        raise ValueError(f"draws of shape {draws.shape} do not fit features of shape {features.shape}")


def _blocks(draws: Floats, features: Floats) -> Iterator[tuple[slice, Floats]]:
    """Return some records at a time, with the means of their targets, shape (n_some, n_draws)."""
    size = max(1, _BLOCK // len(draws))
    for start in range(0, len(features), size):
        rows = slice(start, start + size)
        yield rows, features[rows] @ draws[:, 1:-1].T + draws[:, 0]


def _quantile(centres: Floats, scale: Floats, mean: Floats, sd: Floats, level: float) -> Floats:
    """Return a quantile of mixtures of normal laws, shape (n_records,).

    A part's quantile of the same level is z scales from its centre, so that the mixture's lies between the smallest and
    the largest of these. Newton's steps that leave the bracket are replaced by its middle, and every
    third of many, for far out in a tail they are short.

    Args:
        centres: shape (n_records, n_draws).
        scale: shape (n_draws,).
        mean, sd: of the mixtures, shape (n_records,).
        level: a probability.
    """
    parts = centres + float(ndtri(level)) * scale
    low, high = parts.min(axis=1), parts.max(axis=1)
    found = np.clip(mean + float(ndtri(level)) * sd, low, high)
    open_ = np.flatnonzero(np.isfinite(found))
    for i in range(_MOST_STEPS):
        away = (found[open_, None] - centres[open_]) / scale
        excess = ndtr(away).mean(axis=1) - level
        density = (np.exp(-0.5 * away * away) / scale).mean(axis=1) / math.sqrt(2.0 * math.pi)
        high[open_] = np.where(excess >= 0.0, found[open_], high[open_])
        low[open_] = np.where(excess <= 0.0, found[open_], low[open_])
        with np.errstate(all="ignore"):
            following = found[open_] - excess / density
        inside = (following > low[open_]) & (following < high[open_]) & (i < _PATIENCE or i % 3 > 0)
        following = np.where(inside, following, 0.5 * (low[open_] + high[open_]))
        moved = np.abs(following - found[open_]) > _TOLERANCE * sd[open_]
        found[open_] = following
        open_ = open_[moved]
        if not len(open_):
            break
    return np.asarray(found)
