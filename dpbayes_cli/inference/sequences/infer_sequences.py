"""The posterior of a hidden Markov model given noisy counts of its records, by Markov chains.

The posterior may have many modes. Several chains are therefore started, and those with the highest likelihoods are
continued. After warm-up, chains at a much less likely mode restart from the state of the best chain.

The numbers of the hidden states mean nothing: a chain may exchange them. The states of every draw are therefore matched
to those of a reference draw, the last draw of the first chain, so that both agree at as many steps as possible. The
states of the reference draw are numbered by descending frequency.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.convergence import judge, monitored_columns
from dpbayes_cli.inference.dirichlet_rows import summarize_draws
from dpbayes_cli.inference.posterior import NAIVE_WARNING, Effort, Method, Posterior
from dpbayes_cli.inference.sequences.sequence_chain import SequenceChain
from dpbayes_cli.inference.sequences.sequence_state import SequenceData

_T = TypeVar("_T")

CHAINS = 4
_STARTS, _START_SWEEPS = 8, 12
_WARM_UP = 60
_RESCALE_EVERY = 15
_MODE_GAP_NATS = 10.0
"""A chain restarts if its mean log likelihood is below the best chain's by more than this plus three standard
deviations."""


def infer_sequences(
    observation: NoisySequences, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of emissions, transitions and initial probabilities; see ``solve.infer``.

    The parameters are the emissions of each feature, state by state, then the transitions, row by row, and then the
    initial probabilities. At most one draw is returned for each sweep of each chain.
    """
    naive = method == "naive"
    noisy = any(law is not None for law in observation.noises)
    data = SequenceData.of(observation, naive=naive)
    started = [SequenceChain(data, seed, effort.state_sampler) for seed in rng.spawn(_STARTS)]
    for chain in started:
        chain.start()
    _sweep_all(started, _START_SWEEPS)
    started.sort(key=lambda chain: chain.log_likelihood, reverse=True)
    chains = started[:CHAINS]
    n_restarted = _warm_up(chains)
    records = _record_sweeps(chains, effort.mcmc_sweeps * effort.extension)
    return _summary(observation, records, n_draws, effort, n_restarted=n_restarted, naive=naive and noisy)


def _sweep_all(chains: list[SequenceChain], sweeps: int) -> Floats:
    """Sweep several chains in parallel; return the log likelihoods after each sweep, shape (n_chains, sweeps)."""

    def run(chain: SequenceChain) -> list[float]:
        log_likelihoods = []
        for i in range(sweeps):
            if i % _RESCALE_EVERY == 0:
                chain.scale_moves()
            chain.sweep()
            log_likelihoods.append(chain.log_likelihood)
        return log_likelihoods

    return np.array(_run_in_parallel(run, chains))


def _run_in_parallel(run: Callable[[SequenceChain], _T], chains: Sequence[SequenceChain]) -> list[_T]:
    """Apply a function to each chain in a thread; results are reproducible, as each chain has its own generator."""
    with ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1)) as pool:
        return list(pool.map(run, chains))


