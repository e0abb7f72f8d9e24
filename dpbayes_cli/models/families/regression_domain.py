"""Features, targets and priors of regressions in a spec, with the examples and first specs of such models."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.core.columns import Column, NumericColumn, check_bounds
from dpbayes_cli.core.design import Design, Feature, check_names
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.section import Level, Positive, Section
from dpbayes_cli.models.families.domain_types import Bound, StandIn

STEPS = 1 << 16
"""Number of grid steps between the bounds of a number."""
MAX_DESIGN_COLUMNS = 10_000

Precision = Annotated[Positive, Meta(description="tau: the prior precision of every coefficient")]


class FeatureSection(Section, frozen=True, kw_only=True):
    """A feature: a column of texts with public values, or of numbers with public bounds."""

    values: Annotated[tuple[Level, ...], Meta(description="the valid texts; each becomes an indicator")] = ()
    lower: Annotated[Bound | None, Meta(description="the lower bound of a number, instead of values")] = None
    upper: Annotated[Bound | None, Meta(description="the upper bound of a number, instead of values")] = None
    origin: Annotated[
        Bound | None, Meta(description="the number that is scaled to 0; default: the middle of the bounds")
    ] = None
    impute: StandIn = None

    def __post_init__(self) -> None:
        if bool(self.values) == (self.lower is not None or self.upper is not None):
            raise ValueError("a feature must have values, or a lower and an upper bound")
        if self.values:
            if len(self.values) < 2:
                raise ValueError("a feature must have at least two values")
            if self.origin is not None:
                raise ValueError("only a feature with bounds may have an origin")
            check_levels(self.values)
            return
        if self.lower is None or self.upper is None:
            raise ValueError("a number must have a lower and an upper bound")
        check_bounds(self.lower, self.upper)
        if self.origin is not None and not self.lower <= self.origin <= self.upper:
            raise ValueError("the origin must be between the bounds")

    def feature(self, name: str) -> Feature:
        """Return the feature that a column of the file becomes."""
        if self.lower is None or self.upper is None:
            return Feature(Column(name, self.values, self.impute))
        return Feature(NumericColumn(name, self.lower, self.upper, STEPS, impute=self.impute), self.origin)


class ClassTarget(Section, frozen=True, kw_only=True):
    """A target of two classes."""

    column: Annotated[str, Meta(description="the name of the column in the file")]
    values: Annotated[tuple[Level, Level], Meta(description="the two valid texts, class 0 first")]
    impute: StandIn = None

    def __post_init__(self) -> None:
        check_levels(self.values)

    def target(self) -> Column:
        """Return the column of the target."""
        return Column(self.column, self.values, self.impute)


class NumberTarget(Section, frozen=True, kw_only=True):
    """A target that is a number with public bounds."""

    column: Annotated[str, Meta(description="the name of the column in the file")]
    lower: Annotated[Bound, Meta(description="the lower bound")]
    upper: Annotated[Bound, Meta(description="the upper bound")]
    impute: StandIn = None

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)

    def target(self) -> NumericColumn:
        """Return the column of the target."""
        return NumericColumn(self.column, self.lower, self.upper, STEPS, impute=self.impute)


class RegressionDomain(Section, frozen=True, kw_only=True):
    """The features of a regression; ``ClassDomain`` and ``NumberDomain`` add a target, and each model adds its loss."""

    target: Any
    features: Annotated[
        dict[str, FeatureSection], Meta(min_length=1, description="for each feature its values, or its bounds")
    ]
    intercept: Annotated[bool, Meta(description="whether the design has a column of ones")] = True
    norm: Annotated[
        Positive | None,
        Meta(description="the norm to which the features of a record are clipped; default: no clipping"),
    ] = None

    def __post_init__(self) -> None:
        check_target(self.target.column, self.features)
        check_names(self.design.names)
        if self.design.width > MAX_DESIGN_COLUMNS:
            raise ValueError(f"the design has {self.design.width:,} columns, expected at most {MAX_DESIGN_COLUMNS:,}")

    @property
    def design(self) -> Design:
        """The design, with features sorted by name, so that their order in the spec does not matter."""
        features = tuple(part.feature(name) for name, part in sorted(self.features.items()))
        return Design(features, self.intercept, self.norm)


class ClassDomain(RegressionDomain, frozen=True, kw_only=True):
    """The domain of a model of two classes."""

    target: ClassTarget


class NumberDomain(RegressionDomain, frozen=True, kw_only=True):
    """The domain of a model of a number."""

    target: NumberTarget
    scale: Annotated[
        Positive | None,
        Meta(description="the scale of residuals, in units of the target; default: a twentieth of the target's range"),
    ] = None

    @property
    def relative_scale(self) -> float:
        """The scale of residuals, after the target has been scaled to [-1, 1]."""
        return 0.1 if self.scale is None else 2.0 * self.scale / (self.target.upper - self.target.lower)


class CoefficientPrior(Section, frozen=True, kw_only=True):
    """Independent N(0, 1 / tau) priors on all coefficients of the scaled design; subclasses add a default for tau."""

    precision: Precision


def check_target(name: str, features: dict[str, FeatureSection]) -> None:
    """Raise ``ValueError`` if the target is also a feature."""
    if name in features:
        raise ValueError(f"the target {name!r} is also a feature; remove it there")


_FEATURES = {"x": {"lower": -1.0, "upper": 3.0}, "z": {"values": ["a", "b", "c"], "impute": "b"}}
_SPEC = {"features": "\nage: {lower: 18, upper: 100}\nsmoker: {values: [yes, no]}"}
CLASS_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "ill", "target.values": "[no, yes]"}
"""What ``spec init`` writes for a model of classes."""
NUMBER_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "days", "lower": "0", "upper": "100"}
"""What ``spec init`` writes for a model of a number."""


def class_example(**more: Any) -> Example:
    """Return an example with a target of two classes, and with additional keys of the domain."""
    return _example({"column": "y", "values": ["no", "yes"]}, more)


def number_example(**more: Any) -> Example:
    """Return an example with a target that is a number, and with additional keys of the domain."""
    return _example({"column": "y", "lower": -5.0, "upper": 5.0}, more)


def _example(target: Mapping[str, Any], more: Mapping[str, Any]) -> Example:
    domain = {"target": target, "features": _FEATURES, **more}
    return Example(domain, {"precision": 1000.0}, complete=domain)  # strong enough for draws; invalid rows add no loss
