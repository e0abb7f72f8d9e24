"""Divide groups into blocks of similar counts, each with small tables of the joint law of the latent counts.

All groups with counts up to 1,500, or up to twice the reach of the noise, are one block. The others are divided into
squares with sides of 8 on the scale of the square roots of both counts, where tables have a constant density of nodes
(``count_axis``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.groups.noisy_pairs import NoisyPairs, noisy_pairs

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.inference.groups.component_noise import ComponentNoise
    from dpbayes_cli.inference.groups.count_tables import CountLaw

_SMALL_COUNTS = 1500
_SIDE = 8.0


@dataclass(frozen=True, eq=False)
class GroupBlocks:
    """Groups, divided into blocks.

    Attributes:
        members: for each block the indices of its groups.
        pairs: for each block the observed counts of its groups.
    """

    members: tuple[Integers, ...]
    pairs: tuple[NoisyPairs, ...]

    def log_likelihood(self, law: CountLaw) -> Floats:
        """Return the log probability of all observations, up to a constant, shape (n_values,)."""
        return np.asarray(sum(pairs.log_likelihood(law) for pairs in self.pairs))

    def trimmed(self, law: CountLaw) -> GroupBlocks:
        """Return the blocks with smaller tables; see ``NoisyPairs.trimmed``."""
        return GroupBlocks(self.members, tuple(pairs.trimmed(law) for pairs in self.pairs))

    def gather(self, by_pair: list[Floats]) -> Floats:
        """Return values by group, given the values by pair of each block, shape (n_groups, ...)."""
        n_groups = sum(len(each) for each in self.members)
        result = np.empty((n_groups, *by_pair[0].shape[1:]))
        for members, pairs, values in zip(self.members, self.pairs, by_pair, strict=True):
            result[members] = values[pairs.pair_of]
        return result


def group_blocks(
    observed: Integers, noises: tuple[ComponentNoise, ComponentNoise], *, may_be_empty: bool = True
) -> GroupBlocks:
    """Return the groups in blocks; for the arguments see ``noisy_pairs``."""
    tiles = 1 + (np.sqrt(np.maximum(observed, 0)) / _SIDE).astype(np.int64)
    small = max(_SMALL_COUNTS, 2 * max(noise.reach for noise in noises))
    tiles[(observed <= small).all(axis=1)] = 0
    _, block_of = np.unique(tiles, axis=0, return_inverse=True)
    order = np.argsort(block_of, kind="stable")
    members = tuple(np.split(order, np.cumsum(np.bincount(block_of))[:-1]))
    return GroupBlocks(
        members, tuple(noisy_pairs(observed[each], noises, may_be_empty=may_be_empty) for each in members)
    )
