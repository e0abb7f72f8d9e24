"""The rounded Gaussian law: the law of a normal number rounded to the nearest integer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats, Integers
from dpbayes_cli.privacy.kinds import GaussianDP, root_up
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.noise import Decay, OneScaleNoise, check_scale, clamp_to_int64, round_up_fraction
from dpbayes_cli.privacy.secret_normals import rounded_normals

_SMOOTH_SCALE = 4.0
"""From this scale on, sums over integers equal integrals over reals up to a relative error of 1e-30."""
_GAUSSIAN_SCALE = 64.0
"""From this scale on, the law is Gaussian up to 1e-6; see ``RoundedGaussian.decay``."""
_MAX_SLOPE = 4.0
"""Up to this change of the log density over a unit interval, the nodes below integrate the density exactly."""
_N_NODES = 12
_LARGEST_RESULT = (1 << 63) - 1


@dataclass(frozen=True)
class RoundedGaussian(OneScaleNoise):
    """The law of round(scale * N), where N is standard normal.

    P(z) = Phi((z + 1/2) / scale) - Phi((z - 1/2) / scale) on the integers.

    Privacy: exactly mu-GDP with mu = Delta / scale if the noise is added independently to every component of an integer
        statistic whose L2 sensitivity is at most Delta. For an integer S, S + round(scale * N) is round(S + scale * N),
        which is computed from the output of the Gaussian mechanism alone.
    Source: Dong, Roth and Su 2022, sec. 2 (the Gaussian mechanism, post-processing); the rest is derived here.
    """

    kind: ClassVar[str] = "rounded-gaussian"

    @classmethod
    def calibrate(cls, sensitivity_l2_squared: int, mu_squared: Decimal) -> Self:
        """Return the law with the smallest scale for which the square of mu is at most a target.

        Raises:
            SpecError: the sensitivity is below 1, or the scale is too large for 64-bit integers.

        Privacy: the scale is rounded up until sensitivity / scale^2, computed in fractions, does not exceed the target.
        Source: Dong, Roth and Su 2022, sec. 2.
        """
        if sensitivity_l2_squared < 1:
            raise SpecError("no record changes the statistic (L2 sensitivity 0): nothing would be learned")
        variance = Fraction(sensitivity_l2_squared) / Fraction(mu_squared)
        scale = math.sqrt(variance)
        check_scale(scale)
        while Fraction(scale) ** 2 < variance:
            scale = math.nextafter(scale, math.inf)
        return cls(scale)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (*super().examples(), cls(100.0))

    def release(self, values: Sequence[int]) -> list[int]:
        """Return an integer statistic with independent exact noise on every component.

        Privacy: the class of the law states the guarantee. Values and noise are integers of any size. Results are
            clamped to 64-bit integers, which is post-processing.
        Source: ``RoundedNormals``.
        """
        noise = rounded_normals(self.scale, len(values))
        noisy = [value + drawn for value, drawn in zip(clamp_to_int64(values), noise, strict=True)]
        return [min(max(value, -_LARGEST_RESULT), _LARGEST_RESULT) for value in noisy]

    def privacy(self, shifts: Sequence[Sequence[int]]) -> GaussianDP:
        """Return the mu of the shift with the largest L2 norm, rounded up."""
        largest = max(sum(z * z for z in shift) for shift in shifts)
        return GaussianDP(root_up(round_up_fraction(largest / Fraction(self.scale) ** 2)))

    def log_pmf(self, z: Integers) -> Floats:
        """Return log P(noise = z), with an error below 1e-14 (1 + abs(log P)).

        If the log density changes little between z - 1/2 and z + 1/2, the density relative to that at z is integrated
        by nodes; all terms are positive. Otherwise the two tail probabilities differ by so much that their difference
        is accurate.
        """
        size = np.abs(np.asarray(z))
        if self.scale >= _GAUSSIAN_SCALE or not np.issubdtype(size.dtype, np.integer):
            return self._computed(size.astype(np.float64))
        table = _log_masses(self)
        result = table[np.minimum(size, len(table) - 1)]
        far = size >= len(table)
        if far.any():
            result = np.where(far, self._computed(size.astype(np.float64)), result)
        return np.asarray(result)

    def _computed(self, size: Floats) -> Floats:
        flat = size.ravel()
        near = (flat / self.scale**2 <= _MAX_SLOPE) & (self.scale >= 1.0)
        result = np.empty(flat.shape)
        result[near] = self._integrated(flat[near])
        result[~near] = self._difference_of_tails(flat[~near])
        return result.reshape(size.shape)

    def _integrated(self, size: Floats) -> Floats:
        nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
        total = np.zeros(size.shape)
        for node, weight in zip(nodes[nodes > 0.0] / 2.0, weights[nodes > 0.0], strict=True):
            total += weight * math.exp(-0.5 * (node / self.scale) ** 2) * np.cosh(size * (node / self.scale**2))
        log_density = -0.5 * (size / self.scale) ** 2 - math.log(self.scale * math.sqrt(2.0 * math.pi))
        return np.asarray(log_density + np.log(total))

    def _difference_of_tails(self, size: Floats) -> Floats:
        from scipy.special import log_ndtr

        upper, lower = log_ndtr((0.5 - size) / self.scale), log_ndtr((-0.5 - size) / self.scale)
        return np.asarray(upper + np.log1p(-np.exp(lower - upper)))

    def radius(self, nats: float) -> int:
        """Return z with (z^2 - z) / (2 scale^2) >= nats.

        The density at z + u is exp(-(z^2 + 2 z u) / (2 scale^2)) times the density at u, and u >= -1/2.
        """
        return math.ceil(0.5 + math.sqrt(0.25 + 2.0 * self.scale**2 * nats))

    @property
    def _is_smooth(self) -> bool:
        return self.scale >= _SMOOTH_SCALE

    @property
    def variance(self) -> float:
        """The variance, which is scale^2 + 1/12 up to exp(-2 pi^2 scale^2)."""
        return self.scale**2 + 1.0 / 12.0 if self._is_smooth else super().variance

    def characteristic(self, u: Floats) -> Floats:
        """Return E[cos(u noise)].

        It is the sum over integers k of exp(-scale^2 v^2 / 2) sin(v / 2) / (v / 2) with v = u + 2 pi k. For large
        scales only k = 0 matters.
        """
        if not self._is_smooth:
            return super().characteristic(u)
        return np.asarray(np.exp(-0.5 * (self.scale * np.asarray(u)) ** 2) * np.sinc(np.asarray(u) / (2.0 * math.pi)))

    @property
    def decay(self) -> Decay:
        """The decay of a Gaussian law with variance scale^2 + 1/12, which is exact if the scale is large.

        With x = z / (2 scale^2), log P(z) is -z^2 / (2 scale^2) + log(sinh(x) / x) up to a constant and terms that are
        smaller by a factor of scale^2. The leading term of the logarithm, x^2 / 6, widens the variance by 1/12. The
        next one, -x^4 / 180, is below 1e-6 wherever P(z) is at least exp(-60) P(0). The law is log-concave, because it
        is the convolution of a normal and a uniform density, at integers.
        """
        return Decay(0.0, 0.5 / (self.scale**2 + 1.0 / 12.0), self.scale >= _GAUSSIAN_SCALE)

    @property
    def excess(self) -> float:
        """Slightly more than half a nat, the largest value of z / s - z^2 / (2 s^2), if the scale is large."""
        return 0.5 + 0.05 / self.scale**2 if self._is_smooth else super().excess

    def simulate(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Integers:
        """Return noise for a simulation, drawn by rounding normal variables."""
        return np.asarray(np.rint(rng.normal(0.0, self.scale, size)), dtype=np.int64)


@lru_cache(maxsize=64)
def _log_masses(law: RoundedGaussian) -> Floats:
    """Return log P(z) for z = 0, 1, .. up to 20 scales."""
    return law._computed(np.arange(math.ceil(20.0 * law.scale) + 2, dtype=np.float64))
