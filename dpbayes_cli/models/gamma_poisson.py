"""Gamma-Poisson: the rate of a count."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily
from dpbayes_cli.contracts import Card, Positive, Section, expect
from dpbayes_cli.privacy.conjugate import GammaShapeFamily
from dpbayes_cli.statistic import NumericColumn, RecordPolicy, Statistic, sum_statistic

if TYPE_CHECKING:
    import numpy as np


class GammaPoissonDomain(Section, frozen=True, kw_only=True):
    """The public bound of a count."""

    upper: Annotated[int, Meta(ge=1, le=1_000_000, description="counts above this are clamped to it")]


class GammaPoissonPrior(Section, frozen=True, kw_only=True):
    """Gamma prior of the rate."""

    shape: Annotated[Positive, Meta(description="shape of the Gamma prior")] = 1.0
    rate: Annotated[Positive, Meta(description="rate of the Gamma prior")] = 1.0


@dataclass(frozen=True)
class GammaPoisson(OneParameterFamily, ConjugatePosterior):
    """rate ~ Gamma(shape, rate); each record is a count, Poisson(rate), clamped to a public bound.

    The conjugate update adds the sum of the counts to the shape and their number to the rate; the posterior predictive
    mean of a count is the posterior mean of the rate.

    Source: Geumlek et al. 2017 sec. 3.2; Bernstein and Sheldon 2018 sec. 3.3.
    """

    name: ClassVar[str] = "gamma-poisson"
    summary: ClassVar[str] = "rate of a count, Gamma prior"
    card: ClassVar[Card] = Card(
        releases="Draws of the rate of a Poisson count (with ops and the rdp mechanisms).",
        guarantee="That of the mechanism. One record moves the sum of the counts by at most the public bound.",
        assumptions="Each record holds one count, an integer; larger ones are clamped to the public bound, smaller "
        "ones "
        "to 0. With impute:VALUE the custodian promises that VALUE is a fair stand-in.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.2; Foulds et al. 2016, sec. 3.1.",
        corrections="Clamping at the bound biases the rate downwards where many counts exceed it; the bound is public "
        "and chosen beforehand, not after the data.",
        prefer_when="How often something happens to each person: visits, relapses, claims.",
    )
    domain_type: ClassVar[type[Section]] = GammaPoissonDomain
    prior_type: ClassVar[type[Section]] = GammaPoissonPrior

    upper: int
    shape: float
    rate: float

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec."""
        gamma = expect(prior, GammaPoissonPrior)
        return cls(expect(domain, GammaPoissonDomain).upper, gamma.shape, gamma.rate)

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The count."""
        return (NumericColumn("value", 0.0, float(self.upper), self.upper, integers=True),)

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter, the rate."""
        return ("rate",)

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
        """A positive number."""
        return (0.0, float("inf"))

    @property
    def default_support(self) -> None:
        """It must be stated."""
        return

    @property
    def grid(self) -> tuple[Fraction, Fraction, int]:
        """Counts are integers."""
        return Fraction(0), Fraction(1), self.upper

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return log rate and -rate: the log likelihood is (sum x) log rate - n rate."""
        return arithmetic.log(theta), -theta

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of Gamma(shape, rate)."""
        return (arithmetic.number(self.shape) - 1) * arithmetic.log(theta) - arithmetic.number(self.rate) * theta

    def simulate(self, n_records: int, rng: "np.random.Generator") -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw from the prior predictive."""
        rate = float(rng.gamma(self.shape, 1.0 / self.rate))
        return (rate,), (int(rng.poisson(rate, n_records).clip(0, self.upper).sum()),)

    def family(self, n_records: int) -> GammaShapeFamily:
        """Return the Gamma posterior, whose shape the data move."""
        return GammaShapeFamily(self.shape, self.rate, float(self.upper), n_records)

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the counts."""
        return (Fraction(values[0]),)
