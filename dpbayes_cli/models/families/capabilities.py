"""Capabilities of models: what mechanisms that add noise, or draw from posteriors, require."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.model import BoundedStatistics, NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisySums, RecordCount
from dpbayes_cli.core.statistic import Statistic, can_be_null, evaluate, sum_statistic
from dpbayes_cli.privacy.conjugate import ConjugateFamily
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.number_families import NumberFamily


@dataclass(frozen=True)
class Arithmetic:
    """Operations that let one formula of a density be evaluated in floats and in exact decimals.

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
    """The capability of models whose log likelihood is t a(theta) + n b(theta), t the sum of one bounded statistic.

    This holds for complete records; ``a`` is monotone in theta.
    """

    @property
    @abstractmethod
    def parameter_range(self) -> tuple[float, float]:
        """The open interval of the parameter."""

    @property
    @abstractmethod
    def default_support(self) -> tuple[float, float] | None:
        """The default public range of the parameter; None: it must be stated."""

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
        """Return t, given the integer statistic of complete records."""
        least, width, _ = self.grid
        return n_records * least + width * values[0]


class LatentCounts(NoisyStatistics):
    """The capability of models whose data are category counts with a Dirichlet prior on their probabilities."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns that the model reads, with their levels."""

    @abstractmethod
    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisyCounts:
        """Return the noisy counts as an observation; see ``NoisyStatistics``."""


class DirichletProbabilities(LatentCounts):
    """The capability of models whose parameter is a vector of probabilities with a Dirichlet prior."""

    concentration: tuple[float, ...]


class ConjugatePosterior(BoundedStatistics):
    """The capability of models with a conjugate posterior whose Renyi divergence between neighbors is known."""

    @property
    def parameter_range(self) -> tuple[float, float]:
        """The interval of each reported parameter; by default that of a probability."""
        return 0.0, 1.0

    @abstractmethod
    def family(self, n_records: int) -> ConjugateFamily:
        """Return the conjugate family for a public number of complete records."""

    @abstractmethod
    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the exact sums of the natural statistics, in real units, from the integer statistic."""

    @abstractmethod
    def simulate(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw parameters from the prior, then the integer statistic of complete records: for planning."""

    def exact_moments(self, values: Sequence[int], n_records: int) -> list[tuple[float, float]]:
        """Return means and sds of the rows of the conjugate posterior; see ``Model``."""
        return self.family(n_records).moments_by_row(self.sums(values, n_records), 1.0, 1.0)

    def reported(self, point: tuple[float, ...]) -> tuple[float, ...]:
        """Return the reported parameters of a draw from the family."""
        return point


@dataclass(frozen=True)
class ScaledRegression:
    """A linear regression with known variance, on numbers scaled to [-1, 1].

    Attributes:
        variance: the variance of the scaled target given the features.
        bounds: the bounds of the target and of the features, in the units of the file.
        prior_mean: the scaled prior means of target and features; a priori the line passes through this point.
        prior_precision: the prior precisions of the line's level at these means and of the slopes, times the variance.
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
        """Return the scaled regression with its known variance.

        Raises:
            SpecError: the variance is not known.
        """


class BoundedNumber(NoisyStatistics):
    """The capability of models whose records are one number each, between bounds that can be chosen privately.

    The integer statistic has the same names for all bounds and, unless numbers are whole, the same sensitivity.
    """

    bound_keys: ClassVar[tuple[str, ...]] = ("upper",)

    @property
    @abstractmethod
    def column(self) -> NumericColumn:
        """The column of numbers, with its public bounds and grid."""

    @abstractmethod
    def draw_records(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], Floats]:
        """Draw the reported parameters from the prior, and unclamped numbers, shape (n_records,)."""

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The column of numbers, the only one."""
        return (self.column,)

    def simulated(
        self, policy: RecordPolicy, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the parameters from the prior and the exact statistic; see ``NoisyStatistics``."""
        parameters, numbers = self.draw_records(n_records, rng)
        return parameters, evaluate(self.statistic(policy), self.columns, numbers[:, None])

    def simulated_histogram(
        self, column: NumericColumn, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], dict[int, int]]:
        """Draw the parameters, and the histogram of drawn numbers; see ``Model``."""
        import numpy as np

        parameters, numbers = self.draw_records(n_records, rng)
        codes, valid = column.codes(numbers)
        present, counts = np.unique(codes[valid > 0], return_counts=True)
        return parameters, dict(zip(present.tolist(), counts.tolist(), strict=True))


class OneParameterNumber(BoundedNumber):
    """The capability of models whose records are one number each, from a one-parameter family."""

    @property
    @abstractmethod
    def number_family(self) -> NumberFamily:
        """The law of a number before it is clamped or dropped, with the prior of its parameter."""

    @abstractmethod
    def draw_numbers(self, parameter: float, size: int, rng: np.random.Generator) -> Floats:
        """Draw unclamped numbers, shape (size,), for simulations."""

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sum of the codes and, if it is private, the number of valid records.

        Privacy: see ``sum_statistic``: the L1 sensitivity is the number of grid steps, or twice that if a record may be
            the null record.
        Source: design notes, integer statistics on a public grid.
        """
        return sum_statistic(self.column, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        """Return the noisy sum as an observation; see ``NoisyStatistics``."""
        from dpbayes_cli.models.families.number_families import NumberLaw

        private = can_be_null(policy, self.column)
        total = record_count(policy, n_records)
        inside = total.kind == "unbounded" and self.column.outside == "drop"
        law = NumberLaw(self.number_family, self.column, private, inside)
        return NoisySums(law, tuple(released), noise, total, self.column.steps if private else 0)

    def draw_records(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], Floats]:
        """Draw the parameter from the prior, and numbers from its law."""
        family = self.number_family
        parameter = float(family.parameter(family.draw_prior(1, rng))[0])
        return (parameter,), self.draw_numbers(parameter, n_records, rng)

    def simulate(self, n_records: int, rng: np.random.Generator) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw the parameter from the prior, and the sum of the codes of ``n_records`` complete records."""
        return self.simulated(RecordPolicy(Neighbors.REPLACE_ONE, self.column.cell(1.0)), n_records, rng)


def record_count(policy: RecordPolicy, n_records: int | None) -> RecordCount:
    """Return what is known about the number of records that count.

    Args:
        policy: neighbors, and how many records a unit may have.
        n_records: the public number of units, which is the number of records if each unit has one.

    Raises:
        SpecError: ``n_records`` is public under replace-one, but was not given.
    """
    if policy.neighbors is Neighbors.ADD_REMOVE or (policy.contributions > 1 and n_records is None):
        return RecordCount("unbounded")
    if n_records is None:
        raise SpecError(
            "the number of records is public under replace-one neighbors, and must be stated", hint="--records N"
        )
    return RecordCount("known" if policy.complete else "at-most", n_records * policy.contributions)
