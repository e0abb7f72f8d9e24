"""The posterior of a hidden Markov model whose records were counted and seen through noise.

Chains of hidden Markov models have many places to settle at. Several are started, the best go on, and those that then
stay at a worse place than the best one begin again from where that is. States have no names: every draw's states are
matched to those of the first chain's last draw, by the steps that they share, and numbered by how often they occur.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySequences
from dpbayes_cli.inference.diagnostics import diagnose, has_converged
from dpbayes_cli.inference.posterior import Effort, Method, Posterior, summarize_draws
from dpbayes_cli.inference.sequences.sequence_chain import SequenceChain
from dpbayes_cli.inference.sequences.sequence_data import SequenceData

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpbayes_cli.base.numeric import Floats, Integers

CHAINS = 4
_STARTS, _SHORT = 8, 12
_WARM_UP = 60
_RESCALED = 15
_APART = 10.0
"""So much worse than the best chain's log likelihood, beside what both vary by, is another place."""
_MONITORED = 128


def infer_sequences(
    observation: NoisySequences, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of emissions, transitions and the first state; see ``solve.infer``.

    The parameters are the emissions of each feature, state by state; the transitions, row by row; the first state's.
    At most as many samples are returned as there are sweeps of all chains.

    Raises:
        TypeError: noise that is neither Laplace nor Gaussian.
    """
    naive = method == "naive"
    noisy = any(law is not None for law in observation.noises)
    data = SequenceData.of(observation, naive=naive)
    begun = [SequenceChain(data, seed, effort.state_sampler) for seed in rng.spawn(_STARTS)]
    for chain in begun:
        chain.start()
    _each(begun, _SHORT)
    begun.sort(key=lambda chain: chain.log_likelihood, reverse=True)
    chains = begun[:CHAINS]
    again = _warmed(chains)
    kept = _kept(chains, effort.mcmc_sweeps)
    return _summary(observation, kept, n_draws, effort, again=again, naive=naive and noisy)


def _each(chains: list[SequenceChain], sweeps: int) -> None:
    """Sweep several chains, side by side on the processors; equal generators give equal results."""

    def run(chain: SequenceChain) -> None:
        for i in range(sweeps):
            if i % _RESCALED == 0:
                chain.scale_moves()
            chain.sweep()

    _side_by_side(run, chains)


def _side_by_side(run: Callable[[SequenceChain], None], chains: Sequence[SequenceChain]) -> None:
    with ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1)) as pool:
        for _ in pool.map(run, chains):
            pass


def _warmed(chains: list[SequenceChain]) -> int:
    """Warm chains up, and let those at a worse place begin again at the best one's.

    Returns:
        How many began again.
    """
    seen: dict[int, list[float]] = {id(chain): [] for chain in chains}

    def run(chain: SequenceChain) -> None:
        for i in range(_WARM_UP):
            if i % _RESCALED == 0:
                chain.scale_moves()
            chain.sweep()
            if i >= _WARM_UP // 2:
                seen[id(chain)].append(chain.log_likelihood)

    _side_by_side(run, chains)
    means = np.array([np.mean(seen[id(chain)]) for chain in chains])
    spread = float(np.mean([np.std(seen[id(chain)]) for chain in chains]))
    best = int(means.argmax())
    worse = [chain for chain, mean in zip(chains, means, strict=True) if mean < means[best] - _APART - 3.0 * spread]
    for chain in worse:
        chain.take_place(chains[best])
    if worse:
        _each(worse, _WARM_UP // 2)
    return len(worse)


class _Kept:
    """What the sweeps of a chain left behind: parameters, states, and how far emissions vary given latent counts."""

    def __init__(self, sweeps: int, chain: SequenceChain) -> None:
        self.emission = np.empty((sweeps, *chain.emission.shape))
        self.transition = np.empty((sweeps, *chain.transition.shape))
        self.initial = np.empty((sweeps, *chain.initial.shape))
        self.states = np.empty((sweeps, *chain.states.shape), dtype=np.int8)
        self.variance: list[tuple[int, Floats]] = []

    def note(self, i: int, chain: SequenceChain) -> None:
        """Note a sweep."""
        self.emission[i], self.transition[i], self.initial[i] = chain.emission, chain.transition, chain.initial
        self.states[i] = chain.states
        if chain.has_counts:
            self.variance.append((i, chain.conditional_variance()))

    def relabel(self, reference: Integers) -> None:
        """Match the states of every sweep to those of a reference."""
        n_states = self.initial.shape[1]
        orders = [matched(states, reference, n_states) for states in self.states]
        for i, order in enumerate(orders):
            self.emission[i], self.initial[i] = self.emission[i][order], self.initial[i][order]
            self.transition[i] = self.transition[i][np.ix_(order, order)]
            self.states[i] = np.argsort(order)[self.states[i]]
        self.variance = [(i, variance[orders[i]]) for i, variance in self.variance]

    def draws(self, sizes: Sequence[int]) -> Floats:
        """Return the draws in the order of the parameters, shape (n_sweeps, n_parameters)."""
        n = len(self.emission)
        parts = np.split(self.emission, np.cumsum(sizes)[:-1], axis=2)
        return np.concatenate(
            [*(part.reshape(n, -1) for part in parts), self.transition.reshape(n, -1), self.initial], axis=1
        )


def matched(states: Integers, reference: Integers, n_states: int) -> Integers:
    """Return, for each state of a reference, the state that is it: those that share the most steps are paired."""
    from scipy.optimize import linear_sum_assignment

    shared = np.bincount((reference.ravel() * n_states + states.ravel()).astype(np.int64), minlength=n_states**2)
    _, order = linear_sum_assignment(shared.reshape(n_states, n_states), maximize=True)
    return np.asarray(order)


def _kept(chains: list[SequenceChain], sweeps: int) -> list[_Kept]:
    """Sweep on, and keep what is needed, states matched over all chains and numbered by how often they occur."""
    kept = {id(chain): _Kept(sweeps, chain) for chain in chains}

    def run(chain: SequenceChain) -> None:
        chain.scale_moves()
        for i in range(sweeps):
            chain.sweep()
            kept[id(chain)].note(i, chain)

    _side_by_side(run, chains)
    found = list(kept.values())
    n_states = len(chains[0].initial)
    reference = found[0].states[-1].astype(np.int64)
    often = np.argsort(-np.bincount(reference.ravel(), minlength=n_states), kind="stable")
    reference = np.argsort(often)[reference]
    for each in found:
        each.relabel(reference)
    return found


def _summary(
    observation: NoisySequences,
    kept: list[_Kept],
    n_draws: int,
    effort: Effort,
    *,
    again: int,
    naive: bool,
) -> Posterior:
    """Summarize what the chains left behind."""
    sizes = [len(each) for each in observation.emission]
    n_states = len(observation.initial)
    chains = np.stack([each.draws(sizes) for each in kept])
    columns = np.unique(np.linspace(0, chains.shape[2] - 1, _MONITORED).astype(int))
    r_hats, bulk, tail = diagnose(chains[:, :, columns])
    worst, fewest = float(r_hats.max()), float(min(bulk.min(), tail.min()))
    draws = chains.transpose(1, 0, 2).reshape(-1, chains.shape[2])  # by turns, so that every prefix mixes all chains
    given = np.mean([variance for each in kept for _, variance in each.variance], axis=0)
    parts = np.split(given, np.cumsum(sizes)[:-1], axis=1)
    of_data = np.concatenate([*(part.ravel() for part in parts), draws[:, sum(sizes) * n_states :].var(axis=0)])
    states = np.concatenate([each.states for each in kept])
    described = (
        f"{len(kept)} Markov chains of {len(kept[0].states)} sweeps after {_WARM_UP}, the best of {_STARTS} that "
        f"were started; states are drawn {'together' if effort.state_sampler == 'blocked' else 'one after the other'}"
    )
    if again:
        described += f"; {again} chains that stayed at a less likely place began again"
    warnings = []
    if naive:
        warnings.append("the naive posterior ignores the noise and is too narrow")
    if not has_converged(worst) or fewest < effort.ess:
        warnings.append(
            f"of {len(columns)} parameters looked at the largest R-hat is {worst:.3f} and the fewest effective draws "
            f"are {fewest:.0f}, where {effort.ess:.0f} were asked for: more sweeps (inference.mcmc_sweeps) help"
        )
    return Posterior(
        summarize_draws(draws, of_data),
        draws[:n_draws],
        described,
        exact=False,
        monte_carlo=float(1.0 / np.sqrt(max(fewest, 1.0))),
        diagnostics={"r_hat": worst, "ess_bulk": float(bulk.min()), "ess_tail": float(tail.min())},
        warnings=tuple(warnings),
        chains=chains,
        states=np.stack([(states == k).mean(axis=0) for k in range(n_states)], axis=-1),
    )
