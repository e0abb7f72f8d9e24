"""Chains on hidden Markov models, against sums over all paths and the joint law of parameters and data."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.sequences import sequence_chain
from dpbayes_cli.inference.sequences.noisy_poisson import log_marginal
from dpbayes_cli.inference.sequences.sequence_chain import SequenceChain
from dpbayes_cli.inference.sequences.sequence_moves import EmissionLikelihood, EmissionMove, RateMove
from dpbayes_cli.inference.sequences.sequence_state import SequenceData
from dpbayes_cli.inference.sequences.state_paths import draw_paths, transition_counts
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.conftest import seldom
from tests.statistical import assert_follows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
from tests.inference.test_state_paths import code, log_dirichlet, paths

SIZES = (2, 3)
NOISES: list[NoiseLaw] = [DiscreteLaplace(1.0), DiscreteLaplace(30.0), DiscreteGaussian(6.0)]


def observation_of(counts: list[Integers], noise: NoiseLaw | None, *, complete: bool = True) -> NoisySequences:
    """Two states, two features."""
    return NoisySequences(
        tuple(np.full(size, 1.0) for size in SIZES),
        np.array([[2.0, 1.0], [1.0, 2.0]]),
        np.array([1.0, 1.5]),
        tuple(counts),
        (noise,) * len(SIZES),
        complete,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
def test_exact_counts_give_the_sum_over_all_paths(sampler: Any) -> None:
    """Two states, two features, two sequences of four steps, all parameters integrated out: 256 paths.

    6,000 sweeps, every fifth taken as independent; false-fail 1e-9.
    """
    rng = np.random.default_rng(3)
    counts = [rng.poisson(1.2, (2, 4, size)) for size in SIZES]
    observation = observation_of(counts, None)
    weights = np.empty(256)
    for states in paths(2, 4):
        value = log_dirichlet(np.bincount(states[:, 0], minlength=2), observation.initial)
        follows = transition_counts(states, 2)
        for k in range(2):
            value += log_dirichlet(follows[k], observation.transition[k])
            for each, concentration in zip(counts, observation.emission, strict=True):
                value += log_dirichlet(each[states == k].sum(axis=0), concentration)
        weights[code(states)] = value
    law = np.exp(weights - weights.max())
    chain = SequenceChain(SequenceData.of(observation), rng, sampler)
    chain.start()
    codes = []
    for i in range(6000):
        chain.sweep()
        if i % 5 == 4:
            codes.append(code(chain.states))
    order = np.argsort(-law)
    place = np.argsort(order)
    assert_follows(place[np.array(codes)], np.arange(256), law[order] / law.sum())


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw states, rates and counts in every second sweep, so that few sweeps include every move."""
    monkeypatch.setattr(sequence_chain, "STATES_EVERY", 2)
    monkeypatch.setattr(sequence_chain, "COUNTS_EVERY", 2)


def drawn_jointly(noise: NoiseLaw, rng: np.random.Generator, *, complete: bool) -> SequenceChain:
    """Draw everything from the joint law, and return a chain in that state."""
    shape, steps = (2, 4), 8
    observation = observation_of([np.zeros((*shape, size), dtype=np.int64) for size in SIZES], noise, complete=complete)
    emission = [rng.dirichlet(each, size=2) for each in observation.emission]
    transition = np.array([rng.dirichlet(row) for row in observation.transition])
    initial = rng.dirichlet(observation.initial)
    states = np.empty(shape, dtype=np.int64)
    for s in range(shape[0]):
        for t in range(shape[1]):
            states[s, t] = rng.choice(2, p=initial if t == 0 else transition[states[s, t - 1]])
    a = rng.exponential()
    mean = sequence_chain.TYPICAL_TOTAL / rng.standard_gamma(1.0)
    rate = np.maximum(rng.gamma(a, mean / a, steps), 1e-12)
    valid = np.ones(2) if complete else rng.gamma(4.0, 0.25, 2)
    flat = states.ravel()
    counts = [rng.poisson(rate[:, None] * valid[f] * emission[f][flat]) for f in range(2)]
    observed = [c.reshape(*shape, -1) + noise.simulate(rng, (*shape, c.shape[1])) for c in counts]
    chain = SequenceChain(SequenceData.of(observation_of(observed, noise, complete=complete)), rng)
    chain.emission, chain.transition, chain.initial = np.concatenate(emission, axis=1), transition, initial
    chain.typical = chain.emission
    chain.states, chain.counts = states, np.concatenate(counts, axis=1).astype(float)
    chain.rate, chain.valid, chain.mean_rate, chain.rate_shape = rate, valid, float(mean), float(a)
    columns = sum(SIZES)
    chain._moves = (
        EmissionMove(np.full((2, columns), 0.02), np.full((2, 2), 0.7), np.zeros((2, 2))),
        RateMove(np.full(steps, 0.1), np.full(2, 0.5)),
    )
    return chain


