"""Draw the category probabilities of groups given the hyperparameters, by Gibbs sampling of their latent counts.

Given all other counts of a group, a latent count has probabilities proportional to those of its noise times its joint
law with the other counts, which depends on them only through their sum. Counts are updated one category after the
other, in all groups at once, in a fixed number of sweeps that begin at the observed counts. The category probabilities
then have a Dirichlet law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.count_tables import log_rising

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise

_SWEEPS = 16
_CHUNK = 1 << 21


@dataclass(frozen=True, eq=False)
class CategoryLaw:
    """The hyperparameters of groups with several categories.

    Attributes:
        concentration: the parameters of the Dirichlet law of the category probabilities, shape (n_categories,).
        mean: the mean number of records of a group.
        shape: the shape of the number of records.
    """

    concentration: Floats
    mean: float
    shape: float


def draw_categories(observed: Integers, noise: ComponentNoise, law: CategoryLaw, rng: np.random.Generator) -> Floats:
    """Draw the category probabilities of all groups, shape (n_groups, n_categories).

    Args:
        observed: the noisy counts, shape (n_groups, n_categories).
        noise: the law of the noise of each count.
        law: the hyperparameters.
        rng: the generator.
    """
    n_groups, n_categories = observed.shape
    rows = max(1, _CHUNK // ((2 * noise.reach + 1) * n_categories))
    counts = [_draw_counts(observed[i : i + rows], noise, law, rng) for i in range(0, n_groups, rows)]
    gammas = rng.standard_gamma(law.concentration + np.concatenate(counts)) + 1e-300
    return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))


def _draw_counts(observed: Integers, noise: ComponentNoise, law: CategoryLaw, rng: np.random.Generator) -> Integers:
    most = np.maximum(observed, 0).max(axis=0) + noise.reach
    total = int(most.sum())
    by_n = log_rising(np.array([law.shape]), total)[0] - log_rising(law.concentration.sum(keepdims=True), total)[0]
    by_n -= np.log1p(law.shape / law.mean) * np.arange(total + 1)
    factorial = log_rising(np.ones(1), int(most.max()))[0]
    windows = []
    for k, start in enumerate(law.concentration):
        low = np.maximum(observed[:, k] - noise.reach, 0)
        width = int((np.maximum(observed[:, k], 0) + noise.reach - low).max()) + 1
        counts = np.minimum(low[:, None] + np.arange(width), most[k])
        by_count = log_rising(np.array([start]), int(most[k]))[0] - factorial[: int(most[k]) + 1]
        windows.append((counts, noise.log_pmf(observed[:, [k]] - counts) + by_count[counts]))
    current = np.maximum(observed, 0)
    for _ in range(_SWEEPS):
        for k, (counts, logs) in enumerate(windows):
            rest = current.sum(axis=1) - current[:, k]
            weights = logs + by_n[rest[:, None] + counts]
            weights = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
            level = rng.random(len(weights)) * weights[:, -1]
            column = np.minimum((weights < level[:, None]).sum(axis=1), counts.shape[1] - 1)
            current[:, k] = counts[np.arange(len(counts)), column]
    return current
