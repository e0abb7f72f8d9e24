"""The hidden states of sequences: drawn given the likelihood of each, all at once or one after the other; summed out.

Source: Chib 1996 (forward filtering, backward sampling); Goldwater and Griffiths 2007 (transitions integrated out).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


def draw_paths(
    log_likelihood: Floats, transition: Floats, initial: Floats, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Draw the states of all sequences together: filter forwards, sample backwards.

    Args:
        log_likelihood: of what was seen of each sequence at each step, by state, shape (..., n_sequences, n_steps,
            n_states).
        transition: from a row to a column, shape (..., n_states, n_states).
        initial: of the first state, shape (..., n_states).
        rng: the generator.

    Returns:
        The states, shape (..., n_sequences, n_steps), and the log likelihood of all sequences, states being summed out.
    """
    shape = log_likelihood.shape
    n_steps, n_states = shape[-2:]
    batches, rows = transition.reshape(-1, n_states, n_states), (-1, shape[-3], n_states)
    steps = log_likelihood.reshape(-1, n_steps, n_states)
    largest = steps.max(axis=2)
    weight = np.exp(steps - largest[:, :, None])
    filtered = np.empty_like(weight)
    scale = np.empty(largest.shape)
    ahead = np.repeat(initial.reshape(-1, n_states), shape[-3], axis=0)
    for t in range(n_steps):
        joint = ahead * weight[:, t]
        scale[:, t] = joint.sum(axis=1)
        filtered[:, t] = joint / scale[:, t, None]
        ahead = (filtered[:, t].reshape(rows) @ batches).reshape(-1, n_states)
    states = np.empty(largest.shape, dtype=np.int64)
    uniform = rng.random((n_steps, len(states), 1))
    into = batches.swapaxes(1, 2).reshape(-1, n_states)
    first = np.repeat(np.arange(len(batches)) * n_states, shape[-3])
    for t in reversed(range(n_steps)):
        share = filtered[:, t] if t == n_steps - 1 else filtered[:, t] * into[first + states[:, t + 1]]
        reached = np.cumsum(share, axis=1)
        states[:, t] = (uniform[t] * reached[:, -1:] >= reached[:, :-1]).sum(axis=1)
    return states.reshape(shape[:-1]), float(np.log(scale).sum() + largest.sum())


def draw_states_singly(
    states: Integers,
    log_likelihood: Floats,
    transition: Floats,
    initial: Floats,
    rng: np.random.Generator,
) -> Integers:
    """Redraw one state after the other, given all others, with the transitions' probabilities integrated out.

    Args:
        states: where they are, shape (n_sequences, n_steps).
        log_likelihood: see ``draw_paths``.
        transition: the concentrations of each state's successor, shape (n_states, n_states).
        initial: those of the first state.
        rng: the generator.
    """
    n_sequences, n_steps, n_states = log_likelihood.shape
    weight = np.exp(log_likelihood - log_likelihood.max(axis=2, keepdims=True))
    follows = transition + transition_counts(states, n_states)
    leaves = follows.sum(axis=1)
    first = initial + np.bincount(states[:, 0], minlength=n_states)
    found = states.copy()
    uniform = rng.random(states.shape)
    everyone = np.arange(n_states)
    for s in range(n_sequences):
        for t in range(n_steps):
            now = found[s, t]
            before = found[s, t - 1] if t > 0 else -1
            after = found[s, t + 1] if t + 1 < n_steps else -1
            if before >= 0:
                follows[before, now] -= 1.0
                leaves[before] -= 1.0
            else:
                first[now] -= 1.0
            if after >= 0:
                follows[now, after] -= 1.0
                leaves[now] -= 1.0
            share = weight[s, t] * (follows[before] if before >= 0 else first)
            if after >= 0:
                stayed = everyone == before
                share = share * (follows[:, after] + (stayed & (before == after))) / (leaves + stayed)
            reached = np.cumsum(share)
            now = int((uniform[s, t] * reached[-1] >= reached[:-1]).sum())
            found[s, t] = now
            if before >= 0:
                follows[before, now] += 1.0
                leaves[before] += 1.0
            else:
                first[now] += 1.0
            if after >= 0:
                follows[now, after] += 1.0
                leaves[now] += 1.0
    return found


def transition_counts(states: Integers, n_states: int) -> Floats:
    """Return how often each state follows each, shape (n_states, n_states) from a row to a column."""
    pairs = states[:, :-1] * n_states + states[:, 1:]
    counts = np.bincount(pairs.ravel(), minlength=n_states * n_states)
    return counts.reshape(n_states, n_states).astype(np.float64)


def held_out_log_likelihood(counts: Integers, emissions: Floats, states: Floats) -> float:
    """Return the log likelihood of counts of cells, summed over cells, averaged over draws of the posterior.

    The records of a cell share its state: their likelihood is the mean over states of the product of their emissions,
    and over draws. Cells without records add nothing.

    Args:
        counts: of all features side by side, shape (n_cells, n_values).
        emissions: draws of them, features side by side, shape (n_draws, n_states, n_values).
        states: how likely each state is, shape (n_draws or 1, n_cells, n_states).
    """
    from scipy.special import logsumexp

    n_draws, n_states, width = emissions.shape
    seen = counts.any(axis=1)
    logs = np.log(np.maximum(emissions, 1e-300)).reshape(-1, width)
    by_draw = (counts[seen] @ logs.T).reshape(-1, n_draws, n_states)
    with np.errstate(divide="ignore"):
        weighted = by_draw + np.log(states[:, seen]).swapaxes(0, 1)
    return float((logsumexp(weighted, axis=(1, 2)) - np.log(n_draws)).sum())
