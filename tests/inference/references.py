"""Brute-force references for the posterior of latent counts and of theta."""

from __future__ import annotations

import itertools
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from dpbayes_cli.core.problems import NoisyCounts


def log_weight(counts: tuple[int, ...], problem: NoisyCounts) -> float:
    """Return log p(counts, observed) up to a constant, term by term from the definition."""
    m, concentration = sum(counts), problem.concentration
    value = lgamma(m + 1) - lgamma(sum(concentration) + m)
    for count, prior, observed in zip(counts, concentration, problem.observed, strict=True):
        value += lgamma(prior + count) - lgamma(count + 1)
        if observed is not None:
            value += float(problem.noise.log_pmf(np.array([observed - count]))[0])
    return value


def enumerate_posterior(problem: NoisyCounts, largest: int) -> dict[tuple[int, ...], float]:
    """Return the exact posterior of the counts by enumerating all of them, each at most ``largest``."""
    n = problem.total.n
    kept = []
    for counts in itertools.product(range(largest + 1), repeat=len(problem.concentration)):
        m = sum(counts)
        if (problem.total.kind == "known" and m != n) or (problem.total.kind == "at-most" and m > n):
            continue
        kept.append((counts, log_weight(counts, problem)))
    top = max(value for _, value in kept)
    total = sum(np.exp(value - top) for _, value in kept)
    return {counts: float(np.exp(value - top) / total) for counts, value in kept}


def mean_theta(posterior: dict[tuple[int, ...], float], problem: NoisyCounts) -> NDArray[np.float64]:
    """Return the posterior mean of theta from the posterior of the counts."""
    prior = np.array(problem.concentration)
    means = [p * (prior + counts) / (prior.sum() + sum(counts)) for counts, p in posterior.items()]
    return np.asarray(np.sum(means, axis=0))
