"""The hidden states of sequences given their likelihoods: drawn together, drawn one after the other, or summed out.

Source: Chib 1996 (forward filtering, backward sampling); Goldwater and Griffiths 2007 (transitions integrated out).
"""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers


def draw_paths(
    log_likelihood: Floats, transition: Floats, initial: Floats, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Draw the states of all sequences by forward filtering and backward sampling.

    Return the states, shape (..., n_sequences, n_steps), and the log likelihood of all sequences with states summed
    out.

    Args:
        log_likelihood: the log likelihood of each state at each step, shape (..., n_sequences, n_steps, n_states).
        transition: the probability of moving from each state (row) to each state (column), shape (..., n_states,
            n_states).
        initial: probabilities of the first state, shape (..., n_states).
        rng: the generator.
    """
    shape = log_likelihood.shape
    n_steps, n_states = shape[-2:]
    batches, rows = transition.reshape(-1, n_states, n_states), (-1, shape[-3], n_states)
    steps = log_likelihood.reshape(-1, n_steps, n_states)
    largest = steps.max(axis=2)
    weight = np.exp(steps - largest[:, :, None])
    filtered = np.empty_like(weight)
    scale = np.empty(largest.shape)
    predicted = np.repeat(initial.reshape(-1, n_states), shape[-3], axis=0)
    for t in range(n_steps):
        joint = predicted * weight[:, t]
        scale[:, t] = joint.sum(axis=1)
        filtered[:, t] = joint / scale[:, t, None]
        predicted = (filtered[:, t].reshape(rows) @ batches).reshape(-1, n_states)
    states = np.empty(largest.shape, dtype=np.int64)
    uniform = rng.random((n_steps, len(states), 1))
    into = batches.swapaxes(1, 2).reshape(-1, n_states)
    first = np.repeat(np.arange(len(batches)) * n_states, shape[-3])
    for t in reversed(range(n_steps)):
        weights = filtered[:, t] if t == n_steps - 1 else filtered[:, t] * into[first + states[:, t + 1]]
        cumulative = np.cumsum(weights, axis=1)
        states[:, t] = (uniform[t] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)
    return states.reshape(shape[:-1]), float(np.log(scale).sum() + largest.sum())


def draw_states_singly(
    states: Integers,
    log_likelihood: Floats,
    transition: Floats,
    initial: Floats,
    rng: np.random.Generator,
) -> Integers:
    """Redraw the states one by one, each given all other states, with the transition probabilities integrated out.

    States have shape (n_sequences, n_steps); for the log likelihood see ``draw_paths``. ``transition`` and ``initial``
    are prior concentrations, shape (n_states, n_states) and (n_states,).
    """
    n_sequences, n_steps, n_states = log_likelihood.shape
    weight = np.exp(log_likelihood - log_likelihood.max(axis=2, keepdims=True))
    follows = transition + transition_counts(states, n_states)
    leaves = follows.sum(axis=1)
    first = initial + np.bincount(states[:, 0], minlength=n_states)

    def count(before: int, now: int, after: int, change: float) -> None:
        if before >= 0:
            follows[before, now] += change
            leaves[before] += change
        else:
            first[now] += change
        if after >= 0:
            follows[now, after] += change
            leaves[now] += change

    redrawn = states.copy()
    uniform = rng.random(states.shape)
    all_states = np.arange(n_states)
    for s in range(n_sequences):
        for t in range(n_steps):
            now = redrawn[s, t]
            before = redrawn[s, t - 1] if t > 0 else -1
            after = redrawn[s, t + 1] if t + 1 < n_steps else -1
            count(before, now, after, -1.0)
            weights = weight[s, t] * (follows[before] if before >= 0 else first)
            if after >= 0:
                stayed = all_states == before
                weights = weights * (follows[:, after] + (stayed & (before == after))) / (leaves + stayed)
            cumulative = np.cumsum(weights)
            now = int((uniform[s, t] * cumulative[-1] >= cumulative[:-1]).sum())
            redrawn[s, t] = now
            count(before, now, after, 1.0)
    return redrawn


def transition_counts(states: Integers, n_states: int) -> Floats:
    """Return the number of transitions from each state (row) to each state (column), shape (n_states, n_states)."""
    pairs = states[:, :-1] * n_states + states[:, 1:]
    counts = np.bincount(pairs.ravel(), minlength=n_states * n_states)
    return counts.reshape(n_states, n_states).astype(np.float64)


def held_out_log_likelihood(counts: Integers, emissions: Floats, states: Floats) -> float:
    """Return the log predictive likelihood of counts, summed over cells.

    All records of a cell have the same hidden state. The predictive likelihood of a cell is the product of the emission
    probabilities of its records, averaged over states and posterior draws. Cells without records contribute nothing.

    Args:
        counts: the counts of the values of all features, concatenated, shape (n_cells, n_values).
        emissions: posterior draws of the emission probabilities of all features, concatenated, shape (n_draws,
            n_states, n_values).
        states: the probability of each state, shape (n_draws or 1, n_cells, n_states).
    """
    from scipy.special import logsumexp

    n_draws, n_states, width = emissions.shape
    has_records = counts.any(axis=1)
    logs = np.log(np.maximum(emissions, 1e-300)).reshape(-1, width)
    by_draw = (counts[has_records] @ logs.T).reshape(-1, n_draws, n_states)
    with np.errstate(divide="ignore"):
        weighted = by_draw + np.log(states[:, has_records]).swapaxes(0, 1)
    return float((logsumexp(weighted, axis=(1, 2)) - np.log(n_draws)).sum())
