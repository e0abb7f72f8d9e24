"""The posterior given noisy sums: exact if the law of a record has one parameter, otherwise by Markov chains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import MOSTLY_VALID, NoisySums
from dpbayes_cli.core.record_law import ScalarLaw
from dpbayes_cli.inference.chains import CHAINS, chain_length, run_until_converged
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.dirichlet_rows import summarize_draws
from dpbayes_cli.inference.posterior import NAIVE_WARNING, Effort, Method, Posterior
from dpbayes_cli.inference.sums.one_parameter import grid_density, scalar_posterior
from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler

_PLUG_IN_DRAWS = 1 << 15
"""The smallest number of draws from which the plug-in posterior is summarized."""


def infer_sums(
    observation: NoisySums, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior given noisy sums; see ``solve.infer``."""
    if method == "naive":
        return _plug_in(observation, n_draws, rng)
    if method == "noise-aware" and isinstance(observation.law, ScalarLaw):
        return scalar_posterior(observation, observation.law, n_draws, rng)
    return _chains(observation, n_draws, rng, effort)


def _chains(observation: NoisySums, n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    law = observation.law
    sampler = ScaleMixtureSampler(observation, np.array([observation.observed], dtype=np.float64), CHAINS, rng)
    run = run_until_converged(
        lambda length, thinning: sampler.run(length, thinning)[0],
        lambda draws: law.parameters(draws[..., :-1]),
        chain_length(n_draws, effort.ess, law.dimension),
        effort,
    )
    chains = law.parameters(run.draws[..., :-1])
    flat = run.draws.transpose(1, 0, 2).reshape(-1, run.draws.shape[2])  # every prefix has draws of all chains
    values = law.parameters(flat[:, :-1])
    data_variance = np.mean(law.complete_data_sd(flat[:, :-1], np.maximum(flat[:, -1], 0.0)) ** 2, axis=0)
    diagnostics = dict(run.convergence.diagnostics)
    if isinstance(law, ScalarLaw):
        exact = grid_density(observation, law, np.array([observation.observed], dtype=np.float64))
        diagnostics["ks_exact"] = ks_distance(exact.cdf(np.sort(flat[:, 0])[None])[0])
    warning = law.warning(flat[:, :-1])
    return Posterior(
        summarize_draws(values, data_variance),
        values[:n_draws],
        f"{len(flat)} draws from {CHAINS} Markov chains (scale-mixture Gibbs sampler; the sum over the records is "
        "approximated as normal given the parameters)"
        f"{'; ' + MOSTLY_VALID if observation.total.is_mostly_n else ''}",
        exact=False,
        monte_carlo=run.error,
        diagnostics=diagnostics,
        warnings=(*run.convergence.warnings, *((warning,) if warning else ())),
        chains=chains,
    )


def draw_plug_in(observation: NoisySums, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw parameters from the posterior that treats the noisy sums as exact, shape (n_draws, n_parameters)."""
    n_records = float(observation.total.n)
    if observation.total.kind == "unbounded":
        n_records = max(observation.observed[-1] / observation.valid, 0.0)
    return observation.law.draw_plug_in(np.array(observation.observed, dtype=np.float64), n_records, n_draws, rng)


def _plug_in(observation: NoisySums, n_draws: int, rng: np.random.Generator) -> Posterior:
    values = draw_plug_in(observation, max(n_draws, _PLUG_IN_DRAWS), rng)
    marginals = summarize_draws(values, values.var(axis=0))
    return Posterior(
        tuple(replace(marginal, sd_data=marginal.sd, sd_noise=0.0) for marginal in marginals),
        values[:n_draws],
        "conjugate posterior given the nearest possible statistic, as if it were exact",
        exact=False,
        warnings=(NAIVE_WARNING,),
    )
