"""Gamma-Poisson: the rate of a count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.conjugate_number import ConjugateNumber
from dpbayes_cli.models.families.gamma_rate import GammaPrior, GammaRate, LogOfGamma
from dpbayes_cli.models.families.number_families import LatticeFamily
from dpbayes_cli.models.families.whole_number import WholeNumber, WholeNumberDomain
from dpbayes_cli.privacy.real_conjugate import GammaShapeFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class PoissonCounts(LogOfGamma, LatticeFamily):
    """Poisson counts, with a Gamma prior on their rate."""

    shape: float
    rate: float

    def complete_data_sd(self, coordinate: "Floats", n_records: "Floats") -> "Floats":
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
        """Return the ends of an interval outside which the probability is below 1e-15."""
        import numpy as np

        mean = np.exp(coordinate)
        return mean - 9.0 * np.sqrt(mean), mean + 9.0 * np.sqrt(mean) + 24.0


@dataclass(frozen=True)
class GammaPoisson(WholeNumber, ConjugateNumber, GammaRate):
    """rate ~ Gamma(shape, rate); each record is a count, Poisson(rate), clamped to a public bound.

    The conjugate update adds the sum of the counts to the shape and their number to the rate; the posterior predictive
    mean of a count is the posterior mean of the rate.

    Source: Geumlek et al. 2017 sec. 3.2; Bernstein and Sheldon 2018 sec. 3.3.
    """

    name: ClassVar[str] = "gamma-poisson"
    summary: ClassVar[str] = "rate of a count, Gamma prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the counts, clamped to a public bound, and, if it is private, the noisy number of "
        "records that count; and the posterior of the rate inferred from them. With ops and the rdp mechanisms: draws "
        "of the rate.",
        guarantee="The mechanism gives the guarantee. One record moves the sum of counts by at most the public bound.",
        assumptions="Each record holds one count; counts outside 0 and the public bound are clamped or dropped. With "
        "impute:VALUE, the custodian states that VALUE is a fair stand-in.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.2; Foulds et al. 2016, sec. 3.1.",
        corrections="Inference accounts for the clamping: the likelihood of clamped counts is exact, by inversion of "
        "the characteristic function. Draws by ops and the rdp mechanisms ignore the clamping. If many counts exceed "
        "the bound, which is public and chosen beforehand, the rate is biased downwards.",
        prefer_when="You ask how often something happens to each person: visits, relapses, claims.",
    )
    prior_type: ClassVar[type[Section]] = GammaPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        Example({"upper": upper}, {"shape": 2.0}, support=(0.5, 4.0)) for upper in (2, 1)
    )
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:1", "sampling.support": "[0.01, 100]"}

    upper: int
    shape: float
    rate: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its sections of a spec."""
        bounds, gamma = require_type(domain, WholeNumberDomain), require_type(prior, GammaPrior)
        return cls(bounds.upper, gamma.shape, gamma.rate, bounds.out_of_bounds)

    @property
    def number_family(self) -> PoissonCounts:
        """The Poisson law, with the prior of its rate."""
        return PoissonCounts(self.shape, self.rate)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw counts."""
        return rng.poisson(parameter, size).astype(float)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return {"mean": mean[0]}

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return log rate and -rate: the log likelihood is (sum x) log rate - n rate."""
        return arithmetic.log(theta), -theta

    def family(self, n_records: int) -> GammaShapeFamily:
        """Return the family of Gamma posteriors; the data change the shape."""
        return GammaShapeFamily(self.shape, self.rate, float(self.upper), n_records)
