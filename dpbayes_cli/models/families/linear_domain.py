"""The target and the features of a linear regression in a spec."""

from typing import Annotated

from msgspec import Meta

from dpbayes_cli.core.columns import check_bounds
from dpbayes_cli.core.section import Level, Positive, Section
from dpbayes_cli.models.families.domain_types import Bound, StandIn
from dpbayes_cli.models.families.regression_domain import FeatureSection

MAX_FEATURES = 30


class Target(Section, frozen=True, kw_only=True):
    """The target, with its public bounds."""

    column: Annotated[str, Meta(min_length=1, description="the name of the column in the file")]
    lower: Annotated[Bound, Meta(description="the lower bound, to which lower numbers are clamped")]
    upper: Annotated[Bound, Meta(description="the upper bound, to which higher numbers are clamped")]

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


class LinearFeature(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A feature: a column of numbers with public bounds, or of texts with public values."""

    lower: Annotated[Bound | None, Meta(description="the lower bound, to which lower numbers are clamped")] = None
    upper: Annotated[Bound | None, Meta(description="the upper bound, to which higher numbers are clamped")] = None
    values: Annotated[
        tuple[Level, ...], Meta(description="the valid texts; each but the first becomes an indicator")
    ] = ()
    impute: StandIn = None

    def __post_init__(self) -> None:
        FeatureSection(values=self.values, lower=self.lower, upper=self.upper)
        if self.impute is not None and not self.values:
            raise ValueError("only a feature with values may have impute; on_invalid applies to numbers")


class LinearRegressionDomain(Section, frozen=True, kw_only=True):
    """The target and the features, by column name, with public bounds; there is always an intercept."""

    target: Annotated[Target, Meta(description="the number to predict")]
    features: Annotated[
        dict[str, LinearFeature],
        Meta(
            min_length=1,
            max_length=MAX_FEATURES,
            description="for each column {lower: X, upper: X} or {values: [A, B]}, in any order",
        ),
    ]
    variance: Annotated[
        Positive | None,
        Meta(
            description="the variance of the target given the features, if known; ops needs a known variance [unknown]"
        ),
    ] = None
