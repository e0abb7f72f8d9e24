"""Draws from the posteriors of many simulated releases at once, for studies: one array over all trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.base.numeric import normalized_rows
from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisyObservation, NoisySums, NoisyTables, ScalarLaw
from dpbayes_cli.inference.posterior import Effort, Method, draw_theta
from dpbayes_cli.inference.solve import infer

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_MOST_COUNTS = 1 << 13
_CHAINS = 8
_MOST_ENTRIES = 1 << 12
"""Observations times the entries of their covariances: so many at once stay in the processor's cache."""


def draw_many(
    observations: Sequence[NoisyObservation], method: Method, n_draws: int, rng: np.random.Generator
) -> Floats:
    """Draw from the posterior of each observation, shape (n_problems, n_draws, n_components).

    Observations that differ in their observations alone are solved together, others one by one.

    Args:
        observations: one a trial.
        method: as of ``solve.infer``.
        n_draws: how many draws an observation.
        rng: the generator.
    """
    first = observations[0]
    if method == "noise-aware" and all(_alike(observation, first) for observation in observations):
        observed = np.array(
            [observation.observed for observation in observations if not isinstance(observation, NoisyTables)], float
        )
        if isinstance(first, NoisySums):
            return _sums(first, observed, n_draws, rng)
        if isinstance(first, NoisyCounts) and _is_small_mixture(first):
            return _mixtures(first, observed[:, 0], n_draws, rng)
    return np.stack(
        [infer(observation, method, n_draws, rng, Effort(summary_draws=n_draws)).draws for observation in observations]
    )


def _alike(observation: NoisyObservation, first: NoisyObservation) -> bool:
    """Return whether two observations differ in their observations alone."""
    if isinstance(observation, NoisySums) and isinstance(first, NoisySums):
        same = (observation.law, observation.noise, observation.total, observation.valid)
        return same == (first.law, first.noise, first.total, first.valid)
    if isinstance(observation, NoisyCounts) and isinstance(first, NoisyCounts):
        same_counts = (observation.concentration, observation.noise, observation.total)
        return same_counts == (first.concentration, first.noise, first.total)
    return False


def _is_small_mixture(observation: NoisyCounts) -> bool:
    """Return whether one observed count out of a small, known total decides."""
    return (
        observation.total.kind == "known"
        and observation.total.n <= _MOST_COUNTS
        and observation.observed[1:] == (None,)
    )


def _mixtures(observation: NoisyCounts, observed: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw from mixtures of Beta laws over all counts 0..n."""
    from dpbayes_cli.inference.counts.count_windows import prior_term

    n = observation.total.n
    counts = np.arange(n + 1)
    log_prior = prior_term(0, counts, observation) + prior_term(1, n - counts, observation)
    away = observed.astype(np.int64)[:, None] - counts
    weights = np.cumsum(normalized_rows(log_prior + observation.noise.log_pmf(away)), axis=1)
    uniforms = rng.random((len(observed), n_draws)) * weights[:, -1:]
    chosen = np.array([np.searchsorted(w, u) for w, u in zip(weights, uniforms, strict=True)]).clip(0, n)
    pairs = np.stack([chosen, n - chosen], axis=-1).reshape(-1, 2)
    return draw_theta(pairs, observation.concentration, rng).reshape(len(observed), n_draws, 2)


def _sums(observation: NoisySums, observed: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Draw from the grids of scalar laws, or from chains that all observations share as one array."""
    law = observation.law
    if isinstance(law, ScalarLaw):
        from dpbayes_cli.inference.sums.one_parameter import grid_density

        return grid_density(observation, law, observed).draw(n_draws, rng)[..., None]
    from dpbayes_cli.inference.sums.scale_mixture_gibbs import ScaleMixtureSampler

    chains, found = min(_CHAINS, n_draws), []
    at_once = max(_MOST_ENTRIES // observed.shape[1] ** 2, 1)
    for start in range(0, len(observed), at_once):
        some = observed[start : start + at_once]
        drawn = ScaleMixtureSampler(observation, some, chains, rng).run(-(-n_draws // chains), thinning=2)
        points = drawn[..., :-1].transpose(0, 2, 1, 3).reshape(len(some), -1, law.dimension)
        found.append(law.parameters(points[:, :n_draws]))
    return np.concatenate(found)
