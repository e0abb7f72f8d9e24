"""The rule that decides whether Markov chains may stop: enough effective draws, and chains that agree.

For each monitored quantity, its normal scores and those of its distance from the median are compared over chains. If
all chains have the same law, the mean of a chain with n effective draws has the variance sigma^2 / n. Two F tests
follow: that all chains have the same mean, and that the second halves of the chains have the same mean as the first
ones. Effective draws are counted from the autocorrelation within chains alone, so a disagreement
of chains does not lower them. The chains agree unless a test rejects at ``FALSE_ALARM_RATE``, shared among all tests
(Bonferroni): chains that agree are refused at a rate of at most that, because only the last look at a run refuses it.

Agreement is worth something only if the test has power. The number of effective draws that is required makes the test
reject with probability 0.995 if half of the chains are ``DETECTED_SHIFT`` standard deviations away from the other half
in one quantity. With 16 or more chains it then also rejects, with probability at least 0.99, if each chain is off by an
independent normal error of that standard deviation. A fixed threshold of R-hat has neither property: for half chains
with n effective draws each, R-hat of ideal draws is about 1 + 1 / (2 n).

Source: Scheffe 1959, The Analysis of Variance, ch. 3 (one-way layout, power); Geyer 1992 (effective draws).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.diagnostics import TESTS, Diagnosis, diagnose, within_freedom
from dpbayes_cli.inference.posterior import Effort

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

FALSE_ALARM_RATE = 1e-3
DETECTED_SHIFT = 0.3
_MISS_RATE = 0.005
_FORGETTING_DRAWS = 10.0
"""A chain with fewer effective draws may not have forgotten its start."""
MAX_MONITORED = 64
"""The largest number of quantities whose convergence is checked; they are spread evenly over all quantities."""


@dataclass(frozen=True)
class Convergence:
    """What is known about the convergence of chains at one look.

    Attributes:
        diagnosis: the diagnostics of each monitored quantity.
        effort: the effective sample size that the user asked for, and by how much the limit was raised already.
        chains: the number of chains.
        required: the effective sample size within chains that the test of agreement requires.
    """

    diagnosis: Diagnosis
    effort: Effort
    chains: int
    required: float

    @property
    def p_value(self) -> float:
        """The p-value of the hypothesis that all chains have the same law, over all tests of all quantities."""
        return float(min(1.0, TESTS * self.diagnosis.p_value.size * self.diagnosis.p_value.min()))

    @property
    def agree(self) -> bool:
        """Whether no test finds a difference between chains, or between the halves of a run."""
        return self.p_value > FALSE_ALARM_RATE

    @property
    def enough(self) -> bool:
        """Whether there are as many effective draws as the user asked for, and as agreement requires."""
        bulk, tail, within = self._smallest
        return min(bulk, tail) >= self.effort.ess and within >= self.required

    @property
    def reached(self) -> bool:
        """Whether the chains may stop."""
        return self.enough and self.agree

    @property
    def from_start(self) -> bool:
        """Whether the first half of the draws may depend on where the chains started, and is to be dropped.

        A trend that all chains share looks like autocorrelation, so that chains with few effective draws seem to agree.
        """
        return not self.agree or self._smallest[2] < _FORGETTING_DRAWS * self.chains

    @property
    def growth(self) -> float:
        """How many times as long the run should be at the next look, from 1.25 to 2."""
        bulk, tail, within = self._smallest
        missing = max(self.required / within, self.effort.ess / min(bulk, tail))
        return 2.0 if self.from_start else min(max(1.1 * missing, 1.25), 2.0)

    @property
    def _smallest(self) -> tuple[float, float, float]:
        each = self.diagnosis
        return float(each.ess_bulk.min()), float(each.ess_tail.min()), float(each.ess_within.min())

    @property
    def diagnostics(self) -> dict[str, float]:
        """The worst diagnostics, as the release document holds them."""
        bulk, tail, within = self._smallest
        return {
            "r_hat": float(self.diagnosis.r_hat.max()),
            "ess_bulk": bulk,
            "ess_tail": tail,
            "ess_within_chains": within,
            "ess_required": self.required,
            "agreement_p_value": self.p_value,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know if the chains have not reached their goal, and what to type next."""
        if self.reached:
            return ()
        bulk, tail, within = self._smallest
        draws, goal = min(bulk, tail), self.effort.ess
        if within < self.required:
            draws, goal = within, max(goal, self.required)
        r_hat = f"(R-hat {self.diagnosis.r_hat.max():.4g})"
        more = f"to continue the chains at no privacy cost: dpbayes infer BUNDLE{' --more' * (self.effort.more + 1)}"
        if within >= self.required and not self.agree:
            return (
                f"the Markov chains disagree {r_hat} after {within:,.0f} effective draws: do not use this posterior; "
                f"try a less informative prior, or {more}",
            )
        counted = f"the Markov chains have {draws:,.0f} effective draws, and {goal:,.0f} are required"
        if not self.agree:
            return (f"{counted}; the chains do not agree yet {r_hat}: do not use this posterior; {more}",)
        seen = DETECTED_SHIFT * math.sqrt(self.required / within)
        return (
            f"{counted}; the chains agree so far, but a difference of less than {seen:.2g} posterior standard "
            f"deviations might go unseen; {more}",
        )


def judge(quantities: Floats, effort: Effort) -> Convergence:
    """Return what is known about the convergence of chains.

    Args:
        quantities: the monitored quantities, shape (chains, n_draws, k); see ``monitored_columns``.
        effort: the effective sample size that the user asked for, and by how much the limit was raised already.
    """
    chains, _, k = quantities.shape
    return Convergence(diagnose(quantities), effort, chains, required_draws(chains, k))


def monitored_columns(k: int) -> Integers:
    """Return the indices of the quantities to monitor, at most ``MAX_MONITORED`` of k."""
    return np.unique(np.linspace(0, k - 1, min(k, MAX_MONITORED)).astype(int))


def required_draws(chains: int, k: int) -> float:
    """Return the effective draws, in all chains, that the test of k quantities needs to see ``DETECTED_SHIFT``."""
    from scipy.special import fdtri, ncfdtrinc

    between, rate = chains - 1, FALSE_ALARM_RATE / (TESTS * k)
    draws = 4000.0
    for _ in range(4):  # the degrees of freedom depend on the number of draws, but hardly
        freedom = float(within_freedom(draws))
        # half of the chains off by s/2 on one side, half on the other: noncentrality n (s/2)^2
        draws = float(ncfdtrinc(between, freedom, _MISS_RATE, float(fdtri(between, freedom, 1.0 - rate))))
        draws /= (DETECTED_SHIFT / 2.0) ** 2
    return draws
