"""Normal mean: the mean of a number whose variance is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.core.columns import NumericColumn, Outside, check_bounds
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.conjugate_number import ConjugateNumber
from dpbayes_cli.models.families.number_families import NumberFamily
from dpbayes_cli.privacy.real_conjugate import NormalFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Complexes, Floats

STEPS = 1 << 20
"""Grid steps between the bounds."""
MAX_BOUND = 1e12


class NormalMeanDomain(Section, frozen=True, kw_only=True):
    """The public bounds of a number, and its known variance."""

    lower: Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND, description="the lower bound")]
    upper: Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND, description="the upper bound")]
    variance: Annotated[Positive, Meta(description="the known variance of a record")]
    out_of_bounds: Annotated[Outside, Meta(description="clamp numbers outside to the bound, or drop the record")] = (
        "clamp"
    )

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


class NormalMeanPrior(Section, frozen=True, kw_only=True):
    """Normal prior of the mean."""

    mean: Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND, description="mean of the normal prior")] = 0.0
    variance: Annotated[Positive, Meta(description="variance of the normal prior")] = 1.0


@dataclass(frozen=True)
class NormalNumbers(NumberFamily):
    """Normal numbers of known variance, with a normal prior on their mean; the coordinate is the mean."""

    prior_mean: float
    prior_variance: float
    variance: float
    lattice: ClassVar[bool] = False

    @property
    def prior_range(self) -> tuple[float, float]:
        """The interval of seven prior standard deviations on both sides of the prior mean."""
        reach = 7.1 * self.prior_variance**0.5
        return self.prior_mean - reach, self.prior_mean + reach

    def draw_prior(self, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw means."""
        return rng.normal(self.prior_mean, self.prior_variance**0.5, size)

    def log_prior(self, coordinate: "Floats") -> "Floats":
        """Return the normal log density."""
        return -((coordinate - self.prior_mean) ** 2) / (2.0 * self.prior_variance)

    def parameter(self, coordinate: "Floats") -> "Floats":
        """Return the mean."""
        return coordinate

    def complete_data_sd(self, coordinate: "Floats", n_records: "Floats") -> "Floats":
        """Return the sd of the normal posterior."""
        return 1.0 / (1.0 / self.prior_variance + n_records / self.variance) ** 0.5 + 0.0 * coordinate

    def draw_conjugate(self, total: float, n_records: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw from the normal posterior."""
        precision = 1.0 / self.prior_variance + n_records / self.variance
        mean = (self.prior_mean / self.prior_variance + total / self.variance) / precision
        return rng.normal(mean, precision**-0.5, size)

    def masses(self, coordinate: "Floats", lower: float, upper: float) -> "tuple[Floats, Floats, Floats]":
        """Return the probabilities below, inside and above the bounds."""
        import numpy as np
        from scipy.special import ndtr

        from dpbayes_cli.models.families.truncated_normal import interval_moments

        sd, half, middle = self.variance**0.5, (upper - lower) / 2.0, (upper + lower) / 2.0
        inside = interval_moments((coordinate - middle) / half, np.full_like(coordinate, sd / half), 0)[0]
        return np.asarray(ndtr((lower - coordinate) / sd)), inside, np.asarray(ndtr((coordinate - upper) / sd))

    def transform(
        self, coordinate: "Floats", frequencies: "Floats | Complexes", lower: float, upper: float
    ) -> "Complexes":
        """Return the characteristic function inside the bounds."""
        from dpbayes_cli.models.families.truncated_normal import interval_transform

        half, middle = (upper - lower) / 2.0, (upper + lower) / 2.0
        return interval_transform(coordinate - middle, self.variance**0.5, frequencies, -half, half)

    def moments(self, coordinate: "Floats", lower: float, upper: float) -> "tuple[Floats, Floats]":
        """Return the first two moments inside the bounds, of the number scaled to [-1, 1]."""
        import numpy as np

        from dpbayes_cli.models.families.truncated_normal import interval_moments

        half, middle = (upper - lower) / 2.0, (upper + lower) / 2.0
        sd = np.full_like(coordinate, self.variance**0.5 / half)
        _, first, second = interval_moments((coordinate - middle) / half, sd, 2)
        return first, second


@dataclass(frozen=True)
class NormalMean(ConjugateNumber):
    """mean ~ N(prior_mean, prior_variance); each record is N(mean, variance), clamped to public bounds.

    The conjugate update is that of a normal mean with known variance; the posterior predictive mean is the posterior
    mean.

    Source: Geumlek et al. 2017 sec. 3.3; Foulds et al. 2016 sec. 3.
    """

    name: ClassVar[str] = "normal-mean"
    summary: ClassVar[str] = "mean of a number of known variance, normal prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the numbers, clamped to public bounds, and, if it is private, the noisy number of "
        "records that count; and the posterior of the mean inferred from them. With ops and the rdp mechanisms: draws "
        "of the mean.",
        guarantee="The mechanism gives the guarantee. One record moves the sum by at most upper - lower.",
        assumptions="Each record holds one number, clamped to public bounds or dropped, and rounded to a public grid "
        "of 2^20 steps. The variance is known and public. With impute:VALUE, the custodian states that VALUE is a "
        "fair stand-in.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.3; Foulds et al. 2016, sec. 3.1.",
        corrections="On a support [low, high] of the mean, the range of the log likelihood ratio is (upper - "
        "lower)(high - low) / variance: half of the papers' 2 Delta for symmetric bounds. Inference accounts for the "
        "clamping; draws by ops and the rdp mechanisms ignore it.",
        prefer_when="You want the mean of a measurement whose spread is well known.",
    )
    domain_type: ClassVar[type[Section]] = NormalMeanDomain
    prior_type: ClassVar[type[Section]] = NormalMeanPrior
    bound_keys: ClassVar[tuple[str, ...]] = ("lower", "upper")
    examples: ClassVar[tuple[Example, ...]] = (Example({"lower": -3.0, "upper": 1.5, "variance": 2.0}),)
    first_spec: ClassVar[Mapping[str, str]] = {"lower": "0", "upper": "100", "variance": "1"}
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:50"}

    lower: float
    upper: float
    variance: float
    prior_mean: float
    prior_variance: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its sections of a spec."""
        bounds, normal = require_type(domain, NormalMeanDomain), require_type(prior, NormalMeanPrior)
        return cls(bounds.lower, bounds.upper, bounds.variance, normal.mean, normal.variance, bounds.out_of_bounds)

    @property
    def column(self) -> NumericColumn:
        """The number."""
        return NumericColumn("value", self.lower, self.upper, STEPS, outside=self.out_of_bounds)

    @property
    def number_family(self) -> NormalNumbers:
        """The normal law, with the prior of its mean."""
        return NormalNumbers(self.prior_mean, self.prior_variance, self.variance)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw numbers."""
        return rng.normal(parameter, self.variance**0.5, size)

    @property
    def parameters(self) -> tuple[str, ...]:
        """One parameter, the mean."""
        return ("mean",)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return {"mean": mean[0]}

    @property
    def parameter_range(self) -> tuple[float, float]:
        """The real line."""
        return (-float("inf"), float("inf"))

    @property
    def default_support(self) -> tuple[float, float]:
        """The bounds of the records."""
        return (self.lower, self.upper)

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return mean / variance and -mean^2 / (2 variance): the log likelihood is their sum with sum x and n."""
        variance = arithmetic.number(self.variance)
        return theta / variance, -theta * theta / (2 * variance)

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        """Return the log density of the normal prior."""
        offset = theta - arithmetic.number(self.prior_mean)
        return -offset * offset / (2 * arithmetic.number(self.prior_variance))

    def family(self, n_records: int) -> NormalFamily:
        """Return the normal posterior."""
        prior = (self.prior_mean, self.prior_variance)
        return NormalFamily(*prior, self.variance, self.lower, self.upper, n_records)
