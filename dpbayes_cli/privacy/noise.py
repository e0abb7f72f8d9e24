"""Laws of integer noise. Inference uses a law's probabilities, plans use its cost, and releases use its draws.

A release stores the law of its noise. Inference uses only methods that every law has, so that it depends neither on the
kind of the law nor on the mechanism. To add a law, add a file in ``privacy/laws`` and a line in ``core/registry.py``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.step_law import StepLaw

LARGEST_SCALE = 1e15
"""The largest scale; noise of a larger scale might not fit into 64-bit integers."""

_LARGEST_VALUE = 1 << 61
_TABLE_NATS = 80.0
_MAX_COSINES = 1 << 20
_UP = Context(prec=30, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Decay:
    """The coefficients of a log-concave law with log P(z) = log P(0) - linear * |z| - quadratic * z^2.

    The inference of such laws is faster.

    Attributes:
        exact: whether the equation holds up to 1e-6 where P(z) is at least exp(-60) P(0). If not, it only shows where
            probabilities are large, and inference takes them from ``NoiseLaw.log_pmf``.
    """

    linear: float
    quadratic: float
    exact: bool = True

    def __post_init__(self) -> None:
        if (self.linear > 0.0) == (self.quadratic > 0.0):
            raise ValueError("exactly one of linear and quadratic must be positive")

    @property
    def exponential(self) -> bool:
        """Whether the tails are geometric; otherwise they are Gaussian."""
        return self.linear > 0.0


class NoiseLaw(StepLaw, ABC):
    """The public law of additive integer noise, independent for each component of a statistic.

    The law is symmetric, and its probabilities never increase with |z|. A subclass implements the probabilities, the
    radius, the privacy cost and the exact draws. The other methods are computed from these; a subclass with a closed
    form overrides them.
    """

    adds_noise = True
    kind: ClassVar[str]
    """The name of the law's family in documents."""
    scale: float
    """The noise scale, in units of one count. Far from zero, log P(z) falls by at least one nat over a distance of one
    scale."""

    @abstractmethod
    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise; between integers, a law may interpolate as it likes."""

    @abstractmethod
    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats, or a slightly larger one."""

    @abstractmethod
    def release(self, values: Sequence[int]) -> list[int]:
        """Return an integer statistic with independent exact noise, drawn with the operating system's randomness."""

    def release_often(self, values: Sequence[int], n_times: int) -> list[list[int]]:
        """Return several independent results of ``release``."""
        return [self.release(values) for _ in range(n_times)]

    @abstractmethod
    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return the privacy cost of this noise, given the changes of the statistic between neighbors.

        Args:
            shifts: vectors, one of which majorizes each change of the statistic: for each k, the k largest absolute
                changes do not add up to more than those of the vector. See ``Statistic.worst_shifts``.
        """

    @classmethod
    @abstractmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> Self:
        """Return the law with this scale and these other parameters, as ``serialize`` stores them.

        Raises:
            ValueError: the scale or a parameter is invalid.
        """

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return narrow and wide example laws of this kind, for tests."""
        return cls.parse(0.7, {}), cls.parse(4.5, {}), cls.parse(40.0, {})

    def serialize(self) -> dict[str, Any]:
        """Return the stored form: kind, scale and, if the law has other parameters, ``parameters`` by name."""
        return {"law": self.kind, "scale": self.scale}

    @property
    def decay(self) -> Decay | None:
        """The decay of the law; None if log P(z) does not have the form that ``Decay`` states."""
        return None

    @property
    def grain(self) -> float:
        """The distance over which probabilities change little, so that sums over z may skip integers within it."""
        return 1.0 if self.decay is None else self.scale

    @property
    def excess(self) -> float:
        """An upper bound on log P(z) - log P(0) + |z| / scale over all z, in nats."""
        z, _ = self._table()
        return float((self.log_pmf(z) + abs(z) / self.scale).max() - self.log_pmf(0 * z[:1])[0])

    @property
    def variance(self) -> float:
        """The variance, in squared counts."""
        z, mass = self._table()
        return float((z**2 * mass).sum() / mass.sum())

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], elementwise, for 0 <= u <= pi."""
        z, mass = self._table()
        flat, mass = np.ravel(u), mass / mass.sum()
        pieces = np.array_split(flat, max(1, flat.size * z.size // _MAX_COSINES))
        return np.concatenate([np.cos(np.multiply.outer(piece, z)) @ mass for piece in pieces]).reshape(np.shape(u))

    def largest_ratio(self, distance: int) -> float:
        """Return the largest log ratio of the probabilities of two likely integers at this distance from each other."""
        reach = self.radius(_TABLE_NATS) + distance
        z = np.arange(-reach, reach + 1)
        return float((self.log_pmf(z) - self.log_pmf(z - distance)).max())

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation; never for a release."""
        z, mass = self._table()
        return np.asarray(rng.choice(z, size, p=mass / mass.sum()), dtype=np.int64)

    def scales(self, size: int) -> tuple[float, ...]:
        """Return the scale of the noise on each component of a statistic of this size."""
        return (self.scale,) * size

    def at(self, component: int) -> NoiseLaw:
        """Return the law of the noise on one component."""
        return self

    def _table(self) -> tuple[Integers, Floats]:
        """Return the integers with non-negligible probabilities, and these probabilities, possibly unnormalized."""
        z = np.arange(-self.radius(_TABLE_NATS), self.radius(_TABLE_NATS) + 1)
        return z, np.exp(self.log_pmf(z))


@dataclass(frozen=True)
class OneScaleNoise(NoiseLaw):
    """A noise law whose only parameter is its scale."""

    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"the scale of {self.kind} noise must be positive and finite")

    @classmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> Self:
        if parameters:
            raise ValueError(f"{cls.kind} noise has no parameters but its scale")
        return cls(scale)

    def largest_ratio(self, distance: int) -> float:
        """Return the largest log ratio of P(z) and P(z - distance) over integers z up to ``2 * distance``.

        Beyond these integers, the ratios of a Gaussian law grow without bound.
        """
        ends = np.array([-distance, 0, distance, 2 * distance])
        return float((self.log_pmf(ends) - self.log_pmf(ends - distance)).max())


def round_up_fraction(fraction: Fraction) -> Decimal:
    """Return the smallest decimal of thirty digits that is not below a fraction."""
    return _UP.divide(Decimal(fraction.numerator), Decimal(fraction.denominator))


def clamp_to_int64(values: Sequence[int]) -> list[int]:
    """Return a statistic clamped to a range in which the sum of value and noise fits into 64-bit integers.

    Privacy: clamping increases no difference between two data sets, so that every sensitivity stays valid.
    Source: derived here.
    """
    return [min(max(value, -_LARGEST_VALUE), _LARGEST_VALUE) for value in values]


def check_scale(scale: float) -> None:
    """Refuse noise of a scale above ``LARGEST_SCALE``, which 64-bit integers might not hold."""
    if scale > LARGEST_SCALE:
        raise SpecError(
            f"noise of scale {scale:.3g} is needed; at most {LARGEST_SCALE:g} can be drawn exactly",
            where="privacy",
            hint="spend a larger epsilon or rho: this noise would hide everything",
        )
