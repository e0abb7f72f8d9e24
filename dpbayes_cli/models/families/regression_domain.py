"""Features, targets and priors of regressions in a spec, with the examples and first specs of such models."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from dpbayes_cli.base.cell_grammar import check_levels
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.coefficient_law import CoefficientLaw, LawName
from dpbayes_cli.core.columns import Column, NumericColumn, check_bounds
from dpbayes_cli.core.design import INTERCEPT, Design, Feature, check_names
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.section import Level, Positive, Section, with_defaults
from dpbayes_cli.models.families.domain_types import Bound, StandIn

STEPS = 1 << 16
"""Number of grid steps between the bounds of a number."""
MAX_DESIGN_COLUMNS = 10_000

_INTERCEPT_FACTOR = 3.0
"""How much wider the prior of an intercept is than that of the effect of a standard deviation of a number."""
_LEVEL_SCALE = 1.0
"""The scale of the default prior of the coefficient of a text's level."""


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
    values: Annotated[
        tuple[Level, Level], Meta(description="the two valid texts; odds and probabilities are those of the second")
    ]
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


class CountTarget(Section, frozen=True, kw_only=True):
    """A target that is a count with a public bound."""

    column: Annotated[str, Meta(description="the name of the column in the file")]
    upper: Annotated[int, Meta(ge=1, le=1000, description="the bound to which larger counts are clamped")]
    impute: StandIn = None

    def target(self) -> NumericColumn:
        """Return the column of the target."""
        return NumericColumn(self.column, 0.0, float(self.upper), self.upper, integers=True, impute=self.impute)


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


class CountDomain(RegressionDomain, frozen=True, kw_only=True):
    """The domain of a model of a count."""

    target: CountTarget


class NormalCoefficients(Section, frozen=True, kw_only=True):
    """Independent N(0, 1 / tau) priors of all coefficients of the scaled design."""

    precision: Annotated[Positive, Meta(description="tau: the prior precision of every coefficient")] = 1.0


