"""Draw from the posteriors of many observations at once, for studies that simulate many releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbayes_cli.base.numeric import Floats, normalize_rows
from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisyObservation, NoisySums
from dpbayes_cli.core.record_law import LatentSums, ScalarLaw
from dpbayes_cli.inference.counts.count_windows import prior_term
from dpbayes_cli.inference.dirichlet_rows import draw_theta
from dpbayes_cli.inference.posterior import Effort, Method
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.sums.infer_sums import draw_plug_in
from dpbayes_cli.inference.sums.latent_sums import LatentSumsSampler
from dpbayes_cli.inference.sums.one_parameter import grid_density
from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler

_MAX_ENUMERATED_COUNTS = 1 << 13
_CHAINS, _SHORT_CHAINS = 8, 16
_BATCH_ENTRIES = 1 << 12
"""The largest number of covariance entries in a batch of observations, which then fits into the processor's cache."""


def draw_many(
    observations: Sequence[NoisyObservation],
    method: Method,
    n_draws: int,
    rng: np.random.Generator,
    *,
    short_warm_up: bool = False,
) -> Floats:
    """Draw from the posterior of each observation, shape (n_observations, n_draws, n_components).

    Observations of sums or of two counts are handled together if they differ only in their observed values. Other
    observations are handled one by one.

    Args:
        method: see ``solve.infer``.
        short_warm_up: whether chains on sums have a short warm-up; the widths of intervals then have errors of a few
            percent.
    """
    sums = [observation for observation in observations if isinstance(observation, NoisySums)]
    if len(sums) == len(observations) and method != "chain":
        if method == "naive":
            return np.stack([draw_plug_in(observation, n_draws, rng) for observation in sums])
        groups = [sums] if _are_alike(sums) else [[observation] for observation in sums]
        return np.concatenate([_draw_sums(group, n_draws, rng, short_warm_up) for group in groups])
    counts = [observation for observation in observations if isinstance(observation, NoisyCounts)]
    small = len(counts) == len(observations) and method == "noise-aware" and _can_enumerate_counts(counts[0])
    if small and _are_alike(counts):
        return _draw_from_mixtures(counts, n_draws, rng)
    return np.stack(
        [infer(observation, method, n_draws, rng, Effort(summary_draws=n_draws)).draws for observation in observations]
    )


def _are_alike(observations: Sequence[NoisySums] | Sequence[NoisyCounts]) -> bool:
    first = replace(observations[0], observed=())
    return all(replace(observation, observed=()) == first for observation in observations)


def _can_enumerate_counts(observation: NoisyCounts) -> bool:
    return (
        observation.total.kind == "known"
        and observation.total.n <= _MAX_ENUMERATED_COUNTS
        and observation.observed[1:] == (None,)
    )


def _draw_from_mixtures(alike: Sequence[NoisyCounts], n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw the counts by enumeration and then theta, for observations that differ only in their observed values."""
    observation, n = alike[0], alike[0].total.n
    observed = np.array([each.observed[0] for each in alike], dtype=np.int64)
    counts = np.arange(n + 1)
    log_prior = prior_term(0, counts, observation) + prior_term(1, n - counts, observation)
    noise = observed[:, None] - counts
    weights = np.cumsum(normalize_rows(log_prior + observation.noise.log_pmf(noise)), axis=1)
    uniforms = rng.random((len(observed), n_draws)) * weights[:, -1:]
    chosen = np.array([np.searchsorted(w, u) for w, u in zip(weights, uniforms, strict=True)]).clip(0, n)
    pairs = np.stack([chosen, n - chosen], axis=-1).reshape(-1, 2)
    return draw_theta(pairs, observation.concentration, rng).reshape(len(observed), n_draws, 2)


def _draw_sums(alike: Sequence[NoisySums], n_draws: int, rng: np.random.Generator, short_warm_up: bool) -> Floats:
    """Draw from a grid if the law has one parameter, otherwise by Markov chains for many observations at once."""
    observation, law = alike[0], alike[0].law
    observed = np.array([each.observed for each in alike], dtype=np.float64)
    if isinstance(law, ScalarLaw):
        return grid_density(observation, law, observed).draw(n_draws, rng)[..., None]
    if isinstance(law, LatentSums):
        chains = min(_CHAINS, n_draws)
        sampler = LatentSumsSampler(observation, law, observed, chains, rng, short=short_warm_up)
        sampled = sampler.run(-(-n_draws // chains))
        states = sampled.transpose(0, 2, 1, 3).reshape(len(observed), -1, law.dimension + 1)[:, :n_draws]
        flat = states.reshape(-1, law.dimension + 1)
        return law.draw_parameters(flat[:, :-1], flat[:, -1], rng).reshape(len(observed), n_draws, -1)
    chains, draws = min(_SHORT_CHAINS if short_warm_up else _CHAINS, n_draws), []
    batch_size = max(_BATCH_ENTRIES // observed.shape[1] ** 2, 1)
    for start in range(0, len(observed), batch_size):
        batch = observed[start : start + batch_size]
        gibbs = ScaleMixtureSampler(observation, batch, chains, rng, short=short_warm_up)
        states = gibbs.run(-(-n_draws // chains), thinning=1 if short_warm_up else 2)
        points = states[..., :-1].transpose(0, 2, 1, 3).reshape(len(batch), -1, law.dimension)
        draws.append(law.parameters(points[:, :n_draws]))
    return np.concatenate(draws)
