"""Exact integer noise: the law that inference uses, and the sampler that draws from precisely that law.

The law travels in the payload, so that inference never has to ask which mechanism ran. Draws for a release come
from OpenDP's measurements on integers (exact rational arithmetic, the operating system's CSPRNG); ``simulate`` uses
a seeded numpy generator and exists for simulations only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.privacy.measurements import drawn, opendp_gaussian, opendp_laplace

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats, Integers

# The plan's epsilon and OpenDP's own map may differ by floating rounding only: at most this relative amount, and
# never with OpenDP's above the plan's.
_AGREEMENT = Fraction(1, 10**9)


LARGEST_SCALE = 1e15
"""Noise of a larger scale could leave the 64-bit integers on which it is drawn."""


_LARGEST_VALUE = 1 << 61


def _held(values: Sequence[int]) -> list[int]:
    """Return a statistic cut at what 64-bit integers hold with noise: no data set is so large that it stops a release.

    Privacy: cutting a component moves no two data sets apart, so that every sensitivity stays what it is.
    Source: mechanisms, integer statistics.
    """
    return [min(max(value, -_LARGEST_VALUE), _LARGEST_VALUE) for value in values]


def _check_scale(scale: float) -> None:
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


@runtime_checkable
class NoiseLaw(Protocol):
    """The public law of additive integer noise, independent for each component of a statistic."""

    @property
    def kind(self) -> str:
        """The name of the law's family."""
        ...

    @property
    def scale(self) -> float:
        """The scale parameter, in grid units (one unit = one count)."""
        ...

    @property
    def variance(self) -> float:
        """The variance, in squared grid units."""
        ...

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise."""
        ...

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], elementwise, for 0 <= u <= pi."""
        ...

    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats."""
        ...

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Draw noise for a simulation; never for a release."""
        ...

    def serialize(self) -> dict[str, Any]:
        """Return the stored form."""
        ...


@dataclass(frozen=True)
class DiscreteLaplace:
    """The discrete Laplace law, P(z) = tanh(1 / (2 scale)) exp(-|z| / scale) on the integers.

    Privacy: added independently to every component of an integer statistic whose L1 sensitivity is at most D, it
        gives pure (D / scale)-DP: the log ratio of two shifted laws is at most |shift| / scale, and the shifts of the
        components add up to at most D.
    Source: Ghosh, Roughgarden and Sundararajan 2009; Canonne, Kamath and Steinke 2020 (exact sampling).
    """

    kind: ClassVar[str] = "discrete-laplace"
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError("the scale of discrete Laplace noise must be positive and finite")

    @classmethod
    def calibrate(cls, sensitivity_l1: int, epsilon: Decimal) -> DiscreteLaplace:
        """Return the law with the smallest scale whose privacy loss is at most epsilon.

        Args:
            sensitivity_l1: the L1 sensitivity of the statistic, in counts, at least 1.
            epsilon: the exact epsilon to spend.

        Raises:
            SpecError: the sensitivity is below 1, or the scale beyond what integers of 64 bits hold.
            DpbayesError: OpenDP's privacy map disagrees with the plan, so nothing may be released.

        Privacy: the scale is rounded up until OpenDP's own map, evaluated exactly, does not exceed epsilon.
        Source: mechanisms, additive noise, scale = sensitivity / epsilon.
        """
        if sensitivity_l1 < 1:
            raise SpecError("the statistic has L1 sensitivity 0: it does not depend on the data")
        target = Fraction(epsilon)
        scale = float(Fraction(sensitivity_l1) / target)
        _check_scale(scale)
        for _ in range(64):
            if cls(scale).epsilon_of(sensitivity_l1) <= target:
                break
            scale = math.nextafter(scale, math.inf)
        law = cls(scale)
        reached = law.epsilon_of(sensitivity_l1)
        if not target * (1 - _AGREEMENT) <= reached <= target:
            raise DpbayesError("OpenDP's privacy map does not agree with the planned epsilon; nothing was charged")
        return law

    def epsilon_of(self, sensitivity_l1: int) -> Fraction:
        """Return the pure epsilon that OpenDP's own privacy map proves for this scale, exactly."""
        return Fraction(opendp_laplace(self.scale).map(sensitivity_l1))

    def release(self, values: Sequence[int]) -> list[int]:
        """Add independent exact noise to an integer statistic.

        Args:
            values: the exact statistic, one integer a component.

        Privacy: see the class; drawn by OpenDP's vector measurement on 64-bit integers, whose result saturates at
            the ends of the type, which is post-processing.
        Source: OpenDP make_laplace (integer atom domain, L1 distance).
        """
        return drawn(opendp_laplace(self.scale), _held(values))

    @property
    def variance(self) -> float:
        """The variance, 1 / (2 sinh^2(1 / (2 scale))), in squared counts."""
        half = 1.0 / (2.0 * self.scale)
        return 0.0 if half > 350.0 else 1.0 / (2.0 * math.sinh(half) ** 2)

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise."""
        import numpy as np

        log_mass_at_zero = math.log(math.tanh(1.0 / (2.0 * self.scale)))
        return np.asarray(log_mass_at_zero - np.abs(z) / self.scale)

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)] = (1 - p)^2 / ((1 - p)^2 + 2 p (1 - cos u)), p = exp(-1 / scale)."""
        import numpy as np

        square = math.expm1(-1.0 / self.scale) ** 2
        return np.asarray(square / (square + 4.0 * math.exp(-1.0 / self.scale) * np.sin(u / 2.0) ** 2))

    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats."""
        return math.ceil(nats * self.scale)

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Draw noise for a simulation: the difference of two geometric variables."""
        import numpy as np

        success = -math.expm1(-1.0 / self.scale)
        return np.asarray(rng.geometric(success, size) - rng.geometric(success, size), dtype=np.int64)

    def serialize(self) -> dict[str, Any]:
        """Return the stored form: the float scale determines the law exactly."""
        return {"law": self.kind, "scale": self.scale}


