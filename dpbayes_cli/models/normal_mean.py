"""Normal mean: the mean of a number whose variance is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from msgspec import Meta
from msgspec.structs import asdict

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import NumericColumn, Outside, check_bounds
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings, about_clamped_groups, mean_of, of_clamped_normal
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Scale, Section, require_type, with_defaults
from dpbayes_cli.models.families.bounded_numbers import ConjugateNumber
from dpbayes_cli.models.families.capabilities import Arithmetic
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.privacy.real_conjugate import NormalFamily

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.normal_numbers import NormalNumbers

STEPS = 1 << 20
"""Number of grid steps between the bounds."""


class NormalMeanDomain(Section, frozen=True, kw_only=True):
    """The public bounds of a number, and its known variance."""

    lower: Annotated[Bound, Meta(description="the lower bound")]
    upper: Annotated[Bound, Meta(description="the upper bound")]
    variance: Annotated[Positive, Meta(description="the known variance of a record")]
    out_of_bounds: Annotated[
        Outside, Meta(description="clamp a number out of bounds to the nearer bound, or drop its record")
    ] = "clamp"

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


class NormalMeanPrior(Section, frozen=True, kw_only=True):
    """Either the default prior, a uniform mean, which the key ``margin`` states, or a normal prior (the other keys)."""

    margin: Annotated[
        Positive | None,
        Meta(
            description="the mean is uniform between the bounds and up to this share of the range beyond them; not for "
            "mechanisms that release draws, which have the normal prior [0.02]"
        ),
    ] = None
    mean: Annotated[Bound | None, Meta(description="mean of the normal prior [middle of the bounds]")] = None
    variance: Annotated[
        Scale | None,
        Meta(description="variance of the normal prior [square of half the range, at least the known variance]"),
    ] = None

    def __post_init__(self) -> None:
        if self.margin is not None and self.is_normal:
            raise ValueError("state margin, or mean and variance of a normal prior, but not both")

    @property
    def is_normal(self) -> bool:
        """Whether a key of the normal prior is stated."""
        return self.mean is not None or self.variance is not None


@dataclass(frozen=True)
class NormalMean(ConjugateNumber):
    """Each record is N(mean, variance), clamped to public bounds; the prior of the mean is uniform or normal.

    Under the default prior, the mean is uniform between the bounds and up to 2 % of the range beyond them. A prior with
    much mass beyond the bounds is less suitable: clamped numbers do not tell means beyond a bound from each other, so
    the posterior of a mean near a bound moves beyond it. With no mass beyond, the posterior would never reach the
    bound.

    Mechanisms that release draws of the mean need a normal prior. By default, its mean is the middle of the bounds, and
    its standard deviation is half the range. If the known variance of a record exceeds this prior variance, the known
    variance is used instead, so that the prior weighs at most one record. The posterior predictive mean is the
    posterior mean.

    Attributes:
        prior_mean, prior_variance: the normal prior; that of draws if ``margin`` is given.
        margin: see ``NormalMeanPrior``; None if the prior is normal.

    Source: Geumlek et al. 2017 sec. 3.3; Foulds et al. 2016 sec. 3.
    """

    name: ClassVar[str] = "normal-mean"
    summary: ClassVar[str] = "mean of a number of known variance, uniform or normal prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the numbers, each clamped to public bounds; also the noisy number of valid "
        "records, unless this number is public. From the released numbers, inference computes the posterior of the "
        "mean. The mechanisms ops and rdp-* release draws of the mean instead.",
        guarantee="The mechanism gives the guarantee. One record moves the sum by at most upper - lower.",
        assumptions="Each record holds one number, clamped to public bounds or dropped, and rounded to a public grid "
        "of 2^20 steps. The variance is known and public. With impute:VALUE, an invalid cell counts as if it held "
        "VALUE; the custodian states that VALUE is a fair stand-in.",
        source="Geumlek, Song and Chaudhuri 2017, sec. 3.3; Foulds et al. 2016, sec. 3.1.",
        corrections="If the mean is restricted to [low, high], the log likelihood ratio of two records varies with "
        "the mean by at most (upper - lower) * (high - low) / variance. For symmetric bounds, this is half of the "
        "papers' bound, 2 * Delta. Inference accounts for the clamping; draws by ops and rdp-* do not.",
        prefer_when="You want the mean of a measurement whose spread is well known.",
    )
    domain_type: ClassVar[type[Section]] = NormalMeanDomain
    prior_type: ClassVar[type[Section]] = NormalMeanPrior
    bound_keys: ClassVar[tuple[str, ...]] = ("lower", "upper")
    examples: ClassVar[tuple[Example, ...]] = (Example({"lower": -3.0, "upper": 1.5, "variance": 2.0}),)
    first_spec: ClassVar[Mapping[str, str]] = {"lower": "0", "upper": "100", "variance": "1"}
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:50"}
    parameters: ClassVar[tuple[str, ...]] = ("mean",)
    parameter_range: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))

    lower: float
    upper: float
    variance: float
    prior_mean: float
    prior_variance: float
    out_of_bounds: Outside = "clamp"
    margin: float | None = None

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        if not require_type(prior, NormalMeanPrior).is_normal:
            return with_defaults(prior, margin=0.02)
        return cls.complete_prior_of_draws(domain, prior)

    @classmethod
    def complete_prior_of_draws(cls, domain: Section, prior: Section) -> Section:
        if require_type(prior, NormalMeanPrior).margin is not None:
            hint = "state prior.mean and prior.variance instead, or leave the prior out"
            raise SpecError("draws of the mean need a normal prior", where="prior.margin", hint=hint)
        bounds = require_type(domain, NormalMeanDomain)
        middle, half = (bounds.lower + bounds.upper) / 2.0, (bounds.upper - bounds.lower) / 2.0
        return with_defaults(prior, mean=middle, variance=max(half**2, bounds.variance))

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        bounds = require_type(domain, NormalMeanDomain)
        margin = require_type(cls.complete_prior(domain, prior), NormalMeanPrior).margin
        normal = asdict(cls.complete_prior_of_draws(domain, prior if margin is None else NormalMeanPrior()))
        parts = bounds.variance, normal["mean"], normal["variance"]
        return cls(bounds.lower, bounds.upper, *parts, bounds.out_of_bounds, margin)

    @property
    def column(self) -> NumericColumn:
        return NumericColumn("value", self.lower, self.upper, STEPS, outside=self.out_of_bounds)

    @property
    def number_family(self) -> "NormalNumbers":
        from dpbayes_cli.models.families.normal_numbers import NormalNumbers, UniformMean

        if self.margin is not None:
            width = (self.upper - self.lower) * (1.0 + 2.0 * self.margin)
            return UniformMean((self.lower + self.upper) / 2.0, width**2 / 12.0, self.variance)
        return NormalNumbers(self.prior_mean, self.prior_variance, self.variance)

    def draw_numbers(self, parameter: float, size: int, rng: "np.random.Generator") -> "Floats":
        return rng.normal(parameter, self.variance**0.5, size)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        return {"mean": mean[0]}

    def variance_at(self, mean: float) -> float:
        return self.variance

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        plain = Findings((mean_of(column),))
        if self.out_of_bounds == "drop":
            return plain
        clamped = of_clamped_normal(column, estimates[0], self.variance, self.lower, self.upper, is_variance_known=True)
        return clamped or plain

    def group_warning(self, estimates: Sequence[float]) -> str:
        mean, sd = estimates[:2]
        clamps = self.out_of_bounds == "clamp"
        return about_clamped_groups(mean, self.variance + sd**2, self.lower, self.upper) if clamps else ""

    def prior_quantiles(self, levels: "Floats") -> "Floats":
        import numpy as np
        from scipy.special import ndtri

        if self.margin is not None:
            reach = self.margin * (self.upper - self.lower)
            low, high = self.lower - reach, self.upper + reach
            return np.asarray(low + (high - low) * levels)[None, :]
        return np.asarray(self.prior_mean + self.prior_variance**0.5 * ndtri(levels))[None, :]

    @property
    def default_support(self) -> tuple[float, float]:
        """The public bounds of the numbers."""
        return (self.lower, self.upper)

    def natural(self, theta: Any, arithmetic: Arithmetic) -> tuple[Any, Any]:
        """Return the coefficients of sum(x) and n in the log likelihood: mean / variance, -mean^2 / (2 * variance)."""
        variance = arithmetic.number(self.variance)
        return theta / variance, -theta * theta / (2 * variance)

    def log_prior(self, theta: Any, arithmetic: Arithmetic) -> Any:
        offset = theta - arithmetic.number(self.prior_mean)
        return -offset * offset / (2 * arithmetic.number(self.prior_variance))

    def family(self, n_records: int) -> NormalFamily:
        prior = (self.prior_mean, self.prior_variance)
        return NormalFamily(*prior, self.variance, self.lower, self.upper, n_records)
