"""The posterior of each count of a table by itself: a prior times the likelihood, on a lattice of integers.

The prior is flat on the integers, or on 0, 1, 2, ... if counts are not negative; see ``power_priors`` for columns of
which small counts are not published. If the noise is wide, a lattice has one point for several neighboring counts, over
which the posterior changes little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.inference.cells.cell_laws import CellLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

_NATS = 32.0
"""Counts whose likelihood is below exp(-32) = 1e-14 times the largest one are left out."""
_POINTS_PER_SCALE = 16
_MAX_ELEMENTS = 1 << 21
_LEAST_WEIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class PowerPrior:
    """A prior P(c) proportional to (c + 1)^-a, with an uncertain exponent a.

    Attributes:
        exponents: possible values of a, ascending, shape (n,).
        weights: their probabilities, shape (n,).
    """

    exponents: Floats
    weights: Floats

    @property
    def mean(self) -> float:
        """The mean of the exponent."""
        return float(self.weights @ self.exponents)

    @property
    def sd(self) -> float:
        """The standard deviation of the exponent."""
        return float(np.sqrt(self.weights @ (self.exponents - self.mean) ** 2))

    def at(self, level: float) -> PowerPrior:
        """Return the prior with the exponent at a quantile."""
        place = min(int(np.searchsorted(np.cumsum(self.weights), level)), len(self.weights) - 1)
        return PowerPrior(self.exponents[[place]], np.ones(1))


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """The noisy counts of a table. Arrays have shape (n_cells,).

    Attributes:
        observed: the noisy counts; NaN for a cell that is listed as suppressed.
        laws: the laws of noise that occur.
        law: the index of each cell's law; -1 for a cell without noise.
        scale: the scale of each cell's noise.
        suppressed_below: the smallest noisy count that is published; minus infinity if all are published.
        prior: the index of the cell's prior in ``priors``; -1 for a flat prior.
        non_negative: whether all counts are at least 0.
        lists_suppressed: whether suppressed cells are listed, and not missing from the table.
        priors: the priors that are not flat.
    """

    observed: Floats
    laws: tuple[CellLaw, ...]
    law: Integers
    scale: Floats
    suppressed_below: Floats
    prior: Integers
    non_negative: bool = True
    lists_suppressed: bool = False
    priors: tuple[PowerPrior, ...] = ()

    def reach(self, index: Integers) -> Floats:
        """Return for each of these cells how far the counts that matter may be from the noisy count."""
        distance = np.zeros(len(index))
        for k, law in enumerate(self.laws):
            distance = np.where(self.law[index] == k, law.reach(_NATS, self.scale[index]), distance)
        return distance

    def log_likelihood(self, index: Integers, counts: Floats) -> Floats:
        """Return the log likelihood of counts, shape (len(index), n_counts), up to a constant for each cell."""
        observed, least = self.observed[index][:, None], self.suppressed_below[index][:, None]
        result = np.where(counts == observed, 0.0, -np.inf)  # for cells without noise
        for k, law in enumerate(self.laws):
            here = self.law[index] == k
            scale = self.scale[index][here][:, None]
            result[here] = law.log_density(observed[here] - counts[here], scale)
            listed = here & np.isnan(observed[:, 0])
            if listed.any():
                result[listed] = law.log_lower_tail(least[listed] - counts[listed], self.scale[index][listed][:, None])
        return result

    def windows(self, index: Integers, widening: int = 1) -> tuple[Integers, Integers]:
        """Return for each of these cells the smallest and the largest count that matters."""
        reach = widening * self.reach(index) * np.where(self.prior[index] >= 0, 2.0, 1.0)  # such a prior may be steep
        observed, least = self.observed[index], self.suppressed_below[index]
        center = np.where(np.isnan(observed), least, observed)
        low = np.ceil(center - reach)
        low = np.where(np.isnan(observed), np.minimum(low, 0.0), low)
        low = np.maximum(low, 0.0) if self.non_negative else low
        high = np.maximum(np.floor(center + reach), low + np.ceil(reach))
        return low.astype(np.int64), high.astype(np.int64)

    def steps(self, index: Integers) -> Integers:
        """Return the numbers of neighboring counts that share a point of a lattice."""
        return np.maximum(self.scale[index] // _POINTS_PER_SCALE, 1.0).astype(np.int64)

    def batches(self, index: Integers) -> Iterator[Integers]:
        """Yield parts of the positions 0..len(index)-1 whose lattices fit into memory together."""
        low, high = self.windows(index)
        size = (high - low) // self.steps(index) + 2
        order = np.argsort(size, kind="stable")
        start = 0
        while start < len(order):
            elements = np.arange(1, len(order) - start + 1) * size[order[start:]]  # ascending, as the sizes are
            stop = start + max(1, int(np.searchsorted(elements, _MAX_ELEMENTS, side="right")))
            yield order[start:stop]
            start = stop


@dataclass(frozen=True, eq=False)
class Lattices:
    """Posteriors of counts, a row for each cell; the masses of a row add up to one.

    Point k of a row stands for the counts from first + k * step to first + (k + 1) * step - 1.

    Attributes:
        first: multiples of ``step``, shape (n_cells,).
        step: shape (n_cells,).
        mass: shape (n_cells, n_points).
    """

    first: Integers
    step: Integers
    mass: Floats

    @cached_property
    def cumulative(self) -> Floats:
        """The probability of each point and all points before it."""
        total = np.cumsum(self.mass, axis=1)
        return np.asarray(total / total[:, -1:])

    def moments(self) -> tuple[Floats, Floats]:
        """Return the means and the standard deviations."""
        middle = self.first[:, None] + self.step[:, None] * np.arange(self.mass.shape[1]) + (self.step[:, None] - 1) / 2
        mean = (self.mass * middle).sum(axis=1)
        variance = (self.mass * (middle - mean[:, None]) ** 2).sum(axis=1) + (self.step**2 - 1.0) / 12.0
        return mean, np.sqrt(variance)

    def quantile(self, probability: float) -> Integers:
        """Return the smallest counts whose cumulative probability is at least ``probability``."""
        point = np.minimum((self.cumulative < probability).sum(axis=1), self.mass.shape[1] - 1)
        row = np.arange(len(point))
        before = self.cumulative[row, point] - self.mass[row, point]
        share = (probability - before) / np.maximum(self.mass[row, point], 1e-300)
        inside = np.clip(np.ceil(share * self.step) - 1, 0, self.step - 1).astype(np.int64)
        return np.asarray(self.first + point * self.step + inside)

    def draw(self, size: int, rng: np.random.Generator) -> Integers:
        """Draw counts, shape (size, n_cells)."""
        n_cells, n_points = self.mass.shape
        rows = np.arange(n_cells)[:, None]
        flat = (self.cumulative + rows).ravel()
        # all draws of a cell come one after the other, so that the searches stay in the processor's cache
        point = np.searchsorted(flat, rng.random((n_cells, size)) + rows, side="right") - rows * n_points
        inside = rng.integers(0, self.step[:, None], (n_cells, size)) if (self.step > 1).any() else 0
        counts = self.first[:, None] + np.clip(point, 0, n_points - 1) * self.step[:, None] + inside
        return np.asarray(counts.T)


def log_masses(
    cells: NoisyCells,
    index: Integers,
    window: tuple[Integers, Integers],
    step: Integers,
    *,
    relative: bool = True,
) -> tuple[Integers, Floats]:
    """Return for each cell the first count of its lattice, and the log posterior of each point.

    Args:
        index: the cells.
        window: the smallest and the largest count of each lattice.
        step: the numbers of counts that share a point.
        relative: whether the largest log posterior of a cell is set to 0.
    """
    low, high = window
    first = low // step * step
    last = (high - first) // step
    point = np.arange(int(last.max(initial=0)) + 1)
    middle = first[:, None] + step[:, None] * point + (step[:, None] - 1) / 2.0
    log_mass = np.where(point <= last[:, None], cells.log_likelihood(index, middle), -np.inf)
    for k, prior in enumerate(cells.priors):
        here = cells.prior[index] == k
        log_mass[here] = _mixed(log_mass[here], np.log1p(middle[here]), prior)
    return first, log_mass - log_mass.max(axis=1, keepdims=True) * relative


def _mixed(log_likelihood: Floats, log_counts: Floats, prior: PowerPrior) -> Floats:
    """Return the mixture of the posteriors under priors of several exponents."""
    from scipy.special import logsumexp

    result = np.full(log_likelihood.shape, -np.inf)
    for exponent, weight in zip(prior.exponents, prior.weights, strict=True):
        if weight > _LEAST_WEIGHT:
            each = log_likelihood - exponent * log_counts
            result = np.logaddexp(result, math.log(weight) + each - logsumexp(each, axis=1, keepdims=True))
    return result


def lattices(cells: NoisyCells, index: Integers) -> Lattices:
    """Return the posteriors of the counts of some cells, each by itself."""
    step = cells.steps(index)
    first, log_mass = log_masses(cells, index, cells.windows(index), step)
    mass = np.exp(log_mass)
    return Lattices(first, step, mass / mass.sum(axis=1, keepdims=True))
