"""Convergence of Markov chains: rank-normalized split R-hat, bulk and tail effective sample sizes.

Source: Vehtari, Gelman, Simpson, Carpenter and Burkner 2021, "Rank-normalization, folding, and localization".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats, Integers

_CONVERGED_R_HAT = 1.01


def r_hat(draws: Floats) -> float:
    """Return the rank-normalized split R-hat, the larger of the bulk's and the folded draws'.

    Args:
        draws: one scalar, shape (chains, draws), at least four draws a chain.
    """
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(_rank_normalized(halves)), _plain_r_hat(_rank_normalized(folded)))


def ess_bulk(draws: Floats) -> float:
    """Return the effective sample size for the center of the law; shape (chains, draws)."""
    return _ess(_rank_normalized(_split(draws)))


def ess_tail(draws: Floats) -> float:
    """Return the effective sample size for the tails: the smaller of those of the 5 % and 95 % indicators."""
    halves = _split(draws)
    return min(_ess((halves <= np.quantile(halves, p)).astype(float)) for p in (0.05, 0.95))


def ranks(draws: Floats) -> Floats:
    """Return the rank of each draw among those of all chains, from 1; equal draws share their mean rank."""
    _, inverse, counts = np.unique(draws, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2.0
    return np.asarray(mean_rank[inverse.reshape(draws.shape)])


def rank_counts(draws: Floats, n_bins: int) -> Integers:
    """Return how many ranks of each chain fall into equal bins of all ranks: even rows are what mixed chains show.

    Args:
        draws: one scalar, shape (chains, draws).
        n_bins: how many bins.

    Returns:
        Counts, shape (chains, n_bins).
    """
    edges = np.linspace(0.0, draws.size, n_bins + 1) + 0.5
    return np.array([np.histogram(chain, edges)[0] for chain in ranks(draws)])


def ks_distance(probabilities: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of draws from a law, given the law's CDF at the sorted draws."""
    n = len(probabilities)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - probabilities).max(), (probabilities - steps[:-1]).max()))


def converged(worst_r_hat: float) -> bool:
    """Return whether a run may be called converged."""
    return worst_r_hat <= _CONVERGED_R_HAT


def _split(draws: Floats) -> Floats:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _rank_normalized(draws: Floats) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri((ranks(draws) - 0.375) / (draws.size + 0.25)))


def _plain_r_hat(draws: Floats) -> float:
    n = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean()
    if within == 0:
        return 1.0 if np.ptp(draws) == 0 else float("inf")
    between = n * draws.mean(axis=1).var(ddof=1)
    return float(np.sqrt(((n - 1) / n * within + between / n) / within))


def _ess(draws: Floats) -> float:
    """Return the effective sample size by Geyer's initial monotone sequence over all chains."""
    chains, n = draws.shape
    if np.ptp(draws) == 0:
        return float(draws.size)
    centered = draws - draws.mean(axis=1, keepdims=True)
    padded = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centered, padded, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, padded, axis=1)[:, :n] / n
    within = float(covariance[:, 0].mean()) * n / (n - 1)
    total = within * (n - 1) / n + (float(draws.mean(axis=1).var(ddof=1)) if chains > 1 else 0.0)
    correlation = 1.0 - (within - covariance.mean(axis=0)) / total
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = pairs[: int(negative[0])] if negative.size else pairs
    time = max(-1.0 + 2.0 * float(np.minimum.accumulate(pairs).sum()), 1.0 / np.log10(draws.size))
    return float(draws.size / time)
