"""The posterior given noisy sums: exact if the law of a record has one parameter, otherwise by Markov chains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.record_law import LatentSums, ScalarLaw
from dpbayes_cli.inference.chains import CHAINS, ChainRun, chain_length, run_until_converged
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.dirichlet_rows import summarize_draws
from dpbayes_cli.inference.posterior import NAIVE_WARNING, Effort, Method, Posterior
from dpbayes_cli.inference.sums.latent_sums import LatentSumsSampler
from dpbayes_cli.inference.sums.one_parameter import grid_density, scalar_posterior
from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler

_CHAINS_OF_MANY_COORDINATES, _MANY_COORDINATES = 16, 128
"""With many coordinates a sweep takes as long as its chains are many, and each chain has a warm-up."""
_MOST = 4
"""Thinning loses more than memory costs: the parameters have independent errors given the sums."""
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
    if isinstance(law, LatentSums):
        return _latent_sums(observation, law, n_draws, rng, effort)
    sampler = ScaleMixtureSampler(observation, np.array([observation.observed], dtype=np.float64), CHAINS, rng)
    run = run_until_converged(
        lambda length, thinning: sampler.run(length, thinning)[0],
        lambda draws: law.parameters(draws[..., :-1]),
        chain_length(n_draws, effort.ess, law.dimension),
        effort,
    )
    chains = law.parameters(run.draws[..., :-1])
    flat = _flat(run.draws)
    data_variance = np.mean(law.complete_data_sd(flat[:, :-1], np.maximum(flat[:, -1], 0.0)) ** 2, axis=0)
    exact_distance = {}
    if isinstance(law, ScalarLaw):
        exact = grid_density(observation, law, np.array([observation.observed], dtype=np.float64))
        exact_distance["ks_exact"] = ks_distance(exact.cdf(np.sort(flat[:, 0])[None])[0])
    method = "scale-mixture Gibbs sampler; the sum over the records is approximated as normal given the parameters"
    posterior = _posterior(observation, run, chains, data_variance, method, n_draws)
    return replace(posterior, diagnostics={**posterior.diagnostics, **exact_distance})


def _latent_sums(
    observation: NoisySums, law: LatentSums, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior from chains over the sums of all records; parameters are drawn given the sums."""
    k = law.dimension
    chains = CHAINS if k <= _MANY_COORDINATES else _CHAINS_OF_MANY_COORDINATES
    sampler = LatentSumsSampler(observation, law, np.array([observation.observed], dtype=np.float64), chains, rng)

    def run_chains(length: int, thinning: int) -> Floats:
        states = sampler.run(length, thinning)[0]
        flat = states.reshape(-1, k + 1)
        parameters = law.draw_parameters(flat[:, :k], flat[:, k], rng)
        return np.concatenate([states, parameters.reshape(*states.shape[:2], -1)], axis=2)

    length = chain_length(n_draws, effort.ess, k, chains)
    run = run_until_converged(run_chains, lambda draws: draws[..., k + 1 :], length, effort, _MOST)
    flat = _flat(run.draws)
    data_variance = law.data_variance(flat[:, :k], flat[:, k], rng)
    method = "Hamiltonian Monte Carlo over the sums of all records; parameters are drawn exactly, given the sums"
    return _posterior(observation, run, run.draws[..., k + 1 :], data_variance, method, n_draws)


def _flat(draws: Floats) -> Floats:
    """Return the draws of all chains in one array, every prefix of which has draws of all chains."""
    return draws.transpose(1, 0, 2).reshape(-1, draws.shape[2])


def _posterior(
    observation: NoisySums, run: ChainRun, chains: Floats, data_variance: Floats, method: str, n_draws: int
) -> Posterior:
    """Summarize draws of parameters, shape (chains, n_draws, n_parameters)."""
    values, law = _flat(chains), observation.law
    warning = law.warning(_flat(run.draws)[:, : law.dimension])
    return Posterior(
        summarize_draws(values, data_variance),
        values[:n_draws],
        f"{len(values)} draws from {len(chains)} Markov chains ({method}){observation.total.prior_in_words}",
        exact=False,
        monte_carlo=run.error,
        diagnostics=run.convergence.diagnostics,
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
