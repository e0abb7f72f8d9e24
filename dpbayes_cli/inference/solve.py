"""Choose and run the inference for a latent-count problem, by its structure and its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from dpbayes_cli.inference.posterior import QUANTILES, Marginal, Posterior, draw_theta, from_count_draws
from dpbayes_cli.problems import NoisyCounts

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Integers

Method = Literal["noise-aware", "naive"]

_SUMMARY_DRAWS = 1 << 15
"""Independent draws behind a summary that has no closed form; its error is then 0.6 % of a standard deviation."""
_SUMMARY_ELEMENTS = 1 << 22
_LEAST_ESS = 400.0
_MOST_DOUBLINGS = 5


def infer(
    problem: NoisyCounts, method: Method, n_draws: int, rng: np.random.Generator, summary_draws: int | None = None
) -> Posterior:
    """Return the posterior of theta given the privatized counts.

    Args:
        problem: the latent-count problem.
        method: ``noise-aware`` conditions on what was released; ``naive`` takes it for the truth.
        n_draws: how many draws of theta to return.
        rng: the generator; equal generators give equal results.
        summary_draws: how many draws a summary without closed form rests on, for simulations that need less.
    """
    if method == "naive":
        return _naive(problem, n_draws, rng)
    two = len(problem.concentration) == 2
    if two and problem.total.kind == "known":
        from dpbayes_cli.inference.beta_mixture import beta_mixture

        return beta_mixture(problem).posterior(n_draws, rng)
    most = max(n_draws, min(summary_draws or _SUMMARY_DRAWS, _SUMMARY_ELEMENTS // len(problem.concentration)))
    if two:
        from dpbayes_cli.inference.plane import draw_plane

        counts = draw_plane(problem, most, rng)
        if counts is not None:
            return _independent(counts, "independent exact draws of the counts (rejection)", problem, n_draws, rng)
    from dpbayes_cli.inference.convolution import affordable_draws, draw_convolution

    affordable = affordable_draws(problem, most)
    if affordable >= n_draws:
        counts = draw_convolution(problem, affordable, rng)
        if counts is not None:
            return _independent(counts, "independent exact draws of the counts (convolution)", problem, n_draws, rng)
    return _chain(problem, n_draws, rng)


def _independent(
    counts: Integers, method: str, problem: NoisyCounts, n_draws: int, rng: np.random.Generator
) -> Posterior:
    """Summarize independent draws of the counts."""
    theta = draw_theta(counts, problem.concentration, rng)
    marginals, error = from_count_draws(counts, problem.concentration, theta)
    law = {"at-most": "; prior on the total: uniform on 0..n", "unbounded": "; prior on the total: uniform"}
    described = f"{len(counts)} {method}{law.get(problem.total.kind, '')}"
    return Posterior(marginals, theta[:n_draws], described, exact=True, monte_carlo=error)


def _chain(problem: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Run chains, longer until they have converged or patience ends."""
    from dpbayes_cli.inference.diagnostics import converged, ess_bulk, ess_tail, r_hat
    from dpbayes_cli.inference.lattice_chain import CHAINS, LatticeChain

    chain = LatticeChain(problem, rng)
    length, thinning = max(250, -(-n_draws // CHAINS)), 2
    for _ in range(_MOST_DOUBLINGS):
        counts = chain.run(length, thinning)
        shape = counts + np.asarray(problem.concentration)
        means = shape / shape.sum(axis=2, keepdims=True)
        columns = range(means.shape[2])
        worst_r_hat = max(r_hat(means[:, :, k]) for k in columns)
        bulk, tail = (min(f(means[:, :, k]) for k in columns) for f in (ess_bulk, ess_tail))
        reached = converged(worst_r_hat) and min(bulk, tail) >= _LEAST_ESS
        if reached:
            break
        thinning *= 2
    flat = counts.transpose(1, 0, 2).reshape(-1, counts.shape[2])  # by turns, so that every prefix mixes all chains
    theta = draw_theta(flat, problem.concentration, rng)
    marginals, error = from_count_draws(flat, problem.concentration, theta)
    warning = "the chains have not converged: do not use this posterior; try a less informative prior"
    return Posterior(
        marginals,
        theta[:n_draws],
        f"{CHAINS} Markov chains on the integer lattice of counts, {len(flat)} draws",
        exact=False,
        monte_carlo=error * float(np.sqrt(len(flat) / bulk)),
        diagnostics={"r_hat": worst_r_hat, "ess_bulk": bulk, "ess_tail": tail},
        warnings=() if reached else (warning,),
        chains=theta.reshape(length, CHAINS, -1).transpose(1, 0, 2),
    )


def _naive(problem: NoisyCounts, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the conjugate posterior of the projected counts."""
    from scipy.special import betaincinv

    from dpbayes_cli.inference.naive import naive_shape

    shape = naive_shape(problem)
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
