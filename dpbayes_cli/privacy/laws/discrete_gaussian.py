"""The discrete Gaussian law on the integers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import ZeroConcentrated
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.measurements import add_noise, opendp_gaussian
from dpbayes_cli.privacy.noise import Decay, NoiseLaw, check_scale, clamp_to_int64, round_up_fraction

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

# The planned cost and OpenDP's own map may differ by this relative rounding error, and OpenDP's must not be larger.
_AGREEMENT = Fraction(1, 10**9)


@dataclass(frozen=True)
class DiscreteGaussian(NoiseLaw):
    """The discrete Gaussian law, P(z) proportional to exp(-z^2 / (2 scale^2)) on the integers.

    Privacy: added independently to every component of an integer statistic whose squared L2 sensitivity is at most D2,
        it gives rho-zCDP with rho = D2 / (2 scale^2): the Renyi divergence of order l between two shifted laws is at
        most l shift^2 / (2 scale^2), and the squares of the components' shifts add up to at most D2.
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
            SpecError: the sensitivity is below 1, or the scale is too large for 64-bit integers.
            DpbayesError: OpenDP's privacy map disagrees with the plan, so nothing may be released.

        Privacy: the scale is rounded up until OpenDP's own map does not exceed rho.
        Source: design notes, additive noise, rho = Delta_2^2 / (2 sigma^2).
        """
        if sensitivity_l2_squared < 1:
            raise SpecError("no record changes the statistic (L2 sensitivity 0): nothing would be learned")
        target = Fraction(rho)
        scale = math.sqrt(sensitivity_l2_squared / (2.0 * float(rho)))
        check_scale(scale)
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
        """Return an integer statistic with independent exact noise on every component.

        Args:
            values: the exact statistic, one integer per component.

        Privacy: see the class; drawn by OpenDP's vector measurement on 64-bit integers, saturating at their ends.
        Source: OpenDP make_gaussian (integer atom domain, L2 distance).
        """
        return add_noise(opendp_gaussian(self.scale), clamp_to_int64(values))

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)]; for a smooth law exp(-scale^2 u^2 / 2), up to exp(-pi^2 scale^2 / 2)."""
        if self._is_smooth:
            return np.asarray(np.exp(-0.5 * (self.scale * u) ** 2))
        z, mass = self._table()
        return np.asarray((np.cos(np.multiply.outer(u, z)) * (mass / mass.sum())).sum(axis=-1))

    def _table(self) -> tuple[Integers, Floats]:
        """Return the integers with a non-negligible probability, and their unnormalized probabilities."""
        z = np.arange(-self.radius(80.0), self.radius(80.0) + 1)
        return z, np.exp(-((z / self.scale) ** 2) / 2.0)

    @property
    def _is_smooth(self) -> bool:
        """Whether Gaussian integrals replace sums over the integers: they differ by exp(-2 pi^2 scale^2)."""
        return self.scale > 2.0

    @property
    def variance(self) -> float:
        """The variance, in squared counts."""
        return self.scale**2 if self._is_smooth else super().variance

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), elementwise."""
        total = self.scale * math.sqrt(2.0 * math.pi) if self._is_smooth else float(self._table()[1].sum())
        return np.asarray(-((np.asarray(z) / self.scale) ** 2) / 2.0 - math.log(total))

    def radius(self, nats: float) -> int:
        """Return the smallest z >= 0 with log P(0) - log P(z) >= nats."""
        return math.ceil(self.scale * math.sqrt(2.0 * nats))

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation, drawn from a table or, if the scale is large, by rounding normal variables."""
        if self.scale > 1e4:
            return np.asarray(np.rint(rng.normal(0.0, self.scale, size)), dtype=np.int64)
        return super().simulate(rng, size)

    @property
    def decay(self) -> Decay:
        """The decay of a bell: quadratic."""
        return Decay(0.0, 0.5 / self.scale**2)

    @property
    def excess(self) -> float:
        """Half a nat: -z^2 / (2 s^2) + z / s is largest at z = s."""
        return 0.5

    def privacy(self, shifts: Sequence[Sequence[int]]) -> Guarantee:
        """Return the zCDP guarantee for the longest shift, in L2."""
        return ZeroConcentrated(round_up_fraction(self.rho_of(max(sum(z * z for z in shift) for shift in shifts))))

    @classmethod
    def parse(cls, scale: float, parameters: Mapping[str, Any]) -> DiscreteGaussian:
        """Return the law with this scale; there are no other parameters."""
        if parameters:
            raise ValueError("discrete Gaussian noise has no parameters but its scale")
        return cls(scale)

    def largest_ratio(self, distance: int) -> float:
        """Return the largest log ratio at integers up to ``2 distance``; over all integers it has no bound."""
        ends = np.array([-distance, 0, distance, 2 * distance])
        return float((self.log_pmf(ends) - self.log_pmf(ends - distance)).max())
