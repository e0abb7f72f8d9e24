"""Run Markov chains until they have converged and reached the required effective sample size, or a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.diagnostics import ess_bulk, ess_tail, has_converged, r_hat

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MAX_ROUNDS = 7
_MAX_MONITORED = 40
"""If there are more quantities, this many, evenly spread over them, are monitored."""


@dataclass(frozen=True)
class ChainRun:
    """The draws of several chains, and how far they can be trusted.

    Attributes:
        draws: evenly thinned, shape (chains, n_draws, ...).
        diagnostics: the largest R-hat and the smallest effective sample sizes of the monitored quantities.
        reached: whether the required R-hat and effective sample size were reached.
        error: the largest Monte Carlo standard error of a mean, in units of its standard deviation.
    """

    draws: Floats
    diagnostics: dict[str, float]
    reached: bool
    error: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before using the draws."""
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
    """Return a run of chains, extended until it converges and has the effective sample size, or a limit is reached.

    Args:
        run: returns the next draws of all chains, given their number and the thinning, shape (chains, n_draws, ...).
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
        worst = max(r_hat(quantities[:, :, i]) for i in columns)
        bulk = min(ess_bulk(quantities[:, :, i]) for i in columns)
        tail = min(ess_tail(quantities[:, :, i]) for i in columns)
        reached = has_converged(worst) and min(bulk, tail) >= required_ess
        if reached:
            break
    diagnostics = {"r_hat": worst, "ess_bulk": bulk, "ess_tail": tail}
    return ChainRun(draws, diagnostics, reached, float(1.0 / np.sqrt(bulk)))
