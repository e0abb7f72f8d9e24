"""Exact independent draws of two latent counts whose total is not known, by rejection sampling from blocks.

The cells are the pairs of counts (c_0, c_1). They are grouped into rectangular blocks, each a single cell if that is
affordable. A block is drawn with probability proportional to its number of cells times an upper bound on their weights,
and one of its cells is drawn uniformly. The cell is accepted with probability weight / bound; accepted cells are exact
draws from the posterior of the counts. The prior of the record count is uniform.

Source: design notes, noise-aware inference (unknown total); von Neumann 1951 (rejection sampling).
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers, normalized
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.counts.count_windows import (
    at_edges,
    largest_total,
    observation_term,
    prior_term,
    total_term,
    windows,
)

_MAX_SINGLE_COUNTS = 256
"""A range of at most this many counts is divided into single counts; if both ranges are, no proposal is rejected."""
_BLOCKS_PER_AXIS = 256
"""A longer range is divided into about this many parts; each is about 0.4 noise scales long, so that most proposals are
accepted."""
_MAX_BLOCKS = 1 << 22
_MIN_ACCEPTANCE = 0.01


def draw_two_counts(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw two latent counts whose total is not known, independently from their exact posterior.

    Counts have shape (n_draws, 2). The result is None if too many blocks or proposals would be needed, for example
    because the prior pulls counts far from the observed ones.
    """
    for widening in (1, 4, 16, 64):
        low, high = windows(observation, widening)
        counts = _draw_within(observation, low, high, n_draws, rng)
        if counts is None:
            return None
        if not at_edges(counts, low, high, observation):
            return counts
    return None


def _draw_within(
    observation: NoisyCounts, low: Integers, high: Integers, n_draws: int, rng: np.random.Generator
) -> Integers | None:
    """Draw counts within windows; return None if too many blocks or proposals would be needed."""
    axes = [_cut(k, int(low[k]), int(high[k]), observation) for k in (0, 1)]
    (start_0, stop_0), (start_1, stop_1) = axes
    if len(start_0) * len(start_1) > _MAX_BLOCKS:
        return None
    n = largest_total(observation)
    least = np.add.outer(start_0, start_1)
    most = np.minimum(np.add.outer(stop_0, stop_1), n)
    decreasing = sum(observation.concentration) > 1.0  # the factor of the total is monotone
    bound_0, bound_1 = (_axis_bound(k, *axes[k], observation) for k in (0, 1))
    log_bound = np.add.outer(bound_0, bound_1) + total_term(least if decreasing else most, observation)
    log_size = np.add.outer(np.log(stop_0 - start_0 + 1), np.log(stop_1 - start_1 + 1))
    log_mass = np.where(least <= n, log_bound + log_size, -np.inf)
    cumulative = np.cumsum(normalized(log_mass.ravel()))
    exact = log_bound.shape == (int(high[0] - low[0]) + 1, int(high[1] - low[1]) + 1)  # the bound is the weight
    batches: list[Integers] = []
    wanted, proposed, n_accepted = n_draws, 0, 0
    while n_accepted < n_draws:
        size = n_draws if exact else min(1 << 18, max(4096, wanted))
        block = np.minimum(np.searchsorted(cumulative, rng.random(size) * cumulative[-1]), cumulative.size - 1)
        i, j = np.divmod(block, len(start_1))
        cells = np.column_stack(
            [rng.integers(start_0[i], stop_0[i], endpoint=True), rng.integers(start_1[j], stop_1[j], endpoint=True)]
        )
        if exact:
            return cells
        log_accept = _log_weight(cells, observation) - log_bound[i, j]
        accepted = cells[(cells.sum(axis=1) <= n) & (np.log(rng.random(size)) <= log_accept)]
        batches.append(accepted)
        proposed, n_accepted = proposed + size, n_accepted + len(accepted)
        if n_accepted < _MIN_ACCEPTANCE * proposed:
            return None
        wanted = int((n_draws - n_accepted) * proposed / max(n_accepted, 1)) + 1
    return np.concatenate(batches)[:n_draws]


def _log_weight(cells: Integers, observation: NoisyCounts) -> Floats:
    """Return the unnormalized log posterior at cells (c_0, c_1), which are given as an array of shape (n, 2)."""
    terms = total_term(cells.sum(axis=1), observation)
    for k in (0, 1):
        terms = terms + prior_term(k, cells[:, k], observation) + observation_term(k, cells[:, k], observation)
    return terms


def _cut(k: int, low: int, high: int, observation: NoisyCounts) -> tuple[Integers, Integers]:
    """Divide low..high into parts on which the log weight varies by less than one; return their ends."""
    if high - low < _MAX_SINGLE_COUNTS:
        cells = np.arange(low, high + 1)
        return cells, cells
    longest = max(1, (high - low) // _BLOCKS_PER_AXIS)
    slope = 8.0 * max(1.0, abs(observation.concentration[k] - 1.0))
    starts: list[int] = []
    start = low
    while start <= high and len(starts) < _MAX_BLOCKS:
        starts.append(start)
        start += max(1, min(longest, int((start + 1) / slope)))
    first = np.array(starts)
    return first, np.append(first[1:] - 1, high)


def _axis_bound(k: int, first: Integers, last: Integers, observation: NoisyCounts) -> Floats:
    """Return for each part of a range of counts an upper bound on the log factors that depend only on this count."""
    # the factor of the prior is monotone, and that of the noise is largest at the observed count
    prior = np.maximum(prior_term(k, first, observation), prior_term(k, last, observation))
    return prior + observation_term(k, np.clip(observation.observed[k] or 0, first, last), observation)
