"""Hidden states, drawn together or one after the other, against sums over all paths."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import gammaln

from dpbayes_cli.inference.sequences.state_paths import draw_paths, draw_states_singly, transition_counts
from tests.statistical import assert_follows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.base.numeric import Floats, Integers


TRANSITION = np.array([[0.7, 0.3], [0.1, 0.9]])

INITIAL = np.array([0.4, 0.6])


def paths(n_sequences: int, n_steps: int) -> Iterator[Integers]:
    for states in itertools.product((0, 1), repeat=n_sequences * n_steps):
        yield np.array(states).reshape(n_sequences, n_steps)


def code(states: Integers) -> int:
    return int("".join(map(str, states.ravel())), 2)


def path_weights(log_likelihood: Floats, transition: Floats, initial: Floats) -> Floats:
    """Return the weight of each of the 16 paths of one sequence of four steps, shape (4, 2)."""
    weights = np.empty(16)
    for states in paths(1, 4):
        (z,) = states
        steps = np.log(initial[z[0]]) + np.log(transition[z[:-1], z[1:]]).sum()
        weights[code(states)] = np.exp(steps + log_likelihood[np.arange(4), z].sum())
    return weights


def test_every_batch_of_sequences_has_its_own_law() -> None:
    """Two batches of 40,000 paths; false-fail 2e-9."""
    rng = np.random.default_rng(3)
    log_likelihood = rng.normal(scale=1.5, size=(2, 4, 2))
    laws = np.stack([TRANSITION, TRANSITION[::-1]]), np.stack([INITIAL, INITIAL[::-1]])
    many = np.repeat(log_likelihood[:, None], 40_000, axis=1)
    paths, evidence = draw_paths(many, *laws, rng)
    weights = [path_weights(*each) for each in zip(log_likelihood, *laws, strict=True)]
    assert evidence == pytest.approx(40_000 * sum(np.log(each.sum()) for each in weights))
    for drawn, each in zip(paths, weights, strict=True):
        assert_follows(drawn @ np.array([8, 4, 2, 1]), np.arange(16), each / each.sum())


def log_dirichlet(counts: Floats | Integers, concentration: Floats) -> float:
    """Return the log probability of a sequence of draws with these counts, shares integrated out."""
    total = gammaln(concentration.sum()) - gammaln(concentration.sum() + counts.sum())
    return float(total + (gammaln(concentration + counts) - gammaln(concentration)).sum())


@pytest.mark.slow
def test_single_states_keep_their_law_given_all_others() -> None:
    """The probability of one state by hand: two sequences, one step redrawn, transitions integrated out."""
    transition, initial = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, 1.5])
    rng = np.random.default_rng(4)
    log_likelihood = rng.normal(size=(1, 2, 2))
    weights = np.zeros(4)
    for states in paths(1, 2):
        value = log_dirichlet(np.bincount(states[:, 0], minlength=2), initial)
        value += sum(log_dirichlet(transition_counts(states, 2)[k], transition[k]) for k in range(2))
        weights[code(states)] = np.exp(value + log_likelihood[0, [0, 1], states[0]].sum())
    states = np.zeros((1, 2), dtype=np.int64)
    codes = []
    for _ in range(6000):
        for _ in range(3):
            states = draw_states_singly(states, log_likelihood, transition, initial, rng)
        codes.append(code(states))
    assert_follows(codes, np.arange(4), weights / weights.sum())
