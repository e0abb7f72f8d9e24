"""Brute-force references for the posterior of latent counts and of theta."""

from __future__ import annotations

import itertools
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from dpbayes_cli.core.noisy_observation import NoisyCounts


def log_weight(counts: tuple[int, ...], observation: NoisyCounts) -> float:
    """Return log p(counts, observed) up to a constant, term by term from the definition."""
    m, concentration = sum(counts), observation.concentration
    value = lgamma(m + 1) - lgamma(sum(concentration) + m)
    for count, prior, observed in zip(counts, concentration, observation.observed, strict=True):
        value += lgamma(prior + count) - lgamma(count + 1)
        if observed is not None:
            value += float(observation.noise.log_pmf(np.array([observed - count]))[0])
    return value


def enumerate_posterior(observation: NoisyCounts, largest: int) -> dict[tuple[int, ...], float]:
    """Return the exact posterior of the counts by enumerating all of them, each at most ``largest``."""
    n = observation.total.n
    kept = []
    for counts in itertools.product(range(largest + 1), repeat=len(observation.concentration)):
        m = sum(counts)
        if (observation.total.kind == "known" and m != n) or (observation.total.kind == "at-most" and m > n):
            continue
        kept.append((counts, log_weight(counts, observation)))
    top = max(value for _, value in kept)
    total = sum(np.exp(value - top) for _, value in kept)
    return {counts: float(np.exp(value - top) / total) for counts, value in kept}


def mean_theta(posterior: dict[tuple[int, ...], float], observation: NoisyCounts) -> NDArray[np.float64]:
    """Return the posterior mean of theta from the posterior of the counts."""
    prior = np.array(observation.concentration)
    means = [p * (prior + counts) / (prior.sum() + sum(counts)) for counts, p in posterior.items()]
    return np.asarray(np.sum(means, axis=0))
