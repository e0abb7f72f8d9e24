"""Estimates of the row totals of a network's tables from its other tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.privacy.dag import Network

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


class MarginEstimates:
    """Estimates of joint counts of a set of variables: precision-weighted means of the margins of noisy tables."""

    def __init__(
        self, network: Network, counts: Sequence[Floats], variances: Sequence[float], complete: Sequence[bool]
    ) -> None:
        self._network, self._counts, self._variances = network, counts, variances
        self._complete = [all(complete[j] for j in family) for family in network.families]
        self._tables_with: dict[int, list[int]] = {}
        for i, family in enumerate(network.families):
            for j in family:
                self._tables_with.setdefault(j, []).append(i)
        self._combined_margins: dict[frozenset[int], tuple[Floats, float]] = {}

    def for_table(self, i: int) -> tuple[Floats | None, Floats | None]:
        """Estimate row totals of a table, and their variances, from other tables; None if no other table holds them."""
        parents = self._network.parents[i]
        if not parents:
            return None, None
        weighted, precision = self._combined(frozenset(parents))
        own, own_precision = self._margin(i, sorted(parents))
        other_precision = precision - own_precision
        if other_precision <= 1e-9 * precision:
            return None, None
        order = np.argsort(np.argsort(parents))
        margin = np.transpose((weighted - own * own_precision) / other_precision, order)
        return margin.ravel(), np.full(margin.size, 1.0 / other_precision)

    def totals_of(self, i: int) -> tuple[Floats, float]:
        """Estimate the totals of a variable's values from all tables that hold it; return them and their variance."""
        weighted, precision = self._combined(frozenset({i}))
        return weighted / precision, 1.0 / precision

    def _combined(self, variables: frozenset[int]) -> tuple[Floats, float]:
        """Return the sum over tables of precision times margin, with axes ascending, and the sum of precisions."""
        if variables not in self._combined_margins:
            axes = sorted(variables)
            tables = [i for i in self._tables_with[axes[0]] if variables <= set(self._network.families[i])]
            margins = [self._margin(i, axes) for i in tables if self._complete[i]]
            total: Any = sum(margin * precision for margin, precision in margins)
            self._combined_margins[variables] = total, math.fsum(precision for _, precision in margins)
        return self._combined_margins[variables]

    def _margin(self, i: int, axes: Sequence[int]) -> tuple[Floats, float]:
        """Return the margin of a table, with variables in ascending order, and the precision of the margin's cells."""
        family = self._network.families[i]
        summed = tuple(k for k, j in enumerate(family) if j not in axes)
        kept = [j for j in family if j in axes]
        margin = np.transpose(self._counts[i].sum(axis=summed), np.argsort(kept))
        return margin, 1.0 / (self._variances[i] * self._counts[i].size / margin.size)
