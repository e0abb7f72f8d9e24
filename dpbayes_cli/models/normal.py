"""Normal: the mean and the variance of a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from msgspec import Meta
from msgspec.structs import asdict

from dpbayes_cli.core.columns import NumericColumn, Outside, RecordPolicy, check_bounds
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import (
    Fact,
    Findings,
    about_clamped_groups,
    mean_of,
    mean_of_clamped,
    of_clamped_normal,
)
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.noisy_observation import NoisySums, valid_count
from dpbayes_cli.core.second_moments import second_moments
from dpbayes_cli.core.section import Positive, Scale, Section, require_type, with_defaults
from dpbayes_cli.core.statistic import Statistic, can_be_null
from dpbayes_cli.models.families.bounded_numbers import BoundedNumber, simulated_quantiles
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.models.families.grouped import Groupable
from dpbayes_cli.models.families.joint_normal import Spread, check_one_prior, is_conjugate
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.normal_records import NormalGroups, NormalRecords

STEPS = 1 << 14
"""Number of grid steps between the bounds; the sum of the squares of a billion codes stays below 2^60."""


class NormalDomain(Section, frozen=True, kw_only=True):
    """The public bounds of a number."""

    lower: Annotated[Bound, Meta(description="the lower bound")]
    upper: Annotated[Bound, Meta(description="the upper bound")]
    out_of_bounds: Annotated[
        Literal["clamp", "drop", "recorded"],
        Meta(
            description="clamp a number out of bounds to the nearer bound, or drop its record; recorded: clamp it, and "
            "estimate mean and variance of the clamped numbers, which need not be normal"
        ),
    ] = "clamp"

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


class NormalPrior(Section, frozen=True, kw_only=True):
    """Either the default prior, which the key ``spread`` states, or a normal-inverse-gamma prior (all other keys).

    Under the default prior, the mean is uniform between the bounds and, given the mean, the standard deviation is
    half-normal. Under the normal-inverse-gamma prior, 1 / variance is Gamma(shape, rate), and the mean is N(mean,
    variance / strength).
    """

    spread: Spread = None
    mean: Annotated[
        Bound | None, Meta(description="normal-inverse-gamma: the prior expectation of the mean [middle]")
    ] = None
    strength: Annotated[
        Positive | None, Meta(description="normal-inverse-gamma: weight of the prior mean, in records [1]")
    ] = None
    shape: Annotated[
        Positive | None, Meta(description="normal-inverse-gamma: shape of the Gamma prior of 1 / variance [2]")
    ] = None
    rate: Annotated[
        Scale | None,
        Meta(description="normal-inverse-gamma: rate of that prior [shape times the square of a sixth of the range]"),
    ] = None

    def __post_init__(self) -> None:
        check_one_prior(self)


@dataclass(frozen=True)
class Normal(BoundedNumber, Groupable):
    """Each record is N(mean, variance) with both parameters unknown, clamped or dropped at public bounds.

    The default prior assumes only that most numbers lie between the bounds: mean ~ Uniform(lower, upper), and given the
    mean, sd ~ half-normal((mean - lower) * (upper - mean) / (upper - lower)). The density is nearly flat over all means
    and standard deviations of numbers between the bounds, including small standard deviations. A normal-inverse-gamma
    prior is less suitable if noise hides the variance: whatever its parameters are, it excludes small variances or
    large ones, and ties a mean near a bound to a large variance.

    With ``out_of_bounds: recorded``, mean and variance are those of the numbers after clamping, of any law, such as
    skewed counts or amounts. Then sd ~ half-normal(sqrt((mean - lower) * (upper - mean)) / 2), half of the largest
    standard deviation that numbers between the bounds can have.

    Source: Bernstein and Sheldon 2018 sec. 3.3, Alg. 2-3 (univariate families with truncation); Foulds et al. 2016
        sec. 3.
    """

    name: ClassVar[str] = "normal"
    summary: ClassVar[str] = "mean and variance of a number, bounded or normal-inverse-gamma prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the numbers and the noisy sum of their squares; also the noisy number of valid "
        "records, unless this number is public. From the released numbers, inference computes the joint posterior of "
        "mean and variance.",
        guarantee="The mechanism gives the guarantee. In units of the range, one record moves the sum, the sum of "
        "squares and the count together by at most 4, although their separate sensitivities add up to 5. The count "
        "adds nothing to this bound.",
        assumptions="Each record holds one number, rounded to a public grid of 2^14 steps between public bounds; a "
        "number out of bounds is clamped to the nearer bound or dropped. Before rounding and clamping, numbers are "
        "normal; with out_of_bounds: recorded, they may have any law, and the result describes them after clamping. "
        "Groups have a common variance. "
        "Inference treats the sum of many records as normal given the parameters. With impute:VALUE, an invalid cell "
        "counts as if it held VALUE; the custodian states that VALUE is a fair stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3 and Alg. 2-3; Park and Casella 2008 (scale mixture).",
        corrections="In the paper's algorithm, a factor is missing from the mean of the sum, and the sum of the "
        "numbers within the bounds is drawn from its prior. It also treats the three parts of the sum (records below, "
        "within and above the bounds) as independent, which makes variances 1.21 times too large in the paper's own "
        "example. Here the mean and the covariance of the sums are the number of records times the mean and the "
        "covariance of one clamped or dropped number. The sums are drawn from their law given the released numbers.",
        prefer_when="You have a measurement of unknown mean and spread. If numbers are skewed or many are at a bound, "
        "state --out-of-bounds recorded. If the spread is known, normal-mean spends all of the budget "
        "on the mean.",
    )
    domain_type: ClassVar[type[Section]] = NormalDomain
    prior_type: ClassVar[type[Section]] = NormalPrior
    suggested_for: ClassVar[str] = "numbers"
    bound_keys: ClassVar[tuple[str, ...]] = ("lower", "upper")
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"lower": -3.0, "upper": 1.5}),
        Example({"lower": 0.0, "upper": 1.5, "out_of_bounds": "drop"}, {"strength": 1.0}),
        Example({"lower": 0.0, "upper": 50.0, "out_of_bounds": "recorded"}),
    )
    first_spec: ClassVar[Mapping[str, str]] = {"lower": "0", "upper": "100"}
    parameters: ClassVar[tuple[str, ...]] = ("mean", "variance")
    sums_squares: ClassVar[bool] = True

    lower: float
    upper: float
    prior: NormalPrior
    out_of_bounds: Literal["clamp", "drop", "recorded"] = "clamp"

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        bounds, stated = require_type(domain, NormalDomain), require_type(prior, NormalPrior)
        if not is_conjugate(stated):
            return with_defaults(stated, spread=1.0)
        shape, sixth = stated.shape or 2.0, (bounds.upper - bounds.lower) / 6.0
        middle = (bounds.lower + bounds.upper) / 2.0
        return with_defaults(stated, mean=middle, strength=1.0, shape=shape, rate=shape * sixth**2)

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        bounds = require_type(domain, NormalDomain)
        whole = require_type(cls.complete_prior(domain, prior), NormalPrior)
        return cls(bounds.lower, bounds.upper, whole, bounds.out_of_bounds)

    @property
    def column(self) -> NumericColumn:
        outside: Outside = "drop" if self.out_of_bounds == "drop" else "clamp"
        return NumericColumn("value", self.lower, self.upper, STEPS, outside=outside)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        return {"mean": mean[0]}

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        spread = Fact("the standard deviation is about", 1, convert=lambda variance: max(variance, 0.0) ** 0.5)
        plain = Findings((mean_of(column), spread))
        if self.out_of_bounds == "drop":
            return plain
        if self.out_of_bounds == "recorded":
            return Findings((mean_of_clamped(column, self.lower, self.upper), spread))
        mean, variance = estimates
        clamped = of_clamped_normal(column, mean, variance, self.lower, self.upper, is_variance_known=False)
        return clamped or plain

    def prior_quantiles(self, levels: "Floats") -> "Floats":
        """Return simulated quantiles of the default prior, or exact quantiles of the conjugate prior."""
        import numpy as np
        from scipy.special import gammainccinv, stdtrit

        law = self._law(counted=False, inside=False)
        if self.prior.spread is not None:
            return simulated_quantiles(law, levels)
        center, strength, shape, rate = law.conjugate_prior
        mean = center + (rate / shape / strength) ** 0.5 * stdtrit(2.0 * shape, levels)
        return np.stack([mean, rate / gammainccinv(shape, levels)])

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sum and the sum of squares; also the number of valid records, if that number is private.

        Privacy: see ``second_moments``: for one column with S grid steps, the L1 sensitivity is 4 S^2.
        Source: derived here.
        """
        return second_moments(self.columns, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        counted, total = can_be_null(policy, self.column), valid_count(policy, n_records, self.column)
        inside = total.kind == "unbounded" and self.out_of_bounds == "drop"
        return NoisySums(self._law(counted, inside), tuple(released), noise, total, STEPS**2 if counted else 0)

    def _law(self, counted: bool, inside: bool) -> "NormalRecords":
        from dpbayes_cli.models.families.normal_records import BoundedNormalRecords, ConjugateNormalRecords

        spread, *conjugate = asdict(self.prior).values()
        stated = (self.column, counted, inside, self.out_of_bounds == "recorded")
        return (
            BoundedNormalRecords(*stated, spread) if spread is not None else ConjugateNormalRecords(*stated, *conjugate)
        )

    def group_outcome(self) -> "NormalGroups":
        from dpbayes_cli.models.families.normal_records import NormalGroups

        return NormalGroups(self.column, self._law(counted=True, inside=False))

    def parameters_by_group(self) -> tuple[str, ...]:
        return ("mean",)

    def group_facts(self, column: str, estimates: Sequence[float]) -> tuple[Fact, ...]:
        is_recorded = self.out_of_bounds == "recorded"
        mean = mean_of_clamped(column, self.lower, self.upper) if is_recorded else mean_of(column)
        return (mean, Fact("the standard deviation within a group is about", 2))

    def group_warning(self, estimates: Sequence[float]) -> str:
        mean, sd, sd_within, _ = estimates
        variance = sd**2 + sd_within**2
        clamps = self.out_of_bounds == "clamp"
        return about_clamped_groups(mean, variance, self.lower, self.upper) if clamps else ""

    def draw_outcomes(
        self, parameter: float, common: Sequence[float], size: int, rng: "np.random.Generator"
    ) -> "Floats":
        return rng.normal(parameter, common[2], size)

    def draw_records(self, n_records: int, rng: "np.random.Generator") -> "tuple[tuple[float, ...], Floats]":
        law = self._law(counted=False, inside=False)
        mean, variance = law.parameters(law.draw_prior(1, rng))[0].tolist()
        return (mean, variance), rng.normal(mean, variance**0.5, n_records)
