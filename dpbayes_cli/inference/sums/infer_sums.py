"""The posterior of a latent-sum observation: exactly where there is one parameter and one number a record."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisySums, ScalarLaw
from dpbayes_cli.inference.posterior import Effort, Marginal, Method, Posterior, marginals_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

CHAINS = 16
_AFFORDABLE = 1 << 20


def infer_sums(
    observation: NoisySums, method: Method, n_draws: int, rng: np.random.Generator, effort: Effort
) -> Posterior:
    """Return the posterior of a latent-sum observation; see ``solve.infer``."""
    if method == "naive":
        return _naive(observation, n_draws, rng)
    law = observation.law
    if method == "noise-aware" and isinstance(law, ScalarLaw):
        from dpbayes_cli.inference.sums.one_parameter import scalar_posterior

        return scalar_posterior(observation, law, n_draws, rng)
    return _chains(observation, n_draws, rng, effort)


def _chains(observation: NoisySums, n_draws: int, rng: np.random.Generator, effort: Effort) -> Posterior:
    from dpbayes_cli.inference.chains import run_until_converged
    from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler

    law = observation.law
    sampler = ScaleMixtureSampler(observation, np.array([observation.observed], dtype=np.float64), CHAINS, rng)
    found = run_until_converged(
        lambda length, thinning: sampler.run(length, thinning)[0],
        lambda draws: law.parameters(draws[..., :-1]),
        max(250, -(-n_draws // CHAINS), min(_AFFORDABLE // CHAINS, math.ceil(1.5 * effort.ess / CHAINS))),
        effort.ess,
    )
    chains = law.parameters(found.draws[..., :-1])
    flat = found.draws.transpose(1, 0, 2).reshape(-1, found.draws.shape[2])  # every prefix mixes all chains
    values = law.parameters(flat[:, :-1])
    data = np.mean(law.complete_data_sd(flat[:, :-1], np.maximum(flat[:, -1], 0.0)) ** 2, axis=0)
    diagnostics = dict(found.diagnostics)
    if isinstance(law, ScalarLaw):
        diagnostics["ks_exact"] = _distance(observation, law, flat[:, :-1])
    warning = law.warning(flat[:, :-1])
    return Posterior(
        marginals_of(values, data),
        values[:n_draws],
        f"{CHAINS} Markov chains (augmented sampler; the sum of the records is normal given the parameters), "
        f"{len(flat)} draws",
        exact=False,
        monte_carlo=found.error,
        diagnostics=diagnostics,
        warnings=(*found.warnings, *((warning,) if warning else ())),
        chains=chains,
    )


def _distance(observation: NoisySums, law: ScalarLaw, points: Floats) -> float:
    """Return the Kolmogorov-Smirnov distance of draws of the coordinate from the exact posterior."""
    from dpbayes_cli.inference.diagnostics import ks_distance
    from dpbayes_cli.inference.sums.one_parameter import grid_density

    exact = grid_density(observation, law, np.array([observation.observed], dtype=np.float64))
    return ks_distance(exact.cdf_of_first(np.sort(points[:, 0])))


def _naive(observation: NoisySums, n_draws: int, rng: np.random.Generator) -> Posterior:
    """Return the conjugate posterior of the nearest possible statistic."""
    size = max(n_draws, 1 << 15)
    n_records = float(observation.total.n)
    if observation.total.kind == "unbounded":
        n_records = max(observation.observed[-1] / observation.valid, 0.0)
    values = observation.law.draw_plug_in(np.array(observation.observed, dtype=np.float64), n_records, size, rng)
    marginals = marginals_of(values, values.var(axis=0))
    return Posterior(
        tuple(Marginal(m.mean, m.sd, m.quantiles, m.sd, 0.0) for m in marginals),
        values[:n_draws],
        "the conjugate posterior of the nearest possible statistic",
        exact=False,
        warnings=("the naive posterior ignores the noise and is too narrow",),
    )