@dataclass(frozen=True)
class DiscreteGaussian:
    """The discrete Gaussian law, P(z) proportional to exp(-z^2 / (2 scale^2)) on the integers.

    Privacy: added independently to every component of an integer statistic whose squared L2 sensitivity is at most D2,
        it gives rho-zCDP with rho = D2 / (2 scale^2): the Renyi divergence of order l between two shifted laws is at
        most
        l shift^2 / (2 scale^2), and the squares of the components' shifts add up to at most D2.
    Source: Canonne, Kamath and Steinke 2020, Theorem 14; half of what Geumlek et al. 2017 sec. 5.1 state.
    """

    kind: ClassVar[str] = "discrete-gaussian"
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError("the scale of discrete Gaussian noise must be positive and finite")

    @classmethod
    def calibrate(cls, sensitivity_l2_squared: int, rho: Decimal) -> DiscreteGaussian:
        """Return the law with the smallest scale whose zCDP parameter is at most rho.

        Args:
            sensitivity_l2_squared: the squared L2 sensitivity of the statistic, at least 1.
            rho: the exact rho to spend.

        Raises:
            SpecError: the sensitivity is below 1, or the scale beyond what integers of 64 bits hold.
            DpbayesError: OpenDP's privacy map disagrees with the plan, so nothing may be released.

        Privacy: the scale is rounded up until OpenDP's own map does not exceed rho.
        Source: mechanisms, additive noise, rho = Delta_2^2 / (2 sigma^2).
        """
        if sensitivity_l2_squared < 1:
            raise SpecError("the statistic has L2 sensitivity 0: it does not depend on the data")
        target = Fraction(rho)
        scale = math.sqrt(sensitivity_l2_squared / (2.0 * float(rho)))
        _check_scale(scale)
        for _ in range(64):
            if cls(scale).rho_of(sensitivity_l2_squared) <= target:
                break
            scale = math.nextafter(scale, math.inf)
        law = cls(scale)
        if not target * (1 - _AGREEMENT) <= law.rho_of(sensitivity_l2_squared) <= target:
            raise DpbayesError("OpenDP's privacy map does not agree with the planned rho; nothing was charged")
        return law

    def rho_of(self, sensitivity_l2_squared: int) -> Fraction:
        """Return the rho that OpenDP's own privacy map proves for this scale."""
        sensitivity = math.sqrt(sensitivity_l2_squared)
        if Fraction(sensitivity) ** 2 < sensitivity_l2_squared:
            sensitivity = math.nextafter(sensitivity, math.inf)
        return Fraction(opendp_gaussian(self.scale).map(sensitivity))

    def release(self, values: Sequence[int]) -> list[int]:
        """Add independent exact noise to an integer statistic.

        Args:
            values: the exact statistic, one integer a component.

        Privacy: see the class; drawn by OpenDP's vector measurement on 64-bit integers, saturating at their ends.
        Source: OpenDP make_gaussian (integer atom domain, L2 distance).
        """
        return drawn(opendp_gaussian(self.scale), _held(values))

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)]; where the law is smooth, exp(-scale^2 u^2 / 2) up to exp(-pi^2 scale^2 / 2)."""
        import numpy as np

        if self._is_smooth:
            return np.asarray(np.exp(-0.5 * (self.scale * u) ** 2))
        z, mass = self._table()
        return np.asarray((np.cos(np.multiply.outer(u, z)) * (mass / mass.sum())).sum(axis=-1))

    def _table(self) -> tuple[Integers, Floats]:
        """Return the integers that matter and their unnormalized probabilities."""
        import numpy as np

        z = np.arange(-self.radius(80.0), self.radius(80.0) + 1)
        return z, np.exp(-((z / self.scale) ** 2) / 2.0)

    @property
    def _is_smooth(self) -> bool:
        """Whether sums over the integers equal the Gaussian integrals: they differ by exp(-2 pi^2 scale^2)."""
        return self.scale > 2.0

    @property
    def variance(self) -> float:
        """The variance, in squared counts."""
        if self._is_smooth:
            return self.scale**2
        z, mass = self._table()
        return float((z**2 * mass).sum() / mass.sum())

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise."""
        import numpy as np

        total = self.scale * math.sqrt(2.0 * math.pi) if self._is_smooth else float(self._table()[1].sum())
        return np.asarray(-((np.asarray(z) / self.scale) ** 2) / 2.0 - math.log(total))

    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats."""
        return math.ceil(self.scale * math.sqrt(2.0 * nats))

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Draw noise for a simulation: by table, or by rounding a normal variable where that is as good."""
        import numpy as np

        if self.scale > 1e4:
            return np.asarray(np.rint(rng.normal(0.0, self.scale, size)), dtype=np.int64)
        z, mass = self._table()
        return np.asarray(rng.choice(z, size, p=mass / mass.sum()), dtype=np.int64)

    def serialize(self) -> dict[str, Any]:
        """Return the stored form: the float scale determines the law exactly."""
        return {"law": self.kind, "scale": self.scale}


def parse_noise(stored: Mapping[str, Any]) -> NoiseLaw:
    """Read back what ``serialize`` wrote.

    Raises:
        ValueError: an unknown law or a malformed scale.
    """
    laws: dict[Any, Callable[[float], NoiseLaw]] = {law.kind: law for law in (DiscreteLaplace, DiscreteGaussian)}
    if stored.get("law") in laws and isinstance(stored.get("scale"), int | float):
        return laws[stored["law"]](float(stored["scale"]))
    raise ValueError("unknown noise law")
