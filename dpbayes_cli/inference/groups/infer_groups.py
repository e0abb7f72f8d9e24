"""Infer the parameters of groups, by a method selected by the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.core.noisy_observation import GroupedCounts, GroupedMoments, NoisyGroups
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, Pooling

if TYPE_CHECKING:
    import numpy as np

_LARGE_COUNT, _MANY_GROUPS = 1500, 20_000
"""Tables of pairs of counts are slow, if counts of two categories are larger than this and few groups share them."""


def infer_groups(
    observation: NoisyGroups, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of the parameters of each group.

    Args:
        observation: the released values, their noise, and the stated prior.
        pooling: whether the groups' parameters have a common law, which is learned.
        samples: how many draws of the hyperparameters and of a new group to return.
        rng: the generator; generators in equal states give equal results.
    """
    if isinstance(observation.outcome, GroupedMoments):
        from dpbayes_cli.inference.groups.moments import infer_grouped_moments

        return infer_grouped_moments(observation, observation.outcome, pooling, samples, rng)
    if not len(observation.observed):
        from dpbayes_cli.inference.groups.no_groups import prior_of_groups

        return prior_of_groups(observation.outcome, observation.spread, pooling, samples, rng)
    if isinstance(observation.outcome, GroupedCounts):
        return _infer_counts(observation, observation.outcome, pooling, samples, rng)
    from dpbayes_cli.inference.groups.grouped_sums import infer_grouped_sums

    return infer_grouped_sums(observation, observation.outcome, pooling, samples, rng)


def _infer_counts(
    observation: NoisyGroups, outcome: GroupedCounts, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    if observation.parents is not None:
        from dpbayes_cli.inference.groups.nested_categories import infer_nested_categories

        return infer_nested_categories(observation, outcome, observation.parents, samples, rng)
    is_slow = observation.observed.max() > _LARGE_COUNT and len(observation.observed) < _MANY_GROUPS
    if len(outcome.concentration) > 2 or (is_slow and observation.threshold is None):
        from dpbayes_cli.inference.groups.infer_categories import infer_categories

        return infer_categories(observation, outcome, pooling, samples, rng)
    from dpbayes_cli.inference.groups.grouped_counts import infer_category, summarize_groups

    return summarize_groups(infer_category(observation, outcome, 0, pooling, rng), samples, rng)
