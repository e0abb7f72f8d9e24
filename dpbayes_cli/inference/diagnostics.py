"""Convergence of Markov chains: rank-normalized split R-hat, bulk and tail effective sample sizes.

Source: Vehtari, Gelman, Simpson, Carpenter and Burkner 2021, "Rank-normalization, folding, and localization".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

CONVERGED_R_HAT = 1.01
_BATCH_SIZE = 64
"""Scalars diagnosed at once, which bounds the memory."""


def r_hat(draws: Floats) -> float:
    """Return the rank-normalized split R-hat: the larger of that for the draws and that for the folded draws.

    Args:
        draws: one scalar, shape (chains, draws), at least four draws a chain.
    """
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(_rank_normalized(halves)), _plain_r_hat(_rank_normalized(folded)))


def ess_bulk(draws: Floats) -> float:
    """Return the bulk effective sample size of one scalar, shape (chains, draws)."""
    return _ess(_rank_normalized(_split(draws)))


def ess_tail(draws: Floats) -> float:
    """Return the tail effective sample size: the smaller one of the indicators of the 5 % and the 95 % quantile."""
    halves = _split(draws)
    return min(_ess((halves <= np.quantile(halves, p)).astype(float)) for p in (0.05, 0.95))


def diagnose(draws: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ``r_hat``, ``ess_bulk`` and ``ess_tail`` of many scalars at once.

    Args:
        draws: shape (chains, draws, k), at least four draws a chain.

    Returns:
        Three arrays of shape (k,).
    """
    batches = [_diagnose_batch(draws[:, :, i : i + _BATCH_SIZE]) for i in range(0, draws.shape[2], _BATCH_SIZE)]
    r_hats, bulk, tail = (np.concatenate(values) for values in zip(*batches, strict=True))
    return r_hats, bulk, tail


def ranks(draws: Floats) -> Floats:
    """Return the rank of each draw among those of all chains, from 1; equal draws share their mean rank."""
    _, inverse, counts = np.unique(draws, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2.0
    return np.asarray(mean_rank[inverse.reshape(draws.shape)])


def rank_counts(draws: Floats, n_bins: int) -> Integers:
    """Return how many ranks of each chain fall into equal bins of all ranks; well-mixed chains have even rows.

    Args:
        draws: one scalar, shape (chains, draws).
        n_bins: how many bins.

    Returns:
        Counts, shape (chains, n_bins).
    """
    edges = np.linspace(0.0, draws.size, n_bins + 1) + 0.5
    return np.array([np.histogram(chain, edges)[0] for chain in ranks(draws)])


def ks_distance(probabilities: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of draws from a distribution, given its CDF at the sorted draws."""
    n = len(probabilities)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - probabilities).max(), (probabilities - steps[:-1]).max()))


def has_converged(worst_r_hat: float) -> bool:
    """Return whether chains with this largest R-hat count as converged."""
    return worst_r_hat <= CONVERGED_R_HAT


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


def _diagnose_batch(draws: Floats) -> tuple[Floats, Floats, Floats]:
    from scipy.special import ndtri

    halves = np.ascontiguousarray(_split(draws).transpose(2, 0, 1))
    flat = halves.reshape(len(halves), -1)
    scores = []
    for values in (flat, np.abs(flat - np.median(flat, axis=1, keepdims=True))):
        scores.append(ndtri((_ranks_of_rows(values) - 0.375) / (flat.shape[1] + 0.25)).reshape(halves.shape))
    worst = np.maximum(_plain_r_hats(scores[0]), _plain_r_hats(scores[1]))
    cuts = np.quantile(flat, (0.05, 0.95), axis=1)[..., None, None]
    tails = [_ess_of_rows((halves <= cut).astype(np.float64)) for cut in cuts]
    return worst, _ess_of_rows(scores[0]), np.minimum(*tails)


def _ranks_of_rows(values: Floats) -> Floats:
    """Return the ranks within each row, from 1; equal values share their mean rank."""
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)
    n = values.shape[1]
    position = np.arange(n)
    starts_tie = np.ones(values.shape, dtype=bool)
    starts_tie[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    first = np.maximum.accumulate(np.where(starts_tie, position, 0), axis=1)
    ends_tie = np.ones(values.shape, dtype=bool)
    ends_tie[:, :-1] = starts_tie[:, 1:]
    last = np.minimum.accumulate(np.where(ends_tie, position, n)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2.0 + 1.0, axis=1)
    return ranks


def _plain_r_hats(draws: Floats) -> Floats:
    """Return ``_plain_r_hat`` of every scalar; shape (k, chains, draws)."""
    n = draws.shape[2]
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    between = n * draws.mean(axis=2).var(axis=1, ddof=1)
    stuck = np.where(np.ptp(draws, axis=(1, 2)) == 0.0, 1.0, np.inf)
    varied = np.where(within > 0.0, within, 1.0)
    return np.where(within > 0.0, np.sqrt(((n - 1) / n * within + between / n) / varied), stuck)


def _ess_of_rows(draws: Floats) -> Floats:
    """Return ``_ess`` of every scalar; shape (k, chains, draws)."""
    _, chains, n = draws.shape
    size = float(chains * n)
    centered = draws - draws.mean(axis=2, keepdims=True)
    padded = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centered, padded, axis=2)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=1), padded, axis=1)[:, :n] / n
    within = covariance[:, :1] * n / (n - 1)
    total = within * (n - 1) / n
    if chains > 1:
        total = total + draws.mean(axis=2).var(axis=1, ddof=1)[:, None]
    constant = np.ptp(draws, axis=(1, 2)) == 0.0
    correlation = 1.0 - (within - covariance) / np.where(constant[:, None], 1.0, total)
    correlation[:, 0] = 1.0
    pairs = correlation[:, : n - n % 2].reshape(len(draws), -1, 2).sum(axis=2)
    before = np.logical_and.accumulate(pairs >= 0.0, axis=1)
    sums = np.where(before, np.minimum.accumulate(pairs, axis=1), 0.0).sum(axis=1)
    time = np.maximum(-1.0 + 2.0 * sums, 1.0 / np.log10(size))
    return np.where(constant, size, size / time)
