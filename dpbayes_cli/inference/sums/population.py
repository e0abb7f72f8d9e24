"""Move populations of points from the prior to the posterior, by raising the likelihood power and resampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


def next_power(power: Floats, log_likelihood: Floats) -> Floats:
    """Return the largest likelihood power, at most 1, at which half of a population's points remain effective."""
    low, high = power.copy(), np.ones_like(power)
    relative = log_likelihood - log_likelihood.max(axis=1, keepdims=True)

    def effective_size(candidate: Floats) -> Floats:
        weights = np.exp((candidate - power) * relative)
        return np.asarray(weights.sum(axis=1, keepdims=True) ** 2 / (weights**2).sum(axis=1, keepdims=True))

    target = 0.5 * log_likelihood.shape[1]
    done = effective_size(high) >= target
    for _ in range(30):
        middle = (low + high) / 2.0
        enough = effective_size(middle) >= target
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(done, 1.0, np.maximum(low, power))


def distinct_share(points: Floats) -> float:
    """Return the smallest share of distinct points in a population, given points of shape (n_observations, size, d)."""
    first = np.sort(points[..., 0], axis=1)
    return float(((first[:, 1:] != first[:, :-1]).sum(axis=1) + 1).min() / first.shape[1])


def resample(weights: Floats, rng: np.random.Generator) -> Integers:
    """Return indices drawn by systematic resampling, in random order, shape (n_observations, size)."""
    size = weights.shape[1]
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    grid = (np.arange(size) + rng.random((len(weights), 1))) / size
    chosen = np.array([np.searchsorted(c, g) for c, g in zip(cumulative, grid, strict=True)])
    return rng.permuted(np.minimum(chosen, size - 1), axis=1)
