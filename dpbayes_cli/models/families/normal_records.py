"""The law of what a normal number of unknown mean and variance adds to its sum and its sum of squares."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import expit, gammainccinv, ndtr, ndtri

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.noisy_observation import GroupedMoments
from dpbayes_cli.core.record_law import RecordLaw
from dpbayes_cli.models.families.normal_numbers import NormalNumbers, UniformMean, interval_moments
from dpbayes_cli.models.families.number_families import NumberLaw, log_gamma_draws

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
_MAX_LOG_RATIO = 100.0
"""Logarithms of standard deviations are limited to this, because a search may try values of negligible probability."""
_LEAST_SD = 1e-9
"""The smallest standard deviation in units of the range; it is far below the grid."""


def moments_at(
    column: NumericColumn, mean: Floats, sd: Floats, *, counted: bool, inside: bool, as_recorded: bool = False
) -> tuple[Floats, Floats]:
    """Return mean and covariance of what a normal number adds to the statistic; see ``NormalRecords``.

    Args:
        column: the bounds and the grid of the number.
        mean, sd: the law of the number, of the same shape.
        counted, inside, as_recorded: see ``NormalRecords``.
    """
    half, middle = (column.upper - column.lower) / 2.0, (column.upper + column.lower) / 2.0
    mean, sd = (mean - middle) / half, sd / half
    if as_recorded:
        square = sd**2
        third, fourth = mean**3 + 3.0 * mean * square, mean**4 + 6.0 * mean**2 * square + 3.0 * square**2
        power = np.stack([np.ones_like(mean), mean, mean**2 + square, third, fourth])
    elif column.outside == "clamp":
        power = interval_moments(mean, sd, 4)
        below, above = ndtr((-1.0 - mean) / sd), ndtr((mean - 1.0) / sd)
        power = power + above + below * np.array([1.0, -1.0, 1.0, -1.0, 1.0]).reshape(-1, *[1] * mean.ndim)
        power[0] = 1.0
    else:
        power = interval_moments(mean, sd, 4)
        power = power / power[0] if inside else power
    terms = [(1, 2.0), (2, 1.0), (0, 1.0)][: 3 if counted else 2]  # powers of v, and their weights
    scale = float(column.steps) ** 2
    first = np.stack([w * power[k] for k, w in terms], axis=-1)
    second = np.stack([w * x * power[k + j] for k, w in terms for j, x in terms], axis=-1)
    second = second.reshape(*first.shape, len(terms))
    covariance = second - first[..., :, None] * first[..., None, :]
    return first * scale, covariance * scale**2


@dataclass(frozen=True)
class NormalRecords(RecordLaw):
    """The law of what a normal number, clamped or dropped at its bounds, adds to the statistic of ``Normal``.

    Subclasses define the prior and the coordinates.

    Attributes:
        counted: whether the statistic includes the number of valid records.
        inside: whether the law is conditional on numbers inside the bounds; all other numbers are then left out of the
            record count.
        as_recorded: whether mean and variance are those of the clamped numbers, which need not be normal; their third
            and fourth moments are those of a normal law.
    """

    column: NumericColumn
    counted: bool
    inside: bool
    as_recorded: bool
    dimension: ClassVar[int] = 2

    @abstractmethod
    def family_of_mean(self, sd: float) -> NormalNumbers:
        """Return the law of numbers with a known standard deviation, with the prior of their mean."""

    @abstractmethod
    def sd_quantiles(self, levels: Floats) -> Floats:
        """Return quantiles of the prior of the standard deviation; of a number in the middle of the bounds."""

    @abstractmethod
    def log_sd_prior(self, log_sd: Floats) -> Floats:
        """Return the log prior density of the log of this standard deviation, up to a constant, elementwise."""

    @property
    @abstractmethod
    def conjugate_prior(self) -> tuple[float, float, float, float]:
        """Mean, strength, shape and rate of a normal-inverse-gamma prior; the default prior is weak."""

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of (2 v, v^2, 1), where v is the scaled number; a dropped number adds zeros."""
        parameters = self.parameters(points)
        mean, sd = parameters[..., 0], np.sqrt(parameters[..., 1])
        kind = {"counted": self.counted, "inside": self.inside, "as_recorded": self.as_recorded}
        return moments_at(self.column, mean, sd, **kind)

    def complete_data_sd(self, points: Floats, n_records: Floats) -> Floats:
        """Return the sds of the normal-inverse-gamma posterior after n records whose sums equal their expectations."""
        _, prior_strength, prior_shape, prior_rate = self.conjugate_prior
        variance = self.parameters(points)[..., 1]
        shape, rate = prior_shape + n_records / 2.0, prior_rate + n_records * variance / 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = np.where(shape > 1.0, np.sqrt(rate / (shape - 1.0) / (prior_strength + n_records)), np.inf)
            of_variance = np.where(shape > 2.0, rate / (shape - 1.0) / np.sqrt(shape - 2.0), np.inf)
        return np.stack([of_mean, of_variance], axis=-1)

    def draw_plug_in(self, observed: Floats, n_records: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw from the normal-inverse-gamma posterior given the possible sums that are nearest to the noisy sums."""
        scale, n = float(self.column.steps) ** 2, n_records
        half, middle = (self.column.upper - self.column.lower) / 2.0, (self.column.upper + self.column.lower) / 2.0
        if self.counted:
            n = min(max(observed[2] / scale, 0.0), n_records)
        center = min(max(observed[0] / scale / 2.0, -n), n) / n if n > 0 else 0.0
        square = min(max(observed[1] / scale / n, center**2), 1.0) if n > 0 else 0.0
        mean, spread = middle + half * center, n * half**2 * (square - center**2)
        prior_mean, prior_strength, prior_shape, prior_rate = self.conjugate_prior
        strength, shape = prior_strength + n, prior_shape + n / 2.0
        shift = prior_strength * n / strength * (mean - prior_mean) ** 2
        variance = (prior_rate + (spread + shift) / 2.0) / rng.standard_gamma(shape, size)
        location = (prior_strength * prior_mean + n * mean) / strength
        return np.column_stack([location + np.sqrt(variance / strength) * rng.standard_normal(size), variance])


@dataclass(frozen=True)
class RecordedNumberLaw(NumberLaw):
    """The mean and the variance of numbers between the bounds, of any law: what clamping does is part of this law.

    The coordinate is the mean; beyond the bounds, it stands for the nearer bound.
    """

    family: NormalNumbers

    def parameters(self, points: Floats) -> Floats:
        """Return the mean."""
        return np.clip(points, self.column.lower, self.column.upper)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of what a number adds to (sum, valid records)."""
        half, steps = (self.column.upper - self.column.lower) / 2.0, float(self.column.steps)
        first = (self.parameters(points)[..., 0] - self.column.lower) / half - 1.0
        covariance = np.zeros((*first.shape, 2, 2))
        covariance[..., 0, 0] = steps**2 * np.minimum(self.family.variance / half**2, 1.0 - first**2)
        return steps * np.stack([first, np.ones_like(first)], axis=-1), covariance


@dataclass(frozen=True)
class NormalGroups(GroupedMoments):
    """The law of the numbers of groups that have the same variance, under the stated prior of ``Normal``.

    The numbers are normal, or those of ``RecordedNumberLaw``. Under the default prior, the mean of a group is uniform
    between the bounds, and the standard deviation has the half-normal prior that the model has if the mean is in the
    middle between the bounds.
    """

    column: NumericColumn
    prior: NormalRecords

    def law_at(self, sd: float) -> NumberLaw:
        kind = RecordedNumberLaw if self.prior.as_recorded else NumberLaw
        return kind(self.prior.family_of_mean(sd), self.column, centered=True, inside=self.column.outside == "drop")

    def moments_at(self, mean: Floats, sd: float) -> tuple[Floats, Floats]:
        inside, as_recorded = self.column.outside == "drop", self.prior.as_recorded
        mean = np.clip(mean, self.column.lower, self.column.upper) if as_recorded else mean
        sds = np.full_like(mean, sd)
        return moments_at(self.column, mean, sds, counted=False, inside=inside, as_recorded=as_recorded)

    def sd_quantiles(self, levels: Floats) -> Floats:
        return self.prior.sd_quantiles(levels)

    def log_sd_prior(self, log_sd: Floats) -> Floats:
        return self.prior.log_sd_prior(log_sd)


@dataclass(frozen=True)
class ConjugateNormalRecords(NormalRecords):
    """The law under a normal-inverse-gamma prior.

    The first coordinate is (mean - prior mean) / unit, where unit is a typical prior standard deviation of the mean.
    The second coordinate is log(1 / variance).

    Attributes:
        prior_mean, strength, shape, rate: the prior; see ``NormalPrior``.
    """

    prior_mean: float
    strength: float
    shape: float
    rate: float

    @property
    def conjugate_prior(self) -> tuple[float, float, float, float]:
        return self.prior_mean, self.strength, self.shape, self.rate

    def family_of_mean(self, sd: float) -> NormalNumbers:
        return NormalNumbers(self.prior_mean, sd**2 / self.strength, sd**2)

    def sd_quantiles(self, levels: Floats) -> Floats:
        return np.asarray(np.sqrt(self.rate / gammainccinv(self.shape, levels)))

    def log_sd_prior(self, log_sd: Floats) -> Floats:
        return np.asarray(-2.0 * self.shape * log_sd - self.rate * np.exp(-2.0 * log_sd))

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


@dataclass(frozen=True)
class BoundedNormalRecords(NormalRecords):
    """The law under the default prior: a uniform mean between the bounds, and a half-normal standard deviation.

    Let p = (mean - lower) / (upper - lower). Then the scale of the standard deviation is spread * (upper - lower) * p *
    (1 - p), or spread * (upper - lower) * sqrt(p * (1 - p)) / 2 of numbers as recorded. The coordinates are logit(p),
    and the log of the standard deviation in units of its scale.

    Attributes:
        spread: the scale of the standard deviation; see ``NormalPrior``.
    """

    spread: float

    @property
    def conjugate_prior(self) -> tuple[float, float, float, float]:
        """A prior that weighs a hundredth of a record; its typical standard deviation is a hundredth of the range."""
        width = self.column.upper - self.column.lower
        return (self.column.lower + self.column.upper) / 2.0, 0.01, 0.01, 0.01 * (width / 100.0) ** 2

    def family_of_mean(self, sd: float) -> NormalNumbers:
        lower, upper = self.column.lower, self.column.upper
        return UniformMean((lower + upper) / 2.0, (upper - lower) ** 2 / 12.0, sd**2)

    @property
    def _scale(self) -> float:
        """The scale of the standard deviation, for a mean in the middle between the bounds."""
        return self.spread * (self.column.upper - self.column.lower) / 4.0

    def sd_quantiles(self, levels: Floats) -> Floats:
        return np.asarray(self._scale * ndtri((1.0 + levels) / 2.0))

    def log_sd_prior(self, log_sd: Floats) -> Floats:
        return np.asarray(log_sd - 0.5 * np.exp(2.0 * log_sd) / self._scale**2)

    def draw_prior(self, size: int, rng: np.random.Generator) -> Floats:
        return np.column_stack([rng.logistic(size=size), np.log(np.abs(rng.standard_normal(size)))])

    def log_prior(self, points: Floats) -> Floats:
        logit, log_ratio = points[..., 0], points[..., 1]
        with np.errstate(over="ignore"):
            return np.asarray(logit - 2.0 * np.logaddexp(0.0, logit) + log_ratio - 0.5 * np.exp(2.0 * log_ratio))

    def parameters(self, points: Floats) -> Floats:
        """Return mean and variance."""
        share, rest = expit(points[..., 0]), expit(-points[..., 0])
        width = self.column.upper - self.column.lower
        scale = np.sqrt(share * rest) / 2.0 if self.as_recorded else share * rest
        sd = self.spread * width * scale * np.exp(np.minimum(points[..., 1], _MAX_LOG_RATIO))
        return np.stack([self.column.lower + width * share, np.maximum(sd, _LEAST_SD * width) ** 2], axis=-1)
