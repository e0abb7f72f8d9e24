"""Multivariate normal: the mean vector and the covariance matrix of several numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.models.families.joint_normal import JointNormal, NumberBounds, prior_by_column

if TYPE_CHECKING:
    from dpbayes_cli.models.families.wishart_records import WishartRecords

MAX_COLUMNS = 20


class MultivariateNormalDomain(Section, frozen=True, kw_only=True):
    """The columns by name, with public bounds."""

    columns: Annotated[
        dict[str, NumberBounds],
        Meta(
            min_length=1,
            max_length=MAX_COLUMNS,
            description="for each column {lower: X, upper: X}, in any order",
        ),
    ]


class MultivariateNormalPrior(Section, frozen=True, kw_only=True):
    """Normal-inverse-Wishart prior: E[covariance] = diag(deviation^2); the mean is N(mean, covariance / strength)."""

    mean: Annotated[
        dict[str, Bound],
        Meta(description="for each column the prior mean [middle]"),
    ] = msgspec.field(default_factory=dict)
    deviation: Annotated[
        dict[str, Positive], Meta(description="for each column the prior standard deviation [a sixth of the range]")
    ] = msgspec.field(default_factory=dict)
    strength: Annotated[Positive, Meta(description="weight of the prior mean, in records")] = 1.0
    freedom: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e6)] | None,
        Meta(description="degrees of freedom of the inverse Wishart prior, for D columns more than D + 1 [D + 3]"),
    ] = None


@dataclass(frozen=True)
class MultivariateNormal(JointNormal):
    """Records are N(mean, covariance) vectors, each number clamped to public bounds.

    covariance ~ inverse Wishart(freedom, diagonal scale); mean | covariance ~ N(prior mean, covariance / strength).

    Source: Bernstein and Sheldon 2018 sec. 3.2 (bounded statistics, Alg. 1); Foulds et al. 2016 sec. 3.
    """

    name: ClassVar[str] = "multivariate-normal"
    summary: ClassVar[str] = "mean vector and covariance matrix, normal-inverse-Wishart prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sums, squares and products of D columns; also the noisy number of valid records, unless "
        "this number is public. From the released numbers, inference computes the joint posterior of the means and "
        "the covariance matrix.",
        guarantee="The mechanism gives the guarantee. In units of the columns' ranges, one record moves all released "
        "numbers together by at most (D + 1)^2 in L1. The squared L2 change is at most 4 (D + 1)^2 if D is odd, and 4 "
        "(D + 1)^2 - 4 if D is even. The record count adds nothing to these bounds.",
        assumptions="Each record holds D numbers. Each number is clamped to its public bounds and rounded to a public "
        "grid of 2^14 steps; a record with an invalid number is invalid. Inference assumes that no number reaches its "
        "bounds, and warns if the posterior contradicts this. Inference also treats the sums of many records as normal "
        "given the parameters. With impute:VALUE, an invalid cell of any column counts as if it held VALUE; the "
        "custodian states that VALUE is a fair stand-in. "
        "The bounds must be stated; they cannot be chosen privately.",
        source="Bernstein and Sheldon 2018, sec. 3.2 and Alg. 1; Park and Casella 2008 (scale mixture); Bartlett 1933.",
        corrections="The noisy matrix of second moments need not be positive definite. Inference does not repair it, "
        "because it draws covariance matrices from a law on positive definite matrices, given the released numbers. "
        "The plug-in posterior (method: naive) replaces negative eigenvalues by 0.",
        prefer_when="You have several measurements of each person, and want to know how they vary together.",
    )
    domain_type: ClassVar[type[Section]] = MultivariateNormalDomain
    prior_type: ClassVar[type[Section]] = MultivariateNormalPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        Example({"columns": {name: {"lower": -1.0, "upper": 3.0} for name in names}}) for names in ("a", "ab", "abc")
    )
    first_spec: ClassVar[Mapping[str, str]] = {
        "columns": "{height: {lower: 100, upper: 220}, weight: {lower: 30, upper: 250}}",
    }

    freedom: float

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its sections of a spec.

        Raises:
            SpecError: the prior names an unknown column, or has too few degrees of freedom.
        """
        stated_prior = require_type(prior, MultivariateNormalPrior)
        columns = sorted(require_type(domain, MultivariateNormalDomain).columns.items())  # in any order: one request
        freedom = len(columns) + 3.0 if stated_prior.freedom is None else stated_prior.freedom
        if not freedom > len(columns) + 1:
            raise SpecError(
                f"freedom is {freedom:g}, expected more than {len(columns) + 1}; otherwise the prior covariance has "
                "no mean",
                where="prior.freedom",
            )
        bounds = tuple((name, box.lower, box.upper) for name, box in columns)
        by_column = prior_by_column(bounds, stated_prior.mean, stated_prior.deviation)
        return cls(bounds, *by_column, stated_prior.strength, freedom)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The means, then the variances and covariances row by row."""
        names = self.column_names
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
        spread = [f"variance[{a}]" if a == b else f"covariance[{a},{b}]" for a, b in pairs]
        return (*(f"mean[{name}]" for name in names), *spread)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        return dict(zip(self.column_names, mean, strict=False))

    def law(self, counted: bool) -> "WishartRecords":
        from dpbayes_cli.models.families.wishart_records import WishartRecords

        return WishartRecords(*self.scaled_prior, self.strength, self.freedom, self.columns, counted)
