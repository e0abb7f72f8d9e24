"""The posterior if no group was published: what groups have in common has its prior."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedSums
from dpbayes_cli.inference.groups.binary import draw_correlations
from dpbayes_cli.inference.groups.draws import draw_dirichlet
from dpbayes_cli.inference.groups.grouped_counts import hyperparameter_names
from dpbayes_cli.inference.groups.grouped_posterior import LEVELS, GroupedPosterior, Pooling
from dpbayes_cli.inference.groups.population import draw_coordinates, parameter_moments
from dpbayes_cli.inference.groups.record_moments import RecordMoments
from dpbayes_cli.inference.groups.selection import mean_of_nonempty
from dpbayes_cli.inference.groups.size_law import draw_size_prior


def prior_of_groups(
    outcome: GroupedCounts | GroupedSums, spread: float, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return draws of the prior of what groups have in common, and of a new group; there are no groups.

    That no group was published says nothing about the law of the sizes, because the number of all groups is unknown.
    """
    pooled = pooling == "partial"
    if isinstance(outcome, GroupedCounts):
        concentration = np.array(outcome.concentration)
        n_parts = len(concentration) if len(concentration) > 2 else 1
        drawn, correlation = rng.dirichlet(concentration, samples), draw_correlations(spread, samples, rng)[:, None]
        if not pooled:
            correlation = np.full((samples, 1), 1.0 / (1.0 + concentration.sum()))
        mean = drawn[:, :n_parts]
        sd = np.sqrt(mean * (1.0 - mean) * correlation)
        new = draw_dirichlet(drawn * (1.0 / correlation - 1.0), rng)[:, :n_parts] if pooled else mean
    else:
        law, moments, n_parts = outcome.law, RecordMoments(outcome), 1
        center = np.clip(law.draw_prior(samples, rng)[:, 0], *moments.prior_range)
        sds = np.abs(rng.normal(0.0, spread * moments.spread, samples)) + 1e-9
        parameters = law.parameters(center[:, None])
        mean, sd, new = parameters, np.full((samples, 1), parameters.std()), parameters
        if pooled:
            mean, sd = (each[:, None] for each in parameter_moments(law, moments.domain, center, sds))
            new = law.parameters(draw_coordinates(moments.domain, center, sds, rng)[:, None])
    records = mean_of_nonempty(*draw_size_prior(samples, rng))[:, None]
    return GroupedPosterior(
        means=np.empty((0, n_parts)),
        sds=np.empty((0, n_parts)),
        quantiles=np.empty((0, n_parts, len(LEVELS))),
        sizes=np.empty((0, 3)),
        above=np.empty((0, n_parts)),
        hyperparameters=hyperparameter_names(n_parts),
        draws=np.concatenate([mean, sd, records], axis=1),
        new_group=new,
        method="no group was published, so that this is the prior",
        monte_carlo=0.0,
        sampler=lambda size, _: np.empty((size, 0, n_parts)),
    )
