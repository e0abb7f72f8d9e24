"""The discrete Laplace law on the integers, with geometric tails on both sides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.guarantee import SMALLEST_EPSILON
from dpbayes_cli.privacy.kinds import NoisyShift, PureDP
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.measurements import OpenDPNoise
from dpbayes_cli.privacy.noise import Decay, round_up_fraction


@dataclass(frozen=True)
class DiscreteLaplace(OpenDPNoise):
    """The discrete Laplace law, P(z) = tanh(1 / (2 scale)) exp(-|z| / scale) on the integers.

    Privacy: pure (D / scale)-DP if the noise is added independently to every component of an integer statistic whose L1
        sensitivity is at most D. The log ratio of two shifted laws is at most |shift| / scale, and the absolute shifts
        of the components add up to at most D.
    Source: Ghosh, Roughgarden and Sundararajan 2009; Canonne, Kamath and Steinke 2020 (exact sampling).
    """

    kind: ClassVar[str] = "discrete-laplace"
    spent: ClassVar[str] = "epsilon"
    norm: ClassVar[str] = "L1"

    @classmethod
    def real_scale(cls, sensitivity: int, target: Decimal) -> float:
        return float(Fraction(sensitivity) / Fraction(target))

    def cost(self, sensitivity: int) -> Fraction:
        return Fraction(self._measurement().map(sensitivity))

    @property
    def variance(self) -> float:
        half = 1.0 / (2.0 * self.scale)
        return 0.0 if half > 350.0 else 1.0 / (2.0 * math.sinh(half) ** 2)

    def log_pmf(self, z: Integers) -> Floats:
        log_mass_at_zero = math.log(math.tanh(1.0 / (2.0 * self.scale)))
        return np.asarray(log_mass_at_zero - np.abs(z) / self.scale)

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)] = (1 - p)^2 / ((1 - p)^2 + 2 p (1 - cos u)) with p = exp(-1 / scale)."""
        square = math.expm1(-1.0 / self.scale) ** 2
        return np.asarray(square / (square + 4.0 * math.exp(-1.0 / self.scale) * np.sin(u / 2.0) ** 2))

    def radius(self, nats: float) -> int:
        return math.ceil(nats * self.scale)

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation, drawn as differences of two geometric variables."""
        success = -math.expm1(-1.0 / self.scale)
        return np.asarray(rng.geometric(success, size) - rng.geometric(success, size), dtype=np.int64)

    @property
    def decay(self) -> Decay:
        return Decay(1.0 / self.scale, 0.0)

    @property
    def excess(self) -> float:
        """Zero, because log P(z) falls by exactly one nat per noise scale."""
        return 0.0

    def privacy(self, shifts: Sequence[Sequence[int]]) -> PureDP:
        """Return the pure epsilon of the largest shift, with all shifts, from which other costs are computed.

        An epsilon below the smallest that a guarantee can state is rounded up to it.

        Privacy: the noise of the components is independent, so that the costs of a shift are the sums of the costs of
            its components.
        Source: derived here.
        """
        epsilon = round_up_fraction(self.cost(max(sum(map(abs, shift)) for shift in shifts)))
        epsilon = max(epsilon, SMALLEST_EPSILON)
        scale, changes = Decimal(repr(self.scale)), [Counter(abs(z) for z in shift if z) for shift in shifts]
        return PureDP(epsilon, tuple(tuple(NoisyShift(scale, *each) for each in sorted(c.items())) for c in changes))
