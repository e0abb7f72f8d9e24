"""Beta-geometric: the probability that an attempt succeeds, from the failures before the first success."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpbayes_cli.base.numeric import LEAST_DIVISOR
from dpbayes_cli.core.columns import Outside
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Section, require_type
from dpbayes_cli.models.families.beta_probability import BetaPrior, BetaProbability, LogitOfBeta
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.conjugate_number import ConjugateNumber
from dpbayes_cli.models.families.number_families import LatticeFamily
from dpbayes_cli.models.families.whole_number import WholeNumber, WholeNumberDomain
from dpbayes_cli.privacy.real_conjugate import BetaFailuresFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Complexes, Floats


@dataclass(frozen=True)
class GeometricNumbers(LogitOfBeta, LatticeFamily):
    """Failures before the first success, Beta prior on the probability of success; the coordinate is its logit."""

    alpha: float
    beta: float

    def complete_data_sd(self, coordinate: "Floats", n_records: "Floats") -> "Floats":
        """Return the sd of Beta(alpha + n, beta + n times the mean number of failures)."""
        import numpy as np

        first, second = self.alpha + n_records, self.beta + n_records * np.exp(np.minimum(-coordinate, 300.0))
        total = first + second
        return np.asarray(np.sqrt(first / total * (second / total) / (total + 1.0)))

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw from Beta(alpha + n, beta + total)."""
        return rng.beta(self.alpha + n_records, self.beta + total, size)

    def log_pmf(self, coordinate: "Floats", numbers: "Floats") -> "Floats":
        """Return the log probability of a number of failures."""
        import numpy as np

        return np.asarray(-np.logaddexp(0.0, -coordinate) - numbers * np.logaddexp(0.0, coordinate))

    def survival(self, coordinate: "Floats", number: float) -> "Floats":
        """Return the probability of more failures than a number."""
        import numpy as np

        return np.asarray(np.exp(-(np.floor(number) + 1.0) * np.logaddexp(0.0, coordinate)))

    def reach(self, coordinate: "Floats") -> "tuple[Floats, Floats]":
        """Return the ends of an interval outside which the probability is below 1e-15."""
        import numpy as np

        return np.zeros_like(coordinate), 36.0 / np.maximum(np.logaddexp(0.0, coordinate), 1e-300)

    def transform(
        self, coordinate: "Floats", frequencies: "Floats | Complexes", lower: float, upper: float
    ) -> "Complexes":
        """Return p (1 - r^(upper + 1)) / (1 - r), r = (1 - p) exp(i u), the sum of a geometric series."""
        import numpy as np

        log_ratio = 1j * frequencies - np.logaddexp(0.0, coordinate)
        is_near_one = np.abs(log_ratio) < 1e-12
        safe = np.where(is_near_one, 1.0, log_ratio)
        series = np.where(is_near_one, upper + 1.0, np.expm1((upper + 1.0) * safe) / np.expm1(safe))
        return np.asarray(np.exp(-np.logaddexp(0.0, -coordinate) - 0.5j * frequencies * upper) * series)


@dataclass(frozen=True)
class BetaGeometric(WholeNumber, ConjugateNumber, BetaProbability):
    """theta ~ Beta(alpha, beta); each record is a number of failures before a first success, clamped to a public bound.

    The conjugate update adds the number of records to alpha and the sum of the failures to beta.

    Source: Bernstein and Sheldon 2018 sec. 3.3 (univariate exponential families with truncation); Geumlek et al. 2017
        sec. 3 (draws).
    """

    name: ClassVar[str] = "beta-geometric"
    summary: ClassVar[str] = "probability of success from the failures before it, Beta prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the failures, clamped to a public bound, and, if it is private, the noisy number "
        "of records that count; and the posterior of the probability of success inferred from them. With gibbs, map, "
        "ops and the rdp mechanisms: draws of that probability, or an estimate of it.",
        guarantee="The mechanism gives the guarantee. One record moves the sum by at most the public bound.",
        assumptions="Each record holds one whole number, the failures before the first success; larger numbers are "
        "clamped to the public bound or dropped. Attempts are independent and have the same probability of success. "
        "With impute:VALUE, the custodian states that VALUE is a fair stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3 and Alg. 2-3; Geumlek, Song and Chaudhuri 2017, sec. 3.",
        corrections="Inference accounts for the clamping: the likelihood is exact, by inversion of the characteristic "
        "function, where the paper uses a normal approximation. Draws by gibbs, map, ops and the rdp mechanisms "
        "ignore the clamping. If many numbers exceed the bound, which is public and chosen beforehand, these draws "
        "are biased upwards.",
        prefer_when="You count how many tries something takes: attempts until admission, contacts until an answer.",
    )
    prior_type: ClassVar[type[Section]] = BetaPrior
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"upper": 3}, {"alpha": 2.0, "beta": 3.0}),
        Example({"upper": 4, "out_of_bounds": "drop"}, drawn=False),
    )

    upper: int
    alpha: float
    beta: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its sections of a spec."""
        bounds, beta = require_type(domain, WholeNumberDomain), require_type(prior, BetaPrior)
        return cls(bounds.upper, beta.alpha, beta.beta, bounds.out_of_bounds)

    @property
    def number_family(self) -> GeometricNumbers:
        """The geometric law, with the prior of its parameter."""
        return GeometricNumbers(self.alpha, self.beta)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw numbers of failures."""
        return (rng.geometric(max(parameter, 1e-15), size) - 1).astype(float)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean number of failures at the posterior mean of the probability."""
        return {"mean": (1.0 - mean[0]) / max(mean[0], LEAST_DIVISOR)}

    @property
    def default_support(self) -> tuple[float, float]:
        """From 0.1, or the probability at which the mean number of failures is the bound if that is less, to 0.9."""
        return (min(0.1, 1.0 / (1.0 + self.upper)), 0.9)

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return log(1 - theta) and log theta: the log likelihood is (sum x) log(1 - theta) + n log theta."""
        return arithmetic.log(1 - theta), arithmetic.log(theta)

    def family(self, n_records: int) -> BetaFailuresFamily:
        """Return the family of Beta posteriors; the data change the second shape."""
        return BetaFailuresFamily(self.alpha, self.beta, 1.0, float(self.upper), n_records)
