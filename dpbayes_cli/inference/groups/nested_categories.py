"""The posterior of category probabilities of groups within larger groups.

Each category is inferred against all others, in a model of its own; with one level, all are inferred together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from dpbayes_cli.inference.groups.binary import BinaryPrior
from dpbayes_cli.inference.groups.category_counts import CategoryCounts
from dpbayes_cli.inference.groups.category_law import CategoryLaw
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.draws import draw_dirichlet
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior, LargerSummary
from dpbayes_cli.inference.groups.hyperparameters import ess_warnings
from dpbayes_cli.inference.groups.nested_counts import NestedCounts, infer_nested_counts
from dpbayes_cli.inference.groups.nested_summary import summarize_nested
from dpbayes_cli.inference.groups.pair_summary import join_summaries

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
    from dpbayes_cli.inference.groups.nested import NestedSample

    Part = tuple[NestedCounts, NestedSample]

NESTED_METHOD = (
    "each group's {latent} and each larger group's mean are summed out given the common mean, the spreads of larger "
    "groups and of groups, and a learned law of group sizes; these hyperparameters are drawn with importance weights"
)
_FEW_ESS = 64.0


def infer_nested_categories(
    observation: NoisyGroups, outcome: GroupedCounts, parents: Integers, samples: int, rng: np.random.Generator
) -> GroupedPosterior:
    """Return the posterior of the category probabilities of each group and of each larger group; see ``infer_groups``.

    Args:
        parents: for each group the index of the larger group that contains it, shape (n_groups,).
    """
    concentration, observed = np.array(outcome.concentration), np.asarray(observation.observed, dtype=np.int64)
    n_categories = len(concentration)
    noises = component_noise(observation.noise, 1), component_noise(observation.noise, n_categories - 1)
    parts: list[Part] = []
    for k in range(n_categories if n_categories > 2 else 1):
        pairs = np.stack([observed[:, k], observed.sum(axis=1) - observed[:, k]], axis=1)
        a = float(concentration[k])
        prior = BinaryPrior(a, float(concentration.sum()) - a, True, observation.spread)
        parts.append(infer_nested_counts(pairs, parents, noises, prior, rng))
    summaries, larger = zip(*(summarize_nested(*part, rng) for part in parts), strict=True)
    draws, new_group = _hyperparameters(parts, samples, rng)
    names = [f" {k}" for k in range(len(parts))] if len(parts) > 1 else [""]
    ess = min(sample.points.ess for _, sample in parts)
    return GroupedPosterior(
        **join_summaries(summaries),
        hyperparameters=(*(f"{s}{k}" for s in ("mean", "sd", "sd of larger groups") for k in names), "records"),
        draws=draws,
        new_group=new_group,
        method=NESTED_METHOD.format(latent="latent counts"),
        sampler=lambda size, generator: _draw(parts, observed, size, generator, observation),
        warnings=ess_warnings(ess, _FEW_ESS),
        larger=LargerSummary(
            *(
                np.concatenate([getattr(each, name) for each in larger], axis=1)
                for name in LargerSummary.__annotations__
            )
        ),
    )


def _hyperparameters(parts: list[Part], size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return draws of the hyperparameters, and of the probabilities of a new group in a new larger group."""
    points = np.stack([sample.points.resample(size, rng) for _, sample in parts], axis=2)
    phi, nu, kappa = expit(points[:, 0]), np.exp(-points[:, 1]), np.exp(-points[:, 2])
    between = phi * (1.0 - phi) / (1.0 + nu)
    within = between * nu / (1.0 + kappa)
    draws = np.concatenate([phi, np.sqrt(within), np.sqrt(between), np.exp(points[:, 3, :1])], axis=1)
    if len(parts) == 1:
        location = draw_dirichlet(np.concatenate([phi, 1.0 - phi], axis=1) * nu, rng)
        return draws, draw_dirichlet(location * kappa, rng)[:, :1]
    nu, kappa = (np.exp(np.log(each).mean(axis=1, keepdims=True)) for each in (nu, kappa))
    location = draw_dirichlet(phi / phi.sum(axis=1, keepdims=True) * nu, rng)
    return draws, draw_dirichlet(location * kappa, rng)


def _draw(
    parts: list[Part], observed: Integers, size: int, rng: np.random.Generator, observation: NoisyGroups
) -> Floats:
    """Draw the groups' parameters, shape (size, n_groups, n_parameters).

    With several categories, the drawn means of a larger group are divided by their sum, and the other hyperparameters
    are those of ``CategoryLaw``.
    """
    if len(parts) == 1:
        return parts[0][0].draw(parts[0][1], size, rng)[1][:, :, None]
    parents, noise = parts[0][0].parents, component_noise(observation.noise, 1)
    members = [np.flatnonzero(parents == s) for s in range(int(parents.max()) + 1)]
    counts = [CategoryCounts(observed[each], noise) for each in members]
    points = np.stack([sample.points.resample(size, rng) for _, sample in parts], axis=2)
    result = np.empty((size, len(parents), len(parts)))
    for i, point in enumerate(points):
        columns = [law.grid.draw(sample.location_weights(point[:, k]), rng) for k, (law, sample) in enumerate(parts)]
        means, kappa = expit(np.stack(columns, axis=1)), float(np.exp(-point[2].mean()))
        for s, mean in enumerate(means):
            law = CategoryLaw(mean / mean.sum() * kappa, float(np.exp(point[3, 0])), float(np.exp(point[4, 0])))
            result[i, members[s]] = counts[s].draw(law, rng)
    return result
