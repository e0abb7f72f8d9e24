"""The laws of the noise in published tables, evaluated for many cells that may have different scales.

Other tools publish noise of any real scale, also continuous noise. So these laws take an array of scales, and they only
compute probabilities; releases of dpbayes use the laws in ``privacy/laws``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import log_ndtr

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_SMOOTH_SCALE = 16.0
"""From this scale on, normal integrals replace sums over the discrete Gaussian law; the sums are within 1e-4."""
_LOG_ROOT_TAU = 0.5 * math.log(2.0 * math.pi)


class CellLaw(ABC):
    """A symmetric law of noise. All arguments and results are arrays that broadcast with each other.

    Attributes:
        is_discrete: whether the noise is an integer.
    """

    is_discrete: ClassVar[bool]

    @abstractmethod
    def log_density(self, z: Floats, scale: Floats) -> Floats:
        """Return log P(noise = z), or the log density at z if the noise is continuous."""

    @abstractmethod
    def log_upper_tail(self, t: Floats, scale: Floats) -> Floats:
        """Return log P(noise >= t)."""

    @abstractmethod
    def reach(self, nats: float, scale: Floats) -> Floats:
        """Return a distance at which the log density is at least ``nats`` below its maximum."""

    @abstractmethod
    def sd(self, scale: Floats) -> Floats:
        """Return the standard deviation, which for small scales of a discrete law is approximate."""

    def log_lower_tail(self, t: Floats, scale: Floats) -> Floats:
        """Return log P(noise < t)."""
        return self.log_upper_tail(1.0 - t if self.is_discrete else -t, scale)


class _ExponentialTails(CellLaw):
    def reach(self, nats: float, scale: Floats) -> Floats:
        return nats * scale

    def sd(self, scale: Floats) -> Floats:
        return math.sqrt(2.0) * scale


class _GaussianTails(CellLaw):
    def reach(self, nats: float, scale: Floats) -> Floats:
        return math.sqrt(2.0 * nats) * scale

    def sd(self, scale: Floats) -> Floats:
        return scale


class LaplaceCells(_ExponentialTails):
    """The Laplace law, with the density exp(-|z| / scale) / (2 scale)."""

    is_discrete = False

    def log_density(self, z: Floats, scale: Floats) -> Floats:
        """Return the log density at z."""
        return np.asarray(-np.abs(z) / scale - np.log(2.0 * scale))

    def log_upper_tail(self, t: Floats, scale: Floats) -> Floats:
        """Return log P(noise >= t): exp(-t / scale) / 2 for t >= 0, and one minus P(noise > -t) otherwise."""
        tail = np.exp(-np.abs(t) / scale) / 2.0
        return np.asarray(np.where(t >= 0.0, -np.abs(t) / scale - math.log(2.0), np.log1p(-tail)))


class DiscreteLaplaceCells(_ExponentialTails):
    """The discrete Laplace law, with P(z) = tanh(1 / (2 scale)) exp(-|z| / scale) on the integers."""

    is_discrete = True

    def log_density(self, z: Floats, scale: Floats) -> Floats:
        """Return log P(noise = z)."""
        return np.asarray(-np.abs(z) / scale + np.log(np.tanh(0.5 / scale)))

    def log_upper_tail(self, t: Floats, scale: Floats) -> Floats:
        """Return log P(noise >= t): p^t / (1 + p) with p = exp(-1 / scale) for t >= 1, and the complement otherwise."""
        distance = np.where(t >= 0.5, t, 1.0 - t)
        log_tail = -distance / scale - np.log1p(np.exp(-1.0 / scale))
        return np.asarray(np.where(t >= 0.5, log_tail, np.log1p(-np.exp(log_tail))))


class GaussianCells(_GaussianTails):
    """The normal law with standard deviation ``scale``."""

    is_discrete = False

    def log_density(self, z: Floats, scale: Floats) -> Floats:
        """Return the log density at z."""
        return np.asarray(-0.5 * (z / scale) ** 2 - np.log(scale) - _LOG_ROOT_TAU)

    def log_upper_tail(self, t: Floats, scale: Floats) -> Floats:
        """Return log P(noise >= t)."""
        return np.asarray(log_ndtr(-t / scale))


class DiscreteGaussianCells(_GaussianTails):
    """The discrete Gaussian law, with P(z) proportional to exp(-z^2 / (2 scale^2)) on the integers."""

    is_discrete = True

    def log_density(self, z: Floats, scale: Floats) -> Floats:
        """Return log P(noise = z)."""
        # Poisson summation: the integers' sum and the integral differ by 2 exp(-2 pi^2 scale^2), relative to each other
        wide = np.maximum(scale, 2.0)
        narrow = np.minimum(scale, 2.0)
        total = sum(np.exp(-0.5 * (k / narrow) ** 2) for k in range(-24, 25))
        log_total = np.where(scale > 2.0, np.log(wide) + _LOG_ROOT_TAU, np.log(total))
        return np.asarray(-0.5 * (z / scale) ** 2 - log_total)

    def log_upper_tail(self, t: Floats, scale: Floats) -> Floats:
        """Return log P(noise >= t), by summation if the scale is small, else by an integral from t - 1/2."""
        t, scale = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(scale, dtype=np.float64))
        result = np.asarray(log_ndtr((0.5 - t) / scale))
        for each in np.unique(scale[scale < _SMOOTH_SCALE]):
            here = scale == each
            low = math.floor(t[here].min())
            z = np.arange(low, math.ceil(t[here].max()) + 40.0 * each + 2.0)
            log_tails = np.logaddexp.accumulate(self.log_density(z, each)[::-1])[::-1]
            result[here] = np.minimum(log_tails[(t[here] - low).astype(np.int64)], 0.0)
        return result


CELL_LAWS: Mapping[str, CellLaw] = MappingProxyType(
    {
        "discrete-laplace": DiscreteLaplaceCells(),
        "discrete-gaussian": DiscreteGaussianCells(),
        "laplace": LaplaceCells(),
        "gaussian": GaussianCells(),
    }
)
"""The laws by their names in specs."""
