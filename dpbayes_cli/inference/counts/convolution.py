"""Exact independent draws of K latent counts, by convolution: no chain, nothing to converge.

Given the total m the counts are independent up to their sum, with factors f_k(c) = Gamma(concentration_k + c) / c!
times the probability of the noise. The law of partial sums is a convolution of the factors, and drawing c_1, c_2, ...
in turn, each given what is left of the total, gives exact draws (forward filtering, backward sampling over
categories). An exponential tilt, which conditioning on the total cancels, puts the total in the middle of the
convolved law, where double precision is accurate; an unknown total is covered by several tilts, each responsible for
the totals in its middle.

Source: mechanisms, noise-aware inference (exact integer updates).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
from dpbayes_cli.inference.counts.integer_laws import Law, backward, suffixes_of, tilted

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_BUDGET = 1 << 29
"""Elements of conditional tables that a call may compute: five to ten seconds."""
_MIDDLE = 1e-8
"""A tilt answers for the totals whose tilted probability is at least this part of the largest."""
_NATS = 25.0
"""Totals of relative probability below exp(-25) are left out."""
_MOST_LAYERS = 256


@dataclass(frozen=True)
class _Layer:
    """One tilt and the totals that it answers for.

    Attributes:
        factors: the tilted factors, one a category.
        suffixes: for each k the law of c_k + ... + c_K.
        first: the first total answered for.
        log_mass: the log mass of first, first + 1, ... with the tilt taken out.
    """

    factors: list[Law]
    suffixes: list[Law]
    first: int
    log_mass: Floats

    @property
    def last(self) -> int:
        """The last total answered for."""
        return self.first + len(self.log_mass) - 1


def affordable_draws(observation: NoisyCounts, most: int) -> int:
    """Return how many draws (at most ``most``) fit the budget; 0 where convolution is too expensive.

    Drawing one count costs a table of one row for each distinct remainder of the total, as wide as the window.
    """
    low, high = windows(observation)
    widths = int((high - low + 1).sum())
    spread = 24 * int(math.sqrt(len(low) * observation.noise.variance)) + 24
    rows = min(most, spread, largest_total(observation) + 1, widths)
    return most if rows * widths <= _BUDGET else min(most, _BUDGET // widths)


def draw_convolution(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Integers | None:
    """Draw latent counts independently from their exact posterior.

    Args:
        observation: every category observed.
        n_draws: how many.
        rng: the generator.

    Returns:
        Counts, shape (n_draws, n_categories); None where a narrow prior makes the windows too wide.
    """
    for widening in (1, 4, 16, 64):
        low, high = windows(observation, widening)
        if widening > 1 and (high - low + 1).sum() * n_draws > 16 * _BUDGET:
            return None
        counts = _draw_within(observation, low, high, n_draws, rng)
        if counts is not None and not at_edges(counts, low, high, observation):
            return counts
    return None


def _draw_within(
    observation: NoisyCounts, low: Integers, high: Integers, n_draws: int, rng: np.random.Generator
) -> Integers | None:
    """Draw inside windows; None where the windows cannot hold the total."""
    least, most = int(low.sum()), min(int(high.sum()), largest_total(observation))
    if least > most or (observation.total.kind == "known" and most < observation.total.n):
        return None
    log_factors = []
    for k in range(len(low)):
        support = np.arange(low[k], high[k] + 1)
        log_factors.append(prior_term(k, support, observation) + observation_term(k, support, observation))
    if observation.total.kind == "known":
        layer = _layer(log_factors, low, observation.total.n)
        return backward(layer.factors, layer.suffixes, np.full(n_draws, observation.total.n), rng)
    guess = sum(max(0, observed or 0) for observed in observation.observed)
    layers = _layers(log_factors, low, (least, min(max(guess, least), most), most), observation)
    if layers is None:
        return None
    totals = np.concatenate([np.arange(layer.first, layer.last + 1) for layer in layers])
    log_law = np.concatenate([layer.log_mass for layer in layers]) + total_term(totals, observation)
    cumulative = np.cumsum(normalized(log_law))
    index = np.searchsorted(cumulative, rng.random(n_draws) * cumulative[-1], side="right")
    drawn = totals[np.minimum(index, len(totals) - 1)]
    counts = np.empty((n_draws, len(low)), dtype=np.int64)
    for layer in layers:
        mine = (drawn >= layer.first) & (drawn <= layer.last)
        if mine.any():
            counts[mine] = backward(layer.factors, layer.suffixes, drawn[mine], rng)
    return counts


def _layers(
    log_factors: list[Floats], low: Integers, span: tuple[int, int, int], observation: NoisyCounts
) -> list[_Layer] | None:
    """Cover the totals that matter, from a guess outwards; None where that takes too many tilts."""
    least, guess, most = span
    most_layers = min(_MOST_LAYERS, _BUDGET // (8 * sum(map(len, log_factors))))

    def reached(layer: _Layer, total: int) -> float:
        return float(layer.log_mass[total - layer.first] + total_term(np.array(total), observation))

    start = _clipped(_layer(log_factors, low, guess), least, most)
    support = np.arange(start.first, start.last + 1)
    best = float(np.max(start.log_mass + total_term(support, observation)))
    layers = [start]
    for upwards in (True, False):
        while len(layers) < most_layers:
            outer = layers[-1] if upwards else layers[0]
            edge = outer.last if upwards else outer.first
            if edge == (most if upwards else least) or reached(outer, edge) < best - _NATS:
                break
            target = edge + 1 if upwards else edge - 1
            bounds = (target, most) if upwards else (least, target)
            layer = _clipped(_layer(log_factors, low, target), *bounds)
            support = np.arange(layer.first, layer.last + 1)
            best = max(best, float(np.max(layer.log_mass + total_term(support, observation))))
            layers = [*layers, layer] if upwards else [layer, *layers]
    return layers if len(layers) < most_layers else None


def _clipped(layer: _Layer, least: int, most: int) -> _Layer:
    """Restrict a layer to the totals least..most."""
    first, last = max(layer.first, least), min(layer.last, most)
    return replace(layer, first=first, log_mass=layer.log_mass[first - layer.first : last - layer.first + 1])


def _layer(log_factors: list[Floats], low: Integers, target: int) -> _Layer:
    """Convolve under the tilt that puts the expected total at the target."""
    tilt = _tilt(log_factors, low, target)
    factors = [tilted(log_factor, int(low[k]), tilt) for k, log_factor in enumerate(log_factors)]
    suffixes = suffixes_of(factors)
    whole = suffixes[0]
    middle = target - whole.low
    good = whole.mass >= _MIDDLE
    good[middle] = True
    before, after = np.flatnonzero(~good[:middle]), np.flatnonzero(~good[middle:])
    start = int(before[-1]) + 1 if before.size else 0
    stop = middle + int(after[0]) if after.size else len(good)
    totals = whole.low + np.arange(start, stop)
    with np.errstate(divide="ignore"):
        log_mass = np.log(whole.mass[start:stop]) + whole.log_scale - tilt * totals
    return _Layer(factors, suffixes, int(totals[0]), log_mass)


def _tilt(log_factors: list[Floats], low: Integers, target: int) -> float:
    """Return the tilt under which the expected total is the target, by bisection."""
    width = max(map(len, log_factors))
    padded = np.full((len(log_factors), width), -np.inf)
    for k, log_factor in enumerate(log_factors):
        padded[k, : len(log_factor)] = log_factor
    offsets = np.arange(width)
    steepest = max(float(np.abs(np.diff(log_factor)).max(initial=0.0)) for log_factor in log_factors)
    bottom, top = -60.0 - steepest, 60.0 + steepest  # where the noise is tiny one count costs hundreds of nats
    middle = 0.0
    for _ in range(60):
        tilted = padded + middle * offsets
        weights = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        expected = float(low.sum() + ((weights @ offsets) / weights.sum(axis=1)).sum())
        if abs(expected - target) < 0.25:
            break
        bottom, top = (middle, top) if expected < target else (bottom, middle)
        middle = (bottom + top) / 2.0
    return middle
