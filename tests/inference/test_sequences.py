"""Chains on hidden Markov models, against sums over all paths and against the joint law of parameters and data."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.sequences import sequence_chain
from dpbayes_cli.inference.sequences.infer_sequences import infer_sequences, match_states
from dpbayes_cli.inference.sequences.sequence_chain import SequenceChain
from dpbayes_cli.inference.sequences.sequence_moves import EmissionMove, RateMove
from dpbayes_cli.inference.sequences.sequence_state import SequenceData
from dpbayes_cli.inference.sequences.state_paths import draw_paths, draw_states_singly, transition_counts
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.statistical import assert_follows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.base.numeric import Floats, Integers

TRANSITION = np.array([[0.7, 0.3], [0.1, 0.9]])
INITIAL = np.array([0.4, 0.6])
SIZES = (2, 3)


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


def test_paths_are_drawn_from_the_sum_over_all_paths() -> None:
    """Two states, four steps: 16 paths; 40,000 draws, false-fail 1e-9."""
    rng = np.random.default_rng(1)
    log_likelihood = rng.normal(scale=1.5, size=(4, 2))
    weights = path_weights(log_likelihood, TRANSITION, INITIAL)
    many = np.broadcast_to(log_likelihood, (40_000, 4, 2))
    paths, evidence = draw_paths(many, TRANSITION, INITIAL, rng)
    assert evidence == pytest.approx(40_000 * np.log(weights.sum()))
    assert_follows(paths @ np.array([8, 4, 2, 1]), np.arange(16), weights / weights.sum())


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


def test_a_swapped_transition_row_is_noticed() -> None:
    rng = np.random.default_rng(2)
    paths, _ = draw_paths(np.zeros((20_000, 4, 2)), TRANSITION[::-1], INITIAL, rng)
    law = INITIAL
    for t in range(4):
        share = (paths[:, t] == 1).mean()
        if t and abs(share - law[1]) > 6.0 * 0.5 / np.sqrt(20_000):
            return
        law = law @ TRANSITION
    pytest.fail("a swapped row went unnoticed")


def log_dirichlet(counts: Floats | Integers, concentration: Floats) -> float:
    """Return the log probability of a sequence of draws with these counts, shares integrated out."""
    total = gammaln(concentration.sum()) - gammaln(concentration.sum() + counts.sum())
    return float(total + (gammaln(concentration + counts) - gammaln(concentration)).sum())


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


# --- the joint law ---------------------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw counts in every second sweep, so that few sweeps include every move."""
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
    chain.states, chain.counts = states, np.concatenate(counts, axis=1).astype(float)
    chain.rate, chain.valid, chain.mean_rate, chain.rate_shape = rate, valid, float(mean), float(a)
    columns = sum(SIZES)
    chain._moves = (
        EmissionMove(np.full((2, columns), 0.02), np.full(columns, 1.0)),
        RateMove(np.full(steps, 0.7), np.full(2, 0.5)),
    )
    return chain


LIKELIHOOD = SequenceChain.likelihood


def features_of(chain: SequenceChain) -> list[float]:
    """Return what is compared: parameters, states, and how well they fit the data."""
    log_likelihood = draw_paths(LIKELIHOOD(chain), chain.transition, chain.initial, np.random.default_rng(0))[1]
    first = chain.emission[chain.states[0, 0]]
    likelihood = LIKELIHOOD(chain)
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


def joint_p_values(noise: NoiseLaw, size: int, *, complete: bool, sweeps: int = 4, seed: int = 5) -> Floats:
    """Compare draws from the joint law with draws that went through sweeps: both must have the same law."""
    rng = np.random.default_rng(seed)
    fresh = [features_of(drawn_jointly(noise, rng, complete=complete)) for _ in range(size)]
    moved = []
    for _ in range(size):
        chain = drawn_jointly(noise, rng, complete=complete)
        for _ in range(sweeps):
            chain.sweep()
        moved.append(features_of(chain))
    pairs = zip(np.transpose(fresh), np.transpose(moved), strict=True)
    return np.array([stats.ks_2samp(a, b).pvalue for a, b in pairs])


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_sweeps_keep_the_joint_law() -> None:
    """300 draws each, 14 features; false-fail 1e-6 each."""
    assert joint_p_values(DiscreteLaplace(4.0), 300, complete=True).min() > 1e-6


@pytest.mark.usefixtures("often")
@pytest.mark.slow
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("noise", [DiscreteLaplace(1.0), DiscreteLaplace(30.0), DiscreteGaussian(6.0)], ids=str)
def test_sweeps_keep_the_joint_law_in_a_long_run(noise: NoiseLaw, complete: bool) -> None:
    """3,000 draws each; false-fail 1e-6 each."""
    assert joint_p_values(noise, 3000, complete=complete).min() > 1e-6


def _drop_a_feature(self: SequenceChain) -> Floats:
    """Return the likelihood of the first feature alone."""
    whole = self.data.noise
    _, _, table = whole[0]
    rate = np.maximum(self.rate[:, None, None] * self.emission.T, 1e-12)
    log_likelihood = table.at(rate.reshape(-1, 2)).reshape(rate.shape)[:, : SIZES[0]].sum(axis=1)
    return np.asarray(log_likelihood.reshape(self.data.shape))


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_a_dropped_feature_leaves_the_joint_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequenceChain, "likelihood", _drop_a_feature)
    assert joint_p_values(DiscreteLaplace(1.0), 400, complete=True, sweeps=2).min() < 1e-6


@pytest.mark.slow
@pytest.mark.usefixtures("often")
def test_a_swapped_row_leaves_the_joint_law(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draw_paths
    monkeypatch.setattr(sequence_chain, "draw_paths", lambda ll, a, first, rng: whole(ll, a[::-1], first, rng))
    assert joint_p_values(DiscreteLaplace(1.0), 600, complete=True, sweeps=2).min() < 1e-6


# --- what comes out --------------------------------------------------------------------------------------------------


def regimes(n_records: int, rng: np.random.Generator) -> tuple[Integers, list[Floats], list[Integers]]:
    """Return six sequences of 24 steps that change once from one state to the other."""
    states = (np.arange(24) >= rng.integers(8, 16, (6, 1))).astype(np.int64)
    emissions = [np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])]
    totals = rng.multinomial(n_records, rng.dirichlet(np.full(states.size, 1.5))).reshape(states.shape)
    return states, emissions, [rng.multinomial(totals, each[states]) for each in emissions]


def seen(counts: list[Integers], scale: float, rng: np.random.Generator) -> NoisySequences:
    law = DiscreteLaplace(scale)
    return observation_of([each + law.simulate(rng, each.shape) for each in counts], law)


def test_regimes_are_found_and_the_posterior_knows_the_noise() -> None:
    """With noise as large as the counts plug-in inference is many standard deviations off, noise-aware is not."""
    rng = np.random.default_rng(6)
    states, emissions, counts = regimes(6000, rng)
    observation = seen(counts, 15.0, rng)
    off = {}
    for method in ("noise-aware", "naive"):
        posterior = infer_sequences(observation, method, 400, rng, Effort(mcmc_sweeps=100))
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


def test_equal_generators_give_equal_results() -> None:
    rng = np.random.default_rng(10)
    _, _, counts = regimes(3000, rng)
    observation = seen(counts, 3.0, rng)
    one, other = (
        infer_sequences(observation, "noise-aware", 100, np.random.default_rng(1), Effort(mcmc_sweeps=50))
        for _ in range(2)
    )
    assert (one.draws == other.draws).all()
    assert one.marginals == other.marginals


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
    assert posterior.warnings == ()
