"""Gamma-exponential: the rate of a waiting time."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily
from dpbayes_cli.contracts import Card, Positive, Section, expect
from dpbayes_cli.privacy.conjugate import GammaRateFamily
from dpbayes_cli.statistic import NumericColumn, RecordPolicy, Statistic, sum_statistic

if TYPE_CHECKING:
    import numpy as np

STEPS = 1 << 20
"""Grid steps between the bounds."""


class GammaExponentialDomain(Section, frozen=True, kw_only=True):
    """The public bound of a waiting time."""

    upper: Annotated[float, Meta(gt=0.0, le=1e12, description="times above this are clamped to it")]


class GammaExponentialPrior(Section, frozen=True, kw_only=True):
    """Gamma prior of the rate."""

    shape: Annotated[Positive, Meta(description="shape of the Gamma prior")] = 1.0
    rate: Annotated[Positive, Meta(description="rate of the Gamma prior")] = 1.0


@dataclass(frozen=True)
class GammaExponential(OneParameterFamily, ConjugatePosterior):
    """rate ~ Gamma(shape, rate); each record is a waiting time, exponential with that rate, clamped to a public bound.

    The conjugate update adds the number of records to the shape and the sum of the times to the rate.

    Source: Bernstein and Sheldon 2018 sec. 3.3 and Fig. 1 (exponential); Geumlek et al. 2017 sec. 3.
    """

    name: ClassVar[str] = "gamma-exponential"
    summary: ClassVar[str] = "rate of a waiting time, Gamma prior"
    card: ClassVar[Card] = Card(
        releases="Draws of the rate of an exponential waiting time (with ops and the rdp mechanisms).",
        guarantee="That of the mechanism. One record moves the sum of the times by at most the public bound.",
        assumptions="Each record holds one non-negative number; larger ones are clamped to the public bound. Numbers "
        "are rounded to a public grid of 2^20 steps. With impute:VALUE the custodian promises that VALUE is a fair "
        "stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3; Geumlek, Song and Chaudhuri 2017, sec. 3.",
        corrections="Clamping at the bound biases the rate upwards where many times exceed it; the bound is public and "
        "chosen beforehand, not after the data.",
        prefer_when="How long until something happens, without censoring.",
    )
    domain_type: ClassVar[type[Section]] = GammaExponentialDomain
    prior_type: ClassVar[type[Section]] = GammaExponentialPrior

    upper: float
    shape: float
    rate: float

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec."""
        gamma = expect(prior, GammaExponentialPrior)
        return cls(expect(domain, GammaExponentialDomain).upper, gamma.shape, gamma.rate)

    @property
    def columns(self) -> tuple[NumericColumn, ...]:
        """The waiting time."""
        return (NumericColumn("value", 0.0, self.upper, STEPS),)

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter, the rate."""
        return ("rate",)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record at the posterior mean of the rate."""
        return {"mean": 1.0 / mean[0]}

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
        """Times are multiples of the bound over 2^20."""
        return Fraction(0), Fraction(self.upper) / STEPS, STEPS

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return -rate and log rate: the log likelihood is n log rate - rate (sum x)."""
        return -theta, arithmetic.log(theta)

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of Gamma(shape, rate)."""
        return (arithmetic.number(self.shape) - 1) * arithmetic.log(theta) - arithmetic.number(self.rate) * theta

    def simulate(self, n_records: int, rng: "np.random.Generator") -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Draw from the prior predictive."""
        rate = float(rng.gamma(self.shape, 1.0 / self.rate))
        (column,) = self.columns
        return (rate,), (column.total_code(rng.exponential(1.0 / rate, n_records)),)

    def family(self, n_records: int) -> GammaRateFamily:
        """Return the Gamma posterior, whose rate the data move."""
        return GammaRateFamily(self.shape, self.rate, self.upper, n_records)

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the times."""
        return (self.total(values, n_records),)
