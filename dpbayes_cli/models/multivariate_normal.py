"""Multivariate normal: the mean vector and the covariance matrix of several numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.models.families.joint_normal import MAX_BOUND, JointNormal, NumberBounds
from dpbayes_cli.models.families.wishart_records import WishartRecords

if TYPE_CHECKING:
    pass

MAX_COLUMNS = 20


class MultivariateNormalDomain(Section, frozen=True, kw_only=True):
    """The columns, by their names in the file, with public bounds."""

    columns: Annotated[
        dict[str, NumberBounds],
        Meta(
            min_length=1,
            max_length=MAX_COLUMNS,
            description="column: {lower: X, upper: X}, one for each, in any order",
        ),
    ]


class MultivariateNormalPrior(Section, frozen=True, kw_only=True):
    """Normal-inverse-Wishart prior: E[covariance] = diag(deviation^2), mean ~ N(mean, covariance / strength)."""

    mean: Annotated[
        dict[str, Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND)]], Meta(description="column: prior mean [middle]")
    ] = msgspec.field(default_factory=dict)
    deviation: Annotated[
        dict[str, Positive], Meta(description="column: prior standard deviation of a record [a sixth of the range]")
    ] = msgspec.field(default_factory=dict)
    strength: Annotated[Positive, Meta(description="how many records the prior mean is worth")] = 1.0
    freedom: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e6)] | None,
        Meta(description="degrees of freedom of the inverse Wishart law, above columns + 1 [columns + 3]"),
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
        releases="The sums of D columns, of their squares and products, with noise, and the number of valid records "
        "where it is private; from them the joint posterior of means, variances and covariances, always positive "
        "definite.",
        guarantee="That of the mechanism. In units of the ranges one record moves all of them together by at most "
        "(D + 1)^2 in L1, and 4 (D + 1)^2 in squared L2, less 4 where D is even; the number of records costs nothing.",
        assumptions="Each record holds D numbers; each is clamped to its public bounds and rounded to a public grid "
        "of 2^14 steps; a record with an invalid number is invalid. The posterior takes the bounds for never reached, "
        "and warns where it expects otherwise. The sums of many records are taken to be normal given the parameters. "
        "With impute:VALUE the custodian promises that VALUE is a fair stand-in, in every column. The bounds are "
        "stated; they cannot be found privately.",
        source="Bernstein and Sheldon 2018, sec. 3.2 and Alg. 1; Park and Casella 2008 (scale mixture); Bartlett 1933.",
        corrections="The noisy matrix of second moments need not be positive definite, and is not repaired: "
        "covariances are drawn from a law on positive definite matrices, given what was released. The naive posterior "
        "is repaired, by cutting eigenvalues at 0.",
        prefer_when="Several measurements of one person, and how they go together.",
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
        """Build the model from its parts of a spec.

        Raises:
            SpecError: the prior names a column that the domain does not, or has too few degrees of freedom.
        """
        stated = require_type(prior, MultivariateNormalPrior)
        stated_columns = require_type(domain, MultivariateNormalDomain).columns
        columns = dict(sorted(stated_columns.items()))  # the same request, whatever the order in the spec
        for part in ("mean", "deviation"):
            for name in getattr(stated, part):
                if name not in columns:
                    raise SpecError(f"there is no column {name!r}", where=f"prior.{part}", hint=nearest(name, columns))
        freedom = len(columns) + 3.0 if stated.freedom is None else stated.freedom
        if not freedom > len(columns) + 1:
            raise SpecError(
                f"freedom is {freedom:g}: with {len(columns)} columns the prior covariance has no mean",
                where="prior.freedom",
                hint=f"more than {len(columns) + 1}",
            )
        bounds = tuple((name, box.lower, box.upper) for name, box in columns.items())
        mean = tuple(stated.mean.get(name, (low + high) / 2.0) for name, low, high in bounds)
        deviation = tuple(stated.deviation.get(name, (high - low) / 6.0) for name, low, high in bounds)
        return cls(bounds, mean, deviation, stated.strength, freedom)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The means, then the variances and covariances row by row."""
        names = self.column_names
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
        spread = [f"variance[{a}]" if a == b else f"covariance[{a},{b}]" for a, b in pairs]
        return (*(f"mean[{name}]" for name in names), *spread)

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return dict(zip(self.column_names, mean, strict=False))

    def law(self, counted: bool) -> WishartRecords:
        """Return the law of what a record adds; see ``JointNormal``."""
        return WishartRecords(*self.scaled_prior, self.strength, self.freedom, self.columns, counted)
