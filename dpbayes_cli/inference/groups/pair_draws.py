"""Draw the success probabilities of all groups given the hyperparameters, by drawing the latent counts exactly.

Given the hyperparameters, the number of successes s of a group has probabilities proportional to those of the noise
times a sum over the failures, which depends only on s and the observed failures, and is tabulated. Given s, the
failures f are drawn from their joint law with s times the noise, and then theta from Beta(a + s, b + f).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.count_tables import CountLaw
from dpbayes_cli.inference.groups.draws import choose, noise_windows
from dpbayes_cli.inference.groups.noisy_pairs import NoisyPairs

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

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
        window, logs = noise_windows(pairs.successes.observed[first], pairs.successes.noise)
        window = np.minimum(window, pairs.successes.nodes[-1])
        masses = np.exp(logs) * by_s[window - first_s, second[:, None]]
        s = window[:, 0] + choose(masses, rng)
        window, logs = noise_windows(pairs.failures.observed[second], pairs.failures.noise)
        window = np.minimum(window, pairs.failures.nodes[-1])
        logs += by_f[window - first_f] + by_n[s[:, None] + window - pairs.grid.least]
        f = window[:, 0] + choose(np.exp(logs - logs.max(axis=1, keepdims=True)), rng)
        result[start : start + rows] = rng.beta(law.a[0] + s, law.b[0] + f)
    return result
