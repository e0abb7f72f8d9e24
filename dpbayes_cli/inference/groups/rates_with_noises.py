"""Infer the success probabilities of groups whose noisy counts have noise of different laws or scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.inference.groups.binary import BinaryPrior, infer_blocks, rough_modes
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.group_blocks import GroupBlocks, group_blocks
from dpbayes_cli.inference.groups.grouped_counts import summarize_groups

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
    members, prior = [], BinaryPrior(1.0, 1.0, pooled=True)
    pairs: list[Any] = []
    for k, (first, second) in enumerate(noises):
        groups = np.flatnonzero(noise_of == k)
        blocks = group_blocks(observed[groups], (component_noise(first, 1), component_noise(second, 1)))
        members += [groups[part] for part in blocks.members]
        pairs += blocks.pairs
    variance = float(np.mean([sum(law.variance for law in noises[k]) for k in noise_of.tolist()]))
    blocks = GroupBlocks(tuple(members), tuple(pairs))
    return summarize_groups(infer_blocks(blocks, rough_modes(observed, variance, prior), prior, rng), samples, rng)
