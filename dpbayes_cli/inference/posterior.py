"""The result of every inference method: a summary of each parameter, posterior draws, and how both were computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dpbayes_cli.base.numeric import Booleans, Floats, Integers
from dpbayes_cli.privacy.lazy_numpy import np

QUANTILES = {"q05": 0.05, "q50": 0.50, "q95": 0.95}
NAIVE_WARNING = "the naive (plug-in) posterior ignores the noise and is too narrow"

MORE = 8
"""The factor by which each ``--more`` of ``dpbayes infer`` raises the limit on the length of chains."""

Method = Literal["noise-aware", "chain", "naive"]


@dataclass(frozen=True)
class Effort:
    """How much computation an inference spends.

    Attributes:
        summary_draws: the number of independent draws from which a summary without a closed form is computed. With the
            default of 2^15 the Monte Carlo error of a mean is 0.6 % of the posterior standard deviation.
        ess: the smallest effective sample size, in bulk and tails, at which chains may stop.
        more: how many times the limit on the length of chains is multiplied by ``MORE``. With the same generator, the
            same chains are continued.
        mcmc_sweeps: the limit of the sweeps of each chain after warm-up; only for hidden Markov models.
        state_sampler: whether the states of a sequence are drawn together (``blocked``), or one after the other with
            the transitions integrated out (``collapsed``); only for hidden Markov models.
    """

    summary_draws: int = 1 << 15
    ess: float = 400.0
    more: int = 0
    mcmc_sweeps: int = 2000
    state_sampler: Literal["blocked", "collapsed"] = "blocked"

    @property
    def extension(self) -> int:
        """The factor by which the limit on the length of chains is raised."""
        return int(MORE**self.more)


@dataclass(frozen=True)
class Marginal:
    """The summary of one parameter's posterior; sd^2 = sd_data^2 + sd_noise^2.

    Attributes:
        mean: posterior mean.
        sd: posterior standard deviation.
        quantiles: the quantiles named in ``QUANTILES``.
        sd_data: the part of ``sd`` that would remain without noise: the square root of E[Var(parameter | exact
            counts)].
        sd_noise: the part of ``sd`` that the noise adds: the square root of Var(E[parameter | exact counts]).
    """

    mean: float
    sd: float
    quantiles: dict[str, float]
    sd_data: float
    sd_noise: float


def interval_ends(draws: Floats, level: float, from_zero: Booleans) -> tuple[Floats, Floats]:
    """Return the ends of central intervals or, where allowed and shorter, of intervals from 0, (..., n_parameters).

    Args:
        draws: draws of parameters, shape (..., n_draws, n_parameters).
        level: the probability of an interval.
        from_zero: whether the interval of a parameter may begin at 0, shape (n_parameters,).
    """
    low, at_level, high = np.quantile(draws, [(1.0 - level) / 2.0, level, (1.0 + level) / 2.0], axis=-2)
    shorter = from_zero & (at_level < high - low)
    return np.where(shorter, 0.0, low), np.where(shorter, at_level, high)


@dataclass(frozen=True)
class Posterior:
    """The posterior of the parameters, for example of category probabilities, in the order of the categories.

    Attributes:
        marginals: one summary per parameter.
        draws: draws of the parameters, shape (n_draws, n_parameters).
        method: how the posterior was computed, for readers.
        exact: whether the draws are independent draws from the exact posterior, up to floating-point rounding.
        monte_carlo: the largest Monte Carlo standard error of a mean, as a fraction of the posterior standard
            deviation; 0 if nothing was sampled.
        diagnostics: R-hat, effective sample sizes and the p-value of agreement, if chains were run.
        warnings: what a reader must know before using the posterior.
        chains: all draws of the Markov chains, shape (n_chains, n_draws_per_chain, n_parameters); None if the draws are
            independent.
        states: the probability that each sequence is in each state at each step, shape (n_sequences, n_steps,
            n_states); None unless the model is a hidden Markov model.
        effects: draws of average effects by name, of a regression with a mean function.
        contrast_sds: the standard deviations of changes of the linear predictor that would remain without noise, by the
            name of the change of a feature, of a regression with a mean function.
        drawn_states: the states of each of ``draws``, shape (n_draws, n_sequences, n_steps); None for other models.
    """

    marginals: tuple[Marginal, ...]
    draws: Floats
    method: str
    exact: bool
    monte_carlo: float = 0.0
    diagnostics: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    chains: Floats | None = None
    states: Floats | None = None
    drawn_states: Integers | None = None
    effects: dict[str, Floats] = field(default_factory=dict)
    contrast_sds: dict[str, float] = field(default_factory=dict)
