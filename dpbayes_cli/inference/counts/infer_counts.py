"""The posterior of a latent-count observation, by the method that its structure and its size allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.inference.posterior import (
    QUANTILES,
    Effort,
    Marginal,
    Method,
    Posterior,
    draw_theta,
    summarize_count_draws,
)

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_SUMMARY_ELEMENTS = 1 << 22
_ENOUGH_COUNTS = 1000
"""So many independent draws of the counts are better than chains, whatever the number of samples."""


def infer_counts(
    observation: NoisyCounts, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of theta given the privatized counts; see ``solve.infer``."""
    if method == "naive":
        return _naive(observation, n_draws, rng)
    if method == "chain":
        return _chain(observation, n_draws, rng, effort)
    two = len(observation.concentration) == 2
    if two and observation.total.kind == "known":
        from dpbayes_cli.inference.counts.beta_mixture import beta_mixture

        return beta_mixture(observation).posterior(n_draws, rng)
    most = max(n_draws, min(effort.summary_draws, _SUMMARY_ELEMENTS // len(observation.concentration)))
    if two:
        from dpbayes_cli.inference.counts.two_count_rejection import draw_two_counts

        counts = draw_two_counts(observation, most, rng)
        if counts is not None:
            return _independent(counts, "independent exact draws of the counts (rejection)", observation, n_draws, rng)
    from dpbayes_cli.inference.counts.convolution import affordable_draws, draw_convolution

    affordable = affordable_draws(observation, most)
    if affordable >= min(n_draws, _ENOUGH_COUNTS):
        counts = draw_convolution(observation, affordable, rng)
        if counts is not None:
            return _independent(
                counts, "independent exact draws of the counts (convolution)", observation, n_draws, rng
            )
    return _chain(observation, n_draws, rng, effort)


def _independent(
    counts: Integers, method: str, observation: NoisyCounts, n_draws: int, rng: np.random.Generator
) -> Posterior:
    """Summarize independent draws of the counts."""
    theta = draw_theta(counts, observation.concentration, rng)
    marginals, error = summarize_count_draws(counts, observation.concentration, theta)
    if len(counts) < n_draws:  # every draw of the counts is used again, with another theta
        again = np.resize(np.arange(len(counts)), n_draws)
        theta, method = draw_theta(counts[again], observation.concentration, rng), f"{method}, used repeatedly"
    law = {"at-most": "; prior on the total: uniform on 0..n", "unbounded": "; prior on the total: uniform"}
    described = f"{len(counts)} {method}{law.get(observation.total.kind, '')}"
    return Posterior(marginals, theta[:n_draws], described, exact=True, monte_carlo=error)


def _chain(observation: NoisyCounts, n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    """Run chains on the lattice of counts."""
    from dpbayes_cli.inference.chains import run_until_converged
    from dpbayes_cli.inference.counts.lattice_chain import CHAINS, LatticeChain

    prior = np.asarray(observation.concentration)

    def means(counts: Floats) -> Floats:
        shape = counts + prior
        return np.asarray(shape / shape.sum(axis=2, keepdims=True))

    chain = LatticeChain(observation, rng)
    affordable = _SUMMARY_ELEMENTS // (CHAINS * len(prior))
    length = max(250, -(-n_draws // CHAINS), min(affordable, math.ceil(1.5 * effort.ess / CHAINS)))
    found = run_until_converged(lambda n, k: chain.run(n, k).astype(np.float64), means, length, effort.ess)
    counts = found.draws.astype(np.int64)
    flat = counts.transpose(1, 0, 2).reshape(-1, counts.shape[2])  # by turns, so that every prefix mixes all chains
    theta = draw_theta(flat, observation.concentration, rng)
    marginals, error = summarize_count_draws(flat, observation.concentration, theta)
    diagnostics = dict(found.diagnostics)
    if len(prior) == 2 and observation.total.kind == "known":
        from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
        from dpbayes_cli.inference.diagnostics import ks_distance

        exact = beta_mixture(observation)
        diagnostics["ks_exact"] = ks_distance(exact.cdf_of(np.sort(theta[:, 0])))
    return Posterior(
        marginals,
        theta[:n_draws],
        f"{CHAINS} Markov chains on the integer lattice of counts, {len(flat)} draws",
        exact=False,
        monte_carlo=error * found.error * float(np.sqrt(len(flat))),
        diagnostics=diagnostics,
        warnings=found.warnings,
        chains=theta.reshape(counts.shape[1], CHAINS, -1).transpose(1, 0, 2),
    )


def _naive(observation: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the conjugate posterior of the projected counts."""
    from scipy.special import betaincinv

    from dpbayes_cli.inference.naive import naive_shape

    shape = naive_shape(observation)
    total = shape.sum()
    mean = shape / total
    sd = np.sqrt(mean * (1.0 - mean) / (total + 1.0))
    marginals = tuple(
        Marginal(
            float(mean[k]),
            float(sd[k]),
            {name: float(betaincinv(shape[k], total - shape[k], p)) for name, p in QUANTILES.items()},
            float(sd[k]),
            0.0,
        )
        for k in range(len(shape))
    )
    theta = draw_theta(np.zeros((n_draws, len(shape)), dtype=np.int64), tuple(shape), rng)
    return Posterior(
        marginals,
        theta,
        "the conjugate posterior of the projected counts",
        exact=False,
        warnings=("the naive posterior ignores the noise and is too narrow",),
    )
