"""Noise laws with one scale; OpenDP draws the noise and proves its cost.

The noise comes from OpenSSL's generator, which the operating system seeds; a forked process gets a new seed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

from dpbayes_cli.base.address_space import check_address_space
from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.privacy.noise import OneScaleNoise, check_scale, clamp_to_int64

_AGREEMENT = Fraction(1, 10**9)
"""Because of rounding, the cost that OpenDP proves may be lower than the planned cost by this fraction. It must never
be higher."""


@dataclass(frozen=True)
class OpenDPNoise(OneScaleNoise):
    """A noise law with one scale, drawn by a measurement of OpenDP."""

    spent: ClassVar[str]
    """The name of the privacy parameter that the noise spends: epsilon or rho."""
    norm: ClassVar[str]

    @classmethod
    @abstractmethod
    def real_scale(cls, sensitivity: int, target: Decimal) -> float:
        """Return the scale at which the cost equals the target, up to rounding errors."""

    @abstractmethod
    def cost(self, sensitivity: int) -> Fraction:
        """Return the cost that OpenDP's own privacy map proves for this scale, exactly."""

    def _measurement(self) -> Any:
        return opendp_measurement(self.kind, self.scale)

    @classmethod
    def calibrate(cls, sensitivity: int, target: Decimal) -> Self:
        """Return the law with the smallest scale whose cost is at most the target.

        Raises:
            SpecError: the sensitivity is below 1, or the scale is too large for 64-bit integers.
            DpbayesError: OpenDP's privacy map disagrees with the plan, so nothing may be released.

        Privacy: the scale is rounded up until OpenDP's own map, evaluated exactly, does not exceed the target.
        Source: derived here.
        """
        if sensitivity < 1:
            raise SpecError(f"no record changes the statistic ({cls.norm} sensitivity 0): nothing would be learned")
        scale, exact_target = cls.real_scale(sensitivity, target), Fraction(target)
        check_scale(scale)
        for _ in range(64):
            if cls(scale).cost(sensitivity) <= exact_target:
                break
            scale = math.nextafter(scale, math.inf)
        law = cls(scale)
        if not exact_target * (1 - _AGREEMENT) <= law.cost(sensitivity) <= exact_target:
            raise DpbayesError(f"OpenDP's privacy map does not agree with the planned {cls.spent}; nothing was charged")
        return law

    def release(self, values: Sequence[int]) -> list[int]:
        """Return an integer statistic with independent exact noise on every component.

        Privacy: the class of the noise law states the guarantee. OpenDP's vector measurement draws the noise on 64-bit
            integers; its result saturates at the ends of this type, which is post-processing.
        Source: OpenDP make_laplace and make_gaussian (integer atom domain).
        """
        return add_noise(self._measurement(), clamp_to_int64(values))

    def release_often(self, values: Sequence[int], n_times: int) -> list[list[int]]:
        """Return several independent results of ``release``, with one call of the measurement."""
        flat, size = self.release([*values] * n_times), len(values)
        return [flat[start : start + size] for start in range(0, size * n_times, size)]


def add_noise(measurement: Any, values: Sequence[int]) -> list[int]:
    """Return values with the noise of a measurement; raise ``DpbayesError`` if no noise can be drawn."""
    from opendp.mod import OpenDPException

    try:
        return [int(value) for value in measurement(values)]
    except OpenDPException:
        raise no_randomness_error() from None


def no_randomness_error() -> DpbayesError:
    """Return the error for noise that cannot be drawn."""
    return DpbayesError(
        "no noise could be drawn: the operating system gives no random numbers; nothing is released",
        hint="run the same command again later; it is not charged a second time",
    )


@lru_cache(maxsize=128)
def opendp_measurement(kind: str, scale: float) -> Any:
    """Return OpenDP's measurement for a kind of noise on vectors of 64-bit integers, built once per scale."""
    check_address_space()
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    if kind == "discrete-laplace":
        make, metric = measurements.make_laplace, metrics.l1_distance(T="i64")
    else:
        make, metric = measurements.make_gaussian, metrics.l2_distance(T="f64")
    return make(domains.vector_domain(domains.atom_domain(T="i64")), metric, scale=scale)
