"""Exact independent draws of latent counts from their posterior: by convolution, or by rejection for two counts.

**Convolution.** Given the total m, the posterior of the counts is proportional to a product of factors f_k(c), one for
each category: the prior's Gamma(concentration_k + c) / Gamma(c + 1) times the probability of the noise. The law of the
sum of several counts is the convolution of their factors. Counts are drawn one category after the other, each given the
part of the total that remains; these draws are exact (forward filtering, backward sampling over categories). The
factors are tilted exponentially, so that the mean of their sum is near the total, where double precision is accurate;
given the total the tilt cancels. If the total is not known, several tilts are used, each for a part of the plausible
totals.

**Rejection**, if the total of two counts is not known. The cells are the pairs of counts (c_0, c_1). They are grouped
into rectangular blocks, each a single cell if that is affordable. A block is drawn with probability proportional to its
number of cells times an upper bound on their weights, and one of its cells is drawn uniformly. The cell is accepted
with probability weight / bound; accepted cells are exact draws from the posterior of the counts. The prior of the
record count is uniform.

Source: von Neumann 1951 (rejection sampling); the rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers, normalize
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.counts.count_windows import (
    at_edges,
    largest_total,
    observation_term,
    prior_term,
    total_term,
    windows,
)
from dpbayes_cli.inference.counts.integer_laws import Law, draw_given_totals, suffix_sums, tilt_law

_MAX_ELEMENTS = 1 << 29
"""The largest number of elements of all probability tables of a call; this many take five to ten seconds."""
_MIN_RELATIVE_MASS = 1e-8
"""A tilt is used for the totals whose tilted probability is at least this fraction of the largest one."""
_NEGLIGIBLE_NATS = 25.0
"""Totals with a probability below exp(-25) times the largest one are left out."""
_MAX_TILTS = 256
_MAX_SINGLE_COUNTS = 256
"""A range of at most this many counts is divided into single counts; if both ranges are, no proposal is rejected."""
_BLOCKS_PER_AXIS = 256
"""A longer range is divided into about this many parts; each is about 0.4 noise scales long, so that most proposals are
accepted."""
_MAX_BLOCKS = 1 << 22
_MIN_ACCEPTANCE = 0.01


@dataclass(frozen=True)
class _TiltedSum:
    """A convolution of tilted factors, and the totals for which it is used.

    Attributes:
        factors: the tilted factors, one per category.
        suffixes: for each k the law of c_k + ... + c_K.
        first: the smallest total for which the convolution is used.
        log_mass: the log mass of each of these totals, with the tilt removed.
    """

    factors: list[Law]
    suffixes: list[Law]
    first: int
    log_mass: Floats

    @property
    def totals(self) -> Integers:
        """The totals for which the convolution is used."""
        return self.first + np.arange(len(self.log_mass))


def affordable_draws(observation: NoisyCounts, most: int) -> int:
    """Return how many draws are affordable, at most ``most``; 0 if convolution is too expensive.

    To draw the counts of a category, a table of probabilities is computed, with a row for each distinct remainder of
    the total and a column for each count in the window.
    """
    low, high = windows(observation)
    widths = int((high - low + 1).sum())
    spread = 24 * int(math.sqrt(len(low) * observation.noise.variance)) + 24
    rows = min(most, spread, largest_total(observation) + 1, widths)
    return most if rows * widths <= _MAX_ELEMENTS else min(most, _MAX_ELEMENTS // widths)


def draw_convolution(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw latent counts independently from their exact posterior, given a noisy count for every category.

    Counts have shape (n_draws, n_categories). The result is None if the prior pulls counts so far away from the
    observed ones that the windows would be too wide.
    """
    for widening in (1, 4, 16, 64):
        low, high = windows(observation, widening)
        if widening > 1 and (high - low + 1).sum() * n_draws > 16 * _MAX_ELEMENTS:
            return None
        counts = _draw_by_convolution(observation, low, high, n_draws, rng)
        if counts is not None and not at_edges(counts, low, high, observation):
            return counts
    return None


def _draw_by_convolution(
    observation: NoisyCounts, low: Integers, high: Integers, n_draws: int, rng: np.random.Generator
) -> Integers | None:
    """Draw counts within their windows; return None if no such counts add up to a plausible total."""
    least, most = int(low.sum()), min(int(high.sum()), largest_total(observation))
    if least > most or (observation.total.kind == "known" and most < observation.total.n):
        return None
    log_factors = []
    for k in range(len(low)):
        support = np.arange(low[k], high[k] + 1)
        log_factors.append(prior_term(k, support, observation) + observation_term(k, support, observation))
    if observation.total.kind == "known":
        part = _tilted_sum(log_factors, low, observation.total.n)
        return draw_given_totals(part.factors, part.suffixes, np.full(n_draws, observation.total.n), rng)
    initial = sum(max(0, observed or 0) for observed in observation.observed)
    parts = _tilted_sums(log_factors, low, (least, min(max(initial, least), most), most), observation)
    if parts is None:
        return None
    totals = np.concatenate([part.totals for part in parts])
    log_law = np.concatenate([part.log_mass for part in parts]) + total_term(totals, observation)
    cumulative = np.cumsum(normalize(log_law))
    index = np.searchsorted(cumulative, rng.random(n_draws) * cumulative[-1], side="right")
    drawn = totals[np.minimum(index, len(totals) - 1)]
    counts = np.empty((n_draws, len(low)), dtype=np.int64)
    for part in parts:
        covered = (drawn >= part.totals[0]) & (drawn <= part.totals[-1])
        if covered.any():
            counts[covered] = draw_given_totals(part.factors, part.suffixes, drawn[covered], rng)
    return counts


