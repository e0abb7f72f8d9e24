"""What the tables of a network tell about each other's row totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpbayes_cli.privacy.dag import Network

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class MarginEstimates:
    """What all tables together tell about the joint counts of a set of variables: precision-weighted noisy sums."""

    def __init__(
        self, network: Network, counts: Sequence[Floats], variances: Sequence[float], complete: Sequence[bool]
    ) -> None:
        self._network, self._counts, self._variances = network, counts, variances
        self._whole = [all(complete[j] for j in family) for family in network.families]
        self._holding: dict[int, list[int]] = {}
        for i, family in enumerate(network.families):
            for j in family:
                self._holding.setdefault(j, []).append(i)
        self._found: dict[frozenset[int], tuple[Floats, float]] = {}

    def of(self, i: int) -> tuple[Floats | None, Floats | None]:
        """Return what the other tables tell about the row totals of a table, and the variance; None for nothing."""
        import numpy as np

        parents = self._network.parents[i]
        if not parents:
            return None, None
        weighted, precision = self._all(frozenset(parents))
        own, own_precision = self._one(i, sorted(parents))
        left = precision - own_precision
        if left <= 1e-9 * precision:
            return None, None
        order = np.argsort(np.argsort(parents))
        margin = np.transpose((weighted - own * own_precision) / left, order)
        return margin.ravel(), np.full(margin.size, 1.0 / left)

    def _all(self, variables: frozenset[int]) -> tuple[Floats, float]:
        """Return the sum over tables of precision times margin, and of precisions; axes in ascending order."""
        if variables not in self._found:
            axes = sorted(variables)
            tables = [i for i in self._holding[axes[0]] if variables <= set(self._network.families[i])]
            margins = [self._one(i, axes) for i in tables if self._whole[i]]
            total: Any = sum(margin * precision for margin, precision in margins)
            self._found[variables] = total, math.fsum(precision for _, precision in margins)
        return self._found[variables]

    def _one(self, i: int, axes: Sequence[int]) -> tuple[Floats, float]:
        """Return the margin of a table on variables in ascending order, and the precision of each of its cells."""
        import numpy as np

        family = self._network.families[i]
        summed = tuple(k for k, j in enumerate(family) if j not in axes)
        kept = [j for j in family if j in axes]
        margin = np.transpose(self._counts[i].sum(axis=summed), np.argsort(kept))
        return margin, 1.0 / (self._variances[i] * self._counts[i].size / margin.size)
