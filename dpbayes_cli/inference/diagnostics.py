"""Diagnostics of Markov chains: rank-normalized split R-hat, effective sample sizes, and tests of agreement.

Source: Vehtari, Gelman, Simpson, Carpenter and Burkner 2021, "Rank-normalization, folding, and localization"; for the
tests of agreement see ``convergence``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

TESTS = 4
"""The tests of agreement of each quantity: between chains and between halves, of place and of spread."""
_BATCH_SIZE = 64
"""The number of scalars diagnosed at once, which bounds the memory."""
_LOST_DRAWS = 4.0
"""Autocovariances about a chain's own mean are too small, so the effective draws of each chain are overestimated. In
simulations of AR(1) chains with correlations from 0.3 to 0.9 the excess is 3 to 5 draws per chain."""
_DRAWS_PER_FREEDOM = 6.0
"""The variance of a chain's mean is estimated from sums of about six autocovariances, so that its relative variance is
about 12 / effective draws, as that of a chi-square law with a sixth as many degrees of freedom."""


class Diagnosis(NamedTuple):
    """The diagnostics of k scalars, each of shape (k,).

    Attributes:
        r_hat: the larger of two values: one for the draws, and one for their absolute deviations from the median, which
            detects chains of different spread.
        ess_bulk: the effective sample size of the normal scores of the draws.
        ess_tail: the smaller of two effective sample sizes: one for the indicator that a draw is at most the 5 %
            quantile, and one for the indicator that it is at most the 95 % quantile.
        ess_within: the effective sample size of the normal scores that follows from the autocorrelation within chains
            alone.
        p_value: the smallest of the p-values of ``TESTS`` tests that all chains have the same law.
    """

    r_hat: Floats
    ess_bulk: Floats
    ess_tail: Floats
    ess_within: Floats
    p_value: Floats


def diagnose(draws: Floats) -> Diagnosis:
    """Return the diagnostics of each of k scalars, given draws of shape (chains, draws, k), at least four a chain."""
    batches = [_diagnose_batch(draws[:, :, i : i + _BATCH_SIZE]) for i in range(0, draws.shape[2], _BATCH_SIZE)]
    return Diagnosis(*(np.concatenate(values) for values in zip(*batches, strict=True)))


def within_freedom(ess: Floats | float) -> Floats:
    """Return the degrees of freedom of the variance of chain means, if estimated from so many effective draws."""
    return np.asarray(np.maximum(ess / _DRAWS_PER_FREEDOM, 1.0))


def rank_counts(draws: Floats, n_bins: int) -> Integers:
    """Return the rank histogram of each chain, shape (chains, n_bins), given draws of a scalar, shape (chains, draws).

    Each draw is ranked among the draws of all chains. The histograms of well-mixed chains are flat.
    """
    edges = np.linspace(0.0, draws.size, n_bins + 1) + 0.5
    ranks = _ranks_of_rows(draws.reshape(1, -1)).reshape(draws.shape)
    return np.array([np.histogram(chain, edges)[0] for chain in ranks])


def ks_distance(probabilities: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of draws from a distribution, given its CDF at the sorted draws."""
    n = len(probabilities)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - probabilities).max(), (probabilities - steps[:-1]).max()))


def _diagnose_batch(draws: Floats) -> Diagnosis:
    from scipy.special import ndtri

    half = draws.shape[1] // 2
    halves = np.ascontiguousarray(np.concatenate([draws[:, :half], draws[:, -half:]]).transpose(2, 0, 1))
    flat = halves.reshape(len(halves), -1)
    scores = []
    for values in (flat, np.abs(flat - np.median(flat, axis=1, keepdims=True))):
        scores.append(ndtri((_ranks_of_rows(values) - 0.375) / (flat.shape[1] + 0.25)).reshape(halves.shape))
    worst = np.maximum(*map(_plain_r_hats, scores))
    cuts = np.quantile(flat, (0.05, 0.95), axis=1)[..., None, None]
    tails = [_ess_of_rows((halves <= cut).astype(np.float64)) for cut in cuts]
    (within, place), (_, spread) = map(_compare_chains, scores)
    return Diagnosis(worst, _ess_of_rows(scores[0]), np.minimum(*tails), within, np.minimum(place, spread))


def _compare_chains(halves: Floats) -> tuple[Floats, Floats]:
    """Return the effective draws within chains, and the smaller p-value of two tests of equal means.

    Args:
        halves: shape (k, 2 * chains, draws); first the first halves of all chains, then the second halves.
    """
    from scipy.special import fdtrc

    first, second = np.split(halves, 2, axis=1)
    draws = np.concatenate([first, second], axis=2)
    chains, means = draws.shape[1], draws.mean(axis=2)
    variance = draws.var(axis=2, ddof=1).mean(axis=1)
    ess = np.maximum(_ess_of_rows(draws - means[:, :, None]) - _LOST_DRAWS * chains, 1.0)
    between = ess / chains * means.var(axis=1, ddof=1) if chains > 1 else np.zeros(len(ess))
    drift = ess / 4.0 * (second.mean(axis=(1, 2)) - first.mean(axis=(1, 2))) ** 2
    freedom = within_freedom(ess)
    divisor = np.where(variance > 0.0, variance, 1.0)
    p_values = np.minimum(fdtrc(max(chains - 1, 1), freedom, between / divisor), fdtrc(1, freedom, drift / divisor))
    stuck = np.where(np.ptp(draws, axis=(1, 2)) == 0.0, 1.0, 0.0)
    return ess, np.where(variance > 0.0, p_values, stuck)


def _ranks_of_rows(values: Floats) -> Floats:
    """Return the ranks within each row, from 1; equal values share their mean rank."""
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)
    n = values.shape[1]
    position = np.arange(n)
    differs = ascending[:, 1:] != ascending[:, :-1]
    starts_tie, ends_tie = (np.pad(differs, ((0, 0), side), constant_values=True) for side in ((1, 0), (0, 1)))
    first = np.maximum.accumulate(np.where(starts_tie, position, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends_tie, position, n)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2.0 + 1.0, axis=1)
    return ranks


def _plain_r_hats(draws: Floats) -> Floats:
    """Return R-hat without rank normalization, given draws of shape (k, chains, draws)."""
    n = draws.shape[2]
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    between = n * draws.mean(axis=2).var(axis=1, ddof=1)
    stuck = np.where(np.ptp(draws, axis=(1, 2)) == 0.0, 1.0, np.inf)
    varied = np.where(within > 0.0, within, 1.0)
    return np.where(within > 0.0, np.sqrt(((n - 1) / n * within + between / n) / varied), stuck)


def _ess_of_rows(draws: Floats) -> Floats:
    """Return effective sample sizes by Geyer's initial monotone sequence, given draws of shape (k, chains, draws)."""
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
