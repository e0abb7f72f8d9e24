"""Capabilities of models: what mechanisms require of a model before they add noise or draw from its posterior."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import BoundedStatistics, NoisyStatistics
from dpbayes_cli.privacy.conjugate import ConjugateFamily
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    import numpy as np


Simulated = tuple[tuple[float, ...], tuple[int, ...]]
"""The reported parameters, drawn from the prior, and the exact integer statistic of simulated records."""


@dataclass(frozen=True)
class Arithmetic:
    """Operations with which one formula of a density can be evaluated in floats and in exact decimals.

    Attributes:
        log: the natural logarithm.
        number: converts a float to a number of this arithmetic.
    """

    log: Callable[[Any], Any]
    number: Callable[[float], Any]


DECIMALS = Arithmetic(EXACT.ln, Decimal)


def floats() -> Arithmetic:
    """Return the arithmetic of NumPy arrays."""
    import numpy as np

    return Arithmetic(np.log, float)


class OneParameterFamily(BoundedStatistics):
    """The capability of models in which n complete records have the log likelihood t * a(theta) + n * b(theta).

    Here t is the sum of one bounded statistic over the records, and ``a`` is monotone in theta.
    """

    @property
    @abstractmethod
    def parameter_range(self) -> tuple[float, float]:
        """The open interval of the parameter."""

    @property
    @abstractmethod
    def default_support(self) -> tuple[float, float] | None:
        """The default public range of the parameter; None if a spec must state the range."""

    @property
    @abstractmethod
    def grid(self) -> tuple[Fraction, Fraction, int]:
        """The least value of a record's statistic, the width of a grid step, and the number of grid steps."""

    @abstractmethod
    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return a(theta) and b(theta)."""

    @abstractmethod
    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of the prior, up to a constant."""

    def total(self, values: Sequence[int], n_records: int) -> Fraction:
        """Return t, the exact sum, given the integer statistic of complete records."""
        least, width, _ = self.grid
        return n_records * least + width * values[0]


class DirichletProbabilities(NoisyStatistics):
    """The capability of models whose parameter is a vector of probabilities with a Dirichlet prior."""

    concentration: tuple[float, ...]


class ConjugatePosterior(NoisyStatistics):
    """The capability of models with a conjugate posterior whose Renyi divergence between neighbors is known."""

    @property
    def parameter_range(self) -> tuple[float, float]:
        """The interval of each reported parameter; by default [0, 1]."""
        return 0.0, 1.0

    @abstractmethod
    def family(self, n_records: int) -> ConjugateFamily:
        """Return the conjugate family for a public number of complete records."""

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the exact sums of the natural statistics, in the units of the data; by default, the integer values."""
        return tuple(map(Fraction, values))

    def simulate(self, n_records: int, rng: np.random.Generator) -> Simulated:
        """Simulate parameters from the prior, and the integer statistic of complete records under replace-one."""
        any_stand_in = ""  # with a stand-in, records are complete; it replaces no simulated record, as all are valid
        return self.simulated(RecordPolicy(Neighbors.REPLACE_ONE, any_stand_in), n_records, rng)

    def exact_moments(self, values: Sequence[int], n_records: int) -> list[tuple[float, float]]:
        return self.family(n_records).moments_by_row(self.sums(values, n_records), 1.0, 1.0)

    def reported(self, point: tuple[float, ...]) -> tuple[float, ...]:
        """Convert a point of the conjugate family to the reported parameters."""
        return point


@dataclass(frozen=True)
class ScaledRegression:
    """A linear regression with known variance, on numbers scaled to [-1, 1].

    Attributes:
        variance: the variance of the scaled target given the features.
        bounds: the bounds of the target and of the features, in the units of the file.
        prior_mean: the scaled prior means of target and features.
        prior_precision: the prior precisions times the variance: first of the regression line's value at the prior
            means of the features, then of each slope.
        steps: the number of grid steps between bounds.
    """

    variance: float
    bounds: tuple[tuple[float, float], ...]
    prior_mean: tuple[float, ...]
    prior_precision: tuple[float, ...]
    steps: int


class NormalRegression(NoisyStatistics):
    """The capability of linear regressions with normal errors, whose statistic is ``second_moments``."""

    @abstractmethod
    def scaled_regression(self) -> ScaledRegression:
        """Return the regression of the scaled numbers.

        Raises:
            SpecError: the spec does not state the variance.
        """
