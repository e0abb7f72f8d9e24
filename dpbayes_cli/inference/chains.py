"""Run Markov chains until they have converged and hold as many effective draws as were asked for, or patience ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.diagnostics import ess_bulk, ess_tail, has_converged, r_hat

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MOST_ROUNDS = 7
_MONITORED = 40
"""Of more parameters as many, evenly spread, are monitored."""


@dataclass(frozen=True)
class Converged:
    """What a run of chains came to.

    Attributes:
        draws: what the chains returned, evenly thinned, shape (chains, n_draws, ...).
        diagnostics: the worst R-hat and effective sample sizes over the monitored quantities.
        reached: whether R-hat and the effective sample size asked for were reached.
        error: the Monte-Carlo standard error of the worst mean, in units of its standard deviation.
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
        found = self.diagnostics
        return (
            f"the chains have not reached what was asked for (R-hat {found['r_hat']:.3f}, effective draws "
            f"{min(found['ess_bulk'], found['ess_tail']):.0f}): do not use this posterior; try a less informative "
            "prior",
        )


def run_until_converged(
    run: Callable[[int, int], Floats], monitored: Callable[[Floats], Floats], length: int, least_ess: float
) -> Converged:
    """Extend a run, by doubling its thinning, until it is good enough.

    Args:
        run: returns the next draws of all chains, given how many and the thinning, shape (chains, n_draws, ...).
        monitored: turns draws into the quantities that must converge, shape (chains, n_draws, k).
        length: draws a chain.
        least_ess: the effective sample size asked for, in bulk and tail.
    """
    thinning, draws = 1, run(length, 1)
    for rounds in range(_MOST_ROUNDS):
        if rounds:  # twice as long: every second draw so far, and as many new ones twice as far apart
            thinning *= 2
            kept = draws[:, 1::2]
            draws = np.concatenate([kept, run(length - kept.shape[1], thinning)], axis=1)
        watched = monitored(draws)
        k = watched.shape[2]
        columns = np.unique(np.linspace(0, k - 1, min(k, _MONITORED)).astype(int))
        worst = max(r_hat(watched[:, :, i]) for i in columns)
        bulk = min(ess_bulk(watched[:, :, i]) for i in columns)
        tail = min(ess_tail(watched[:, :, i]) for i in columns)
        reached = has_converged(worst) and min(bulk, tail) >= least_ess
        if reached:
            break
    diagnostics = {"r_hat": worst, "ess_bulk": bulk, "ess_tail": tail}
    return Converged(draws, diagnostics, reached, float(1.0 / np.sqrt(bulk)))
