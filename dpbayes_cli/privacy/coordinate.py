"""Laws of a real coordinate y on a public lattice: a logit, a logarithm, or the parameter itself.

A draw is a point of the lattice {h i} in y, chosen in proportion to the density there. The log-partition function of
that discrete family is that of the continuous one up to the error of the trapezoidal rule, which Poisson's summation
formula bounds by the characteristic function at 2 pi / h; the spacing makes it smaller than exp(-40), and the ends of
the lattice cut off less than exp(-45) of any posterior.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy.grid import EXACT, WINDOW_NATS, CellWeights, cell_weights, uniform_fraction

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_POINTS_PER_SD = 8.0
TAIL_NATS = 45.0
"""Nats of a tail beyond the grid: exp(-45) < 1e-19."""
_MOST_CELLS = 1 << 23
_MOST_NEAR = 1 << 20
"""Cells whose weights may have to be evaluated in decimals, in the worst case; usually it is a few thousand."""


class CoordinateLaw(ABC):
    """An unnormalized log density of y, in floats and exactly."""

    @abstractmethod
    def floats(self, y: Floats) -> Floats:
        """Return the log density in floats, elementwise."""

    @abstractmethod
    def exact(self, y: Decimal) -> Decimal:
        """Return the log density in exact decimals."""


@dataclass(frozen=True)
class LogitBeta(CoordinateLaw):
    """y = logit of a Beta(a, b) variable: a y - (a + b) log(1 + e^y)."""

    a: Decimal
    b: Decimal

    def floats(self, y: Floats) -> Floats:
        """Return the log density in floats, elementwise."""
        import numpy as np

        return np.asarray(float(self.a) * y - float(self.a + self.b) * np.logaddexp(0.0, y))

    def exact(self, y: Decimal) -> Decimal:
        """Return the log density in exact decimals."""
        both = EXACT.add(self.a, self.b)
        log1p = EXACT.ln(EXACT.add(Decimal(1), EXACT.exp(y)))
        return EXACT.subtract(EXACT.multiply(self.a, y), EXACT.multiply(both, log1p))


@dataclass(frozen=True)
class LogGamma(CoordinateLaw):
    """y = log of a Gamma(shape, rate) variable: shape y - rate e^y."""

    shape: Decimal
    rate: Decimal

    def floats(self, y: Floats) -> Floats:
        """Return the log density in floats, elementwise."""
        import numpy as np

        return np.asarray(float(self.shape) * y - float(self.rate) * np.exp(y))

    def exact(self, y: Decimal) -> Decimal:
        """Return the log density in exact decimals."""
        first = EXACT.multiply(self.shape, y)
        return EXACT.subtract(first, EXACT.multiply(self.rate, EXACT.exp(y)))


@dataclass(frozen=True)
class NormalCoordinate(CoordinateLaw):
    """y = a normal variable: -(y - mean)^2 / (2 variance)."""

    mean: Decimal
    variance: Decimal

    def floats(self, y: Floats) -> Floats:
        """Return the log density in floats, elementwise."""
        import numpy as np

        return np.asarray(-((y - float(self.mean)) ** 2) / (2.0 * float(self.variance)))

    def exact(self, y: Decimal) -> Decimal:
        """Return the log density in exact decimals."""
        away = EXACT.subtract(y, self.mean)
        square = EXACT.multiply(away, away)
        return EXACT.divide(square.copy_negate(), EXACT.multiply(Decimal(2), self.variance))


@dataclass(frozen=True)
class Lattice:
    """The public lattice {spacing i} between two public ends: a function of the prior, n and the bounds alone.

    Attributes:
        low, high: the ends.
        spacing: a power of two.
        slope: the slowest decay of any posterior's log density towards an end, in nats a unit of y.
    """

    low: float
    high: float
    spacing: float
    slope: float

    def check(self) -> None:
        """Refuse a lattice that is too long to draw on; a matter of what is public, decided before the charge.

        Raises:
            SpecError: too many cells, or too many that matter under a weak prior.
        """
        if self.high - self.low > _MOST_CELLS * self.spacing or _MOST_NEAR * self.spacing * self.slope < WINDOW_NATS:
            raise SpecError(
                "the posterior is too narrow, or the prior too weak, for a public grid of 2^23 cells",
                where="prior",
                hint="a stronger prior, or fewer records",
            )

    def draw(self, law: CoordinateLaw, size: int) -> list[float]:
        """Draw y exactly on the lattice, and spread each draw uniformly over its cell."""
        first = self._first
        return [self.spacing * (first + cell + uniform_fraction() - 0.5) for cell in self.weights(law).draw(size)]

    def weights(self, law: CoordinateLaw) -> CellWeights:
        """Return the integer weights of the lattice's points."""
        import numpy as np

        first, last = self._first, math.ceil(self.high / self.spacing)
        step = Decimal(self.spacing)
        return cell_weights(
            law.floats(self.spacing * np.arange(first, last + 1, dtype=np.float64)),
            lambda cell: law.exact(EXACT.multiply(step, Decimal(first + cell))),
        )

    @property
    def _first(self) -> int:
        return math.floor(self.low / self.spacing)


def spacing_for(smallest_sd: float, largest: float = 1.0 / 16.0) -> float:
    """Return a spacing of a power of two, at most an eighth of the smallest sd.

    Logits and logarithms need it to be at most 2^-4 too, for their characteristic functions decay only like
    exp(-pi w / 2); a normal law needs no such limit, whatever its units.
    """
    limit = smallest_sd / _POINTS_PER_SD
    return 2.0 ** math.floor(math.log2(min(limit, largest) if largest < 1.0 else limit))


def logit_reach(least: float, most: float) -> float:
    """Return Y with P(|logit| > Y) < exp(-45) for every Beta(a, b) with a, b >= least and a + b <= most.

    P(y < -Y) <= e^{-a Y} / (a B(a, b)), and 1 / (a B(a, b)) <= (a + b)^a / Gamma(a + 1) <= 2 (a + b)^a: the bound
    2 exp(-a (Y - log(a + b))) is largest at the smallest a.
    """
    return math.log(max(most, 1.0)) + (TAIL_NATS + 1.0) / least


def log_gamma_ends(shape_low: float, shape_high: float, rate_low: float, rate_high: float) -> tuple[float, float]:
    """Return ends beyond which log of any Gamma(shape, rate) in these ranges lies with probability below exp(-45)."""
    low = (
        -math.log(rate_high) - (TAIL_NATS + 1.0) / shape_low
    )  # P(rate X < t) <= t^shape / Gamma(shape + 1) <= 2 t^shape
    high = math.log((shape_high + math.sqrt(2.0 * TAIL_NATS * shape_high) + TAIL_NATS) / rate_low)  # Chernoff
    return low, high


def expit(y: float) -> float:
    """Return 1 / (1 + exp(-y)) without overflow."""
    return 1.0 / (1.0 + math.exp(-y)) if y > 0 else math.exp(y) / (1.0 + math.exp(y))
