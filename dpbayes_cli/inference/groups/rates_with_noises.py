"""Infer the success probabilities of groups whose noisy counts have noise of different laws or scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.binary import BinaryPrior, infer_binary_with_noises
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.grouped_counts import collect

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior
    from dpbayes_cli.privacy.noise import NoiseLaw


def infer_rates_with_noises(
    observed: Integers,
    noises: Sequence[tuple[NoiseLaw, NoiseLaw]],
    noise_of: Integers,
    samples: int,
    rng: np.random.Generator,
) -> GroupedPosterior:
    """Return the partially pooled posterior of the success probability of each group, under a flat prior of their mean.

    Args:
        observed: the noisy counts of successes and failures, shape (n_groups, 2).
        noises: the laws of the noise of the two counts, for each kind of noise.
        noise_of: the kind of each group's noise, shape (n_groups,).
        samples: how many draws of the hyperparameters to return.
        rng: the generator.
    """
    laws = [(component_noise(first, 1), component_noise(second, 1)) for first, second in noises]
    part = infer_binary_with_noises(observed, laws, noise_of, BinaryPrior(1.0, 1.0, pooled=True), rng)
    return collect(
        [part], np.ones(2), "partial", samples, rng, lambda size, generator: part.draw(size, generator)[..., None]
    )
