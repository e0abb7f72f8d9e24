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
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.convergence import Convergence, judge, monitored_columns, required_draws
from dpbayes_cli.inference.dirichlet_rows import summarize_draws
from dpbayes_cli.inference.posterior import NAIVE_WARNING, Effort, Method, Posterior
from dpbayes_cli.inference.sequences.sequence_chain import COUNTS_EVERY, STATES_EVERY, SequenceChain
from dpbayes_cli.inference.sequences.sequence_state import SequenceData

_S = TypeVar("_S")
_T = TypeVar("_T")

CHAINS = 4
_STARTS, _START_SWEEPS = 8, 12
_WARM_UP = 60
_RESCALE_EVERY = 16
_RARELY = 3
"""After the warm-up, states and counts are redrawn so many times less often, unless they slow the chains down."""
_SLOW = 0.25
"""Chains with fewer effective draws a sweep than this redraw states and counts as often as during the warm-up."""
_FIRST_CHECK = 64
_USUAL_DRAWS = 1.3
"""About this many draws of a chain are usually as good as one independent draw."""
_MAX_STORED_STATES = 100_000_000
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
    records, convergence = _record_sweeps(chains, effort)
    return _summary(observation, records, convergence, n_draws, effort, n_restarted=n_restarted, naive=naive and noisy)


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


def _run_in_parallel(run: Callable[[_S], _T], chains: Sequence[_S]) -> list[_T]:
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
    """The parameters and states of the sweeps of a chain, and the variances of emissions given latent counts.

    Attributes:
        emission, transition, initial, states: one array for each sweep.
        variance: the conditional variances of emissions, by the index of the sweep.
    """

    def __init__(self) -> None:
        self.emission: list[Floats] = []
        self.transition: list[Floats] = []
        self.initial: list[Floats] = []
        self.states: list[NDArray[np.int8]] = []
        self.variance: dict[int, Floats] = {}

    def extend(self, chain: SequenceChain, sweeps: int) -> None:
        """Sweep the chain, and record every sweep."""
        for _ in range(sweeps):
            chain.sweep()
            if chain.has_counts:
                self.variance[len(self.states)] = chain.conditional_variance()
            same = self.states and np.array_equal(self.states[-1], chain.states)
            self.states.append(self.states[-1] if same else chain.states.astype(np.int8))
            self.emission.append(chain.emission)
            self.transition.append(chain.transition)
            self.initial.append(chain.initial)


@dataclass(frozen=True, eq=False)
class _Draws:
    """The record of a chain as arrays, with the states of every sweep matched to those of a reference.

    Attributes:
        parameters: all parameters in order, shape (n_sweeps, n_parameters).
        states: shape (n_sweeps, n_sequences, n_steps).
        variance: the mean conditional variance of the emissions, shape (n_states, n_columns).
    """

    parameters: Floats
    states: NDArray[np.int8]
    variance: Floats

    @classmethod
    def of(cls, record: _ChainRecord, reference: Integers, sizes: Sequence[int]) -> _Draws:
        """Match a record to a reference, shape (n_sequences, n_steps); ``sizes`` are the numbers of values."""
        n, n_states = len(record.states), len(record.initial[0])
        orders: list[Integers] = []
        for i, states in enumerate(record.states):
            same = i > 0 and states is record.states[i - 1]
            orders.append(orders[-1] if same else match_states(states, reference, n_states))
        rows, order = np.arange(n)[:, None], np.array(orders)
        emission = np.array(record.emission)[rows, order]
        transition = np.array(record.transition)[rows[:, :, None], order[:, :, None], order[:, None, :]]
        parts = [part.reshape(n, -1) for part in np.split(emission, np.cumsum(sizes)[:-1], axis=2)]
        parameters = np.concatenate([*parts, transition.reshape(n, -1), np.array(record.initial)[rows, order]], axis=1)
        renumbered = np.argsort(order, axis=1).astype(np.int8)[np.arange(n)[:, None, None], np.array(record.states)]
        variance = np.mean([each[orders[i]] for i, each in record.variance.items()], axis=0)
        return cls(parameters, np.asarray(renumbered), variance)