def _tilted_sums(
    log_factors: list[Floats], low: Integers, span: tuple[int, int, int], observation: NoisyCounts
) -> list[_TiltedSum] | None:
    """Return tilted convolutions for all plausible totals; None if too many are needed.

    ``span`` holds the least, an initial and the largest total; convolutions are added from the initial one outward.
    """
    least, initial, most = span
    max_parts = min(_MAX_TILTS, _MAX_ELEMENTS // (8 * sum(map(len, log_factors))))

    def log_weights(part: _TiltedSum) -> Floats:
        return part.log_mass + total_term(part.totals, observation)

    parts = [_restrict(_tilted_sum(log_factors, low, initial), least, most)]
    best = float(log_weights(parts[0]).max())
    for step, end, last in ((1, -1, most), (-1, 0, least)):
        while len(parts) < max_parts:
            edge = int(parts[end].totals[end])
            if edge == last or log_weights(parts[end])[end] < best - _NEGLIGIBLE_NATS:
                break
            bounds = (edge + 1, most) if step > 0 else (least, edge - 1)
            part = _restrict(_tilted_sum(log_factors, low, edge + step), *bounds)
            best = max(best, float(log_weights(part).max()))
            parts = [*parts, part] if step > 0 else [part, *parts]
    return parts if len(parts) < max_parts else None


def _restrict(part: _TiltedSum, least: int, most: int) -> _TiltedSum:
    inside = (part.totals >= least) & (part.totals <= most)
    return replace(part, first=max(part.first, least), log_mass=part.log_mass[inside])


def _tilted_sum(log_factors: list[Floats], low: Integers, target: int) -> _TiltedSum:
    tilt = find_tilt(log_factors, low, target)
    factors = [tilt_law(log_factor, int(low[k]), tilt) for k, log_factor in enumerate(log_factors)]
    suffixes = suffix_sums(factors)
    whole = suffixes[0]
    center = target - whole.low
    accurate = whole.mass >= _MIN_RELATIVE_MASS
    accurate[center] = True
    before, after = np.flatnonzero(~accurate[:center]), np.flatnonzero(~accurate[center:])
    start = int(before[-1]) + 1 if before.size else 0
    end = center + int(after[0]) if after.size else len(accurate)
    totals = whole.low + np.arange(start, end)
    with np.errstate(divide="ignore"):
        log_mass = np.log(whole.mass[start:end]) + whole.log_scale - tilt * totals
    return _TiltedSum(factors, suffixes, int(totals[0]), log_mass)


def find_tilt(log_factors: list[Floats], low: Integers, target: int) -> float:
    """Return the exponential tilt with which counts, whose windows begin at ``low``, have a sum of mean ``target``."""
    width = max(map(len, log_factors))
    padded = np.full((len(log_factors), width), -np.inf)
    for k, log_factor in enumerate(log_factors):
        padded[k, : len(log_factor)] = log_factor
    offsets = np.arange(width)
    steepest = max(float(np.abs(np.diff(log_factor)).max(initial=0.0)) for log_factor in log_factors)
    low_tilt, high_tilt = -60.0 - steepest, 60.0 + steepest  # with tiny noise one count costs hundreds of nats
    center = 0.0
    for _ in range(60):
        tilted = padded + center * offsets
        weights = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        expected = float(low.sum() + ((weights @ offsets) / weights.sum(axis=1)).sum())
        if abs(expected - target) < 0.25:
            break
        low_tilt, high_tilt = (center, high_tilt) if expected < target else (low_tilt, center)
        center = (low_tilt + high_tilt) / 2.0
    return center


def draw_two_counts(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw two latent counts whose total is not known, independently from their exact posterior.

    Counts have shape (n_draws, 2). The result is None if too many blocks or proposals would be needed, for example
    because the prior pulls counts far from the observed ones.
    """
    for widening in (1, 4, 16, 64):
        low, high = windows(observation, widening)
        counts = _draw_by_rejection(observation, low, high, n_draws, rng)
        if counts is None:
            return None
        if not at_edges(counts, low, high, observation):
            return counts
    return None


def _draw_by_rejection(
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
    cumulative = np.cumsum(normalize(log_mass.ravel()))
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
