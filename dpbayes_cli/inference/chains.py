"""Run Markov chains until they have converged and reached the required effective sample size, or a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.diagnostics import diagnose, has_converged

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_ROUNDS = 7
_MAX_MONITORED = 40
"""The largest number of quantities whose convergence is checked; they are spread evenly over all quantities."""


@dataclass(frozen=True)
class ChainRun:
    """The draws of several chains, and whether they have converged.

    Attributes:
        draws: the draws, evenly thinned, shape (chains, n_draws, ...).
        diagnostics: the largest R-hat and the smallest effective sample sizes of the monitored quantities.
        reached: whether the required R-hat and effective sample size were reached.
        error: the largest Monte Carlo standard error of a mean, as a fraction of the posterior standard deviation.
    """

    draws: Floats
    diagnostics: dict[str, float]
    reached: bool
    error: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning for readers of the posterior, if the chains have not converged."""
        if self.reached:
            return ()
        r_hat, bulk, tail = (self.diagnostics[name] for name in ("r_hat", "ess_bulk", "ess_tail"))
        return (
            "the chains have not reached the required convergence and effective sample size (R-hat "
            f"{r_hat:.3f}, effective sample size {min(bulk, tail):.0f}): do not use this posterior; try a less "
            "informative prior",
        )


def run_until_converged(
    run: Callable[[int, int], Floats], monitored: Callable[[Floats], Floats], length: int, required_ess: float
) -> ChainRun:
    """Run chains, and double their length until they have converged with the required effective sample size.

    A run that has not converged ends when it reaches a limit on its length.

    Args:
        run: function of the number of draws and the thinning; it returns the next draws of all chains, shape (chains,
            n_draws, ...).
        monitored: turns draws into the quantities that must converge, shape (chains, n_draws, k).
        length: draws per chain; a longer run is thinned to this length.
        required_ess: the required effective sample size, in bulk and tail.
    """
    thinning, draws = 1, run(length, 1)
    for rounds in range(_MAX_ROUNDS):
        if rounds:  # double the run: keep every second draw, and add as many new ones with twice the thinning
            thinning *= 2
            kept = draws[:, 1::2]
            draws = np.concatenate([kept, run(length - kept.shape[1], thinning)], axis=1)
        quantities = monitored(draws)
        k = quantities.shape[2]
        columns = np.unique(np.linspace(0, k - 1, min(k, _MAX_MONITORED)).astype(int))
        r_hats, *sizes = diagnose(quantities[:, :, columns])
        worst, (bulk, tail) = float(r_hats.max()), (float(size.min()) for size in sizes)
        reached = has_converged(worst) and min(bulk, tail) >= required_ess
        if reached:
            break
    diagnostics = {"r_hat": worst, "ess_bulk": bulk, "ess_tail": tail}
    return ChainRun(draws, diagnostics, reached, float(1.0 / np.sqrt(bulk)))


class Trace:
    """Evenly thinned states of chains; when more than ``most`` states are stored, every second one is dropped."""

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
