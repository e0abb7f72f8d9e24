"""Markov chains, in floats, on tempered posteriors of hidden Markov models with a lower bound on emissions.

This is an idealized form of posterior sampling: for simulations only, never for a release. If all emission
probabilities of a feature with V values are at least a0, the feature's log likelihood varies by at most R_f = log((1 -
(V - 1) * a0) / a0). A record's log likelihood varies by at most R, the sum of R_f over its features. The log ratio of
two records' likelihoods varies by at most 2 * R; it does vary by 2 * R if the records differ in every feature. Let T be
the power of the likelihood.

- One draw of the posterior costs epsilon = 2 * T * R; ``draw_power`` solves this for T.
- An update of all states given the emissions costs 2 * T * R, and so does an update of all emissions given the states.
  Updates of transition probabilities depend on the states alone, and cost nothing. A sweep thus costs 4 * T * R;
  ``chain_power`` solves this for T.

All updates use the same power T, so that the posterior under this power is the stationary law of the chain.


Source: Foulds et al. 2016, sec. 4.1 and 5; Wang, Fienberg and Smola 2015; Chib 1996 (forward filtering, backward
sampling); design notes, private Gibbs sampling (steps in two blocks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import normalized_rows
from dpbayes_cli.experiments.restricted_rows import draw_restricted
from dpbayes_cli.inference.sequences.state_paths import draw_paths, held_out_log_likelihood

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.hmm import Hmm

_TRIES = 20
"""After this many rejected proposals, a row is drawn by a Gibbs chain instead."""


@dataclass(frozen=True)
class HmmTrial:
    """The records that one trial learns from, and the records that it predicts.

    Attributes:
        train: for each feature, the counts of its values, shape (n_sequences, n_steps, n_values); 0 in held-out cells.
        held: whether a cell is held out, shape (n_sequences, n_steps).
        test: for each feature, the counts of its values in the held-out cells, shape (n_held, n_values).
    """

    train: tuple[Integers, ...]
    held: NDArray[np.bool_]
    test: tuple[Integers, ...]

    @property
    def n_train(self) -> int:
        return int(self.train[0].sum())

    @property
    def n_test(self) -> int:
        return int(self.test[0].sum())

    def log_likelihood(self, emissions: Sequence[Floats], states: Floats) -> float:
        """Return the log-likelihood per held-out record.

        Args:
            emissions: for each feature, draws of its emission probabilities, shape (n_draws, n_states, n_values).
            states: the probabilities of the hidden states in each cell, shape (n_draws or 1, n_sequences, n_steps,
                n_states).
        """
        counts = np.concatenate(self.test, axis=1)
        values = np.concatenate(emissions, axis=2)
        return held_out_log_likelihood(counts, values, states[:, self.held]) / self.n_test


@dataclass(frozen=True)
class HmmDraw:
    """One draw of all parameters and hidden states, for each of several trials.

    Attributes:
        emissions: for each feature, the probabilities of its values, shape (n_trials, n_states, n_values).
        transition: for each state, the probabilities of the next state, shape (n_trials, n_states, n_states).
        initial: the probabilities of the first state, shape (n_trials, n_states).
        states: the hidden states, shape (n_trials, n_sequences, n_steps).
    """

    emissions: tuple[Floats, ...]
    transition: Floats
    initial: Floats
    states: Integers


def record_range(sizes: Sequence[int], least: Sequence[float]) -> float:
    """Return R, by which a record's log likelihood varies; ``sizes`` and ``least`` are V and a0 of each feature."""
    return sum(math.log((1.0 - (size - 1) * low) / low) for size, low in zip(sizes, least, strict=True))


def draw_power(epsilon: float, sizes: Sequence[int], least: Sequence[float]) -> float:
    """Return the power of the likelihood at which one draw of the posterior costs epsilon."""
    return min(1.0, epsilon / (2.0 * record_range(sizes, least)))


def chain_power(epsilon: float, sizes: Sequence[int], least: Sequence[float], sweeps: int) -> float:
    """Return the power of the likelihood at which all sweeps together cost epsilon."""
    return min(1.0, epsilon / (4.0 * sweeps * record_range(sizes, least)))


