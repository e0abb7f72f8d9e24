"""The laws of numbers whose parameter is a probability with a Beta prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv, expit

from dpbayes_cli.models.families.number_families import LatticeFamily, NumberFamily, log_gamma_draws

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Complexes, Floats


@dataclass(frozen=True)
class LogitOfBeta(NumberFamily):
    """A family of numbers whose parameter is a probability with a Beta prior; the coordinate is logit(probability)."""

    alpha: float
    beta: float

    @property
    def prior_range(self) -> tuple[float, float]:
        """The logits of the prior's 1e-12 and 1 - 1e-12 quantiles."""
        low = max(float(betaincinv(self.alpha, self.beta, 1e-12)), 1e-300)
        high = max(float(betaincinv(self.beta, self.alpha, 1e-12)), 1e-300)
        return math.log(low / (1.0 - low)), -math.log(high / (1.0 - high))

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        first, second = (log_gamma_draws(shape, size, rng) for shape in (self.alpha, self.beta))
        return np.asarray(first - second)

    def log_prior(self, coordinate: Floats) -> Floats:
        total = self.alpha + self.beta
        return np.asarray(self.alpha * coordinate - total * np.logaddexp(0.0, coordinate))

    def parameter(self, coordinate: Floats) -> Floats:
        return expit(coordinate)


@dataclass(frozen=True)
class GeometricNumbers(LogitOfBeta, LatticeFamily):
    """Failures before the first success, with a Beta prior on the probability of success."""

    def coordinate_at(self, mean: float) -> float:
        """Return logit(p) for the mean (1 - p) / p."""
        return -math.log(mean)

    def complete_data_sd(self, coordinate: Floats, n_records: Floats) -> Floats:
        """Return the sd of Beta(alpha + n, beta + n times the mean number of failures)."""
        first, second = self.alpha + n_records, self.beta + n_records * np.exp(np.minimum(-coordinate, 300.0))
        total = first + second
        return np.asarray(np.sqrt(first / total * (second / total) / (total + 1.0)))

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from Beta(alpha + n, beta + total)."""
        return rng.beta(self.alpha + n_records, self.beta + total, size)

    def log_pmf(self, coordinate: Floats, numbers: Floats) -> Floats:
        return np.asarray(-np.logaddexp(0.0, -coordinate) - numbers * np.logaddexp(0.0, coordinate))

    def survival(self, coordinate: Floats, number: float) -> Floats:
        return np.asarray(np.exp(-(np.floor(number) + 1.0) * np.logaddexp(0.0, coordinate)))

    def reach(self, coordinate: Floats) -> tuple[Floats, Floats]:
        return np.zeros_like(coordinate), 36.0 / np.maximum(np.logaddexp(0.0, coordinate), 1e-300)

    def transform(self, coordinate: Floats, frequencies: Floats | Complexes, lower: float, upper: float) -> Complexes:
        """Return the sum of a geometric series: p (1 - r^(upper + 1)) / (1 - r), where r = (1 - p) exp(i u)."""
        log_ratio = 1j * frequencies - np.logaddexp(0.0, coordinate)
        is_near_one = np.abs(log_ratio) < 1e-12
        safe = np.where(is_near_one, 1.0, log_ratio)
        series = np.where(is_near_one, upper + 1.0, np.expm1((upper + 1.0) * safe) / np.expm1(safe))
        return np.asarray(np.exp(-np.logaddexp(0.0, -coordinate) - 0.5j * frequencies * upper) * series)
