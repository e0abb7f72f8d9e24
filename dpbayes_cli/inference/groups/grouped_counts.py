"""Infer the category probabilities of groups from noisy counts, with the hyperparameters that the groups share.

With two categories, the only parameter is the probability of the first one; see ``binary``. With more categories, the
probability of each category is inferred from two numbers of a group: the noisy count of the category, and the sum of
the noisy counts of all others, whose noise is a sum of independent noises. Each category has a model of its own
(``binary``), in which the number of records has the same law. So the posterior of a category is conditional on a part
of what was released. It is calibrated, and at most slightly wider than the posterior given all counts.

What is approximate: noise further than 20 nats below its largest probability is neglected, with total probability below
1e-8. Between counts where tables are evaluated, the joint law of the counts is interpolated, with errors below 1e-4 of
its maximum (``count_axis``). Hyperparameters are averaged over importance-weighted draws, whose error is reported.
Quantiles are those of a Beta law with exact mean and standard deviation after a correction (``pair_summary``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.binary import BinaryGroups, BinaryPrior, infer_binary
from dpbayes_cli.inference.groups.category_draws import CategoryLaw, draw_categories
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.grouped_posterior import DrawGroups, GroupedPosterior, Pooling
from dpbayes_cli.inference.groups.hyperparameters import ess_warnings
from dpbayes_cli.inference.groups.nested_categories import infer_nested_categories
from dpbayes_cli.inference.groups.selection import PublishedSizes, mean_of_nonempty

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_FEW_ESS = 100.0
_DRAWN_ENTRIES = 1 << 22


def infer_grouped_counts(
    observation: NoisyGroups, outcome: GroupedCounts, pooling: Pooling, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of the category probabilities of each group; see ``infer_groups``."""
    if observation.parents is not None:
        return infer_nested_categories(observation, outcome, observation.parents, samples, rng)
    concentration = np.array(outcome.concentration)
    n_parts = len(concentration) if len(concentration) > 2 else 1
    parts = [infer_category(observation, outcome, k, pooling, rng) for k in range(n_parts)]
    return collect(
        parts,
        concentration,
        pooling,
        samples,
        rng,
        lambda size, generator: _draw(parts, observation, concentration, size, generator),
    )


def infer_category(
    observation: NoisyGroups, outcome: GroupedCounts, category: int, pooling: Pooling, rng: np.random.Generator
) -> BinaryGroups:
    """Return the posterior of the probabilities of one category against all others."""
    concentration, observed = np.array(outcome.concentration), np.asarray(observation.observed, dtype=np.int64)
    noises = component_noise(observation.noise, 1), component_noise(observation.noise, len(concentration) - 1)
    a, rest = concentration[category], observed.sum(axis=1) - observed[:, category]
    prior = BinaryPrior(a, concentration.sum() - a, pooling == "partial")
    published = None if observation.threshold is None else PublishedSizes(observation.threshold)
    return infer_binary(np.stack([observed[:, category], rest], axis=1), noises, prior, rng, published)


def collect(
    parts: list[BinaryGroups],
    concentration: Floats,
    pooling: Pooling,
    samples: int,
    rng: np.random.Generator,
    sampler: DrawGroups,
) -> GroupedPosterior:
    """Return the posterior of groups, given that of each category against all others; see ``infer_groups``."""
    summaries = [part.summarize(rng) for part in parts]
    means = np.stack([each.means for each in summaries], axis=1)
    sds = np.stack([each.sds for each in summaries], axis=1)
    quantiles = np.stack([each.quantiles for each in summaries], axis=1)
    above = np.stack([each.above for each in summaries], axis=1)
    draws, new_group = _shared(parts, means, sds, concentration, samples, rng)
    return GroupedPosterior(
        means=means,
        sds=sds,
        quantiles=quantiles,
        sizes=summaries[0].sizes,
        above=above,
        hyperparameters=hyperparameter_names(len(parts)),
        draws=draws,
        new_group=new_group,
        method=_method(pooling, are_found=parts[0].are_found),
        monte_carlo=max(each.monte_carlo for each in summaries),
        sampler=sampler,
        warnings=ess_warnings(min(part.hyperparameters.ess for part in parts), _FEW_ESS),
    )