def run_chain(
    model: Hmm,
    counts: tuple[Integers, ...],
    powers: Sequence[float],
    least: Sequence[float],
    rng: np.random.Generator,
    *,
    as_released: bool,
) -> HmmDraw:
    """Run one chain per trial, and return their last points.

    Args:
        counts: for each feature, the counts of its values, shape (n_trials, n_sequences, n_steps, n_values).
        powers: the power of the likelihood in each sweep.
        least: for each feature, a0, the lower bound on its emission probabilities.
        as_released: if true, the chain starts from the prior, and updates the states of even time steps before those of
            odd time steps, as the mechanism does. Otherwise it starts from random states, and updates whole sequences.
    """
    n, k = len(counts[0]), model.states
    cells = [each.reshape(n, -1, each.shape[-1]).astype(np.float64) for each in counts]
    shape = (*counts[0].shape[:3], k)
    states = rng.integers(k, size=shape[:3])
    transition, initial = _links(model, states[:, :0], rng)
    if as_released:
        states = draw_paths(np.zeros(shape), transition, initial, rng)[0]
    emissions = _emissions(model, cells, states, 0.0 if as_released else powers[0], least, rng)
    for power in powers:
        logs = [each @ np.log(rows).swapaxes(1, 2) for each, rows in zip(cells, emissions, strict=True)]
        likelihood = (power * np.sum(logs, axis=0)).reshape(shape)
        states = (
            draw_in_blocks(states, likelihood, transition, initial, rng)
            if as_released
            else draw_paths(likelihood, transition, initial, rng)[0]
        )
        emissions = _emissions(model, cells, states, power, least, rng)
        transition, initial = _links(model, states, rng)
    return HmmDraw(emissions, transition, initial, states)


def _emissions(
    model: Hmm, cells: list[Floats], states: Integers, power: float, least: Sequence[float], rng: np.random.Generator
) -> tuple[Floats, ...]:
    where = np.eye(model.states)[states].reshape(len(states), -1, model.states).swapaxes(1, 2)
    return tuple(
        draw_at_least(model.emission + power * (where @ each), low, rng) for each, low in zip(cells, least, strict=True)
    )


def _links(model: Hmm, states: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw transition and initial probabilities given the hidden states of all sequences."""
    n, k = len(states), model.states
    where = np.eye(k)[states]
    pairs = where[:, :, :-1].reshape(n, -1, k).swapaxes(1, 2) @ where[:, :, 1:].reshape(n, -1, k)
    follows = model.structure.successors + pairs
    return _dirichlet(follows, rng), _dirichlet(model.initial + where[:, :, 0].sum(axis=1), rng)


def draw_at_least(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw probability vectors, along the last axis, from Dirichlet laws restricted to entries of at least ``least``.

    Draws are exact, by rejection. Vectors whose proposals are all rejected are drawn by ``draw_restricted`` instead.
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


def draw_in_blocks(
    states: Integers, log_likelihood: Floats, transition: Floats, initial: Floats, rng: np.random.Generator
) -> Integers:
    """Redraw the states of even time steps given all others, then the states of odd time steps given all others."""
    drawn = states.copy()
    for block in (0, 1):
        share = state_shares(drawn, transition, initial)[:, :, block::2]
        logs = np.log(np.maximum(share, 1e-300)) + log_likelihood[:, :, block::2]
        reached = np.cumsum(normalized_rows(logs.reshape(-1, logs.shape[-1])).reshape(logs.shape), axis=3)
        uniform = rng.random((*share.shape[:3], 1))
        drawn[:, :, block::2] = (uniform * reached[..., -1:] >= reached[..., :-1]).sum(axis=3)
    return drawn


def state_shares(states: Integers, transition: Floats, initial: Floats) -> Floats:
    """Return the probabilities of each cell's states given the previous and next state, but not the cell's records.

    The shape is (n_trials, n_sequences, n_steps, n_states); see ``HmmDraw`` for the arguments.
    """
    trial = np.arange(len(states))[:, None, None]
    share = np.empty((*states.shape, initial.shape[1]))
    share[:, :, 0] = initial[:, None, :]
    share[:, :, 1:] = transition[trial, states[:, :, :-1]]
    share[:, :, :-1] *= transition.swapaxes(1, 2)[trial, states[:, :, 1:]]
    return np.asarray(share / share.sum(axis=3, keepdims=True))


def _dirichlet(shape: Floats, rng: np.random.Generator) -> Floats:
    weights = np.maximum(rng.standard_gamma(shape), 1e-290)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
