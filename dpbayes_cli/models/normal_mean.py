"""Normal mean: the mean of a number whose variance is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily
from dpbayes_cli.contracts import Card, Positive, Section, expect
from dpbayes_cli.privacy.conjugate import NormalFamily
from dpbayes_cli.statistic import NumericColumn, RecordPolicy, Statistic, sum_statistic

if TYPE_CHECKING:
    import numpy as np

STEPS = 1 << 20
"""Grid steps between the bounds."""
LARGEST = 1e12


class NormalMeanDomain(Section, frozen=True, kw_only=True):
    """The public bounds of a number, and its known variance."""

    lower: Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="numbers below this are clamped to it")]
    upper: Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="numbers above this are clamped to it")]
    variance: Annotated[Positive, Meta(description="the known variance of a record")]

    def __post_init__(self) -> None:
        if not self.lower < self.upper or self.upper - self.lower < 1e-12 * max(abs(self.lower), abs(self.upper)):
            raise ValueError("the lower bound must be below the upper one")


class NormalMeanPrior(Section, frozen=True, kw_only=True):
    """Normal prior of the mean."""

    mean: Annotated[float, Meta(ge=-LARGEST, le=LARGEST, description="mean of the normal prior")] = 0.0
    variance: Annotated[Positive, Meta(description="variance of the normal prior")] = 1.0


@dataclass(frozen=True)
class NormalMean(OneParameterFamily, ConjugatePosterior):
    """mean ~ N(prior_mean, prior_variance); each record is N(mean, variance), clamped to public bounds.

    The conjugate update is that of a normal mean with known variance; the posterior predictive mean is the posterior
    mean.

    Source: Geumlek et al. 2017 sec. 3.3; Foulds et al. 2016 sec. 3.
    """

    name: ClassVar[str] = "normal-mean"
    summary: ClassVar[str] = "mean of a number of known variance, normal prior"
    card: ClassVar[Card] = Card(
        releases="Draws of the mean of a number whose variance is known (with ops and the rdp mechanisms).",
        guarantee="That of the mechanism. One record moves the sum by at most upper - lower.",
        assumptions="Each record holds one number; it is clamped to public bounds and rounded to a public grid of 2^20 "
        "steps. The variance is known and public. With impute:VALUE the custodian promises that VALUE is a fair "
        "stand-in.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.3; Foulds et al. 2016, sec. 3.1.",
        corrections="The range of the log likelihood ratio is (upper - lower)(high - low) / variance on a support "
        "[low, high] of the mean: half of the papers' 2 Delta for symmetric bounds.",
        prefer_when="The mean of a measurement whose spread is well known.",
    )
    domain_type: ClassVar[type[Section]] = NormalMeanDomain
    prior_type: ClassVar[type[Section]] = NormalMeanPrior

    lower: float
    upper: float
    variance: float
    prior_mean: float
    prior_variance: float

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec."""
        bounds, normal = expect(domain, NormalMeanDomain), expect(prior, NormalMeanPrior)
        return cls(bounds.lower, bounds.upper, bounds.variance, normal.mean, normal.variance)

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The number."""
        return (NumericColumn("value", self.lower, self.upper, STEPS),)

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter, the mean."""
        return ("mean",)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return {"mean": mean[0]}

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sum of the codes, and the number of valid records where it is private.

        Privacy: that of ``sum_statistic``: at most the number of grid steps, and one more where records are dropped.
        Source: mechanisms, integer statistics on a public grid.
        """
        return sum_statistic(self.columns[0], policy)

    @property
    def parameter_range(self) -> tuple[float, float]:
        """Any number."""
        return (-float("inf"), float("inf"))

    @property
    def default_support(self) -> tuple[float, float]:
        """The bounds of the records."""
        return (self.lower, self.upper)

    @property
    def grid(self) -> tuple[Fraction, Fraction, int]:
        """Numbers are the lower bound plus multiples of (upper - lower) over 2^20."""
        lower = Fraction(self.lower)
        return lower, (Fraction(self.upper) - lower) / STEPS, STEPS

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return mean / variance and -mean^2 / (2 variance): the log likelihood is their sum with sum x and n."""
        variance = arithmetic.number(self.variance)
        return theta / variance, -theta * theta / (2 * variance)

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of the normal prior."""
        away = theta - arithmetic.number(self.prior_mean)
        return -away * away / (2 * arithmetic.number(self.prior_variance))

    def simulate(self, n_records: int, rng: "np.random.Generator") -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw from the prior predictive."""
        mean = float(rng.normal(self.prior_mean, self.prior_variance**0.5))
        (column,) = self.columns
        return (mean,), (column.total_code(rng.normal(mean, self.variance**0.5, n_records)),)

    def family(self, n_records: int) -> NormalFamily:
        """Return the normal posterior."""
        prior = (self.prior_mean, self.prior_variance)
        return NormalFamily(*prior, self.variance, self.lower, self.upper, n_records)

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the numbers."""
        return (self.total(values, n_records),)
