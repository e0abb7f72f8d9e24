"""Diagnostics of Markov chains: rank-normalized split R-hat, effective sample sizes, and tests of agreement.

Source: Vehtari, Gelman, Simpson, Carpenter and Burkner 2021, "Rank-normalization, folding, and localization"; for the
tests of agreement see ``convergence``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers

TESTS = 4
"""The number of tests of each quantity: location and spread are compared between chains and between halves."""
_BATCH_SIZE = 64
"""The number of scalars diagnosed at once, which bounds the memory."""
_EXCESS_DRAWS = 4.0
"""The effective draws of each chain are overestimated by this many, because autocovariances about the chain's own
mean are too small. The excess is 3 to 5 in simulations of AR(1) chains with correlations from 0.3 to 0.9."""
_DRAWS_PER_DEGREE_OF_FREEDOM = 6.0
"""The variance of a chain's mean is estimated from about six autocovariances. With n effective draws the relative
variance of this estimate is about 12 / n, that of a chi-square variable with n / 6 degrees of freedom."""


class Diagnosis(NamedTuple):
    """The diagnostics of k scalars, each of shape (k,).

    Attributes:
        r_hat: the larger of the values for the draws and for their absolute deviations from the median; the latter
            detects chains of different spread.
        ess_bulk: the effective sample size of the normal scores of the draws.
        ess_tail: the smaller of the effective sample sizes for the indicators that a draw is at most the 5 % and the
            95 % quantile.
        ess_within: the effective sample size of the normal scores, from the autocorrelation within chains alone.
        p_value: the smallest p-value of the ``TESTS`` tests of agreement, not adjusted for their number.
    """

    r_hat: Floats
    ess_bulk: Floats
    ess_tail: Floats
    ess_within: Floats
    p_value: Floats


def diagnose(draws: Floats) -> Diagnosis:
    """Return the diagnostics of k scalars, given draws of shape (chains, n_draws, k); n_draws must be at least 4."""
    batches = [_diagnose_batch(draws[:, :, i : i + _BATCH_SIZE]) for i in range(0, draws.shape[2], _BATCH_SIZE)]
    return Diagnosis(*(np.concatenate(values) for values in zip(*batches, strict=True)))


def within_freedom(ess: Floats | float) -> Floats:
    """Return the degrees of freedom of the estimated variance of a chain's mean, given the effective sample size."""
    return np.asarray(np.maximum(ess / _DRAWS_PER_DEGREE_OF_FREEDOM, 1.0))


def rank_counts(draws: Floats, n_bins: int) -> Integers:
    """Return the rank histogram of each chain, shape (chains, n_bins).

    The draws of a scalar have shape (chains, n_draws). Each draw is ranked among the draws of all chains. Chains that
    mix well have flat histograms.
    """
    edges = np.linspace(0.0, draws.size, n_bins + 1) + 0.5
    ranks = _ranks(draws.reshape(1, -1)).reshape(draws.shape)
    return np.array([np.histogram(chain, edges)[0] for chain in ranks])


def ks_distance(probabilities: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of draws from a distribution, given its CDF at the sorted draws."""
    n = len(probabilities)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - probabilities).max(), (probabilities - steps[:-1]).max()))


def _ranks(rows: Floats) -> Floats:
    """Return the ranks of the values in each row, from 1; equal values share the mean of theirs."""
    places = np.arange(rows.shape[1])
    ranks = np.empty(rows.shape)
    for row, order, out in zip(rows, np.argsort(rows, axis=1), ranks, strict=True):
        rises = np.concatenate([[True], np.diff(row[order]) > 0.0])
        first = places[rises]
        last = np.append(first[1:], len(row)) - 1
        out[order] = ((first + last) / 2.0 + 1.0)[np.cumsum(rises) - 1]
    return ranks


def _diagnose_batch(draws: Floats) -> Diagnosis:
    from scipy.special import ndtri

    half = draws.shape[1] // 2
    halves = np.ascontiguousarray(np.concatenate([draws[:, :half], draws[:, -half:]]).transpose(2, 0, 1))
    flat = halves.reshape(len(halves), -1)
    deviations = np.abs(flat - np.median(flat, axis=1, keepdims=True))
    scores = [
        ndtri((_ranks(values) - 0.375) / (flat.shape[1] + 0.25)).reshape(halves.shape) for values in (flat, deviations)
    ]
    worst = np.maximum(*map(_plain_r_hats, scores))
    cuts = np.quantile(flat, (0.05, 0.95), axis=1)[..., None, None]
    tails = [_ess_of_rows((halves <= cut).astype(np.float64)) for cut in cuts]
    (ess_within, p_location), (_, p_spread) = map(_compare_chains, scores)
    return Diagnosis(worst, _ess_of_rows(scores[0]), np.minimum(*tails), ess_within, np.minimum(p_location, p_spread))


def _compare_chains(halves: Floats) -> tuple[Floats, Floats]:
    """Return the effective sample size within chains, and the smaller p-value of the two F tests of equal means.

    Args:
        halves: the first halves of all chains, then the second halves, shape (k, 2 * chains, n_draws).
    """
    from scipy.special import fdtrc

    first, second = np.split(halves, 2, axis=1)
    draws = np.concatenate([first, second], axis=2)
    chains, means = draws.shape[1], draws.mean(axis=2)
    variance = draws.var(axis=2, ddof=1).mean(axis=1)
    ess = np.maximum(_ess_of_rows(draws - means[:, :, None]) - _EXCESS_DRAWS * chains, 1.0)
    between = ess / chains * means.var(axis=1, ddof=1) if chains > 1 else np.zeros(len(ess))
    drift = ess / 4.0 * (second.mean(axis=(1, 2)) - first.mean(axis=(1, 2))) ** 2
    freedom = within_freedom(ess)
    divisor = np.where(variance > 0.0, variance, 1.0)
    p_values = np.minimum(fdtrc(max(chains - 1, 1), freedom, between / divisor), fdtrc(1, freedom, drift / divisor))
    stuck = np.where(np.ptp(draws, axis=(1, 2)) == 0.0, 1.0, 0.0)
    return ess, np.where(variance > 0.0, p_values, stuck)


def _plain_r_hats(draws: Floats) -> Floats:
    """Return R-hat without rank normalization, given draws of shape (k, chains, n_draws)."""
    n = draws.shape[2]
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    between = n * draws.mean(axis=2).var(axis=1, ddof=1)
    stuck = np.where(np.ptp(draws, axis=(1, 2)) == 0.0, 1.0, np.inf)
    varied = np.where(within > 0.0, within, 1.0)
    return np.where(within > 0.0, np.sqrt(((n - 1) / n * within + between / n) / varied), stuck)


def _ess_of_rows(draws: Floats) -> Floats:
    """Return effective sample sizes by Geyer's initial monotone sequence, given draws of shape (k, chains, n_draws)."""
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
