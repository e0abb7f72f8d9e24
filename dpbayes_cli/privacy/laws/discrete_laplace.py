"""The discrete Laplace law on the integers, with geometric tails on both sides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import PureDP
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.measurements import add_noise, opendp_laplace
from dpbayes_cli.privacy.noise import Decay, NoiseLaw, check_scale, clamp_to_int64, round_up_fraction

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

# The planned cost and OpenDP's own map may differ by this relative rounding error, and OpenDP's must not be larger.
_AGREEMENT = Fraction(1, 10**9)


@dataclass(frozen=True)
class DiscreteLaplace(NoiseLaw):
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
            SpecError: the sensitivity is below 1, or the scale is too large for 64-bit integers.
            DpbayesError: OpenDP's privacy map disagrees with the plan, so nothing may be released.

        Privacy: the scale is rounded up until OpenDP's own map, evaluated exactly, does not exceed epsilon.
        Source: design notes, additive noise, scale = sensitivity / epsilon.
        """
        if sensitivity_l1 < 1:
            raise SpecError("no record changes the statistic (L1 sensitivity 0): nothing would be learned")
        target = Fraction(epsilon)
        scale = float(Fraction(sensitivity_l1) / target)
        check_scale(scale)
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
        """Return an integer statistic with independent exact noise on every component.

        Args:
            values: the exact statistic, one integer per component.

        Privacy: see the class; drawn by OpenDP's vector measurement on 64-bit integers, whose result saturates at the
            ends of the type, which is post-processing.
        Source: OpenDP make_laplace (integer atom domain, L1 distance).
        """
        return add_noise(opendp_laplace(self.scale), clamp_to_int64(values))

    @property
    def variance(self) -> float:
        """The variance, 1 / (2 sinh^2(1 / (2 scale))), in squared counts."""
        half = 1.0 / (2.0 * self.scale)
        return 0.0 if half > 350.0 else 1.0 / (2.0 * math.sinh(half) ** 2)

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise."""
        log_mass_at_zero = math.log(math.tanh(1.0 / (2.0 * self.scale)))
        return np.asarray(log_mass_at_zero - np.abs(z) / self.scale)

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)] = (1 - p)^2 / ((1 - p)^2 + 2 p (1 - cos u)), p = exp(-1 / scale)."""
        square = math.expm1(-1.0 / self.scale) ** 2
        return np.asarray(square / (square + 4.0 * math.exp(-1.0 / self.scale) * np.sin(u / 2.0) ** 2))

    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats."""
        return math.ceil(nats * self.scale)

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation: differences of two geometric variables."""
        success = -math.expm1(-1.0 / self.scale)
        return np.asarray(rng.geometric(success, size) - rng.geometric(success, size), dtype=np.int64)

    @property
    def decay(self) -> Decay:
        """The decay of geometric tails: linear."""
        return Decay(1.0 / self.scale, 0.0)

    @property
    def excess(self) -> float:
        """Zero, because log P(z) falls by exactly one nat per noise scale."""
        return 0.0

    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return the pure epsilon of the longest shift, in L1."""
        return PureDP(round_up_fraction(self.epsilon_of(max(sum(map(abs, shift)) for shift in shifts))))

    @classmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> DiscreteLaplace:
        """Return the law with this scale; there are no other parameters."""
        if parameters:
            raise ValueError("discrete Laplace noise has no parameters but its scale")
        return cls(scale)

    def largest_ratio(self, distance: int) -> float:
        """Return the largest log ratio of the probabilities of two integers at this distance."""
        ends = np.array([-distance, 0, distance, 2 * distance])
        return float((self.log_pmf(ends) - self.log_pmf(ends - distance)).max())
