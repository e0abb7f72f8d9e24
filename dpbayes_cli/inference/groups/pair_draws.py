"""Draw the success probabilities of all groups given the hyperparameters, by drawing the latent counts exactly.

Given the hyperparameters, the number of successes s of a group has probabilities proportional to those of the noise
times a sum over the failures, which depends only on s and the observed failures, and is tabulated. Given s, the
failures f are drawn from their joint law with s times the noise, and then theta from Beta(a + s, b + f).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.noisy_pairs import NoisyPairs

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.count_axis import CountAxis

_CHUNK = 1 << 21


def draw_probabilities(pairs: NoisyPairs, law: CountLaw, rng: np.random.Generator) -> Floats:
    """Draw the success probabilities of all groups, given one value of the parameters of the law, shape (n_groups,)."""
    table, _ = pairs.grid.tables(law)
    by_s = np.maximum(pairs.successes.basis @ (table[0] @ pairs.failures.weights.T), 0.0)
    _, by_f, by_n = (each[0] for each in pairs.grid.log_parts(law))
    by_f = pairs.failures.basis @ by_f
    first_s, first_f = int(pairs.successes.nodes[0]), int(pairs.failures.nodes[0])
    width = max(pairs.successes.noise.reach, pairs.failures.noise.reach)
    rows = max(1, _CHUNK // (2 * width + 1))
    result = np.empty(len(pairs.pair_of))
    for start in range(0, len(result), rows):
        pair = pairs.pair_of[start : start + rows]
        first, second = pairs.first[pair], pairs.second[pair]
        s_range, s_noise = _windows(pairs.successes, first)
        s = _choose(s_range, s_noise * by_s[s_range - first_s, second[:, None]], rng)
        f_range, f_noise = _windows(pairs.failures, second)
        logs = by_f[f_range - first_f] + by_n[s[:, None] + f_range - pairs.grid.least]
        f = _choose(f_range, f_noise * np.exp(logs - logs.max(axis=1, keepdims=True)), rng)
        result[start : start + rows] = rng.beta(law.a[0] + s, law.b[0] + f)
    return result


def _windows(axis: CountAxis, index: Integers) -> tuple[Integers, Floats]:
    """Return the counts near observed counts and the probabilities of the noise; counts out of range have weight 0."""
    observed = axis.observed[index]
    low = np.maximum(observed - axis.noise.reach, 0)
    lengths = np.maximum(observed, 0) + axis.noise.reach - low + 1
    counts = low[:, None] + np.arange(int(lengths.max()))
    inside = np.arange(counts.shape[1]) < lengths[:, None]
    logs = np.where(inside, axis.noise.log_pmf(observed[:, None] - counts), -np.inf)
    return np.minimum(counts, axis.nodes[-1]), np.exp(logs - logs.max(axis=1, keepdims=True))


def _choose(values: Integers, weights: Floats, rng: np.random.Generator) -> Integers:
    """Draw from each row of values with probabilities proportional to the weights."""
    cumulated = np.cumsum(weights, axis=1)
    level = rng.random(len(values)) * cumulated[:, -1]
    column = (cumulated < level[:, None]).sum(axis=1)
    return np.asarray(values[np.arange(len(values)), np.minimum(column, values.shape[1] - 1)])
