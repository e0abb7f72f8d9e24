"""Run Markov chains until they converge (see ``convergence``) or reach a limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.inference.convergence import MAX_MONITORED, Convergence, judge, monitored_columns, required_draws
from dpbayes_cli.inference.posterior import Effort

CHAINS = 32
"""The number of chains. With few parameters a sweep of 32 chains takes hardly longer than one of 4, because all chains
are one array."""
_MAX_LENGTHS = 32
"""The limit of a run, as a multiple of the length at which convergence is first checked."""
_MAX_STORED_NUMBERS, _MIN_LENGTH = 1 << 22, 50


@dataclass(frozen=True)
class ChainRun:
    """The draws of several chains, and whether they have converged.

    Attributes:
        draws: the draws, evenly thinned, shape (chains, n_draws, ...).
        convergence: the result of the last convergence check.
    """

    draws: Floats
    convergence: Convergence

    @property
    def error(self) -> float:
        """The largest Monte Carlo standard error of a mean, as a fraction of the posterior standard deviation."""
        return float(1.0 / np.sqrt(self.convergence.diagnosis.ess_bulk.min()))


def chain_length(n_draws: int, ess: float, k: int, chains: int = CHAINS) -> int:
    """Return how many draws of each chain to store, enough for the chains to be judged as converged.

    Args:
        n_draws: how many draws are requested in all chains together.
        ess: the effective sample size that the user asked for.
        k: the number of parameters.
        chains: the number of chains.
    """
    needed = max(ess, required_draws(chains, min(k, MAX_MONITORED)))
    affordable = max(_MAX_STORED_NUMBERS // (chains * k), _MIN_LENGTH)
    return max(math.ceil(n_draws / chains), min(affordable, math.ceil(1.25 * needed / chains)))


def run_until_converged(
    run: Callable[[int, int], Floats],
    monitored: Callable[[Floats], Floats],
    length: int,
    effort: Effort,
    most: int = 2,
) -> ChainRun:
    """Run chains until they converge, or until they are as long as the limit allows.

    While the chains disagree or have few effective draws, the first half of their draws is dropped as warm-up. With the
    same generator and a higher limit, the same chains are continued.

    Args:
        run: a function of the number of draws and the thinning that returns the next draws of all chains, shape
            (chains, n_draws, ...).
        monitored: a function of these draws that returns the quantities that must converge, shape (chains, n_draws, k).
        length: the number of draws of each chain before the first check. A chain has at most ``length * _MAX_LENGTHS *
            effort.extension`` sweeps. Every second draw is dropped when there are more than ``most * length``.
        effort: the required effective sample size, and how often the limit is raised.
    """
    thinning, draws, sweeps_left = 1, run(length, 1), (_MAX_LENGTHS * effort.extension - 1) * length
    while True:
        quantities = monitored(draws)
        convergence = judge(quantities[:, :, monitored_columns(quantities.shape[2])], effort)
        if convergence.reached or sweeps_left <= 0:
            return ChainRun(draws, convergence)
        more = math.ceil((convergence.growth - 1.0) * draws.shape[1])
        if convergence.from_start:
            draws = draws[:, draws.shape[1] // 2 :]
        if draws.shape[1] + more > most * length:
            # keeps the last draw, so that later draws are evenly spaced
            draws = draws[:, (draws.shape[1] + 1) % 2 :: 2]
            thinning, more = 2 * thinning, math.ceil(more / 2)
        more = max(min(more, math.ceil(sweeps_left / thinning)), length - draws.shape[1])
        draws = np.concatenate([draws, run(more, thinning)], axis=1)
        sweeps_left -= more * thinning


class Trace:
    """Evenly thinned states of chains; whenever more than ``most`` states are stored, every second one is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: list[Floats] = []
        self._thinning = 1
        self._seen = 0

    def add(self, state: Floats) -> None:
        """Record the next state, shape (chains, k)."""
        self._seen += 1
        if self._seen % self._thinning:
            return
        self._states.append(state.copy())
        if len(self._states) > self._most:
            self._states = self._states[1::2]
            self._thinning *= 2
            self._seen = 0 if self._seen % self._thinning == 0 else self._thinning // 2

    def clear(self) -> None:
        """Remove all states."""
        self._states.clear()
        self._thinning, self._seen = 1, 0

    def values(self) -> Floats:
        """Return the recorded states, shape (chains, n, k)."""
        return np.stack(self._states, axis=1)