def _warm_up(chains: list[SequenceChain]) -> int:
    """Warm up the chains, restart those at much less likely modes from the best one, and return how many restarted."""
    log_likelihoods = _sweep_all(chains, _WARM_UP)[:, _WARM_UP // 2 :]
    means, spread = log_likelihoods.mean(axis=1), float(log_likelihoods.std(axis=1).mean())
    best = int(means.argmax())
    worse = [chains[i] for i in np.flatnonzero(means < means[best] - _MODE_GAP_NATS - 3.0 * spread)]
    for chain in worse:
        chain.restart_from(chains[best])
    if worse:
        _sweep_all(worse, _WARM_UP // 2)
    return len(worse)


class _ChainRecord:
    """The parameters and states of every sweep of a chain, and the variances of emissions given latent counts."""

    def __init__(self, sweeps: int, chain: SequenceChain) -> None:
        self.emission = np.empty((sweeps, *chain.emission.shape))
        self.transition = np.empty((sweeps, *chain.transition.shape))
        self.initial = np.empty((sweeps, *chain.initial.shape))
        self.states = np.empty((sweeps, *chain.states.shape), dtype=np.int8)
        self.variance: list[tuple[int, Floats]] = []

    def record(self, i: int, chain: SequenceChain) -> None:
        self.emission[i], self.transition[i], self.initial[i] = chain.emission, chain.transition, chain.initial
        self.states[i] = chain.states
        if chain.has_counts:
            self.variance.append((i, chain.conditional_variance()))

    def relabel(self, reference: Integers) -> None:
        """Renumber the states of every sweep to match a reference, shape (n_sequences, n_steps)."""
        n_states = self.initial.shape[1]
        orders = [match_states(states, reference, n_states) for states in self.states]
        for i, order in enumerate(orders):
            self.emission[i], self.initial[i] = self.emission[i][order], self.initial[i][order]
            self.transition[i] = self.transition[i][np.ix_(order, order)]
            self.states[i] = np.argsort(order)[self.states[i]]
        self.variance = [(i, variance[orders[i]]) for i, variance in self.variance]

    def draws(self, sizes: Sequence[int]) -> Floats:
        """Return the draws with all parameters in order, shape (n_sweeps, n_parameters)."""
        n = len(self.emission)
        parts = np.split(self.emission, np.cumsum(sizes)[:-1], axis=2)
        return np.concatenate(
            [*(part.reshape(n, -1) for part in parts), self.transition.reshape(n, -1), self.initial], axis=1
        )


def match_states(states: Integers, reference: Integers, n_states: int) -> Integers:
    """Return for each reference state the state that matches it; both then agree at as many steps as possible."""
    from scipy.optimize import linear_sum_assignment

    shared = np.bincount((reference.ravel() * n_states + states.ravel()).astype(np.int64), minlength=n_states**2)
    _, order = linear_sum_assignment(shared.reshape(n_states, n_states), maximize=True)
    return np.asarray(order)


def _record_sweeps(chains: list[SequenceChain], sweeps: int) -> list[_ChainRecord]:
    """Sweep the chains and record them, with all states matched to the reference draw."""

    def run(chain: SequenceChain) -> _ChainRecord:
        record = _ChainRecord(sweeps, chain)
        chain.scale_moves()
        for i in range(sweeps):
            chain.sweep()
            record.record(i, chain)
        return record

    records = _run_in_parallel(run, chains)
    n_states = len(chains[0].initial)
    reference = records[0].states[-1].astype(np.int64)
    by_frequency = np.argsort(-np.bincount(reference.ravel(), minlength=n_states), kind="stable")
    reference = np.argsort(by_frequency)[reference]
    for record in records:
        record.relabel(reference)
    return records


def _summary(
    observation: NoisySequences,
    records: list[_ChainRecord],
    n_draws: int,
    effort: Effort,
    *,
    n_restarted: int,
    naive: bool,
) -> Posterior:
    sizes = [len(concentrations) for concentrations in observation.emission]
    n_states = len(observation.initial)
    chains = np.stack([record.draws(sizes) for record in records])
    convergence = judge(chains[:, :, monitored_columns(chains.shape[2])], effort)
    diagnostics = convergence.diagnostics
    draws = chains.transpose(1, 0, 2).reshape(-1, chains.shape[2])  # every prefix has draws of all chains
    conditional = np.mean([variance for record in records for _, variance in record.variance], axis=0)
    parts = np.split(conditional, np.cumsum(sizes)[:-1], axis=1)
    data_variance = np.concatenate([*(part.ravel() for part in parts), draws[:, sum(sizes) * n_states :].var(axis=0)])
    states = np.stack([record.states for record in records], axis=1)  # in the order of the draws
    described = (
        f"{len(records)} Markov chains of {len(records[0].states)} sweeps after {_WARM_UP} sweeps of warm-up, the best "
        f"of {_STARTS} that were started; states are drawn "
        f"{'together' if effort.state_sampler == 'blocked' else 'one after the other'}"
    )
    if n_restarted:
        described += f"; {n_restarted} chains at less likely modes restarted from the best one"
    return Posterior(
        summarize_draws(draws, data_variance),
        draws[:n_draws],
        described,
        exact=False,
        monte_carlo=1.0 / math.sqrt(min(diagnostics["ess_bulk"], diagnostics["ess_tail"])),
        diagnostics=diagnostics,
        warnings=((NAIVE_WARNING,) if naive else ()) + convergence.warnings,
        chains=chains,
        states=np.stack([(states == k).mean(axis=(0, 1)) for k in range(n_states)], axis=-1),
        drawn_states=states.reshape(-1, *states.shape[2:])[:n_draws].astype(np.int64),
    )
