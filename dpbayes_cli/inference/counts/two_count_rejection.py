"""Exact independent draws of two latent counts whose total is not known: rejection from blocks of the plane.

The plane of (c_0, c_1) is cut into rectangles, one cell each while that is cheap. A rectangle is drawn in proportion
to its size times an upper bound of the weight on it, a cell uniformly inside, and the cell is kept with probability
weight / bound: the kept cells follow the posterior of the counts exactly. The prior on the total is uniform.

Source: mechanisms, noise-aware inference (unknown total); von Neumann's rejection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import normalized
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.counts.count_windows import (
    at_edges,
    largest_total,
    observation_term,
    prior_term,
    total_term,
    windows,
)

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_UNIT_CELLS = 256
"""An axis of up to this many counts is cut into single counts; then nothing is ever rejected."""
_BLOCKS = 256
"""A longer axis is cut into about this many blocks: 0.4 noise scales each, so that most proposals are accepted."""
_MOST_BLOCKS = 1 << 22
_LEAST_ACCEPTANCE = 0.01


def draw_two_counts(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw two latent counts independently from their exact posterior.

    Args:
        observation: two observed categories, total at most n or unbounded.
        n_draws: how many.
        rng: the generator.

    Returns:
        Counts, shape (n_draws, 2); None where the prior is so narrow that too many cells or proposals are needed.
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
    """Draw inside a window; None where that is too expensive."""
    axes = [_cut(k, int(low[k]), int(high[k]), observation) for k in (0, 1)]
    (start_0, stop_0), (start_1, stop_1) = axes
    if len(start_0) * len(start_1) > _MOST_BLOCKS:
        return None
    n = largest_total(observation)
    least = np.add.outer(start_0, start_1)
    most = np.minimum(np.add.outer(stop_0, stop_1), n)
    decreasing = sum(observation.concentration) > 1.0  # the factor of the total is monotone in it
    bound_0, bound_1 = (_axis_bound(k, *axes[k], observation) for k in (0, 1))
    log_bound = np.add.outer(bound_0, bound_1) + total_term(least if decreasing else most, observation)
    log_size = np.add.outer(np.log(stop_0 - start_0 + 1), np.log(stop_1 - start_1 + 1))
    log_mass = np.where(least <= n, log_bound + log_size, -np.inf)
    cumulative = np.cumsum(normalized(log_mass.ravel()))
    unit = log_bound.shape == (int(high[0] - low[0]) + 1, int(high[1] - low[1]) + 1)  # bound and weight are the same
    accepted: list[Integers] = []
    wanted, proposed, got = n_draws, 0, 0
    while got < n_draws:
        size = n_draws if unit else min(1 << 18, max(4096, wanted))
        block = np.minimum(np.searchsorted(cumulative, rng.random(size) * cumulative[-1]), cumulative.size - 1)
        i, j = np.divmod(block, len(start_1))
        cells = np.column_stack(
            [rng.integers(start_0[i], stop_0[i], endpoint=True), rng.integers(start_1[j], stop_1[j], endpoint=True)]
        )
        if unit:
            return cells
        log_accept = _log_weight(cells, observation) - log_bound[i, j]
        kept = cells[(cells.sum(axis=1) <= n) & (np.log(rng.random(size)) <= log_accept)]
        accepted.append(kept)
        proposed, got = proposed + size, got + len(kept)
        if got < _LEAST_ACCEPTANCE * proposed:
            return None
        wanted = int((n_draws - got) * proposed / max(got, 1)) + 1
    return np.concatenate(accepted)[:n_draws]


def _log_weight(cells: Integers, observation: NoisyCounts) -> Floats:
    """Return the unnormalized log posterior of cells, shape (n, 2)."""
    terms = total_term(cells.sum(axis=1), observation)
    for k in (0, 1):
        terms = terms + prior_term(k, cells[:, k], observation) + observation_term(k, cells[:, k], observation)
    return terms


def _cut(k: int, low: int, high: int, observation: NoisyCounts) -> tuple[Integers, Integers]:
    """Cut low..high into blocks over which the weight changes by a fraction of a nat; return first and last counts."""
    if high - low < _UNIT_CELLS:
        cells = np.arange(low, high + 1)
        return cells, cells
    longest = max(1, (high - low) // _BLOCKS)
    slope = 8.0 * max(1.0, abs(observation.concentration[k] - 1.0))
    starts: list[int] = []
    start = low
    while start <= high and len(starts) < _MOST_BLOCKS:
        starts.append(start)
        start += max(1, min(longest, int((start + 1) / slope)))
    first = np.array(starts)
    return first, np.append(first[1:] - 1, high)


def _axis_bound(k: int, first: Integers, last: Integers, observation: NoisyCounts) -> Floats:
    """Bound one axis' factor on each block: the prior's is monotone, the noise's largest next to the observation."""
    prior = np.maximum(prior_term(k, first, observation), prior_term(k, last, observation))
    return prior + observation_term(k, np.clip(observation.observed[k] or 0, first, last), observation)
