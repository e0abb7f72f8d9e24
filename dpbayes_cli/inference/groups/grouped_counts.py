"""The posterior of groups with noisy counts of two categories; the parameter is the probability of the first one.

What is approximate (``binary``): noise further than 20 nats below its largest probability is neglected, with total
probability below 1e-8. Between counts where tables are evaluated, the joint law of the counts is interpolated, with
errors below 1e-4 of its maximum (``count_axis``). Hyperparameters are averaged over importance-weighted draws, whose
error is reported. Quantiles are those of a Beta law with exact mean and standard deviation after a correction
(``pair_summary``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.binary import BinaryGroups, BinaryPrior, infer_binary
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, Pooling
from dpbayes_cli.inference.groups.hyperparameters import ess_warnings
from dpbayes_cli.inference.groups.pair_summary import join_summaries
from dpbayes_cli.inference.groups.selection import PublishedSizes, mean_of_nonempty

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_FEW_ESS = 100.0
_DRAWN_ENTRIES = 1 << 22


def infer_category(
    observation: NoisyGroups, outcome: GroupedCounts, category: int, pooling: Pooling, rng: np.random.Generator
) -> BinaryGroups:
    """Return the posterior of the probabilities of one category, given its counts and the sum of all others."""
    concentration, observed = np.array(outcome.concentration), np.asarray(observation.observed, dtype=np.int64)
    noises = component_noise(observation.noise, 1), component_noise(observation.noise, len(concentration) - 1)
    a, rest = concentration[category], observed.sum(axis=1) - observed[:, category]
    prior = BinaryPrior(a, concentration.sum() - a, pooling == "partial", observation.spread)
    published = None if observation.threshold is None else PublishedSizes(observation.threshold)
    return infer_binary(np.stack([observed[:, category], rest], axis=1), noises, prior, rng, published)


def summarize_groups(groups: BinaryGroups, samples: int, rng: np.random.Generator) -> GroupedPosterior:
    """Return the summaries of all groups, with draws of the hyperparameters and of a new group."""
    summary, law, prior = groups.summarize(rng), groups.draw_laws(samples, rng), groups.prior
    records = (mean_of_nonempty(law.mean, law.shape) if groups.are_found else law.mean)[:, None]
    if prior.pooled:
        phi = (law.a / (law.a + law.b))[:, None]
        spread = phi, np.sqrt(phi * (1.0 - phi) / (1.0 + law.a + law.b)[:, None])
    else:
        spread = spread_of_groups(summary.means[:, None], summary.sds[:, None], samples, rng)
    return GroupedPosterior(
        **join_summaries([summary]),
        hyperparameters=hyperparameter_names(1),
        draws=np.concatenate([*spread, records], axis=1),
        new_group=rng.beta(law.a, law.b)[:, None],
        method=counts_method(pooled=prior.pooled, are_found=groups.are_found),
        sampler=lambda size, generator: groups.draw(size, generator)[:, :, None],
        warnings=ess_warnings(groups.hyperparameters.ess, _FEW_ESS),
    )


def hyperparameter_names(n_parameters: int) -> tuple[str, ...]:
    """Return the names of the hyperparameters."""
    if n_parameters == 1:
        return "mean", "sd", "records"
    return (*(f"mean {k}" for k in range(n_parameters)), *(f"sd {k}" for k in range(n_parameters)), "records")


def spread_of_groups(means: Floats, sds: Floats, samples: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return draws of the mean and standard deviation of the groups' parameters, each of shape (samples, n_parameters).

    The groups are taken as independent. If there are few groups, their parameters are drawn from Beta laws with their
    means and standard deviations.
    """
    if means.size * samples > _DRAWN_ENTRIES:
        return spread_of_many(means, sds, samples, rng)
    kappa = np.maximum(means * (1.0 - means) / sds**2 - 1.0, 1e-3)
    drawn = rng.beta(means * kappa, (1.0 - means) * kappa, (samples, *means.shape))
    return drawn.mean(axis=1), drawn.std(axis=1)


def spread_of_many(means: Floats, sds: Floats, samples: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return what ``spread_of_groups`` does, if mean and variance over groups are approximately normal."""
    variances = sds**2
    apart = (means - means.mean(axis=0)) ** 2
    size = (samples, means.shape[1])
    mean = rng.normal(means.mean(axis=0), np.sqrt(variances.mean(axis=0) / len(means)), size)
    error = np.sqrt((2.0 * variances**2 + 4.0 * variances * apart).mean(axis=0) / len(means))
    square = rng.normal((variances + apart).mean(axis=0), error, size)
    return mean, np.sqrt(np.maximum(square, 0.0))


def counts_method(*, pooled: bool, are_found: bool) -> str:
    """Return how the posterior was computed, in one sentence for readers."""
    restriction = ", restricted to groups that are published" if are_found else ""
    shared = "their common mean and spread" if pooled else "the stated prior"
    return (
        f"each group's latent counts are summed out given {shared} and a learned law of group sizes{restriction}; "
        "these hyperparameters are drawn with importance weights"
    )
