"""Decide whether Markov chains have converged: they must agree with each other and have enough effective draws.

Two F tests are applied to the normal scores of each monitored quantity, and to the normal scores of its distance from
the median. One test compares the means of the chains. The other compares the mean of the first halves of the chains
with the mean of the second halves. Both use that the mean of n effective draws has the variance sigma^2 / n. Effective
draws are counted from the autocorrelation within chains alone, so a disagreement between chains does not lower them.
The chains agree unless a test rejects at ``FALSE_ALARM_RATE``, which is shared among all tests (Bonferroni). Chains
that have converged are rejected at most at this rate, because only the last check of a run counts.

Agreement means little if the tests have no power. The required number of effective draws is therefore so large that the
first test rejects with probability 0.995 if the means of half of the chains are ``DETECTED_SHIFT`` standard deviations
away from those of the other half in one quantity. With 16 or more chains it then also rejects with probability at least
0.99 if each chain's mean has an independent normal error of that standard deviation. A fixed threshold on R-hat has
neither property: for independent draws R-hat is about 1 + 1 / (2 n), where n is the number of draws in half a chain.

Source: Scheffe 1959, The Analysis of Variance, ch. 3 (one-way layout, power); Geyer 1992 (effective draws).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.inference.diagnostics import TESTS, Diagnosis, diagnose, within_freedom
from dpbayes_cli.inference.posterior import Effort

FALSE_ALARM_RATE = 1e-3
DETECTED_SHIFT = 0.3
_MISS_RATE = 0.005
_MIN_DRAWS_FROM_START = 10.0
"""A chain with fewer effective draws may still depend on where it started."""
MAX_MONITORED = 64
"""The largest number of quantities whose convergence is checked; they are spread evenly over all quantities."""


@dataclass(frozen=True)
class Convergence:
    """The result of one convergence check.

    Attributes:
        diagnosis: the diagnostics of each monitored quantity.
        effort: the effective sample size that the user asked for, and how often the limit of chains was raised.
        chains: the number of chains.
        required: the effective sample size within chains that the tests of agreement require.
    """

    diagnosis: Diagnosis
    effort: Effort
    chains: int
    required: float

    @property
    def p_value(self) -> float:
        """The p-value of the hypothesis that all chains have the same law, adjusted for the number of tests."""
        return float(min(1.0, TESTS * self.diagnosis.p_value.size * self.diagnosis.p_value.min()))

    @property
    def agree(self) -> bool:
        """Whether no test finds a difference between the chains or between the halves of the run."""
        return self.p_value > FALSE_ALARM_RATE

    @property
    def enough(self) -> bool:
        """Whether there are as many effective draws as the user asked for and as the tests of agreement require."""
        bulk, tail, within = self._smallest
        return min(bulk, tail) >= self.effort.ess and within >= self.required

    @property
    def reached(self) -> bool:
        """Whether the chains may stop."""
        return self.enough and self.agree

    @property
    def from_start(self) -> bool:
        """Whether the draws may depend on where the chains started, so that their first half must be dropped.

        Chains with few effective draws may agree only because they share a trend, which looks like autocorrelation.
        """
        return not self.agree or self._smallest[2] < _MIN_DRAWS_FROM_START * self.chains

    @property
    def growth(self) -> float:
        """The factor by which the run should be longer at the next check, from 1.25 to 2."""
        bulk, tail, within = self._smallest
        missing = max(self.required / within, self.effort.ess / min(bulk, tail))
        return 2.0 if self.from_start else min(max(1.1 * missing, 1.25), 2.0)

    @property
    def _smallest(self) -> tuple[float, float, float]:
        d = self.diagnosis
        return float(d.ess_bulk.min()), float(d.ess_tail.min()), float(d.ess_within.min())

    @property
    def diagnostics(self) -> dict[str, float]:
        """The worst diagnostics over all quantities, by their names in the release document."""
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
        """What a reader must know if the chains have not converged, and what to type next; empty if they have."""
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
        too_few = f"the Markov chains have {draws:,.0f} effective draws, but {goal:,.0f} are required"
        if not self.agree:
            return (f"{too_few}; the chains do not agree yet {r_hat}: do not use this posterior; {more}",)
        detectable = DETECTED_SHIFT * math.sqrt(self.required / within)
        return (
            f"{too_few}; the chains agree so far, but a difference between chains of less than {detectable:.2g} "
            f"posterior standard deviations might go unseen; {more}",
        )


def judge(quantities: Floats, effort: Effort) -> Convergence:
    """Return the result of a convergence check.

    Args:
        quantities: the monitored quantities, shape (chains, n_draws, k); see ``monitored_columns``.
        effort: see ``Convergence``.
    """
    chains, _, k = quantities.shape
    return Convergence(diagnose(quantities), effort, chains, required_draws(chains, k))


def drift_p_value(chains: Floats) -> float:
    """Return the p-value of the hypothesis that independent chains do not drift, adjusted for the number of tests.

    It is the second test for chains of which each has a law of its own, and that may be too short to count effective
    draws: t tests of the changes of the chains' means between their first and their second halves.

    Args:
        chains: the draws, shape (chains, n_draws, k).
    """
    from scipy.special import stdtr

    draws = chains[:, :, monitored_columns(chains.shape[2])]
    values = np.concatenate([draws, np.abs(draws - np.median(draws, axis=(0, 1)))], axis=2)
    n, half = len(values), values.shape[1] // 2
    changes = values[:, -half:].mean(axis=1) - values[:, :half].mean(axis=1)
    errors = changes.std(axis=0, ddof=1) / math.sqrt(n)
    t = changes.mean(axis=0) / np.where(errors > 0.0, errors, 1.0)
    return float(min(1.0, 2.0 * t.size * stdtr(n - 1, -np.abs(t).max())))


def monitored_columns(k: int) -> Integers:
    """Return the indices of the quantities to monitor, at most ``MAX_MONITORED`` of k."""
    return np.unique(np.linspace(0, k - 1, min(k, MAX_MONITORED)).astype(int))


def required_draws(chains: int, k: int) -> float:
    """Return how many effective draws in all chains together the tests of k quantities need to find the shift.

    The shift is ``DETECTED_SHIFT``; see the beginning of the module.
    """
    from scipy.special import fdtri, ncfdtrinc

    between, rate = chains - 1, FALSE_ALARM_RATE / (TESTS * k)
    draws = 4000.0
    for _ in range(4):  # a fixed point, because the degrees of freedom depend on the number of draws
        freedom = float(within_freedom(draws))
        # half of the chains are s/2 above the mean, and half are s/2 below it: the noncentrality is n (s/2)^2
        draws = float(ncfdtrinc(between, freedom, _MISS_RATE, float(fdtri(between, freedom, 1.0 - rate))))
        draws /= (DETECTED_SHIFT / 2.0) ** 2
    return draws
