"""Draw the hidden states of sequences given the likelihood of each: all at once, or one after the other.

Source: Chib 1996 (forward filtering, backward sampling); Goldwater and Griffiths 2007 (transitions integrated out).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats, Integers


def draw_paths(
    log_likelihood: Floats, transition: Floats, initial: Floats, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Draw the states of all sequences together: filter forwards, sample backwards.

    Args:
        log_likelihood: of what was seen of each sequence at each step, by state, shape (n_sequences, n_steps,
            n_states).
        transition: from a row to a column.
        initial: of the first state.
        rng: the generator.

    Returns:
        The states, shape (n_sequences, n_steps), and the log likelihood of all sequences, states being summed out.
    """
    n_sequences, n_steps, _ = log_likelihood.shape
    largest = log_likelihood.max(axis=2)
    weight = np.exp(log_likelihood - largest[:, :, None])
    filtered = np.empty_like(weight)
    scale = np.empty((n_sequences, n_steps))
    ahead = np.broadcast_to(initial, filtered[:, 0].shape)
    for t in range(n_steps):
        joint = ahead * weight[:, t]
        scale[:, t] = joint.sum(axis=1)
        filtered[:, t] = joint / scale[:, t, None]
        ahead = filtered[:, t] @ transition
    states = np.empty((n_sequences, n_steps), dtype=np.int64)
    uniform = rng.random((n_steps, n_sequences, 1))
    into = transition.T
    for t in reversed(range(n_steps)):
        share = filtered[:, t] if t == n_steps - 1 else filtered[:, t] * into[states[:, t + 1]]
        reached = np.cumsum(share, axis=1)
        states[:, t] = (uniform[t] * reached[:, -1:] >= reached[:, :-1]).sum(axis=1)
    return states, float(np.log(scale).sum() + largest.sum())


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