def match_states(states: NDArray[np.integer], reference: Integers, n_states: int) -> Integers:
    """Return for each reference state the state that matches it; both then agree at as many steps as possible."""
    from scipy.optimize import linear_sum_assignment

    shared = np.bincount((reference.ravel() * n_states + states.ravel()).astype(np.int64), minlength=n_states**2)
    _, order = linear_sum_assignment(shared.reshape(n_states, n_states), maximize=True)
    return np.asarray(order)


def _record_sweeps(chains: list[SequenceChain], effort: Effort) -> tuple[list[_Draws], Convergence]:
    """Sweep the chains until they have converged or reach the limit; return their draws with matched states."""
    for chain in chains:
        chain.scale_moves()
        chain.states_every, chain.counts_every = _RARELY * STATES_EVERY, _RARELY * COUNTS_EVERY
    sizes = [len(concentrations) for concentrations in chains[0].data.observation.emission]
    columns = monitored_columns(len(chains[0].initial) * (sum(sizes) + len(chains[0].initial) + 1))
    records, sweeps = [_ChainRecord() for _ in chains], 0
    most = min(effort.mcmc_sweeps * effort.extension, max(_MAX_STORED_STATES // chains[0].states.size, _FIRST_CHECK))
    needed = max(effort.ess, required_draws(len(chains), len(columns)))
    next_check = min(most, math.ceil(_USUAL_DRAWS * needed / len(chains)))
    while True:
        run = partial(_ChainRecord.extend, sweeps=next_check - sweeps)
        _run_in_parallel(lambda k: run(records[k], chains[k]), range(len(chains)))  # noqa: B023 - used at once
        sweeps = next_check
        draws = _matched(records, sizes)
        convergence = judge(np.stack([each.parameters[:, columns] for each in draws]), effort)
        if convergence.reached or sweeps >= most:
            return draws, convergence
        if float(convergence.diagnosis.ess_within.min()) < _SLOW * sweeps * len(chains):
            for chain in chains:
                chain.states_every, chain.counts_every = STATES_EVERY, COUNTS_EVERY
        if convergence.from_start and most >= 2 * sweeps:  # so far the chains were warming up
            records = [_ChainRecord() for _ in chains]
            most, sweeps = most - sweeps, 0
        next_check = min(most, max(math.ceil(convergence.growth * next_check), COUNTS_EVERY))


def _matched(records: Sequence[_ChainRecord], sizes: Sequence[int]) -> list[_Draws]:
    """Return the draws with states matched to the last draw of the first chain, numbered by descending frequency."""
    reference = records[0].states[-1].astype(np.int64)
    by_frequency = np.argsort(-np.bincount(reference.ravel(), minlength=len(records[0].initial[0])), kind="stable")
    reference = np.argsort(by_frequency)[reference]
    return [_Draws.of(record, reference, sizes) for record in records]


def _summary(
    observation: NoisySequences,
    records: list[_Draws],
    convergence: Convergence,
    n_draws: int,
    effort: Effort,
    *,
    n_restarted: int,
    naive: bool,
) -> Posterior:
    sizes = [len(concentrations) for concentrations in observation.emission]
    n_states = len(observation.initial)
    chains = np.stack([record.parameters for record in records])
    diagnostics = convergence.diagnostics
    draws = chains.transpose(1, 0, 2).reshape(-1, chains.shape[2])  # every prefix has draws of all chains
    parts = np.split(np.mean([record.variance for record in records], axis=0), np.cumsum(sizes)[:-1], axis=1)
    data_variance = np.concatenate([*(part.ravel() for part in parts), draws[:, sum(sizes) * n_states :].var(axis=0)])
    states = np.stack([record.states for record in records], axis=1)  # in the order of the draws
    described = (
        f"{len(records)} Markov chains of {len(records[0].states):,} sweeps after their warm-up, the best "
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
