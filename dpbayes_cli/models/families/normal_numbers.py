"""The law of normal numbers, and the moments and characteristic function of a normal law on an interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import ndtr, wofz

from dpbayes_cli.models.families.number_families import NumberFamily

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Complexes, Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_MIN_QUADRATURE_SD = 0.5
"""For standard deviations above this, quadrature of the density on [-1, 1] is accurate to double precision."""
_MIN_OSCILLATING_SD = 4.0
_MAX_SLOW_FREQUENCY = 64.0
"""At frequencies above this, quadrature of the characteristic function needs sd > ``_MIN_OSCILLATING_SD``."""


@dataclass(frozen=True)
class NormalNumbers(NumberFamily):
    """Normal numbers of known variance, with a normal prior on their mean; the coordinate is the mean."""

    prior_mean: float
    prior_variance: float
    variance: float
    lattice: ClassVar[bool] = False

    @property
    def prior_range(self) -> tuple[float, float]:
        """The prior mean plus and minus 7.1 prior standard deviations."""
        reach = 7.1 * self.prior_variance**0.5
        return self.prior_mean - reach, self.prior_mean + reach

    def coordinate_at(self, mean: float) -> float:
        return mean

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        return rng.normal(self.prior_mean, self.prior_variance**0.5, size)

    def log_prior(self, coordinate: Floats) -> Floats:
        return -((coordinate - self.prior_mean) ** 2) / (2.0 * self.prior_variance)

    def parameter(self, coordinate: Floats) -> Floats:
        return coordinate

    def complete_data_sd(self, coordinate: Floats, n_records: Floats) -> Floats:
        return 1.0 / (1.0 / self.prior_variance + n_records / self.variance) ** 0.5 + 0.0 * coordinate

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        precision = 1.0 / self.prior_variance + n_records / self.variance
        mean = (self.prior_mean / self.prior_variance + total / self.variance) / precision
        return rng.normal(mean, precision**-0.5, size)

    def masses(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats, Floats]:
        sd, half, middle = self.variance**0.5, (upper - lower) / 2.0, (upper + lower) / 2.0
        inside = interval_moments((coordinate - middle) / half, np.full_like(coordinate, sd / half), 0)[0]
        return np.asarray(ndtr((lower - coordinate) / sd)), inside, np.asarray(ndtr((coordinate - upper) / sd))

    def transform(self, coordinate: Floats, frequencies: Floats | Complexes, lower: float, upper: float) -> Complexes:
        half, middle = (upper - lower) / 2.0, (upper + lower) / 2.0
        return interval_transform(coordinate - middle, self.variance**0.5, frequencies, -half, half)

    def moments(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
        half, middle = (upper - lower) / 2.0, (upper + lower) / 2.0
        sd = np.full_like(coordinate, self.variance**0.5 / half)
        _, first, second = interval_moments((coordinate - middle) / half, sd, 2)
        return first, second


@dataclass(frozen=True)
class UniformMean(NormalNumbers):
    """Normal numbers of known variance, with a uniform prior on their mean, which has the stated mean and variance."""

    @property
    def prior_range(self) -> tuple[float, float]:
        """The interval of the mean."""
        reach = (3.0 * self.prior_variance) ** 0.5
        return self.prior_mean - reach, self.prior_mean + reach

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        return rng.uniform(*self.prior_range, size)

    def log_prior(self, coordinate: Floats) -> Floats:
        low, high = self.prior_range
        return np.where((coordinate >= low) & (coordinate <= high), 0.0, -np.inf)


def interval_moments(mean: Floats, sd: Floats, order: int) -> Floats:
    """Return E[v^k; -1 <= v <= 1] for k = 0..order, v ~ N(mean, sd^2).

    For a narrow law this uses the recursion of incomplete normal moments around the mean. For a wide law the terms of
    the recursion would cancel; its density is smooth enough for Gauss-Legendre quadrature.

    Args:
        mean, sd: arrays of the same shape.

    Returns:
        Shape (order + 1, ...).
    """
    mean, sd = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64))
    wide = (sd > _MIN_QUADRATURE_SD) | (np.abs(mean) > 1.0 + 4.0 * sd)
    result = np.empty((order + 1, *mean.shape))
    result[:, wide] = _by_quadrature(mean[wide], sd[wide], order)
    result[:, ~wide] = _by_recursion(mean[~wide], sd[~wide], order)
    return result


def _by_quadrature(mean: Floats, sd: Floats, order: int) -> Floats:
    reach = 40.0 * sd
    low = np.clip(mean - reach, -1.0, 1.0)
    high = np.clip(mean + reach, -1.0, 1.0)
    # If the mean is outside, only the nearest edge matters: the density falls by a factor e every sd^2 / gap.
    gap = np.maximum(np.abs(mean) - 1.0, 0.0)
    decay = 40.0 * sd**2 / np.maximum(gap, 1e-300)
    low = np.where((mean > 1.0) & (1.0 - decay > low), 1.0 - decay, low)
    high = np.where((mean < -1.0) & (-1.0 + decay < high), -1.0 + decay, high)
    half, middle = (high - low) / 2.0, (high + low) / 2.0
    v = middle + half * _NODES[:, None]
    density = np.exp(-0.5 * ((v - mean) / sd) ** 2) * _WEIGHTS[:, None] * (half / (sd * np.sqrt(2.0 * np.pi)))
    powers = [density.sum(axis=0)]
    for _ in range(order):
        density = density * v
        powers.append(density.sum(axis=0))
    return np.array(powers)


def _by_recursion(mean: Floats, sd: Floats, order: int) -> Floats:
    low, high = (-1.0 - mean) / sd, (1.0 - mean) / sd
    at_low, at_high = (np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) for z in (low, high))
    standard = [np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)), at_low - at_high]
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(2, order + 1):
            ends = np.where(at_low > 0, low ** (k - 1) * at_low, 0.0) - np.where(
                at_high > 0, high ** (k - 1) * at_high, 0.0
            )
            standard.append((k - 1) * standard[k - 2] + ends)
    terms = ([comb(k, j) * mean ** (k - j) * sd**j * standard[j] for j in range(k + 1)] for k in range(order + 1))
    return np.array([sum(row) for row in terms])


def interval_transform(
    mean: Floats, sd: float, frequencies: Floats | Complexes, lower: float, upper: float
) -> Complexes:
    """Return E[exp(i u x); lower <= x <= upper] for x ~ N(mean, sd^2).

    Args:
        mean: shape (n, 1).
        sd: the standard deviation.
        frequencies: u, shape (1 or n, m), real or complex.
        lower, upper: the interval.

    Source: the Faddeeva function w, E[e^{iux}; x > a] = e^{iua} phi(z) sqrt(pi/2) w(i (z - i u sd) / sqrt 2), z > 0.
    """
    half = (upper - lower) / 2.0
    fastest = float(np.abs(np.real(frequencies)).max(initial=0.0)) * half
    if sd > _MIN_QUADRATURE_SD * half and (fastest < _MAX_SLOW_FREQUENCY or sd > _MIN_OSCILLATING_SD * half):
        # the closed form below would lose digits by subtracting tails from a total that is much larger
        nodes, weights = np.polynomial.legendre.leggauss(int(min(64 + fastest, 1024)))
        x = (upper + lower) / 2.0 + half * nodes
        density = np.exp(-0.5 * ((x - mean) / sd) ** 2) * (weights * half / (sd * np.sqrt(2.0 * np.pi)))
        if np.shape(frequencies)[0] == 1:
            return np.asarray(density @ np.exp(1j * frequencies[0] * x[:, None]))
        return np.stack([row @ np.exp(1j * u * x[:, None]) for row, u in zip(density, frequencies, strict=True)])
    at_lower, at_upper = (_beyond(mean, sd, frequencies, end) for end in (lower, upper))
    outside = np.where(mean <= lower, at_lower - at_upper, at_upper - at_lower)
    whole = np.exp(1j * frequencies * mean - 0.5 * (frequencies * sd) ** 2)
    return np.asarray(np.where((mean > lower) & (mean < upper), whole - at_lower - at_upper, outside))


def _beyond(mean: Floats, sd: float, frequencies: Floats | Complexes, end: float) -> Complexes:
    """Return E[exp(i u x)] restricted to x on the far side of ``end``, as seen from the mean."""
    z = (end - mean) / sd
    outward = np.where(z >= 0, 1.0, -1.0)
    argument = 1j * (np.abs(z) - 1j * outward * frequencies * sd) / np.sqrt(2.0)
    return np.asarray(0.5 * np.exp(1j * frequencies * end - 0.5 * z**2) * wofz(argument))
