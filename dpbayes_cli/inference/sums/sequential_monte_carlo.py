"""Move populations of points from the prior to the posterior: raise the likelihood power step by step, and resample.

Source: Del Moral, Doucet and Jasra 2006, Sequential Monte Carlo samplers.
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers


def next_power(power: Floats, log_likelihood: Floats) -> Floats:
    """Return the largest likelihood power, at most 1, that leaves each population an effective size of at least half.

    Args:
        power: the current power of each population, shape (n_observations, 1).
        log_likelihood: shape (n_observations, size).
    """
    low, high = power.copy(), np.ones_like(power)
    relative = log_likelihood - log_likelihood.max(axis=1, keepdims=True)

    def effective_size(candidate: Floats) -> Floats:
        weights = np.exp((candidate - power) * relative)
        return np.asarray(weights.sum(axis=1, keepdims=True) ** 2 / (weights**2).sum(axis=1, keepdims=True))

    target = 0.5 * log_likelihood.shape[1]
    can_finish = effective_size(high) >= target
    for _ in range(30):
        middle = (low + high) / 2.0
        enough = effective_size(middle) >= target
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(can_finish, 1.0, np.maximum(low, power))


def distinct_share(points: Floats) -> float:
    """Return the smallest share of distinct points in a population, for shape (n_observations, size, d)."""
    first = np.sort(points[..., 0], axis=1)
    return float(((first[:, 1:] != first[:, :-1]).sum(axis=1) + 1).min() / first.shape[1])


def resample(weights: Floats, rng: np.random.Generator) -> Integers:
    """Draw indices by systematic resampling, in random order; indices and weights have shape (n_observations, size)."""
    size = weights.shape[1]
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    grid = (np.arange(size) + rng.random((len(weights), 1))) / size
    chosen = np.array([np.searchsorted(c, g) for c, g in zip(cumulative, grid, strict=True)])
    return rng.permuted(np.minimum(chosen, size - 1), axis=1)