def hyperparameter_names(n_parts: int) -> tuple[str, ...]:
    """Return the names of the hyperparameters."""
    if n_parts == 1:
        return "mean", "sd", "records"
    return (*(f"mean {k}" for k in range(n_parts)), *(f"sd {k}" for k in range(n_parts)), "records")


def _shared(
    parts: list[BinaryGroups], means: Floats, sds: Floats, concentration: Floats, samples: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return draws of the hyperparameters, and of the parameters of a new group."""
    laws = [part.draw_laws(samples, rng) for part in parts]
    a, b = np.stack([law.a for law in laws], axis=1), np.stack([law.b for law in laws], axis=1)
    law = laws[0]
    records = (mean_of_nonempty(law.mean, law.shape) if parts[0].are_found else law.mean)[:, None]
    if not parts[0].prior.pooled:
        mean, sd = _spread_of_groups(means, sds, samples, rng)
        new = rng.dirichlet(concentration, samples)[:, : len(parts)]
        return np.concatenate([mean, sd, records], axis=1), new
    mean, kappa = a / (a + b), a + b
    draws = np.concatenate([mean, np.sqrt(mean * (1.0 - mean) / (1.0 + kappa)), records], axis=1)
    if len(parts) == 1:
        return draws, rng.beta(a, b)
    gammas = rng.standard_gamma([law.concentration for law in _category_laws(parts, concentration, samples, rng)])
    return draws, (gammas + 1e-300) / (gammas + 1e-300).sum(axis=1, keepdims=True)


def _spread_of_groups(means: Floats, sds: Floats, samples: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return draws of the mean and standard deviation of the groups' parameters, each of shape (samples, n_parameters).

    The groups are taken as independent. If there are few groups, their parameters are drawn from Beta laws with their
    means and standard deviations. If there are many, mean and variance over groups are approximately normal.
    """
    variances = sds**2
    if means.size * samples <= _DRAWN_ENTRIES:
        kappa = np.maximum(means * (1.0 - means) / variances - 1.0, 1e-3)
        drawn = rng.beta(means * kappa, (1.0 - means) * kappa, (samples, *means.shape))
        return drawn.mean(axis=1), drawn.std(axis=1)
    apart = (means - means.mean(axis=0)) ** 2
    size = (samples, means.shape[1])
    mean = rng.normal(means.mean(axis=0), np.sqrt(variances.mean(axis=0) / len(means)), size)
    error = np.sqrt((2.0 * variances**2 + 4.0 * variances * apart).mean(axis=0) / len(means))
    square = rng.normal((variances + apart).mean(axis=0), error, size)
    return mean, np.sqrt(np.maximum(square, 0.0))


def _category_laws(
    parts: list[BinaryGroups], concentration: Floats, size: int, rng: np.random.Generator
) -> list[CategoryLaw]:
    """Draw the hyperparameters of all categories together.

    The means of the categories are divided by their sum, and kappa is the geometric mean over the categories.
    """
    laws = [part.draw_laws(size, rng) for part in parts]
    a, b = np.stack([law.a for law in laws], axis=1), np.stack([law.b for law in laws], axis=1)
    mean, kappa = a / (a + b), np.exp(np.log(a + b).mean(axis=1))
    alpha = np.maximum(mean / mean.sum(axis=1, keepdims=True) * kappa[:, None], 1e-10)
    if not parts[0].prior.pooled:
        alpha = np.tile(concentration, (size, 1))
    return [CategoryLaw(alpha[i], float(laws[0].mean[i]), float(laws[0].shape[i])) for i in range(size)]


def _draw(
    parts: list[BinaryGroups], observation: NoisyGroups, concentration: Floats, size: int, rng: np.random.Generator
) -> Floats:
    """Draw the groups' parameters, shape (size, n_groups, n_parameters)."""
    if len(parts) == 1:
        return parts[0].draw(size, rng)[:, :, None]
    noise, observed = component_noise(observation.noise, 1), np.asarray(observation.observed, dtype=np.int64)
    laws = _category_laws(parts, concentration, size, rng)
    return np.stack([draw_categories(observed, noise, law, rng) for law in laws])


def _method(pooling: Pooling, *, are_found: bool = False) -> str:
    restriction = ", restricted to groups that are published" if are_found else ""
    pooled = "their common mean and spread" if pooling == "partial" else "the stated prior"
    return (
        f"each group's latent counts are summed out given {pooled} and a learned law of group sizes{restriction}; "
        "these hyperparameters are drawn with importance weights"
    )
