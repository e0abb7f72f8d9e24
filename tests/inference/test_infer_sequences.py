"""Posteriors of hidden Markov models: regimes, the numbering of states, and closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.sequences.infer_sequences import infer_sequences, match_states
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
from tests.inference.test_sequence_chain import SIZES, observation_of


def regimes(n_records: int, rng: np.random.Generator) -> tuple[Integers, list[Floats], list[Integers]]:
    """Return six sequences of 24 steps that change once from one state to the other."""
    states = (np.arange(24) >= rng.integers(8, 16, (6, 1))).astype(np.int64)
    emissions = [np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])]
    totals = rng.multinomial(n_records, rng.dirichlet(np.full(states.size, 1.5))).reshape(states.shape)
    return states, emissions, [rng.multinomial(totals, each[states]) for each in emissions]


def seen(counts: list[Integers], scale: float, rng: np.random.Generator) -> NoisySequences:
    law = DiscreteLaplace(scale)
    return observation_of([each + law.simulate(rng, each.shape) for each in counts], law)


@pytest.mark.slow
def test_regimes_are_found_and_the_posterior_knows_the_noise() -> None:
    """With noise as large as the counts plug-in inference is many standard deviations off, noise-aware is not."""
    rng = np.random.default_rng(6)
    states, emissions, counts = regimes(6000, rng)
    observation = seen(counts, 15.0, rng)
    off = {}
    for method in ("noise-aware", "naive"):
        posterior = infer_sequences(observation, method, 400, rng, Effort(mcmc_sweeps=300))
        assert posterior.states is not None
        likely = posterior.states.argmax(axis=2)
        swap = (likely == states).mean() < 0.5
        agreement = max((likely == states).mean(), (likely != states).mean())
        truth = np.concatenate([each[::-1].ravel() if swap else each.ravel() for each in emissions])
        means = np.array([marginal.mean for marginal in posterior.marginals[: len(truth)]])
        sds = np.array([marginal.sd for marginal in posterior.marginals[: len(truth)]])
        off[method] = float(np.abs((means - truth) / sds).max())
        if method == "noise-aware":
            assert agreement > 0.9
            assert posterior.diagnostics["r_hat"] < 1.2
    assert off["noise-aware"] < 3.5, off
    assert off["naive"] > 5.0, off


def test_states_are_numbered_by_how_often_they_occur_in_every_draw() -> None:
    rng = np.random.default_rng(8)
    states, _, counts = regimes(20_000, rng)
    posterior = infer_sequences(seen(counts, 1.0, rng), "noise-aware", 400, rng, Effort(mcmc_sweeps=60))
    assert posterior.states is not None
    occupied = posterior.states.sum(axis=(0, 1))
    assert occupied[0] >= occupied[1]
    assert posterior.states.sum(axis=2) == pytest.approx(np.ones(states.shape))
    assert posterior.draws.shape == (240, len(posterior.marginals))
    first = posterior.draws[:, 0]
    assert np.ptp(first) < 0.15  # of 0.7 in one state and 0.3 in the other


def test_matched_states_undo_any_permutation() -> None:
    rng = np.random.default_rng(9)
    reference = rng.integers(0, 4, (5, 30))
    order = rng.permutation(4)
    matching = match_states(order[reference], reference, 4)
    assert (matching == order).all()


def test_one_state_is_naive_bayes() -> None:
    """With one state and no noise the posterior is the Dirichlet distribution given all counts."""
    rng = np.random.default_rng(11)
    counts = [rng.poisson(3.0, (3, 5, size)) for size in SIZES]
    observation = NoisySequences(
        tuple(np.full(size, 1.0) for size in SIZES), np.ones((1, 1)), np.ones(1), tuple(counts), (None, None), True
    )
    posterior = infer_sequences(observation, "noise-aware", 800, rng, Effort(mcmc_sweeps=200))
    weight = counts[1].sum(axis=(0, 1)) + 1.0
    law = stats.beta(weight[0], weight[1:].sum())
    assert stats.kstest(posterior.draws[:, 2], law.cdf).pvalue > 1e-9
    assert all("the chains agree so far" in warning for warning in posterior.warnings)
