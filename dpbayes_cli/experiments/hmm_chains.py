"""Markov chains, in floats, on tempered posteriors of hidden Markov models: for simulations only, never for a release.

If all emission probabilities of a feature with V values are at least a0, the feature's log likelihood varies by at most
R_f = log((1 - (V - 1) * a0) / a0). The log likelihood of a record then varies by at most R, the sum of R_f over all
features. Let T be the power of the likelihood. One draw of the posterior costs epsilon = 2 * T * R. An update of all
states given the emissions costs 2 * T * R, and so does an update of all emissions given the states. Updates of
transition probabilities depend on the states alone, and cost nothing. All updates use the same power T, so that the
posterior under this power is the stationary law of the chain.

Source: Foulds et al. 2016, sec. 4.1 and 5; Wang, Fienberg and Smola 2015; Chib 1996 (forward filtering, backward
sampling); the rest is derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Floats, Integers, normalize_rows
from dpbayes_cli.experiments.truncated_draws import draw_at_least, draw_dirichlet
from dpbayes_cli.inference.sequences.state_paths import draw_paths, held_out_log_likelihood
from dpbayes_cli.models.hmm import Hmm


class HmmPrediction(NamedTuple):
    """The parameters and hidden states by which a trial predicts held-out cells."""

    emissions: Sequence[Floats]  # for each feature, draws of its probabilities, shape (n_draws, n_states, n_values)
    states: Floats  # probabilities of hidden states, shape (n_draws or 1, n_sequences, n_steps, n_states)


class HmmTrial(NamedTuple):
    """The records that a trial learns from and predicts, as counts of values; one array for each feature."""

    train: tuple[Integers, ...]  # shape (n_sequences, n_steps, n_values); 0 in held-out cells
    held: Booleans  # whether a cell is held out, shape (n_sequences, n_steps)
    test: tuple[Integers, ...]  # the counts in held-out cells, shape (n_held, n_values)

    @property
    def n_train(self) -> int:
        return int(self.train[0].sum())

    @property
    def n_test(self) -> int:
        return int(self.test[0].sum())

    def log_likelihood(self, prediction: HmmPrediction) -> float:
        """Return the mean log-likelihood of a held-out record."""
        counts, values = np.concatenate(self.test, axis=1), np.concatenate(prediction.emissions, axis=2)
        return held_out_log_likelihood(counts, values, prediction.states[:, self.held]) / self.n_test


class HmmDraw(NamedTuple):
    """One draw of all parameters and hidden states, for each of several trials."""

    emissions: tuple[Floats, ...]  # for each feature, the probabilities of its values, (n_trials, n_states, n_values)
    transition: Floats  # for each state, the probabilities of the next state, shape (n_trials, n_states, n_states)
    initial: Floats  # the probabilities of the first state, shape (n_trials, n_states)
    states: Integers  # the hidden states, shape (n_trials, n_sequences, n_steps)


def run_chain(
    model: Hmm, counts: tuple[Integers, ...], powers: Sequence[float], least: Sequence[float],
    rng: np.random.Generator, *, as_released: bool,
) -> HmmDraw:  # fmt: skip
    """Run one chain per trial with a power of the likelihood for each sweep, and return their last points.

    If ``as_released``, the chain does what the mechanism does: it starts from the prior, and updates the states of even
    time steps before those of odd time steps. Otherwise it starts from random states, and updates whole sequences.

    Args:
        counts: for each feature, the counts of its values, shape (n_trials, n_sequences, n_steps, n_values).
        least: for each feature, a0, the lower bound on its emission probabilities.
    """
    n, k = len(counts[0]), model.states
    cells = [each.reshape(n, -1, each.shape[-1]).astype(np.float64) for each in counts]
    shape = (*counts[0].shape[:3], k)

    def draw_emissions(power: float) -> tuple[Floats, ...]:
        where = np.eye(k)[states].reshape(n, -1, k).swapaxes(1, 2)
        shapes = (model.emission + power * (where @ each) for each in cells)
        return tuple(draw_at_least(each, low, rng) for each, low in zip(shapes, least, strict=True))

    states = rng.integers(k, size=shape[:3])
    transition, initial = _draw_links(model, states[:, :0], rng)
    if as_released:
        states = draw_paths(np.zeros(shape), transition, initial, rng)[0]
    emissions = draw_emissions(0.0 if as_released else powers[0])
    for power in powers:
        logs = [each @ np.log(rows).swapaxes(1, 2) for each, rows in zip(cells, emissions, strict=True)]
        likelihood = (power * np.sum(logs, axis=0)).reshape(shape)
        if as_released:
            states = _draw_in_blocks(states, likelihood, transition, initial, rng)
        else:
            states = draw_paths(likelihood, transition, initial, rng)[0]
        emissions = draw_emissions(power)
        transition, initial = _draw_links(model, states, rng)
    return HmmDraw(emissions, transition, initial, states)


def _draw_links(model: Hmm, states: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw transition and initial probabilities given the hidden states of all sequences."""
    n, k = len(states), model.states
    where = np.eye(k)[states]
    pairs = where[:, :, :-1].reshape(n, -1, k).swapaxes(1, 2) @ where[:, :, 1:].reshape(n, -1, k)
    follows = model.structure.successors + pairs
    return draw_dirichlet(follows, rng), draw_dirichlet(model.initial + where[:, :, 0].sum(axis=1), rng)


def _draw_in_blocks(
    states: Integers, log_likelihood: Floats, transition: Floats, initial: Floats, rng: np.random.Generator
) -> Integers:
    """Redraw the states of even time steps given all others, then the states of odd time steps given all others."""
    drawn = states.copy()
    for block in (0, 1):
        share = state_shares(drawn, transition, initial)[:, :, block::2]
        logs = np.log(np.maximum(share, 1e-300)) + log_likelihood[:, :, block::2]
        reached = np.cumsum(normalize_rows(logs.reshape(-1, logs.shape[-1])).reshape(logs.shape), axis=3)
        uniform = rng.random((*share.shape[:3], 1))
        drawn[:, :, block::2] = (uniform * reached[..., -1:] >= reached[..., :-1]).sum(axis=3)
    return drawn


def state_shares(states: Integers, transition: Floats, initial: Floats) -> Floats:
    """Return the probabilities of each cell's state, without its records, given the states before and after it."""
    trial = np.arange(len(states))[:, None, None]
    share = np.empty((*states.shape, initial.shape[1]))
    share[:, :, 0] = initial[:, None, :]
    share[:, :, 1:] = transition[trial, states[:, :, :-1]]
    share[:, :, :-1] *= transition.swapaxes(1, 2)[trial, states[:, :, 1:]]
    return np.asarray(share / share.sum(axis=3, keepdims=True))
