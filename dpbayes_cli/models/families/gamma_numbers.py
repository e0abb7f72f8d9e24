"""The laws of numbers whose parameter is a rate with a Gamma prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import gammainc, gammainccinv, gammaincinv, gammaln

from dpbayes_cli.models.families.number_families import LatticeFamily, NumberFamily, log_gamma_draws

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Complexes, Floats


@dataclass(frozen=True)
class LogOfGamma(NumberFamily):
    """A family of numbers whose parameter is a rate with a Gamma prior; the coordinate is the log of the rate."""

    shape: float
    rate: float

    @property
    def prior_range(self) -> tuple[float, float]:
        """The logarithms of the prior's 1e-12 and 1 - 1e-12 quantiles."""
        low = max(float(gammaincinv(self.shape, 1e-12)), 1e-300)
        return float(np.log(low / self.rate)), float(np.log(gammainccinv(self.shape, 1e-12) / self.rate))

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        return np.asarray(log_gamma_draws(self.shape, size, rng) - np.log(self.rate))

    def log_prior(self, coordinate: Floats) -> Floats:
        return np.asarray(self.shape * coordinate - self.rate * np.exp(coordinate))

    def parameter(self, coordinate: Floats) -> Floats:
        return np.exp(coordinate)


@dataclass(frozen=True)
class PoissonCounts(LogOfGamma, LatticeFamily):
    """Poisson counts, with a Gamma prior on their rate."""

    def coordinate_at(self, mean: float) -> float:
        return math.log(mean)

    def complete_data_sd(self, coordinate: Floats, n_records: Floats) -> Floats:
        """Return the sd of Gamma(shape + n times the mean count, rate + n)."""
        return np.asarray(np.sqrt(self.shape + n_records * np.exp(coordinate)) / (self.rate + n_records))

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from Gamma(shape + total, rate + n)."""
        return np.asarray(rng.gamma(self.shape + total, 1.0 / (self.rate + n_records), size))

    def log_pmf(self, coordinate: Floats, numbers: Floats) -> Floats:
        return np.asarray(numbers * coordinate - np.exp(coordinate) - gammaln(numbers + 1.0))

    def survival(self, coordinate: Floats, number: float) -> Floats:
        return np.asarray(gammainc(np.floor(number) + 1.0, np.exp(coordinate)))

    def reach(self, coordinate: Floats) -> tuple[Floats, Floats]:
        mean = np.exp(coordinate)
        return mean - 9.0 * np.sqrt(mean), mean + 9.0 * np.sqrt(mean) + 24.0


@dataclass(frozen=True)
class ExponentialTimes(LogOfGamma):
    """Exponential waiting times, with a Gamma prior on their rate."""

    lattice: ClassVar[bool] = False

    def coordinate_at(self, mean: float) -> float:
        return -math.log(mean)

    def complete_data_sd(self, coordinate: Floats, n_records: Floats) -> Floats:
        """Return the sd of Gamma(shape + n, rate + n times the mean time)."""
        return np.asarray(np.sqrt(self.shape + n_records) / (self.rate + n_records * np.exp(-coordinate)))

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from Gamma(shape + n, rate + total)."""
        return np.asarray(rng.gamma(self.shape + n_records, 1.0 / (self.rate + total), size))

    def masses(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats, Floats]:
        decay = upper * np.exp(coordinate)
        return np.zeros_like(decay), -np.expm1(-decay), np.exp(-decay)

    def transform(self, coordinate: Floats, frequencies: Floats | Complexes, lower: float, upper: float) -> Complexes:
        """Return rate (1 - exp(-(rate - i u) upper)) / (rate - i u), times exp(-i u upper / 2)."""
        rate = np.exp(coordinate)
        exponent = (1j * frequencies - rate) * upper
        return np.asarray(rate * upper * np.expm1(exponent) / exponent * np.exp(-0.5j * frequencies * upper))

    def moments(self, coordinate: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Compute the moments of 2 x / upper - 1, restricted to x below the bound, by incomplete gamma functions."""
        decay = upper * np.exp(coordinate)
        inside, first, second = (
            gammainc(k + 1.0, decay) * factor / decay**k for k, factor in ((0, 1.0), (1, 1.0), (2, 2.0))
        )
        return np.asarray(2.0 * first - inside), np.asarray(4.0 * second - 4.0 * first + inside)
