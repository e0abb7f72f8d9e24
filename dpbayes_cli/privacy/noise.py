"""Exact integer noise: the law that inference uses, and the sampler that draws from precisely that law.

The law travels in the payload, so that inference never has to ask which mechanism ran. Draws for a release come
from OpenDP's measurements on integers (exact rational arithmetic, the operating system's CSPRNG); ``simulate`` uses
a seeded numpy generator and exists for simulations only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from dpbayes_cli.errors import DpbayesError, SpecError

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.numeric import Floats, Integers

# The plan's epsilon and OpenDP's own map may differ by floating rounding only: at most this relative amount, and
# never with OpenDP's above the plan's.
_AGREEMENT = Fraction(1, 10**9)


@runtime_checkable
class NoiseLaw(Protocol):
    """The public law of additive integer noise, independent for each component of a statistic."""

    kind: ClassVar[str]

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
            SpecError: the sensitivity is below 1.
            DpbayesError: OpenDP's privacy map disagrees with the plan, so nothing may be released.

        Privacy: the scale is rounded up until OpenDP's own map, evaluated exactly, does not exceed epsilon.
        Source: mechanisms, additive noise, scale = sensitivity / epsilon.
        """
        if sensitivity_l1 < 1:
            raise SpecError("the statistic has L1 sensitivity 0: it does not depend on the data")
        target = Fraction(epsilon)
        scale = float(Fraction(sensitivity_l1) / target)
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
        return Fraction(_opendp_laplace(self.scale).map(sensitivity_l1))

    def release(self, values: Sequence[int]) -> list[int]:
        """Add independent exact noise to an integer statistic.

        Args:
            values: the exact statistic, one integer a component.

        Privacy: see the class; drawn by OpenDP's vector measurement on 64-bit integers, whose result saturates at
            the ends of the type, which is post-processing.
        Source: OpenDP make_laplace (integer atom domain, L1 distance).
        """
        return [int(value) for value in _opendp_laplace(self.scale)(list(values))]

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


def parse_noise(stored: Mapping[str, Any]) -> NoiseLaw:
    """Read back what ``serialize`` wrote.

    Raises:
        ValueError: an unknown law or a malformed scale.
    """
    if stored.get("law") == DiscreteLaplace.kind and isinstance(stored.get("scale"), int | float):
        return DiscreteLaplace(float(stored["scale"]))
    raise ValueError("unknown noise law")


def _opendp_laplace(scale: float) -> Any:
    """Return OpenDP's discrete Laplace measurement on vectors of integers."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)
