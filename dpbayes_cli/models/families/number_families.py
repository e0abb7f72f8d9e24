"""Families of numbers with a conjugate prior, and the law of what one number adds to the statistic.

For any interval, a family computes the probabilities below, inside and above the interval, and the first moments and
the characteristic function of the numbers inside. The law of a clamped or dropped number follows from these quantities.
To add a model whose records are one number each, implement a family.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.record_law import ScalarLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Booleans, Complexes, Floats

_MAX_ADDENDS = 1024
"""Sums of more terms than this are replaced by a quadrature rule."""
_N_NODES = 256
_leggauss = cache(np.polynomial.legendre.leggauss)


class NumberFamily(ABC):
    """A one-parameter family of numbers with a conjugate prior, in one unconstrained coordinate."""

    lattice: ClassVar[bool]
    """Whether the numbers are integers."""

    @property
    @abstractmethod
    def prior_range(self) -> tuple[float, float]:
        """An interval of the coordinate that holds all but 1e-12 of the prior."""

    @abstractmethod
    def coordinate_at(self, mean: float) -> float:
        """Return the coordinate at which the mean of a number, before it is clamped or dropped, has this value."""

    @abstractmethod
    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw coordinates from the prior, shape (size,)."""

    @abstractmethod
    def log_prior(self, coordinate: Floats) -> Floats:
        """Return the log density of the prior in the coordinate, elementwise."""

    @abstractmethod
    def parameter(self, coordinate: Floats) -> Floats:
        """Convert coordinates to parameters, elementwise."""

    @abstractmethod
    def complete_data_sd(self, coordinate: Floats, n_records: Floats) -> Floats:
        """Return the sd of the conjugate posterior if the sum of ``n_records`` records equals its expectation."""

    @abstractmethod
    def draw_conjugate(self, total: float, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw parameters from the conjugate posterior after ``n_records`` records with sum ``total``."""

    @abstractmethod
    def masses(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats, Floats]:
        """Return the probabilities below, inside and above an interval, elementwise."""

    @abstractmethod
    def transform(self, coordinate: Floats, frequencies: Floats | Complexes, lower: float, upper: float) -> Complexes:
        """Return E[exp(i u (x - middle)); inside the interval] for coordinates (n, 1) and frequencies (1 or n, m)."""

    @abstractmethod
    def moments(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return E[v; inside] and E[v^2; inside] elementwise; v is the number, with the interval scaled to [-1, 1]."""


@dataclass(frozen=True)
class NumberLaw(ScalarLaw):
    """The law of what one number adds to the statistic.

    Attributes:
        family: the family of the number.
        column: the public bounds and the grid of the number.
        centered: whether a number adds (2 * code - steps, steps) to the statistic, or only its code.
        inside: whether the law is conditional on numbers inside the bounds; all other numbers are then left out of the
            record count.
    """

    family: NumberFamily
    column: NumericColumn
    centered: bool
    inside: bool = False

    @property
    def counts_all(self) -> bool:
        return self.inside or self.column.outside == "clamp"

    def log_shares(self, points: Floats) -> tuple[Floats, Floats]:
        below, inside, above = self.family.masses(points, self.column.lower, self.column.upper)
        with np.errstate(divide="ignore"):
            return np.log(inside), np.log(below + above)

    @property
    def spacing(self) -> int:
        """The distance between two neighboring possible sums; 0 if the grid is so fine that the noise hides it."""
        return (2 if self.centered else 1) if self.family.lattice else 0

    @property
    def span(self) -> float:
        return float(self.column.steps)

    @property
    def prior_range(self) -> tuple[float, float]:
        return self.family.prior_range

    @property
    def public_range(self) -> tuple[float, float]:
        lower, tenth = self.column.lower, (self.column.upper - self.column.lower) / 10.0
        low, high = sorted(self.family.coordinate_at(lower + share * tenth) for share in (1.0, 9.0))
        return low, high

    @property
    def _scale(self) -> tuple[float, float]:
        """The contribution of a number halfway between the bounds, and half the range of contributions."""
        half = float(self.column.steps) if self.centered else self.column.steps / 2.0
        return (0.0 if self.centered else half), half

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        return self.family.draw_prior(size, rng)[:, None]

    def log_prior(self, points: Floats) -> Floats:
        return self.family.log_prior(points[..., 0])

    def parameters(self, points: Floats) -> Floats:
        """Return the parameter."""
        return self.family.parameter(points)

    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        return self.family.complete_data_sd(points[..., 0], n_records)[..., None]

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of a record's contribution to (sum, valid records), or to the sum alone."""
        below, inside, above = self.family.masses(points[..., 0], self.column.lower, self.column.upper)
        first, second = self.family.moments(points[..., 0], self.column.lower, self.column.upper)
        if self.column.outside == "clamp":
            first, second, inside = first + above - below, second + above + below, np.ones_like(first)
        elif self.inside:
            first, second, inside = first / inside, second / inside, np.ones_like(first)
        middle, half = self._scale
        variance = np.maximum(second - first**2, 0.0) * half**2
        if not self.centered:
            return (middle + half * first)[..., None], variance[..., None, None]
        mean = np.stack([half * first, self.column.steps * inside], axis=-1)
        covariance = np.empty((*first.shape, 2, 2))
        covariance[..., 0, 0] = variance
        covariance[..., 0, 1] = covariance[..., 1, 0] = half * self.column.steps * first * (1.0 - inside)
        covariance[..., 1, 1] = self.column.steps**2 * inside * (1.0 - inside)
        return mean, covariance

    def characteristic(self, points: Floats, frequencies: Floats | Complexes) -> Complexes:
        """Return the characteristic function of the contribution of a clamped number, or of one inside the bounds."""
        middle, half = self._scale
        lower, upper = self.column.lower, self.column.upper
        width = (upper - lower) / 2.0
        inside = self.family.transform(points, frequencies * (half / width), lower, upper)
        start = np.exp(1j * frequencies * middle)
        below, between, above = self.family.masses(points, lower, upper)
        if self.column.outside == "drop":
            return np.asarray(inside * start / between)
        ends = [np.exp(1j * frequencies * (middle + sign * half)) for sign in (-1.0, 1.0)]
        return np.asarray(inside * start + below * ends[0] + above * ends[1])

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the conjugate posterior given the possible sum that is nearest to the noisy sum."""
        middle, half = self._scale
        n = n_records
        if self.centered:
            n = min(max(float(observed[1]) / self.column.steps, 0.0), n_records)
        width, center = (self.column.upper - self.column.lower) / 2.0, (self.column.upper + self.column.lower) / 2.0
        scaled = min(max((float(observed[0]) - n * middle) / half, -n), n)
        return self.family.draw_conjugate(n * center + width * scaled, n, size, rng)[:, None]


class LatticeFamily(NumberFamily):
    """A family of laws on the numbers 0, 1, 2, ..., for intervals whose lower bound is 0."""

    lattice: ClassVar[bool] = True

    @abstractmethod
    def log_pmf(self, coordinate: Floats, numbers: Floats) -> Floats:
        """Return log P(number), continued smoothly between integers, for coordinates and numbers that broadcast."""

    @abstractmethod
    def survival(self, coordinate: Floats, number: float) -> Floats:
        """Return P(X > number), elementwise."""

    @abstractmethod
    def reach(self, coordinate: Floats) -> tuple[Floats, Floats]:
        """Return the ends of an interval whose outside has a probability below 1e-15, elementwise."""

    def masses(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats, Floats]:
        above = self.survival(coordinate, upper)
        return np.zeros_like(above), 1.0 - above, above

    def _nodes(self, coordinate: Floats, upper: float) -> tuple[Floats, Floats, Booleans]:
        """Return numbers, weights times probabilities, both of shape (..., m), and whether a rule is used, (..., 1).

        The numbers are all of those inside the interval or, if these are too many, the nodes of a quadrature rule.
        The rule would be wrong for small means, whose probabilities change much from one number to the next.
        """
        low, high = self.reach(coordinate[..., None])
        low, high = np.floor(np.maximum(low, 0.0)), np.minimum(np.ceil(high), upper)
        is_rule = high - low >= _MAX_ADDENDS
        width = int((high - low).max(initial=0.0, where=~is_rule)) + 1
        if is_rule.any():
            width = max(width, _N_NODES)
        numbers = low + np.arange(width)
        weights = np.where(numbers <= high, 1.0, 0.0)
        numbers = np.minimum(numbers, high)
        if is_rule.any():
            nodes, rule = (np.pad(each, (0, width - _N_NODES)) for each in _leggauss(_N_NODES))
            half = (high - low + 1.0) / 2.0
            numbers = np.where(is_rule, low - 0.5 + half * (1.0 + nodes), numbers)
            weights = np.where(is_rule, half * rule, weights)
        return numbers, np.exp(self.log_pmf(coordinate[..., None], numbers)) * weights, is_rule

    def transform(self, coordinate: Floats, frequencies: Floats | Complexes, lower: float, upper: float) -> Complexes:
        numbers, masses, rule = self._nodes(coordinate[:, 0], upper)
        is_rule = rule[:, 0]
        u = np.broadcast_to(frequencies, (len(numbers), np.shape(frequencies)[1]))
        result = np.empty(u.shape, dtype=np.complex128)
        first = numbers[~is_rule, :1] - upper / 2.0
        result[~is_rule] = np.exp(1j * u[~is_rule] * first) * _series(u[~is_rule], masses[~is_rule])
        phases = np.exp(1j * u[is_rule][..., None] * (numbers[is_rule] - upper / 2.0)[:, None, :])
        result[is_rule] = (phases * masses[is_rule][:, None, :]).sum(axis=-1)
        return result

    def moments(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
        numbers, masses, _ = self._nodes(coordinate, upper)
        scaled = 2.0 * numbers / upper - 1.0
        return (scaled * masses).sum(axis=-1), (scaled**2 * masses).sum(axis=-1)


def _series(u: Any, masses: Floats) -> Complexes:
    """Return sum_k masses[:, k] exp(i u k), for frequencies of shape (1 or n, m) and masses of shape (n, n_terms).

    With k = block * a + b, exp(i u k) is a product of two exponentials from short tables; to compute all of them would
    take most of the time of inference.
    """
    n_points, n_terms = masses.shape
    block = math.isqrt(n_terms - 1) + 1
    n_blocks = -(-n_terms // block)
    padded = np.zeros((n_points, n_blocks * block))
    padded[:, :n_terms] = masses
    within = np.exp(1j * u[..., None] * np.arange(block))
    between = np.exp(1j * u[..., None] * (block * np.arange(n_blocks)))
    sums = between @ padded.reshape(n_points, n_blocks, block).astype(np.complex128)
    return np.asarray((sums * within).sum(axis=-1))


def log_gamma_draws(shape: float, size: int, rng: np.random.Generator) -> Floats:
    """Draw logarithms of Gamma(shape, 1) variables; they do not underflow, however small the shape is."""
    return np.log(rng.standard_gamma(shape + 1.0, size)) + np.log1p(-rng.random(size)) / shape
