"""The law of what a normal number of unknown mean and variance adds to its sum and its sum of squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import ndtr

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.noisy_observation import RecordLaw
from dpbayes_cli.models.families.normal_numbers import interval_moments
from dpbayes_cli.models.families.number_families import log_gamma_draws

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class NormalRecords(RecordLaw):
    """The law of what a normal number, clamped or dropped at its bounds, adds to the statistic of ``Normal``.

    The first coordinate is (mean - prior mean) / unit, where unit is a typical prior standard deviation of the mean.
    The second coordinate is log(1 / variance).

    Attributes:
        prior_mean, strength, shape, rate: the prior; see ``Normal``.
        counted: whether the statistic includes the number of valid records.
        inside: whether the law is conditional on numbers inside the bounds; all other numbers are then left out of the
            record count.
    """

    prior_mean: float
    strength: float
    shape: float
    rate: float
    column: NumericColumn
    counted: bool
    inside: bool = False
    dimension: ClassVar[int] = 2

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        log_precision = log_gamma_draws(self.shape, size, rng) - np.log(self.rate)
        offset = rng.standard_normal(size) * np.exp(-0.5 * log_precision) / self.strength**0.5
        return np.column_stack([offset / self._unit, log_precision])

    @property
    def _unit(self) -> float:
        """A typical prior standard deviation of the mean."""
        return float((self.rate / self.shape / self.strength) ** 0.5)

    def log_prior(self, points: Floats) -> Floats:
        offset, log_precision = points[..., 0] * self._unit, points[..., 1]
        rate = self.rate + 0.5 * self.strength * offset**2
        return np.asarray((self.shape + 0.5) * log_precision - rate * np.exp(log_precision))

    def parameters(self, points: Floats) -> Floats:
        """Return mean and variance."""
        variance = np.exp(-points[..., 1])
        return np.stack([self.prior_mean + points[..., 0] * self._unit, variance], axis=-1)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of (2 v, v^2, 1), where v is the scaled number; a dropped number adds zeros."""
        parameters = self.parameters(points)
        half, middle = (self.column.upper - self.column.lower) / 2.0, (self.column.upper + self.column.lower) / 2.0
        mean, sd = (parameters[..., 0] - middle) / half, np.sqrt(parameters[..., 1]) / half
        power = interval_moments(mean, sd, 4)
        if self.column.outside == "clamp":
            below, above = ndtr((-1.0 - mean) / sd), ndtr((mean - 1.0) / sd)
            power = power + above + below * np.array([1.0, -1.0, 1.0, -1.0, 1.0]).reshape(-1, *[1] * mean.ndim)
            power[0] = 1.0
        elif self.inside:
            power = power / power[0]
        orders, weights = ((1, 2, 0), (2.0, 1.0, 1.0)) if self.counted else ((1, 2), (2.0, 1.0))
        scale = float(self.column.steps) ** 2
        first = np.stack([w * power[k] for k, w in zip(orders, weights, strict=True)], axis=-1)
        second = np.stack(
            [
                np.stack([w * x * power[k + j] for j, x in zip(orders, weights, strict=True)], axis=-1)
                for k, w in zip(orders, weights, strict=True)
            ],
            axis=-1,
        )
        covariance = second - first[..., :, None] * first[..., None, :]
        return first * scale, covariance * scale**2

    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the sds of the normal-inverse-gamma posterior after n records whose sums equal their expectations."""
        variance = np.exp(-points[..., 1])
        shape, rate = self.shape + n_records / 2.0, self.rate + n_records * variance / 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = np.where(shape > 1.0, np.sqrt(rate / (shape - 1.0) / (self.strength + n_records)), np.inf)
            of_variance = np.where(shape > 2.0, rate / (shape - 1.0) / np.sqrt(shape - 2.0), np.inf)
        return np.stack([of_mean, of_variance], axis=-1)

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the normal-inverse-gamma posterior given the nearest possible sums."""
        scale, n = float(self.column.steps) ** 2, n_records
        half, middle = (self.column.upper - self.column.lower) / 2.0, (self.column.upper + self.column.lower) / 2.0
        if self.counted:
            n = min(max(observed[2] / scale, 0.0), n_records)
        center = min(max(observed[0] / scale / 2.0, -n), n) / n if n > 0 else 0.0
        square = min(max(observed[1] / scale / n, center**2), 1.0) if n > 0 else 0.0
        mean, spread = middle + half * center, n * half**2 * (square - center**2)
        strength, shape = self.strength + n, self.shape + n / 2.0
        shift = self.strength * n / strength * (mean - self.prior_mean) ** 2
        rate = self.rate + (spread + shift) / 2.0
        variance = rate / rng.standard_gamma(shape, size)
        location = (self.strength * self.prior_mean + n * mean) / strength
        return np.column_stack([location + np.sqrt(variance / strength) * rng.standard_normal(size), variance])
