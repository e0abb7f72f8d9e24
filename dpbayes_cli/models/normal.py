"""Normal: the mean and the variance of a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.core.columns import NumericColumn, Outside, RecordPolicy, check_bounds
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.noisy_observation import NoisySums
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.core.statistic import Statistic, can_be_null, second_moments
from dpbayes_cli.models.families.bounded_numbers import BoundedNumber
from dpbayes_cli.models.families.capabilities import record_count
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.normal_records import NormalRecords

STEPS = 1 << 14
"""Number of grid steps between the bounds; the sum of the squares of a billion codes stays below 2^60."""


class NormalDomain(Section, frozen=True, kw_only=True):
    """The public bounds of a number."""

    lower: Annotated[Bound, Meta(description="the lower bound")]
    upper: Annotated[Bound, Meta(description="the upper bound")]
    out_of_bounds: Annotated[
        Outside, Meta(description="clamp a number out of bounds to the nearer bound, or drop its record")
    ] = "clamp"

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


class NormalPrior(Section, frozen=True, kw_only=True):
    """Normal-inverse-gamma prior: 1 / variance is Gamma(shape, rate), and the mean is N(mean, variance / strength)."""

    mean: Annotated[Bound, Meta(description="the prior expectation of the mean")] = 0.0
    strength: Annotated[Positive, Meta(description="weight of the prior mean, in records")] = 1.0
    shape: Annotated[Positive, Meta(description="shape of the Gamma prior of 1 / variance")] = 2.0
    rate: Annotated[
        Positive, Meta(description="rate of the Gamma prior of 1 / variance: the shape times a typical variance")
    ] = 2.0


@dataclass(frozen=True)
class Normal(BoundedNumber):
    """Each record is N(mean, variance) with both parameters unknown, clamped or dropped at public bounds.

    1 / variance ~ Gamma(shape, rate); mean | variance ~ N(prior mean, variance / strength).

    Source: Bernstein and Sheldon 2018 sec. 3.3, Alg. 2-3 (univariate families with truncation); Foulds et al. 2016
        sec. 3.
    """

    name: ClassVar[str] = "normal"
    summary: ClassVar[str] = "mean and variance of a number, normal-inverse-gamma prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the numbers and the noisy sum of their squares; also the noisy number of valid "
        "records, unless this number is public. From the released numbers, inference computes the joint posterior of "
        "mean and variance.",
        guarantee="The mechanism gives the guarantee. In units of the range, one record moves the sum, the sum of "
        "squares and the count together by at most 4, although their separate sensitivities add up to 5. The count "
        "adds nothing to this bound.",
        assumptions="Each record holds one number, rounded to a public grid of 2^14 steps between public bounds; a "
        "number out of bounds is clamped to the nearer bound or dropped. Before rounding and clamping, numbers are "
        "normal. Inference treats the sum of many records as normal given the parameters. With impute:VALUE, an "
        "invalid cell counts as if it held VALUE; the custodian states that VALUE is a fair stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3 and Alg. 2-3; Park and Casella 2008 (scale mixture).",
        corrections="The paper's listing omits a factor from the mean of a random sum, and draws the truncated sum "
        "from its prior. It also treats the three regions of the sum as independent, which makes variances 1.21 times "
        "too large in the paper's own example. Here the mean and the covariance of the sums are the number of records "
        "times the mean and the covariance of one clamped or dropped number. The sums are drawn from their law given "
        "the released numbers.",
        prefer_when="You have a measurement of unknown mean and spread. If the spread is known, normal-mean spends "
        "all of the budget on the mean.",
    )
    domain_type: ClassVar[type[Section]] = NormalDomain
    prior_type: ClassVar[type[Section]] = NormalPrior
    suggested_for: ClassVar[str] = "numbers"
    bound_keys: ClassVar[tuple[str, ...]] = ("lower", "upper")
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"lower": -3.0, "upper": 1.5}),
        Example({"lower": 0.0, "upper": 1.5, "out_of_bounds": "drop"}),
    )
    first_spec: ClassVar[Mapping[str, str]] = {"lower": "0", "upper": "100"}
    parameters: ClassVar[tuple[str, ...]] = ("mean", "variance")

    lower: float
    upper: float
    prior_mean: float
    strength: float
    shape: float
    rate: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        bounds, normal = require_type(domain, NormalDomain), require_type(prior, NormalPrior)
        parts = (normal.mean, normal.strength, normal.shape, normal.rate)
        return cls(bounds.lower, bounds.upper, *parts, bounds.out_of_bounds)

    @property
    def column(self) -> NumericColumn:
        return NumericColumn("value", self.lower, self.upper, STEPS, outside=self.out_of_bounds)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        return {"mean": mean[0]}

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sum and the sum of squares; also the number of valid records, if that number is private.

        Privacy: see ``second_moments``: for one column with S grid steps, the L1 sensitivity is 4 S^2.
        Source: design notes, integer statistics on a public grid.
        """
        return second_moments(self.columns, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        counted, total = can_be_null(policy, self.column), record_count(policy, n_records)
        inside = total.kind == "unbounded" and self.out_of_bounds == "drop"
        return NoisySums(self._law(counted, inside), tuple(released), noise, total, STEPS**2 if counted else 0)

    def _law(self, counted: bool, inside: bool) -> "NormalRecords":
        from dpbayes_cli.models.families.normal_records import NormalRecords

        return NormalRecords(self.prior_mean, self.strength, self.shape, self.rate, self.column, counted, inside)

    def draw_records(self, n_records: int, rng: "np.random.Generator") -> "tuple[tuple[float, ...], Floats]":
        law = self._law(counted=False, inside=False)
        mean, variance = law.parameters(law.draw_prior(1, rng))[0].tolist()
        return (mean, variance), rng.normal(mean, variance**0.5, n_records)