def features_of(chain: SequenceChain) -> list[float]:
    """Return what is compared: parameters, states, and how well they fit the data, by the exact marginal law."""
    data = chain.data
    rates = chain.rate[:, None, None] * chain.valid[data.feature] * chain.emission
    logs = log_marginal(data.noise[0][0], data.observed[:, None], np.maximum(rates, 1e-12))
    likelihood = logs.sum(axis=2).reshape(data.shape)
    log_likelihood = draw_paths(likelihood, chain.transition, chain.initial, np.random.default_rng(0))[1]
    first = chain.emission[chain.states[0, 0]]
    fit = np.take_along_axis(likelihood, chain.states[:, :, None], axis=2)[:, :, 0] - likelihood.max(axis=2)
    return [
        chain.emission[0, 0],
        chain.emission[1, 2],
        chain.transition[0, 0],
        chain.initial[0],
        chain.rate_shape,
        chain.mean_rate,
        chain.rate[3],
        chain.valid[0],
        log_likelihood,
        float(fit.sum()),
        float(np.log(chain.transition[chain.states[:, :-1], chain.states[:, 1:]]).sum()),
        float(first[0] * chain.data.observed[0, 0]),
        float((chain.rate * chain.data.observed.sum(axis=1)).sum()),
        float(chain.transition[0, 0] * transition_counts(chain.states, 2)[0, 0]),
    ]


def joint_p_values(noise: NoiseLaw, size: int, *, complete: bool) -> Floats:
    """Compare draws from the joint law with draws that went through four sweeps: both must have the same law."""
    rng = np.random.default_rng(5)
    fresh = [features_of(drawn_jointly(noise, rng, complete=complete)) for _ in range(size)]
    moved = []
    for _ in range(size):
        chain = drawn_jointly(noise, rng, complete=complete)
        for _ in range(4):
            chain.sweep()
        moved.append(features_of(chain))
    pairs = zip(np.transpose(fresh), np.transpose(moved), strict=True)
    return np.array([stats.ks_2samp(a, b).pvalue for a, b in pairs])


@pytest.mark.usefixtures("often")
@pytest.mark.calibration
@pytest.mark.parametrize(("noise", "complete"), seldom(itertools.product(NOISES, (True, False)), 3))
def test_sweeps_keep_the_joint_law(noise: NoiseLaw, complete: bool) -> None:
    """3,000 draws each, 14 features; false-fail 1e-6 each."""
    assert joint_p_values(noise, 3000, complete=complete).min() > 1e-6


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_interpolated_likelihood_is_the_sum_over_cells(noise: NoiseLaw) -> None:
    """Over the whole range of the polynomials, and outside; 10 random states of chains."""
    rng = np.random.default_rng(7)
    for _ in range(10):
        chain = drawn_jointly(noise, rng, complete=False)
        likelihood = EmissionLikelihood.of(chain)
        place = likelihood.reach * rng.uniform(-1.2, 1.2, likelihood.reach.shape)
        emission = np.clip(likelihood.middle + place, 1e-4, 1.0) ** 2
        rates = chain.rate[:, None] * chain.valid[chain.data.feature] * emission[chain.states.ravel()]
        by_cell, by_rate = chain.data.with_slopes(np.maximum(rates, 1e-12))
        value, slope = likelihood.at(emission)
        members, sd = chain.members(), 2.0 * np.sqrt(emission) * likelihood.reach / 8.0
        exact = (members * chain.rate) @ by_rate * chain.valid[chain.data.feature]
        assert value == pytest.approx(members @ by_cell, abs=0.02)
        assert slope * sd == pytest.approx(exact * sd, abs=0.02)
