"""The mean and the standard deviation of one record's contribution, as smooth functions of the coordinate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpbayes_cli.core.noisy_observation import GroupedSums

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_CORE_POINTS, _TAIL_POINTS = 1024, 256
_REACH = 3.0
"""The domain extends beyond the public range by at least three times half its length."""
_LEAST_SHARE = 1e-200
"""If a smaller share of the records is inside the bounds, their moments are taken from the nearest other coordinate."""


class RecordMoments:
    """The moments of what a valid record adds to the sum: u = 2 code - steps, times the unit of sums.

    The law of the record gives the moments at a few coordinates; monotone cubics interpolate between these. If numbers
    out of bounds are dropped, the moments are those of a number inside the bounds, because only such numbers count as
    valid records.

    Attributes:
        steps: what a valid record adds to the noisy size, the number of grid steps between the public bounds times the
            unit of sizes.
        prior_range: the range of the stated prior of the coordinate.
        spread: half the length of the public range of the coordinate.
        core: the public range of the coordinate, extended on both sides by ``_REACH`` times the spread.
        domain: the interval of the coordinate to which groups are confined. It contains the core and the range of the
            stated prior.
    """

    def __init__(self, outcome: GroupedSums) -> None:
        law, (low, high) = outcome.law, outcome.law.public_range
        steps = float(outcome.steps)
        self.steps = steps * outcome.size_unit
        self.spread = (high - low) / 2.0
        self.core = (low - _REACH * self.spread, high + _REACH * self.spread)
        self.prior_range = begin, end = law.prior_range
        self.domain = (min(begin, self.core[0]), max(end, self.core[1]))
        grid = np.unique(
            np.concatenate([np.linspace(*self.core, _CORE_POINTS), np.linspace(*self.domain, _TAIL_POINTS)])
        )
        with np.errstate(all="ignore"):
            mean, covariance = law.moments(grid[:, None])
            share = mean[:, 1] / steps
            first = mean[:, 0] / share
            variance = (covariance[:, 0, 0] + mean[:, 0] ** 2) / share - first**2
        known = np.flatnonzero(np.isfinite(first) & np.isfinite(variance) & (share > _LEAST_SHARE))
        first = outcome.sum_unit * np.clip(first[known], -steps, steps)
        sd = outcome.sum_unit * np.sqrt(np.clip(variance[known], 0.0, steps**2))
        self._first, self._last = grid[known[0]], grid[known[-1]]
        self._mean, self._sd = PchipInterpolator(grid[known], first), PchipInterpolator(grid[known], sd)
        self._slope = self._mean.derivative()
        self._grid, self._means = grid[known], first

    def at(self, coordinate: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation, elementwise."""
        inside = np.clip(coordinate, self._first, self._last)
        return np.asarray(self._mean(inside)), np.asarray(self._sd(inside))

    def slope(self, coordinate: Floats) -> Floats:
        """Return the derivative of the mean with respect to the coordinate, elementwise."""
        return np.asarray(self._slope(np.clip(coordinate, self._first, self._last)))

    def coordinate_of(self, mean: Floats) -> Floats:
        """Return the coordinate in the core at which a record has this mean, or the nearest possible one."""
        order = np.argsort(self._means, kind="stable")
        return np.asarray(np.clip(np.interp(mean, self._means[order], self._grid[order]), *self.core))
