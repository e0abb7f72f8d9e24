"""What a law of integer noise tells: its probabilities to inference, its price to a plan, its draws to a release.

The law travels in the payload, so that inference never has to ask which mechanism ran, nor which law it was: what
inference can use is a property of the law. A law is a file in ``privacy/laws`` and a line in ``core/registry.py``.
``simulate`` uses a seeded numpy generator and exists for simulations only.
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
from dpbayes_cli.privacy.step_law import StepLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

LARGEST_SCALE = 1e15
"""Noise of a larger scale could leave the 64-bit integers on which it is drawn."""

_LARGEST_VALUE = 1 << 61
_TABLE_NATS = 80.0
_AT_ONCE = 1 << 20
_UP = Context(prec=30, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Decay:
    """The shape of a law with log P(z) = log P(0) - linear |z| - quadratic z^2, from which inference has short cuts."""

    linear: float
    quadratic: float

    def __post_init__(self) -> None:
        if (self.linear > 0.0) == (self.quadratic > 0.0):
            raise ValueError("either both tails are geometric, or the law is a bell")

    @property
    def exponential(self) -> bool:
        """Whether both tails are geometric; else the law is a bell."""
        return self.linear > 0.0


class NoiseLaw(StepLaw, ABC):
    """The public law of additive integer noise, independent for each component of a statistic.

    Symmetric, and nowhere rising with |z|. A new law states its probabilities, its reach, its price and its exact
    draws; the rest follows from these, and is overridden where there is a closed form.
    """

    adds_noise = True
    kind: ClassVar[str]
    """The name of the law's family, as documents store it."""
    scale: float
    """In grid units (one unit = one count); far out log P(z) falls by one nat or more over a scale."""

    @abstractmethod
    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise; between integers, whatever is convenient of its neighbors'."""

    @abstractmethod
    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats, or one that is not much larger."""

    @abstractmethod
    def release(self, values: Sequence[int]) -> list[int]:
        """Add independent exact noise to an integer statistic, by the operating system's randomness."""

    @abstractmethod
    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return what noise of this law on every component costs where a statistic moves by one of some vectors.

        Args:
            shifts: how one record can move the statistic, one integer a component each.
        """

    @classmethod
    @abstractmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> Self:
        """Return the law whose stored form this is.

        Raises:
            ValueError: there is no such law.
        """

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return laws of the kind that tests look at, a narrow and a wide one among them."""
        return cls.parse(0.7, {}), cls.parse(4.5, {}), cls.parse(40.0, {})

    def serialize(self) -> dict[str, Any]:
        """Return the stored form: a scale, and ``parameters`` (names to numbers) where that does not determine it."""
        return {"law": self.kind, "scale": self.scale}

    @property
    def decay(self) -> Decay | None:
        """The shape of the law, where it is such a one; else inference goes by the probabilities."""
        return None

    @property
    def grain(self) -> float:
        """Over so many integers the law is smooth, so that sums over it may leave some out."""
        return 1.0 if self.decay is None else self.scale

    @property
    def excess(self) -> float:
        """A bound of log P(z) - log P(0) + |z| / scale over all z, in nats."""
        z, _ = self._table()
        return float((self.log_pmf(z) + abs(z) / self.scale).max() - self.log_pmf(0 * z[:1])[0])

    @property
    def variance(self) -> float:
        """The variance, in squared grid units."""
        z, mass = self._table()
        return float((z**2 * mass).sum() / mass.sum())

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], elementwise, for 0 <= u <= pi."""
        import numpy as np

        z, mass = self._table()
        flat, mass = np.ravel(u), mass / mass.sum()
        pieces = np.array_split(flat, max(1, flat.size * z.size // _AT_ONCE))
        return np.concatenate([np.cos(np.multiply.outer(piece, z)) @ mass for piece in pieces]).reshape(np.shape(u))

    def largest_ratio(self, distance: int) -> float:
        """Return the largest log ratio of the probabilities of an integer and of one that far from it.

        Of a law whose ratios have no bound it is that of integers that are drawn.
        """
        import numpy as np

        reach = self.radius(_TABLE_NATS) + distance
        z = np.arange(-reach, reach + 1)
        return float((self.log_pmf(z) - self.log_pmf(z - distance)).max())

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Draw noise for a simulation; never for a release."""
        import numpy as np

        z, mass = self._table()
        return np.asarray(rng.choice(z, size, p=mass / mass.sum()), dtype=np.int64)

    def scales(self, size: int) -> tuple[float, ...]:
        """Return the scale of the noise on each component of a statistic of that size."""
        return (self.scale,) * size

    def at(self, component: int) -> NoiseLaw:
        """Return the law of the noise on one component."""
        return self

    def _table(self) -> tuple[Integers, Floats]:
        """Return the integers that matter and their probabilities, normalized or not."""
        import numpy as np

        z = np.arange(-self.radius(_TABLE_NATS), self.radius(_TABLE_NATS) + 1)
        return z, np.exp(self.log_pmf(z))


def round_up_fraction(price: Fraction) -> Decimal:
    """Return the least decimal of thirty digits that is not below a price."""
    return _UP.divide(Decimal(price.numerator), Decimal(price.denominator))


def clamp_to_int64(values: Sequence[int]) -> list[int]:
    """Return a statistic cut at what 64-bit integers hold with noise: no data set is so large that it stops a release.

    Privacy: cutting a component moves no two data sets apart, so that every sensitivity stays what it is.
    Source: mechanisms, integer statistics.
    """
    return [min(max(value, -_LARGEST_VALUE), _LARGEST_VALUE) for value in values]


def check_scale(scale: float) -> None:
    """Refuse noise that is too large for 64-bit integers.

    Raises:
        SpecError: it is.
    """
    if scale > LARGEST_SCALE:
        raise SpecError(
            f"noise of scale {scale:.3g} is needed; at most {LARGEST_SCALE:g} can be drawn exactly",
            where="privacy",
            hint="spend more: so much noise would tell nothing",
        )
