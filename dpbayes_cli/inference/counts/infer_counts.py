"""The posterior given noisy counts: a Beta mixture, independent draws, or Markov chains, by structure and size."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.chains import CHAINS, chain_length, run_until_converged
from dpbayes_cli.inference.counts.independent_draws import affordable_draws, draw_convolution, draw_two_counts
from dpbayes_cli.inference.counts.lattice_chain import LatticeChain
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.dirichlet_rows import dirichlet_moments, draw_theta, marginals_of, summarize_count_draws
from dpbayes_cli.inference.naive import naive_shape
from dpbayes_cli.inference.posterior import NAIVE_WARNING, QUANTILES, Effort, Method, Posterior

_SUMMARY_ELEMENTS = 1 << 22
_MIN_INDEPENDENT_DRAWS = 1000
"""If this many independent draws of the counts are affordable, no chains are run, even if more draws are requested."""


def infer_counts(
    observation: NoisyCounts, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of theta given noisy counts; see ``solve.infer``."""
    if method == "naive":
        return _plug_in(observation, n_draws, rng)
    if method == "chain":
        return _chain(observation, n_draws, rng, effort)
    two_categories = len(observation.concentration) == 2
    if two_categories and observation.total.kind == "known":
        from dpbayes_cli.inference.counts.beta_mixture import beta_mixture  # takes time, because it imports SciPy

        return beta_mixture(observation).posterior(n_draws, rng)
    wanted = max(n_draws, min(effort.summary_draws, _SUMMARY_ELEMENTS // len(observation.concentration)))
    if two_categories:
        counts = draw_two_counts(observation, wanted, rng)
        if counts is not None:
            return _posterior_from_counts(counts, "rejection sampling", observation, n_draws, rng)
    affordable = affordable_draws(observation, wanted)
    if affordable >= min(n_draws, _MIN_INDEPENDENT_DRAWS):
        counts = draw_convolution(observation, affordable, rng)
        if counts is not None:
            return _posterior_from_counts(counts, "convolution", observation, n_draws, rng)
    return _chain(observation, n_draws, rng, effort)


def _posterior_from_counts(
    counts: Integers, method: str, observation: NoisyCounts, n_draws: int, rng: np.random.Generator
) -> Posterior:
    described = f"{len(counts)} independent exact draws of the counts ({method})"
    theta = draw_theta(counts, observation.concentration, rng)
    marginals, error = summarize_count_draws(counts, observation.concentration, theta)
    if len(counts) < n_draws:
        again = np.resize(np.arange(len(counts)), n_draws)
        theta = draw_theta(counts[again], observation.concentration, rng)
        described += ", used repeatedly"
    described += {"at-most": "; uniform prior on the number of valid records, 0 to n", "known": ""}.get(
        observation.total.kind, "; uniform prior on the number of valid records"
    )
    return Posterior(marginals, theta[:n_draws], described, exact=True, monte_carlo=error)


def _chain(observation: NoisyCounts, n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    prior = np.asarray(observation.concentration)

    def means(counts: Floats) -> Floats:
        shape = counts + prior
        return np.asarray(shape / shape.sum(axis=2, keepdims=True))

    chain = LatticeChain(observation, rng)
    length = chain_length(n_draws, effort.ess, len(prior))
    run = run_until_converged(lambda n, k: chain.run(n, k).astype(np.float64), means, length, effort)
    counts = run.draws.astype(np.int64)
    flat = counts.transpose(1, 0, 2).reshape(-1, counts.shape[2])  # every prefix has draws of all chains
    theta = draw_theta(flat, observation.concentration, rng)
    marginals, error = summarize_count_draws(flat, observation.concentration, theta)
    diagnostics = dict(run.convergence.diagnostics)
    if len(prior) == 2 and observation.total.kind == "known":
        from dpbayes_cli.inference.counts.beta_mixture import beta_mixture

        diagnostics["ks_exact"] = ks_distance(beta_mixture(observation).cdf_of(np.sort(theta[:, 0])))
    return Posterior(
        marginals,
        theta[:n_draws],
        f"{len(flat)} draws from {CHAINS} Markov chains on the counts",
        exact=False,
        monte_carlo=error * run.error * float(np.sqrt(len(flat))),
        diagnostics=diagnostics,
        warnings=run.convergence.warnings,
        chains=theta.reshape(counts.shape[1], CHAINS, -1).transpose(1, 0, 2),
    )


def _plug_in(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Posterior:
    from scipy.special import betaincinv

    shape = naive_shape(observation)
    total = shape.sum()
    mean, variance = dirichlet_moments(shape, total)
    quantiles = np.array([betaincinv(shape, total - shape, p) for p in QUANTILES.values()])
    theta = draw_theta(np.zeros((n_draws, len(shape)), dtype=np.int64), tuple(shape), rng)
    return Posterior(
        marginals_of(mean, variance, variance, np.zeros_like(mean), quantiles),
        theta,
        "conjugate posterior given the projected counts, as if they were exact",
        exact=False,
        warnings=(NAIVE_WARNING,),
    )
