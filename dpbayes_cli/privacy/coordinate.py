"""Posterior laws on a public lattice of a coordinate y: the logit or the logarithm of a parameter, or the parameter.

A draw is a point of the lattice {h i} in y, chosen with probability proportional to the density there. The normalizing
sum over the lattice differs from the integral of the density by the error of the trapezoidal rule. Poisson's summation
formula bounds this error by the characteristic function at 2 pi / h. The spacing makes this error smaller than
exp(-40), and the ends of the lattice cut off less than exp(-45) of any posterior.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal, localcontext

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy.grid import EXACT, WINDOW_NATS, CellWeights, cell_weights, uniform_fraction
from dpbayes_cli.privacy.lazy_numpy import np

_POINTS_PER_SD, _MAX_LOG_SPACING = 8.0, 1.0 / 16.0
TAIL_NATS = 45.0
"""A posterior has probability below exp(-45) < 1e-19 beyond the ends of the lattice."""
_MAX_CELLS = 1 << 23
_MAX_NEAR = 1 << 20
"""The largest number of likely cells, whose weights are evaluated in decimals; usually there are a few thousand."""


class CoordinateLaw(ABC):
    """An unnormalized log density of y, in floats and in exact decimals."""

    @abstractmethod
    def floats(self, y: Floats) -> Floats:
        """Return the log density in floats, elementwise."""

    @abstractmethod
    def exact(self, y: Decimal) -> Decimal:
        """Return the log density in the decimal context of the caller, which is ``EXACT``."""


@dataclass(frozen=True)
class LogitBeta(CoordinateLaw):
    """The law of the logit y of a Beta(a, b) variable, with log density a y - (a + b) log(1 + e^y)."""

    a: Decimal
    b: Decimal

    def floats(self, y: Floats) -> Floats:
        return np.asarray(float(self.a) * y - float(self.a + self.b) * np.logaddexp(0.0, y))

    def exact(self, y: Decimal) -> Decimal:
        return self.a * y - (self.a + self.b) * (1 + y.exp()).ln()


@dataclass(frozen=True)
class LogGamma(CoordinateLaw):
    """The law of the logarithm y of a Gamma(shape, rate) variable, with log density shape * y - rate * e^y."""

    shape: Decimal
    rate: Decimal

    def floats(self, y: Floats) -> Floats:
        return np.asarray(float(self.shape) * y - float(self.rate) * np.exp(y))

    def exact(self, y: Decimal) -> Decimal:
        return self.shape * y - self.rate * y.exp()


@dataclass(frozen=True)
class NormalCoordinate(CoordinateLaw):
    """The law of a normal variable y, with log density -(y - mean)^2 / (2 * variance)."""

    mean: Decimal
    variance: Decimal

    def floats(self, y: Floats) -> Floats:
        return np.asarray(-((y - float(self.mean)) ** 2) / (2.0 * float(self.variance)))

    def exact(self, y: Decimal) -> Decimal:
        deviation = y - self.mean
        return -(deviation * deviation) / (2 * self.variance)


@dataclass(frozen=True)
class Lattice:
    """The public lattice {spacing i} between two public ends, which depend only on the prior, n and the bounds.

    Attributes:
        low, high: the ends.
        spacing: a power of two.
        slope: a lower bound, in nats per unit of y, on how fast every posterior's log density falls toward the ends.
    """

    low: float
    high: float
    spacing: float
    slope: float

    def check(self) -> None:
        """Refuse a lattice with too many cells. The check uses public numbers only and precedes any charge.

        Raises:
            SpecError: there are too many cells, or the prior is so weak that too many cells may be likely.
        """
        if self.high - self.low > _MAX_CELLS * self.spacing or _MAX_NEAR * self.spacing * self.slope < WINDOW_NATS:
            raise SpecError(
                "the posterior is too narrow, or the prior too weak, to draw from a public grid of 2^23 cells",
                where="prior",
                hint="use a stronger prior or fewer records",
            )

    def draw(self, law: CoordinateLaw, size: int) -> list[float]:
        """Draw y exactly on the lattice, and spread each draw uniformly over its cell."""
        first = self._first
        return [self.spacing * (first + cell + uniform_fraction() - 0.5) for cell in self.weights(law).draw(size)]

    def weights(self, law: CoordinateLaw) -> CellWeights:
        """Return the integer weights of the lattice's points."""
        first, last, spacing = self._first, math.ceil(self.high / self.spacing), Decimal(self.spacing)
        floats = law.floats(self.spacing * np.arange(first, last + 1, dtype=np.float64))
        with localcontext(EXACT):
            return cell_weights(floats, lambda cell: law.exact(spacing * (first + cell)))

    @property
    def _first(self) -> int:
        return math.floor(self.low / self.spacing)


def spacing_for(smallest_sd: float, largest: float = _MAX_LOG_SPACING) -> float:
    """Return the largest power of two up to ``largest`` and up to an eighth of the smallest standard deviation.

    Laws of logits and of logarithms need a spacing of at most 2^-4 (the default), because their characteristic
    functions decay only like exp(-pi w / 2) in the frequency w. A normal law does not need this limit.
    """
    limit = smallest_sd / _POINTS_PER_SD
    return 2.0 ** math.floor(math.log2(min(limit, largest)))


def logit_reach(least: float, most: float) -> float:
    """Return Y with P(|logit| > Y) < exp(-45) for every Beta(a, b) with a, b >= least and a + b <= most.

    P(y < -Y) <= e^{-a Y} / (a B(a, b)), and 1 / (a B(a, b)) <= (a + b)^a / Gamma(a + 1) <= 2 (a + b)^a: the bound
    2 exp(-a (Y - log(a + b))) is largest at the smallest a.
    """
    return math.log(max(most, 1.0)) + (TAIL_NATS + 1.0) / least


def log_gamma_ends(shape_low: float, shape_high: float, rate_low: float, rate_high: float) -> tuple[float, float]:
    """Return two ends outside which the log of a Gamma(shape, rate) variable lies with probability below exp(-45).

    This holds for every shape and rate in the given ranges.
    """
    # below: P(rate X < t) <= t^shape / Gamma(shape + 1) <= 2 t^shape; above: Chernoff
    low = -math.log(rate_high) - (TAIL_NATS + 1.0) / shape_low
    high = math.log((shape_high + math.sqrt(2.0 * TAIL_NATS * shape_high) + TAIL_NATS) / rate_low)
    return low, high


def expit(y: float) -> float:
    """Return 1 / (1 + exp(-y)) without overflow."""
    return 1.0 / (1.0 + math.exp(-y)) if y > 0 else math.exp(y) / (1.0 + math.exp(y))
