"""Laws of integer noise: inference uses their probabilities, plans their costs, and releases their draws.

The payload of a release holds the law, and inference uses the law's properties only: it does not depend on the kind of
law or mechanism. A law is a file in ``privacy/laws`` and a line in ``core/registry.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.step_law import StepLaw

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

LARGEST_SCALE = 1e15
"""Noise of a larger scale could leave the 64-bit integers on which it is drawn."""

_LARGEST_VALUE = 1 << 61
_TABLE_NATS = 80.0
_MAX_COSINES = 1 << 20
_UP = Context(prec=30, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Decay:
    """The shape of a law with log P(z) = log P(0) - linear |z| - quadratic z^2, for which inference has shortcuts."""

    linear: float
    quadratic: float

    def __post_init__(self) -> None:
        if (self.linear > 0.0) == (self.quadratic > 0.0):
            raise ValueError("exactly one of linear and quadratic must be positive")

    @property
    def exponential(self) -> bool:
        """Whether both tails are geometric; otherwise the law is a bell."""
        return self.linear > 0.0


class NoiseLaw(StepLaw, ABC):
    """The public law of additive integer noise, independent for each component of a statistic.

    The law is symmetric, and its probabilities never increase with |z|. A new law states its probabilities, its radius,
    its cost and its exact draws; other methods follow from these, and are overridden if there is a closed form.
    """

    adds_noise = True
    kind: ClassVar[str]
    """The name of the law's family, as documents store it."""
    scale: float
    """In units of one count; far from zero, log P(z) falls by at least one nat over a distance of one scale."""

    @abstractmethod
    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise; between integers, any convenient interpolation."""

    @abstractmethod
    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats, or a slightly larger one."""

    @abstractmethod
    def release(self, values: Sequence[int]) -> list[int]:
        """Return an integer statistic with independent exact noise, drawn by the operating system's randomness."""

    @abstractmethod
    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return the cost of adding this noise to a statistic that one record can move by any of these vectors."""

    @classmethod
    @abstractmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> Self:
        """Return the law with this stored form.

        Raises:
            ValueError: there is no such law.
        """

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return example laws of this kind for tests, a narrow and a wide one among them."""
        return cls.parse(0.7, {}), cls.parse(4.5, {}), cls.parse(40.0, {})

    def serialize(self) -> dict[str, Any]:
        """Return the stored form: the scale, and ``parameters`` (names to numbers) if the law has more of them."""
        return {"law": self.kind, "scale": self.scale}

    @property
    def decay(self) -> Decay | None:
        """The decay of the law, if it has the shape of ``Decay``; None: inference uses the probabilities."""
        return None

    @property
    def grain(self) -> float:
        """The number of integers over which the law is smooth, so that sums over z may leave out integers."""
        return 1.0 if self.decay is None else self.scale

    @property
    def excess(self) -> float:
        """An upper bound on log P(z) - log P(0) + |z| / scale over all z, in nats."""
        z, _ = self._table()
        return float((self.log_pmf(z) + abs(z) / self.scale).max() - self.log_pmf(0 * z[:1])[0])

    @property
    def variance(self) -> float:
        """The variance, in squared grid units."""
        z, mass = self._table()
        return float((z**2 * mass).sum() / mass.sum())

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], elementwise, for 0 <= u <= pi."""
        z, mass = self._table()
        flat, mass = np.ravel(u), mass / mass.sum()
        pieces = np.array_split(flat, max(1, flat.size * z.size // _MAX_COSINES))
        return np.concatenate([np.cos(np.multiply.outer(piece, z)) @ mass for piece in pieces]).reshape(np.shape(u))

    def largest_ratio(self, distance: int) -> float:
        """Return the largest log ratio of the probabilities of two integers at this distance that are likely draws."""
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
        """Return the integers with a non-negligible probability, and their probabilities, normalized or not."""
        z = np.arange(-self.radius(_TABLE_NATS), self.radius(_TABLE_NATS) + 1)
        return z, np.exp(self.log_pmf(z))


def round_up_fraction(fraction: Fraction) -> Decimal:
    """Return the smallest decimal of thirty digits that is not below a fraction."""
    return _UP.divide(Decimal(fraction.numerator), Decimal(fraction.denominator))


def clamp_to_int64(values: Sequence[int]) -> list[int]:
    """Return a statistic clamped to numbers that 64-bit integers hold with its noise: any data set can be released.

    Privacy: clamping moves no two data sets apart, so that every sensitivity stays the same.
    Source: design notes, integer statistics.
    """
    return [min(max(value, -_LARGEST_VALUE), _LARGEST_VALUE) for value in values]


def check_scale(scale: float) -> None:
    """Refuse noise that is too large for 64-bit integers.

    Raises:
        SpecError: the scale is above ``LARGEST_SCALE``.
    """
    if scale > LARGEST_SCALE:
        raise SpecError(
            f"noise of scale {scale:.3g} is needed; at most {LARGEST_SCALE:g} can be drawn exactly",
            where="privacy",
            hint="spend more: this noise would hide everything",
        )
