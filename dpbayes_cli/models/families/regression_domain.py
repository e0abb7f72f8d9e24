"""Features and targets of regressions as a spec states them."""

from typing import Annotated, Any

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.core.columns import Column, NumericColumn, check_bounds
from dpbayes_cli.core.design import Design, Feature, check_names
from dpbayes_cli.core.section import YAML_SCALAR, Level, Positive, Section

STEPS = 1 << 16
"""Grid steps between the bounds of a number."""
MAX_DESIGN_COLUMNS = 10_000
MAX_BOUND = 1e12

Impute = Annotated[
    Annotated[str, Meta(extra_json_schema=YAML_SCALAR)] | None,
    Meta(description="the public value that an invalid cell counts as; default: on_invalid says"),
]
Bound = Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND)]


class FeatureSection(Section, frozen=True, kw_only=True):
    """A feature: a text with public values, or a number with public bounds."""

    values: Annotated[tuple[Level, ...], Meta(description="the valid texts; each gets an indicator")] = ()
    lower: Annotated[Bound | None, Meta(description="in place of values: the lower bound of a number")] = None
    upper: Annotated[Bound | None, Meta(description="the upper bound")] = None
    origin: Annotated[Bound | None, Meta(description="the number that is coded 0; default: the middle")] = None
    impute: Impute = None

    def __post_init__(self) -> None:
        if bool(self.values) == (self.lower is not None or self.upper is not None):
            raise ValueError("a feature has values, or a lower and an upper bound")
        if self.values:
            if len(self.values) < 2:
                raise ValueError("a feature has at least two values")
            if self.origin is not None:
                raise ValueError("values have no origin")
            check_levels(self.values)
            return
        if self.lower is None or self.upper is None:
            raise ValueError("a number has a lower and an upper bound")
        check_bounds(self.lower, self.upper)
        if self.origin is not None and not self.lower <= self.origin <= self.upper:
            raise ValueError("the origin is between the bounds")

    def feature(self, name: str) -> Feature:
        """Return the feature that a column of the file is."""
        if self.lower is None or self.upper is None:
            return Feature(Column(name, self.values, self.impute))
        return Feature(NumericColumn(name, self.lower, self.upper, STEPS, impute=self.impute), self.origin)


class ClassTarget(Section, frozen=True, kw_only=True):
    """A target of two classes."""

    column: Annotated[str, Meta(description="the column")]
    values: Annotated[tuple[Level, Level], Meta(description="its two texts, that of class 0 first")]
    impute: Impute = None

    def __post_init__(self) -> None:
        check_levels(self.values)

    def target(self) -> Column:
        """Return the column."""
        return Column(self.column, self.values, self.impute)


class NumberTarget(Section, frozen=True, kw_only=True):
    """A target that is a number with public bounds."""

    column: Annotated[str, Meta(description="the column")]
    lower: Annotated[Bound, Meta(description="the lower bound")]
    upper: Annotated[Bound, Meta(description="the upper bound")]
    impute: Impute = None

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)

    def target(self) -> NumericColumn:
        """Return the column."""
        return NumericColumn(self.column, self.lower, self.upper, STEPS, impute=self.impute)


class RegressionDomain(Section, frozen=True, kw_only=True):
    """The features of a regression; a subclass says what kind of target it has."""

    target: Any
    features: Annotated[
        dict[str, FeatureSection], Meta(min_length=1, description="by column: its values, or the bounds of a number")
    ]
    intercept: Annotated[bool, Meta(description="whether the design has a column of ones")] = True
    norm: Annotated[
        Positive | None,
        Meta(description="the norm to which the features of a record are clipped; default: the largest there is"),
    ] = None

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        check_names(self.design.names)
        if self.design.width > MAX_DESIGN_COLUMNS:
            raise ValueError(f"the design has {self.design.width:,} columns; allowed: {MAX_DESIGN_COLUMNS:,}")

    @property
    def design(self) -> Design:
        """The design: features in the order of their names, so that how they are listed does not matter."""
        features = tuple(part.feature(name) for name, part in sorted(self.features.items()))
        return Design(features, self.intercept, self.norm)


class ClassDomain(RegressionDomain, frozen=True, kw_only=True):
    """Features, and a target of two classes."""

    target: ClassTarget


class NumberDomain(RegressionDomain, frozen=True, kw_only=True):
    """Features, and a target that is a number."""

    target: NumberTarget
    scale: Annotated[
        Positive | None,
        Meta(description="the scale of residuals, in units of the target; default: a twentieth of its range"),
    ] = None

    @property
    def relative_scale(self) -> float:
        """The scale of residuals where the target is scaled to [-1, 1]."""
        return 0.1 if self.scale is None else 2.0 * self.scale / (self.target.upper - self.target.lower)


class CoefficientPrior(Section, frozen=True, kw_only=True):
    """Independent normal priors of all coefficients, mean zero, on the scaled design."""

    precision: Annotated[Positive, Meta(description="tau: one over the variance of every coefficient")] = 1.0


def check_target(name: str, features: dict[str, FeatureSection]) -> None:
    """Refuse a target that is a feature.

    Raises:
        ValueError: it is.
    """
    if name in features:
        raise ValueError(f"the target {name!r} is among the features")
