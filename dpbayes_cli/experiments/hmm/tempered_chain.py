"""Chains on tempered posteriors of hidden Markov models whose emissions have a public least value, drawn in floats.

This is the idealized form of what posterior sampling would release: for simulations only, never for a release. With
every emission at least a0, a record's log likelihood ranges over R = sum of R_f, R_f = log((1 - (V_f - 1) a0) / a0)
for a feature of V_f values, and the log ratio of two records' likelihoods over 2 R: that is attained by records that
differ in every feature. Under the power T of the likelihood

- one draw of the posterior costs epsilon = 2 T R: ``draw_power``;
- an update of all states given emissions costs 2 T R, or nothing where there is one state; one of the emissions given
  states 2 T R_f a feature, 2 T R in all; transitions do not touch records. A sweep costs 4 T R: ``chain_power``.

The power T is that of all updates, so that the chain is one on the posterior with this power.

Source: Foulds et al. 2016, sec. 4.1 and 5; Wang, Fienberg and Smola 2015; Chib 1996 (forward filtering, backward
sampling).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.experiments.restricted_rows import draw_restricted
from dpbayes_cli.numeric import normalized_rows

if TYPE_CHECKING:
    from dpbayes_cli.models.hmm import Hmm
    from dpbayes_cli.numeric import Floats, Integers

_TRIES = 20
"""After so many proposals without the restriction, rows are drawn within it by a chain."""


@dataclass(frozen=True)
class Sample:
    """One draw of everything that is unknown, of each of several trials.

    Attributes:
        emissions: for each feature, shape (n_trials, n_states, n_values).
        transition: from a row to a column, shape (n_trials, n_states, n_states).
        initial: shape (n_trials, n_states).
        states: shape (n_trials, n_sequences, n_steps).
    """

    emissions: tuple[Floats, ...]
    transition: Floats
    initial: Floats
    states: Integers


def record_range(sizes: Sequence[int], least: float) -> float:
    """Return R, the range of one record's log likelihood, given the numbers of values of its features."""
    return sum(math.log((1.0 - (size - 1) * least) / least) for size in sizes)


def draw_power(epsilon: float, sizes: Sequence[int], least: float) -> float:
    """Return the power of the likelihood at which one draw of the posterior costs epsilon."""
    return min(1.0, epsilon / (2.0 * record_range(sizes, least)))


def chain_power(epsilon: float, sizes: Sequence[int], least: float, sweeps: int, n_states: int) -> float:
    """Return the power of the likelihood at which all sweeps together cost epsilon."""
    updates = 2.0 if n_states > 1 else 1.0
    return min(1.0, epsilon / (2.0 * updates * sweeps * record_range(sizes, least)))


def run_chain(
    model: Hmm,
    counts: tuple[Integers, ...],
    power: Callable[[int], float],
    least: float,
    sweeps: int,
    rng: np.random.Generator,
) -> Sample:
    """Run chains from random states, one a trial, and return where they end.

    Args:
        model: the priors.
        counts: for each feature, shape (n_trials, n_sequences, n_steps, n_values).
        power: that of the likelihood in each sweep.
        least: a0, the least emission.
        sweeps: how many, at least one.
        rng: the generator.
    """
    sample = None
    n, k = len(counts[0]), model.states
    cells = [each.reshape(n, -1, each.shape[-1]).astype(np.float64) for each in counts]
    shape = counts[0].shape[:3]
    follows = np.full((k, k), model.transition) + model.stay * np.eye(k)
    states = rng.integers(k, size=shape)
    for sweep in range(sweeps):
        tempered, one_hot = power(sweep), np.eye(k)[states]
        where = one_hot.reshape(n, -1, k).swapaxes(1, 2)
        emissions = tuple(draw_at_least(model.emission + tempered * (where @ each), least, rng) for each in cells)
        pairs = one_hot[:, :, :-1].reshape(n, -1, k).swapaxes(1, 2) @ one_hot[:, :, 1:].reshape(n, -1, k)
        transition = _dirichlet(follows + pairs, rng)
        initial = _dirichlet(model.initial + one_hot[:, :, 0].sum(axis=1), rng)
        likelihoods = [each @ np.log(rows).swapaxes(1, 2) for each, rows in zip(cells, emissions, strict=True)]
        log_likelihood = tempered * np.sum(likelihoods, axis=0)
        states = draw_paths(log_likelihood.reshape(*shape, k), transition, initial, rng)
        sample = Sample(emissions, transition, initial, states)
    if sample is None:
        raise ValueError("a chain has one sweep at least")
    return sample


def draw_at_least(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw rows from Dirichlet laws restricted to entries of at least ``least``, rows along the last axis.

    Where most of a law is within, exactly, by rejection; elsewhere as ``draw_restricted`` does.
    """
    flat = shape.reshape(-1, shape.shape[-1])
    rows, left = np.empty(flat.shape), np.arange(len(flat))
    for _ in range(_TRIES):
        rows[left] = _dirichlet(flat[left], rng)
        left = left[rows[left].min(axis=1) < least]
        if not len(left):
            break
    else:
        rows[left] = draw_restricted(flat[left], least, rng)
    return rows.reshape(shape.shape)


def draw_paths(log_likelihood: Floats, transition: Floats, initial: Floats, rng: np.random.Generator) -> Integers:
    """Draw the states of all sequences of all trials: filter forwards, sample backwards.

    Args:
        log_likelihood: of what was seen, shape (n_trials, n_sequences, n_steps, n_states).
        transition, initial: of each trial; see ``Sample``.
        rng: the generator.

    Returns:
        Shape (n_trials, n_sequences, n_steps).
    """
    *_, n_steps, k = log_likelihood.shape
    weight = normalized_rows(log_likelihood.reshape(-1, k)).reshape(log_likelihood.shape)
    filtered = np.empty(weight.shape)
    ahead = np.broadcast_to(initial[:, None, :], filtered[:, :, 0].shape)
    for t in range(n_steps):
        joint = ahead * weight[:, :, t]
        filtered[:, :, t] = joint / joint.sum(axis=2, keepdims=True)
        ahead = filtered[:, :, t] @ transition
    states = np.empty(weight.shape[:3], dtype=np.int64)
    uniform, trial = rng.random((n_steps, *states.shape[:2], 1)), np.arange(len(states))[:, None]
    into = transition.swapaxes(1, 2)
    for t in reversed(range(n_steps)):
        share = filtered[:, :, t] if t == n_steps - 1 else filtered[:, :, t] * into[trial, states[:, :, t + 1]]
        reached = np.cumsum(share, axis=2)
        states[:, :, t] = (uniform[t] * reached[:, :, -1:] >= reached[:, :, :-1]).sum(axis=2)
    return states


def state_shares(sample: Sample, trial: int) -> Floats:
    """Return how likely each state is, given the states before and after it in a sample and its transitions.

    Returns:
        Shape (n_sequences, n_steps, n_states). It depends on the sample alone, not on records.
    """
    states, transition = sample.states[trial], sample.transition[trial]
    share = np.empty((*states.shape, len(transition)))
    share[:, 0] = sample.initial[trial]
    share[:, 1:] = transition[states[:, :-1]]
    share[:, :-1] *= transition.T[states[:, 1:]]
    return np.asarray(share / share.sum(axis=2, keepdims=True))


def _dirichlet(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw rows from Dirichlet laws, along the last axis."""
    weights = np.maximum(rng.standard_gamma(shape), 1e-290)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
