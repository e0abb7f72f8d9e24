"""Linear regression: how a number depends on other columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, Column, RecordPolicy
from dpbayes_cli.core.design import INTERCEPT, check_names
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Fact, Findings
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.predictor import fixed_target
from dpbayes_cli.core.second_moments import factors_of
from dpbayes_cli.core.section import Positive, Section, require_type, with_defaults
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.models.families.capabilities import NormalRegression, ScaledRegression, Simulated
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.models.families.joint_normal import (
    STEPS,
    JointNormal,
    check_one_prior,
    is_conjugate,
    prior_by_column,
)
from dpbayes_cli.models.families.linear_domain import MAX_FEATURES, LinearRegressionDomain
from dpbayes_cli.models.families.linear_predictor import LinearPredictor

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.regression_moments import RegressionMoments
    from dpbayes_cli.privacy.noise import NoiseLaw

_INTERVALS = (
    (0.01, 1, 10, "a little too wide: 94 % (5) and 93 % (10 features)"),
    (0.01, 21, MAX_FEATURES, "too narrow: 86 % (30 features)"),
    (0.001, 4, MAX_FEATURES, "too narrow if correlations of features are about 0.9: 85 % (5) and 79 % (10 features)"),
)
"""How intervals may be, from which noise on a mean square of a scaled number on, and for how many slopes."""
_TARGET = {"column": "y", "lower": 0.0, "upper": 2.5}
_FEATURE = {"lower": -1.0, "upper": 3.0}


class LinearRegressionPrior(Section, frozen=True, kw_only=True):
    """Either the default prior, with the key ``spread``, or a conjugate prior, with all other keys.

    The conjugate prior is used if one of its keys is stated, or if the variance is known. It includes a prior of the
    features.
    """

    mean: Annotated[
        dict[str, Bound],
        Meta(
            description="for each column the prior mean; for the target, this is the mean at the prior means of the "
            "features [middle]"
        ),
    ] = msgspec.field(default_factory=dict)
    deviation: Annotated[
        dict[str, Positive],
        Meta(
            description="the prior standard deviation of each feature, and of the target given the features "
            "[a sixth of the range]"
        ),
    ] = msgspec.field(default_factory=dict)
    strength: Annotated[Positive | None, Meta(description="weight of the prior means, in records [1]")] = None
    slope_strength: Annotated[
        Positive | None, Meta(description="weight of the prior of the slopes, in records [0.1]")
    ] = None
    variance_strength: Annotated[
        Positive | None, Meta(description="weight of the prior of variance and covariances, in records [0.2]")
    ] = None
    spread: Annotated[
        Positive | None,
        Meta(
            description="scale of the half-normal prior of the target's standard deviation, in units of 2/3 (mean - "
            "lower) * (upper - mean) / (upper - lower) [1]"
        ),
    ] = None

    def __post_init__(self) -> None:
        check_one_prior(self)


@dataclass(frozen=True)
class LinearRegression(JointNormal, NormalRegression):
    """The target is N(intercept + sum of beta_j x_j, variance) given the features x, which may have any law.

    The columns are the target, then numbers in alphabetical order, each clamped to public bounds, then texts in
    alphabetical order. Every value of a text but the first becomes an indicator, with a slope.

    Inference draws the second moments of all records, with the features' own weak prior, and then the coefficients
    exactly; see ``RegressionMoments``. If a key of the conjugate prior is stated, or if the variance is known, the
    conjugate prior of the coefficients is used. It cannot be weak for small and for large variances at once.

    Privacy: see ``second_moments``; its columns are the target and all features.

    Source: Bernstein and Sheldon 2018 sec. 3.2 (Alg. 1) and 2019; Zhang et al. 2016 sec. 5.2.
    """

    name: ClassVar[str] = "linear-regression"
    suggested_for_target: ClassVar[str] = "numbers"
    summary: ClassVar[str] = "coefficients and variance of a linear regression with up to 30 features"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sums of D columns (the target, its features, and for texts an indicator of every value but "
        "the first), of their squares and of their products; also the noisy number of valid records, unless this "
        "number is public. From the released numbers, inference computes the joint posterior of intercept, slopes and "
        "variance, in the units of the file.",
        guarantee="The mechanism gives the guarantee: by default, `gaussian` if the request or its account states a "
        "delta, else `laplace`. Without texts, and in units of the columns' ranges, one record moves all released "
        "numbers together by at most (D + 1)^2 in L1. The squared L2 change is at most 4 (D + 1)^2 if D is odd, and 4 "
        "(D + 1)^2 - 4 if D is even. The record count adds nothing to these bounds. In D, a text counts as one column "
        "for L2, and for L1 as two, or as one if it has two values.",
        assumptions="The target is normal given the features. The features may have any law: their means, standard "
        "deviations and correlations in the records have weak priors (means are uniform between the bounds, standard "
        "deviations are w^2 times the largest possible one with w uniform between 0 and 1, and correlation matrices "
        "are uniform). By default a slope of numbers scaled to [-1, 1] is N(0, s^2 / d) for d features, where log s is"
        " standard normal; the residual standard deviation is uniform, and the target's standard deviation in the "
        "records is half-normal (key spread). Let k = variance_strength, let deviation_0 and mean_0 belong to the "
        "target, and let level be the value of the regression line at the prior means of the features. Then the "
        "conjugate prior of the regression is variance ~ k * deviation_0^2 / chi-square(2 + k), slope_j ~ N(0, "
        "variance / (slope_strength * deviation_j^2)) and level ~ N(mean_0, variance / strength). Each number is "
        "clamped to its public bounds and rounded to a grid of 2^14 steps; a record with an invalid number is invalid."
        " Inference assumes that no target reaches its bounds, and warns if the posterior contradicts this.",
        source="Bernstein and Sheldon 2018, Alg. 1, and 2019 (regression from noisy second moments); Neal 2011 "
        "(Hamiltonian chains); Zhang, Rubinstein and Dimitrakakis 2016, sec. 5.2 (known variance, ops).",
        corrections="Bernstein and Sheldon 2019 need fourth moments of the features, which they release with noise or "
        "derive from a prior of the features. Here the second moments of the features in the records are themselves "
        "unknown parameters: given them, the law of the other moments needs no fourth moments. They are drawn as "
        "Cholesky factors, so noisy second moments need no repair. The plug-in posterior (method: naive) replaces "
        "negative eigenvalues by 0; the scale matrix of the prior is added, which keeps the slopes finite.",
        prefer_when="You predict one number from others, or want a slope. To learn how all numbers vary together, use "
        "`multivariate-normal`.",
    )
    domain_type: ClassVar[type[Section]] = LinearRegressionDomain
    prior_type: ClassVar[type[Section]] = LinearRegressionPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        Example({"target": _TARGET, "features": dict.fromkeys(names, _FEATURE), **more}, drawn=bool(more))
        for names, more in (("a", {"variance": 0.5}), ("a", {}), ("ab", {}))
    )
    default_with_delta: ClassVar[str] = "gaussian"
    first_spec: ClassVar[Mapping[str, str]] = {
        "target.column": "weight",
        "lower": "0",
        "upper": "100",
        "features": "{height: {lower: 100, upper: 220}, age: {lower: 0, upper: 120}}",
    }
    first_spec_drawn: ClassVar[Mapping[str, str]] = {"on_invalid": "impute:100", "domain.variance": "100"}

    slope_strength: float
    variance_strength: float
    variance: float | None = None
    spread: float | None = None  # the only parameter of the default prior; None if the prior is conjugate
    texts: tuple[Column, ...] = ()

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        if require_type(domain, LinearRegressionDomain).variance is None and not is_conjugate(prior):
            return with_defaults(prior, spread=1.0)
        if require_type(prior, LinearRegressionPrior).spread is not None:
            raise SpecError("spread has no effect if the variance is known", where="prior.spread", hint="remove it")
        return with_defaults(prior, strength=1.0, slope_strength=0.1, variance_strength=0.2)

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        columns = require_type(domain, LinearRegressionDomain)
        stated = require_type(cls.complete_prior(domain, prior), LinearRegressionPrior)
        target, features = columns.target, dict(sorted(columns.features.items()))
        texts = tuple(Column(name, part.values, part.impute) for name, part in features.items() if part.values)
        if target.column in features:
            raise SpecError(f"the target {target.column!r} is also a feature; remove it there", where="domain.features")
        if INTERCEPT in features:
            raise SpecError(
                f"no feature may have the name {INTERCEPT!r}, because a coefficient has this name",
                where="domain.features",
            )
        bounds = (
            (target.column, target.lower, target.upper),
            *(
                (name, part.lower, part.upper)
                for name, part in features.items()
                if part.lower is not None and part.upper is not None
            ),
            *((factor.role, -1.0, 1.0) for factor in factors_of(texts)),  # scaled indicators are 0 or 1
        )
        try:
            check_names([name for name, _, _ in bounds])
        except ValueError as error:
            raise SpecError(str(error), where="domain.features") from None
        if len(bounds) - 1 > MAX_FEATURES:
            raise SpecError(
                f"numbers and values of texts make {len(bounds) - 1} slopes, expected at most {MAX_FEATURES}",
                where="domain.features",
            )
        by_column = prior_by_column(bounds, stated.mean, stated.deviation)
        for name, low, high in bounds:
            if stated.deviation.get(name, high - low) * STEPS < high - low:
                raise SpecError(
                    f"the prior deviation of {name!r} must be at least its grid step, {(high - low) / STEPS:g}",
                    where="prior.deviation",
                )
        strengths = stated.strength or 1.0, stated.slope_strength or 0.1, stated.variance_strength or 0.2
        return cls(bounds, *by_column, *strengths, columns.variance, stated.spread, texts)

    @property
    def columns(self) -> tuple[AnyColumn, ...]:
        return (*self.scaled_columns[: len(self.bounds) - len(factors_of(self.texts))], *self.texts)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.role for column in self.columns)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The intercept, the slopes in the order of the features, and the variance, unless the variance is known."""
        slopes = tuple(f"beta[{name}]" for name in (INTERCEPT, *(name for name, _, _ in self.bounds[1:])))
        return slopes if self.variance is not None else (*slopes, "variance")

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of the target if numbers are in the middle of their bounds, and texts have first values."""
        middles = [(low + high) / 2.0 for _, low, high in self.bounds[1:]]
        slopes = mean[1 : len(self.bounds)]
        return {self.column_names[0]: mean[0] + sum(b * x for b, x in zip(slopes, middles, strict=True))}

    def known_miscalibration(self, noise: "NoiseLaw", n_records: int | None) -> tuple[str, ...]:
        """Return a warning about intervals of slopes under the default prior; an unknown number of records is 1,000."""
        slopes, relative = len(self.bounds) - 1, noise.variance**0.5 / ((n_records or 1000) * STEPS**2)
        found = [how for least, few, many, how in _INTERVALS if relative >= least and few <= slopes <= many]
        if self.spread is None or not found:
            return ()
        return (
            f"beside this noise, 90 % intervals of slopes may be {', or '.join(found)} of the true coefficients were "
            "covered in simulations from the default prior (250 to 20,000 records, epsilon 0.5 to 3, delta 1e-6)",
        )

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        """Return the slope with the largest effect over the range of its feature."""
        target, *features = self.column_names
        numbers = self.bounds[1 : len(self.columns) - len(self.texts)]
        changes = [(f"{name} 1 higher", high - low) for name, low, high in numbers]
        changes += [
            (f"{text.role} = {level} instead of {text.levels[0]}", 1.0)
            for text in self.texts
            for level in text.levels[1:]
        ]
        effects = [abs(estimates[k]) * reach for k, (_, reach) in enumerate(changes, 1)]
        strongest = effects.index(max(effects))
        equal = " and the other columns equal" if len(features) > 1 else ""
        change = f"with {changes[strongest][0]}{equal}, the mean of {target} changes by about"
        others = features[0] if len(features) == 1 else f"{len(features)} columns"
        topic = f"this release estimates how {target} depends on {others}"
        return Findings((Fact(change, strongest + 1),), topic, n_effects=len(effects))

    def prior_quantiles(self, levels: "Floats") -> "Floats":
        """Return simulated quantiles of the default prior, or exact quantiles of the conjugate prior; see ``Model``.

        Under the conjugate prior, coefficients have Student laws, or normal laws if the variance is known.
        """
        import numpy as np
        from scipy.special import gammainccinv, ndtri, stdtrit

        if self.spread is not None:
            from dpbayes_cli.models.families.regression_simulation import prior_quantiles

            return prior_quantiles(self.law(counted=False), levels)
        means, deviations = np.asarray(self.prior_mean), np.asarray(self.deviation)
        slopes = 1.0 / (self.slope_strength * deviations[1:] ** 2)
        shares = np.array([1.0 / self.strength + float(means[1:] ** 2 @ slopes), *slopes])
        freedom, scatter = 2.0 + self.variance_strength, self.variance_strength * deviations[0] ** 2
        if self.variance is None:
            standard, variance = stdtrit(freedom, levels), scatter / freedom
        else:
            standard, variance = ndtri(levels), self.variance
        centers = np.array([means[0], *np.zeros(len(slopes))])
        coefficients = centers[:, None] + np.sqrt(variance * shares)[:, None] * standard
        if self.variance is not None:
            return np.asarray(coefficients)
        return np.vstack([coefficients, scatter / (2.0 * gammainccinv(freedom / 2.0, levels))])

    def predicted_column(self, requested: str | None) -> int:
        return fixed_target(self.name, self.column_names, 0, requested)

    def predictor(self, column: int, draws: "Floats") -> "LinearPredictor":
        return LinearPredictor(self.columns, self.column_names, column, self.complete_draws(draws))

    def complete_draws(self, draws: "Floats") -> "Floats":
        """Return draws whose last column is the variance, even if the variance is known; see ``predict_normal``.

        Args:
            draws: draws of the reported parameters, shape (n_draws, n_parameters).

        Returns:
            Intercept, slopes and variance, shape (n_draws, n_features + 2).
        """
        import numpy as np

        if self.variance is None:
            return draws
        return np.hstack([draws, np.full((len(draws), 1), self.variance)])

    def scaled_regression(self) -> ScaledRegression:
        if self.texts:
            raise SpecError(
                "posterior draws need features that are numbers",
                where="domain.features",
                hint="--mechanism laplace, or gaussian",
            )
        law = self.law(counted=False)
        if law.variance is None or law.conjugate is None:
            raise SpecError(
                "posterior draws need a known variance of the target given the features",
                where="domain.variance",
                hint="state the variance without looking at the data, or infer it with --mechanism laplace",
            )
        ends = tuple((low, high) for _, low, high in self.bounds)
        slopes = (s**-2.0 for s in law.conjugate.slope_scale)
        return ScaledRegression(law.variance, ends, law.conjugate.mean, (self.strength, *slopes), STEPS)

    def law(self, counted: bool) -> "RegressionMoments":
        from dpbayes_cli.models.families.regression_coordinates import ConjugatePrior
        from dpbayes_cli.models.families.regression_moments import RegressionMoments

        texts = tuple(len(text.levels) - 1 for text in self.texts)
        if self.spread is not None:
            return RegressionMoments(self.scaled_columns, counted, self.spread, texts=texts)
        half, (mean, deviation) = (self.bounds[0][2] - self.bounds[0][1]) / 2.0, self.scaled_prior
        k = self.variance_strength
        slopes = tuple(self.slope_strength**-0.5 / s for s in deviation[1:])
        prior = ConjugatePrior(mean, self.strength, slopes, 2.0 + k, k * deviation[0] ** 2)
        return RegressionMoments(
            self.scaled_columns, counted, None, prior, None if self.variance is None else self.variance / half**2, texts
        )

    def simulated(self, policy: RecordPolicy, n_records: int, rng: "np.random.Generator") -> Simulated:
        import numpy as np

        from dpbayes_cli.models.families.regression_simulation import draw_records

        parameters, numbers = draw_records(self.law(counted=False), n_records, rng)
        first = len(self.columns) - len(self.texts)
        physical = [numbers[:, :first]]
        for text in self.texts:
            size = len(text.levels) - 1
            physical.append(numbers[:, first : first + size] @ np.arange(1.0, size + 1.0)[:, None])
            first += size
        return tuple(parameters.tolist()), evaluate(self.statistic(policy), self.columns, np.hstack(physical))
