"""Chains on tempered posteriors of hidden Markov models whose emissions have a public least value, drawn in floats.

This is an idealized form of posterior sampling: for simulations only, never for a release. If every emission of a
feature with V values is at least a0, the feature's log likelihood has the range R_f = log((1 - (V - 1) a0) / a0), and a
record's has R = sum of R_f. The log ratio of two records' likelihoods has the range 2 R, which records that differ in
every feature attain. Under the power T of the likelihood

- one draw of the posterior costs epsilon = 2 T R: ``draw_power``;
- an update of all states given emissions costs 2 T R, and so does an update of all emissions given states; transitions
  do not touch records. A sweep costs 4 T R: ``chain_power``.

All updates have the same power T, so that the stationary law of the chain is the posterior under this power.

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
"""The number of unrestricted proposals after which rows are drawn by a chain within the restriction."""


@dataclass(frozen=True)
class HmmTrial:
    """The records that one trial learns from, and the records that it predicts.

    Attributes:
        train: for each feature the counts, shape (n_sequences, n_steps, n_values); 0 in held-out cells.
        held: whether a cell is held out, shape (n_sequences, n_steps).
        test: for each feature the counts of the held-out cells in their order, shape (n_held, n_values).
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
            emissions: for each feature draws of shape (n_draws, n_states, n_values).
            states: the probabilities of states in each cell, shape (n_draws or 1, n_sequences, n_steps, n_states).
        """
        counts = np.concatenate(self.test, axis=1)
        values = np.concatenate(emissions, axis=2)
        return held_out_log_likelihood(counts, values, states[:, self.held]) / self.n_test


@dataclass(frozen=True)
class HmmDraw:
    """One draw of all unknowns, for each of several trials.

    Attributes:
        emissions: for each feature, shape (n_trials, n_states, n_values).
        transition: probabilities of the next state by row, shape (n_trials, n_states, n_states).
        initial: shape (n_trials, n_states).
        states: shape (n_trials, n_sequences, n_steps).
    """

    emissions: tuple[Floats, ...]
    transition: Floats
    initial: Floats
    states: Integers


def record_range(sizes: Sequence[int], least: Sequence[float]) -> float:
    """Return R, the range of one record's log likelihood, from each feature's number of values and its a0."""
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
        model: the priors.
        counts: for each feature, shape (n_trials, n_sequences, n_steps, n_values).
        powers: the power of the likelihood in each sweep.
        least: a0, the least emission of each feature.
        rng: the generator.
        as_released: whether the chain starts from the prior and updates every second step at a time, as the mechanism
            does; otherwise it starts from random states and updates whole sequences.
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
    """Draw transition and initial probabilities given the states of some sequences."""
    n, k = len(states), model.states
    where = np.eye(k)[states]
    pairs = where[:, :, :-1].reshape(n, -1, k).swapaxes(1, 2) @ where[:, :, 1:].reshape(n, -1, k)
    follows = model.structure.successors + pairs
    return _dirichlet(follows, rng), _dirichlet(model.initial + where[:, :, 0].sum(axis=1), rng)


def draw_at_least(shape: Floats, least: float, rng: np.random.Generator) -> Floats:
    """Draw rows from Dirichlet laws restricted to entries of at least ``least``, along the last axis.

    Rows are exact draws by rejection; if proposals are seldom accepted, rows are drawn by ``draw_restricted``.
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
    """Redraw the states of even steps given those of odd steps, then of odd given even; see ``draw_paths``."""
    drawn = states.copy()
    for block in (0, 1):
        share = state_shares(drawn, transition, initial)[:, :, block::2]
        logs = np.log(np.maximum(share, 1e-300)) + log_likelihood[:, :, block::2]
        reached = np.cumsum(normalized_rows(logs.reshape(-1, logs.shape[-1])).reshape(logs.shape), axis=3)
        uniform = rng.random((*share.shape[:3], 1))
        drawn[:, :, block::2] = (uniform * reached[..., -1:] >= reached[..., :-1]).sum(axis=3)
    return drawn


def state_shares(states: Integers, transition: Floats, initial: Floats) -> Floats:
    """Return the probabilities of each state given the states before and after, without the records of the cell.

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
