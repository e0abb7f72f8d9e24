"""Gamma-Poisson: the rate of a count."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.contracts import Card, Positive, Section, expect
from dpbayes_cli.models.families.capabilities import Arithmetic, ConjugatePosterior, OneParameterFamily, WholeNumber
from dpbayes_cli.models.families.number_families import GammaPrior, LatticeFamily
from dpbayes_cli.privacy.real_conjugate import GammaShapeFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats


class GammaPoissonDomain(Section, frozen=True, kw_only=True):
    """The public bound of a count."""

    upper: Annotated[int, Meta(ge=1, le=1_000_000, description="the largest count; larger ones are out of bounds")]
    out_of_bounds: Annotated[
        Outside, Meta(description="what becomes of them: clamp to the bound, or drop the record")
    ] = "clamp"


class GammaPoissonPrior(Section, frozen=True, kw_only=True):
    """Gamma prior of the rate."""

    shape: Annotated[Positive, Meta(description="shape of the Gamma prior")] = 1.0
    rate: Annotated[Positive, Meta(description="rate of the Gamma prior")] = 1.0


@dataclass(frozen=True)
class PoissonCounts(GammaPrior, LatticeFamily):
    """Poisson counts, their rate with a Gamma prior."""

    shape: float
    rate: float

    def known_sd(self, coordinate: "Floats", n_records: "Floats") -> "Floats":
        """Return the sd of Gamma(shape + n times the mean count, rate + n)."""
        import numpy as np

        return np.asarray(np.sqrt(self.shape + n_records * np.exp(coordinate)) / (self.rate + n_records))

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw from Gamma(shape + total, rate + n)."""
        import numpy as np

        return np.asarray(rng.gamma(self.shape + total, 1.0 / (self.rate + n_records), size))

    def log_pmf(self, coordinate: "Floats", numbers: "Floats") -> "Floats":
        """Return the log probability of a count."""
        import numpy as np
        from scipy.special import gammaln

        return np.asarray(numbers * coordinate - np.exp(coordinate) - gammaln(numbers + 1.0))

    def survival(self, coordinate: "Floats", number: float) -> "Floats":
        """Return the probability of more than a number."""
        import numpy as np
        from scipy.special import gammainc

        return np.asarray(gammainc(np.floor(number) + 1.0, np.exp(coordinate)))

    def reach(self, coordinate: "Floats") -> "tuple[Floats, Floats]":
        """Return the ends of an interval that leaves out less than 1e-15."""
        import numpy as np

        mean = np.exp(coordinate)
        return mean - 9.0 * np.sqrt(mean), mean + 9.0 * np.sqrt(mean) + 24.0


@dataclass(frozen=True)
class GammaPoisson(WholeNumber, OneParameterFamily, ConjugatePosterior):
    """rate ~ Gamma(shape, rate); each record is a count, Poisson(rate), clamped to a public bound.

    The conjugate update adds the sum of the counts to the shape and their number to the rate; the posterior predictive
    mean of a count is the posterior mean of the rate.

    Source: Geumlek et al. 2017 sec. 3.2; Bernstein and Sheldon 2018 sec. 3.3.
    """

    name: ClassVar[str] = "gamma-poisson"
    summary: ClassVar[str] = "rate of a count, Gamma prior"
    card: ClassVar[Card] = Card(
        releases="The sum of the counts, clamped to a public bound, with noise (and the number of those that count, "
        "where it is private); from it the posterior of the rate. With ops and the rdp mechanisms draws of the rate.",
        guarantee="That of the mechanism. One record moves the sum of the counts by at most the public bound.",
        assumptions="Each record holds one count, an integer; larger ones are clamped to the public bound, smaller "
        "ones to 0. With impute:VALUE the custodian promises that VALUE is a fair stand-in.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.2; Foulds et al. 2016, sec. 3.1.",
        corrections="The posterior knows that counts are clamped: its likelihood is that of clamped counts, exact by "
        "inversion of the characteristic function. Draws by ops and the rdp mechanisms do not: there clamping biases "
        "the rate downwards where many counts exceed the bound, which is public and chosen beforehand.",
        prefer_when="How often something happens to each person: visits, relapses, claims.",
    )
    domain_type: ClassVar[type[Section]] = GammaPoissonDomain
    prior_type: ClassVar[type[Section]] = GammaPoissonPrior

    upper: int
    shape: float
    rate: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its parts of a spec."""
        bounds, gamma = expect(domain, GammaPoissonDomain), expect(prior, GammaPoissonPrior)
        return cls(bounds.upper, gamma.shape, gamma.rate, bounds.out_of_bounds)

    @property
    def number_family(self) -> PoissonCounts:
        """The Poisson law with its prior."""
        return PoissonCounts(self.shape, self.rate)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw counts."""
        return rng.poisson(parameter, size).astype(float)

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter, the rate."""
        return ("rate",)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return {"mean": mean[0]}

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

    def family(self, n_records: int) -> GammaShapeFamily:
        """Return the Gamma posterior, whose shape the data move."""
        return GammaShapeFamily(self.shape, self.rate, float(self.upper), n_records)

    def sums(self, values: Sequence[int], n_records: int) -> tuple[Fraction, ...]:
        """Return the sum of the counts."""
        return (Fraction(values[0]),)