class StatedPrior(Section, frozen=True, kw_only=True):
    """The prior of the coefficients of the scaled design: normal, Student-t or Laplace laws.

    ``dpbayes infer`` accepts any prior at no cost; mechanisms that release draws accept ``precision`` alone, which is 1
    by default.
    """

    effect: Annotated[
        Positive | None,
        Meta(
            description="the scale of the effect of one standard deviation of a number, to whose square that of a "
            "tenth of the range between the bounds is added; if there are numbers, that of the intercept is three "
            "times as large and refers to the means of the numbers, otherwise it is 1 (in Poisson regression twice "
            "that); that of levels of texts is 1 [1.5; in "
            "probit regression 0.9, in Poisson regression 0.45]"
        ),
    ] = None
    spread: Annotated[
        Positive | None,
        Meta(
            description="instead of effect: the scale of the coefficients of numbers, whose bounds are scaled to -1 "
            "and 1, and, if there are numbers, of the intercept (in Poisson regression twice as large)"
        ),
    ] = None
    precision: Annotated[
        Positive | None,
        Meta(
            description="instead of effect: tau, the precision of coefficients (in Poisson regression, that of the "
            "intercept is a quarter of it)"
        ),
    ] = None
    law: Annotated[LawName, Meta(description="the law of each coefficient")] = "normal"
    freedom: Annotated[
        Annotated[float, Meta(ge=1.0, le=1e6)] | None, Meta(description="the degrees of freedom of Student-t laws [4]")
    ] = None
    mean: Annotated[
        dict[str, Bound], Meta(description="the location of coefficients, by name, e.g. {age: 0.5} [0]")
    ] = msgspec.field(default_factory=dict)
    scale: Annotated[
        dict[str, Positive],
        Meta(
            description="the scale of coefficients, by name; of a normal law it is the standard deviation [from "
            "effect, spread, or 1 / sqrt(precision)]"
        ),
    ] = msgspec.field(default_factory=dict)
    correlations: Annotated[
        tuple[tuple[float, ...], ...],
        Meta(description="the correlation matrix of all coefficients of a normal law, in their order; empty for none"),
    ] = ()
    origin: Annotated[str | None, Meta(description="the release of other people whose posterior this prior is")] = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.effect, self.spread, self.precision)) > 1:
            raise ValueError("state one of effect, spread and precision")

    def complete(self, effect: float) -> Self:
        """Return the prior with its defaults.

        Args:
            effect: the default of this key.
        """
        if not (self.effect is self.spread is self.precision is None):
            return self
        return with_defaults(self, **({"precision": 1.0} if self.correlations else {"effect": effect}))

    def law_of(self, design: Design, start: float, factor: float = 1.0) -> CoefficientLaw:
        """Return the prior of the coefficients of a design.

        Args:
            start: the default location of the intercept.
            factor: what its default scale is multiplied by.

        Raises:
            SpecError: a name is not that of a coefficient, or the correlations are not those of a normal law.
        """
        import numpy as np

        names = design.names
        for key, stated in (("mean", self.mean), ("scale", self.scale)):
            unknown = next((name for name in stated if name not in names), None)
            if unknown is not None:
                raise SpecError(
                    f"there is no coefficient {unknown!r}", where=f"prior.{key}", hint=f"one of {', '.join(names[:20])}"
                )
        default = {INTERCEPT: start}
        means = tuple(float(self.mean.get(name, default.get(name, 0.0))) for name in names)
        scales = tuple(float(self.scale.get(name, usual)) for name, usual in self._scales(design, factor).items())
        if self.correlations:
            matrix = np.array([[*row, *[np.nan] * len(names)][: len(names)] for row in self.correlations])
            is_square = matrix.shape == (len(names), len(names)) and bool(np.allclose(matrix, matrix.T))
            is_unit = is_square and bool(np.allclose(np.diag(matrix), 1.0))
            if self.law != "normal" or not is_unit or float(np.linalg.eigvalsh(matrix).min()) < 1e-9:
                raise SpecError(
                    f"expected a positive definite correlation matrix of {len(names)} coefficients, and law: normal",
                    where="prior.correlations",
                )
        is_plain = not (any(means) or self.correlations) and len(set(scales)) == 1 and self.law == "normal"
        tau = self.precision if is_plain and not self.scale else None
        numbers = {feature.column.role for feature in design.features if isinstance(feature.column, NumericColumn)}
        is_relative = self.effect is not None and bool(numbers)
        per_sd = tuple(name in numbers and name not in self.scale for name in names) if is_relative else ()
        about_zero = is_relative and not design.ones.any()
        is_centered = design.intercept and INTERCEPT not in {*self.mean, *self.scale}
        centered = tuple(is_centered and name in numbers for name in names) if is_relative else ()
        freedom = self.freedom or 4.0
        return CoefficientLaw(means, scales, self.law, freedom, self.correlations, tau, per_sd, about_zero, centered)

    def _scales(self, design: Design, factor: float) -> dict[str, float]:
        """Return the default scale of each coefficient by its name."""
        number = level = around = (self.precision or 1.0) ** -0.5
        if self.spread is not None:
            number, level, around = self.spread, _LEVEL_SCALE, self.spread
        if self.effect is not None:
            number, level, around = self.effect, _LEVEL_SCALE, _INTERCEPT_FACTOR * self.effect
        are_numbers = [isinstance(feature.column, NumericColumn) for feature in design.features]
        intercept = factor * (around if any(are_numbers) else level)
        scales = {INTERCEPT: intercept} if design.intercept else {}
        for feature, is_number in zip(design.features, are_numbers, strict=True):
            scales |= dict.fromkeys(feature.names, number if is_number else level)
        return scales


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
COUNT_SPEC: Mapping[str, str] = {**_SPEC, "target.column": "visits", "upper": "20"}
"""What ``spec init`` writes for a model of a count."""


def class_example(**more: Any) -> Example:
    """Return an example with a target of two classes, and with additional keys of the domain."""
    return _example({"column": "y", "values": ["no", "yes"]}, more)


def number_example(**more: Any) -> Example:
    """Return an example with a target that is a number, and with additional keys of the domain."""
    return _example({"column": "y", "lower": -5.0, "upper": 5.0}, more)


def count_example(**more: Any) -> Example:
    """Return an example with a target that is a count, and with additional keys of the domain."""
    return _example({"column": "y", "upper": 6}, more)


def _example(target: Mapping[str, Any], more: Mapping[str, Any]) -> Example:
    domain = {"target": target, "features": _FEATURES, **more}
    return Example(domain, {"precision": 1000.0}, complete=domain)  # strong enough for draws; invalid rows add no loss
