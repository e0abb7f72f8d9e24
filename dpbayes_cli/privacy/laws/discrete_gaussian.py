"""The discrete Gaussian law on the integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import ZeroConcentrated
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.measurements import OpenDPNoise
from dpbayes_cli.privacy.noise import Decay, round_up_fraction


@dataclass(frozen=True)
class DiscreteGaussian(OpenDPNoise):
    """The discrete Gaussian law, P(z) proportional to exp(-z^2 / (2 scale^2)) on the integers.

    Privacy: rho-zCDP with rho = D2 / (2 scale^2) if the noise is added independently to every component of an integer
        statistic whose squared L2 sensitivity is at most D2. The Renyi divergence of order l between two shifted laws
        is at most l shift^2 / (2 scale^2), and the squares of the components' shifts add up to at most D2.
    Source: Canonne, Kamath and Steinke 2020, Theorem 14; half of what Geumlek et al. 2017 sec. 5.1 state.
    """

    kind: ClassVar[str] = "discrete-gaussian"
    spent: ClassVar[str] = "rho"
    norm: ClassVar[str] = "L2"

    @classmethod
    def real_scale(cls, sensitivity: int, target: Decimal) -> float:
        """Return sqrt(S / (2 rho)), where S is the squared L2 sensitivity."""
        return math.sqrt(sensitivity / (2.0 * float(target)))

    def cost(self, sensitivity: int) -> Fraction:
        """Return the rho that OpenDP's own privacy map proves for a squared L2 sensitivity."""
        root = math.sqrt(sensitivity)
        if Fraction(root) ** 2 < sensitivity:
            root = math.nextafter(root, math.inf)
        return Fraction(self._measurement().map(root))

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)], which for large scales is exp(-scale^2 u^2 / 2), up to exp(-pi^2 scale^2 / 2)."""
        if self._is_smooth:
            return np.asarray(np.exp(-0.5 * (self.scale * u) ** 2))
        z, mass = self._table()
        return np.asarray((np.cos(np.multiply.outer(u, z)) * (mass / mass.sum())).sum(axis=-1))

    def _table(self) -> tuple[Integers, Floats]:
        z = np.arange(-self.radius(80.0), self.radius(80.0) + 1)
        return z, np.exp(-((z / self.scale) ** 2) / 2.0)

    @property
    def _is_smooth(self) -> bool:
        """Whether Gaussian integrals replace sums over integers, with a relative error of exp(-2 pi^2 scale^2)."""
        return self.scale > 2.0

    @property
    def variance(self) -> float:
        return self.scale**2 if self._is_smooth else super().variance

    def log_pmf(self, z: Integers) -> Floats:
        total = self.scale * math.sqrt(2.0 * math.pi) if self._is_smooth else float(self._table()[1].sum())
        return np.asarray(-((np.asarray(z) / self.scale) ** 2) / 2.0 - math.log(total))

    def radius(self, nats: float) -> int:
        return math.ceil(self.scale * math.sqrt(2.0 * nats))

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation, drawn from a table or, if the scale is large, by rounding normal variables."""
        if self.scale > 1e4:
            return np.asarray(np.rint(rng.normal(0.0, self.scale, size)), dtype=np.int64)
        return super().simulate(rng, size)

    @property
    def decay(self) -> Decay:
        return Decay(0.0, 0.5 / self.scale**2)

    @property
    def excess(self) -> float:
        """Half a nat, the largest value of z / s - z^2 / (2 s^2), which is at z = s."""
        return 0.5

    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        return ZeroConcentrated(round_up_fraction(self.cost(max(sum(z * z for z in shift) for shift in shifts))))
