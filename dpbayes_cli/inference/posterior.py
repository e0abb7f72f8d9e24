"""The result of every inference method: a summary of each parameter, draws, and how they were obtained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

QUANTILES = {"q05": 0.05, "q50": 0.50, "q95": 0.95}

Method = Literal["noise-aware", "chain", "naive"]


@dataclass(frozen=True)
class Effort:
    """How much computation an inference spends.

    Attributes:
        summary_draws: independent draws behind a summary without a closed form; the default of 2^15 leaves a
            Monte Carlo error of 0.6 % of a standard deviation.
        ess: the effective sample size that chains must reach, in bulk and tails.
        mcmc_sweeps: hidden Markov models: the sweeps of each chain after warm-up.
        state_sampler: hidden Markov models: whether the states of a sequence are drawn together (``blocked``), or one
            after the other with the transitions integrated out (``collapsed``).
    """

    summary_draws: int = 1 << 15
    ess: float = 400.0
    mcmc_sweeps: int = 120
    state_sampler: Literal["blocked", "collapsed"] = "blocked"


@dataclass(frozen=True)
class Marginal:
    """The summary of one parameter's posterior.

    Attributes:
        mean: posterior mean.
        sd: posterior standard deviation.
        quantiles: the quantiles named in ``QUANTILES``.
        sd_data: the part of ``sd`` that the data leave: the root of the mean of the variance given the exact counts.
        sd_noise: the part that the noise adds: the standard deviation of the mean given the exact counts.
            sd^2 = sd_data^2 + sd_noise^2.
    """

    mean: float
    sd: float
    quantiles: dict[str, float]
    sd_data: float
    sd_noise: float


@dataclass(frozen=True)
class Posterior:
    """The posterior of the parameters, e.g. of category probabilities, in the order of the categories.

    Attributes:
        marginals: one summary per parameter.
        draws: draws of the parameters, shape (n_draws, n_parameters).
        method: how the posterior was computed, one sentence.
        exact: whether the draws are independent draws from the exact posterior, up to floating-point rounding.
        monte_carlo: the largest Monte Carlo standard error of a mean, in units of its sd; 0 if nothing was sampled.
        diagnostics: R-hat and effective sample sizes, if chains were run.
        warnings: what a reader must know before using the posterior.
        chains: all draws by Markov chain, shape (n_chains, n_draws_per_chain, n_parameters); None for independent
            draws.
        states: hidden Markov models: the probability that each sequence is in each state at each step, shape
            (n_sequences, n_steps, n_states); None for other models.
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


def summarize_draws(values: Floats, data: Floats) -> tuple[Marginal, ...]:
    """Return the summary of each parameter from draws.

    Args:
        values: draws, shape (n_draws, n_parameters).
        data: the part of each variance that the data leave, capped at the variance, shape (n_parameters,).
    """
    import numpy as np

    mean, variance = values.mean(axis=0), values.var(axis=0)
    data = np.minimum(data, variance)
    quantiles = np.quantile(values, list(QUANTILES.values()), axis=0)
    return tuple(
        Marginal(
            float(mean[k]),
            float(variance[k] ** 0.5),
            {name: float(quantiles[i, k]) for i, name in enumerate(QUANTILES)},
            float(data[k] ** 0.5),
            float((variance[k] - data[k]) ** 0.5),
        )
        for k in range(values.shape[1])
    )


def summarize_count_draws(
    counts: Integers, concentration: Sequence[float], theta: Floats
) -> tuple[tuple[Marginal, ...], float]:
    """Return the summary of each category's probability from draws of the latent counts.

    Means and standard deviations average the conjugate moments over the draws (Rao-Blackwell); quantiles are those of
    ``theta``.

    Args:
        counts: draws of the counts, shape (n_draws, n_categories).
        concentration: the concentration of the Dirichlet prior, one per category.
        theta: draws of theta given those counts, same shape.

    Returns:
        The marginals, and the largest Monte Carlo standard error of a mean for independent draws, in units of its sd.
    """
    import numpy as np

    shape = counts + np.asarray(concentration, dtype=np.float64)
    total = shape.sum(axis=1, keepdims=True)
    conditional_mean = shape / total
    conditional_variance = conditional_mean * (1.0 - conditional_mean) / (total + 1.0)
    mean = conditional_mean.mean(axis=0)
    data, noise = conditional_variance.mean(axis=0), conditional_mean.var(axis=0)
    sd = np.sqrt(data + noise)
    quantiles = np.quantile(theta, list(QUANTILES.values()), axis=0)
    marginals = tuple(
        Marginal(
            float(mean[k]),
            float(sd[k]),
            {name: float(quantiles[i, k]) for i, name in enumerate(QUANTILES)},
            float(np.sqrt(data[k])),
            float(np.sqrt(noise[k])),
        )
        for k in range(counts.shape[1])
    )
    return marginals, float(np.max(np.sqrt(noise) / sd) / np.sqrt(len(counts)))


def draw_theta(counts: Integers, concentration: Sequence[float], rng: np.random.Generator) -> Floats:
    """Draw theta given counts, one draw per row: Dirichlet(concentration + counts).

    Gamma variables with a shape below one are drawn as logarithms, so that tiny concentrations do not underflow.
    """
    import numpy as np

    shape = counts + np.asarray(concentration, dtype=np.float64)
    small = shape < 1.0
    log_gamma = np.log(rng.standard_gamma(np.where(small, shape + 1.0, shape)))
    if small.any():
        log_gamma[small] += np.log1p(-rng.random(int(small.sum()))) / shape[small]
    weights = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
