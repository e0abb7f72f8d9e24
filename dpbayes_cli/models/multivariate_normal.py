"""Multivariate normal: the mean vector and the covariance matrix of several numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.findings import Findings, mean_of, other_columns
from dpbayes_cli.core.inference_options import InferenceOptions, VectorInference
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.section import Positive, Section, require_type, with_defaults
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.models.families.bounded_numbers import simulated_quantiles
from dpbayes_cli.models.families.capabilities import Simulated
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.models.families.joint_normal import (
    STEPS,
    JointNormal,
    NumberBounds,
    Spread,
    check_one_prior,
    is_conjugate,
    prior_by_column,
)
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.wishart_records import WishartRecords

MAX_COLUMNS = 20
_UNKNOWN_RECORDS = 1000
"""The number of records that a warning assumes if the number is not known."""
_SMALLEST_SHARE = 0.02
"""The smallest standard deviation, in units of the range, for which coverage was simulated."""


class MultivariateNormalDomain(Section, frozen=True, kw_only=True):
    """The columns by name, with public bounds."""

    columns: Annotated[
        dict[str, NumberBounds],
        Meta(min_length=1, max_length=MAX_COLUMNS, description="for each column {lower: X, upper: X}, in any order"),
    ]


class MultivariateNormalPrior(Section, frozen=True, kw_only=True):
    """The default prior (key ``variance_scale``), one of ``spread``, or a normal-inverse-Wishart prior (other keys).

    Under the normal-inverse-Wishart prior, E[covariance] = diag(deviation^2), and the mean is N(mean, covariance /
    strength).
    """

    mean: Annotated[dict[str, Bound], Meta(description="for each column the prior mean [middle]")] = msgspec.field(
        default_factory=dict
    )
    deviation: Annotated[
        dict[str, Positive], Meta(description="for each column the prior standard deviation [a sixth of the range]")
    ] = msgspec.field(default_factory=dict)
    strength: Annotated[Positive | None, Meta(description="weight of the prior mean, in records [1]")] = None
    freedom: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e6)] | None,
        Meta(description="degrees of freedom of the inverse Wishart prior, for D columns more than D + 1 [D + 3]"),
    ] = None
    variance_scale: Annotated[
        Positive | None,
        Meta(
            description="mean of the exponential prior of a variance, in units of the square of (mean - lower) * "
            "(upper - mean) / (upper - lower) [1]"
        ),
    ] = None
    spread: Spread = None

    def __post_init__(self) -> None:
        check_one_prior(self)


@dataclass(frozen=True)
class MultivariateNormal(JointNormal):
    """Records are N(mean, covariance) vectors, each number clamped to public bounds.

    The default prior assumes only that most numbers lie between the bounds: means are uniform, variances are
    exponential, and correlations are uniform on [-1, 1]. With the key ``spread``, standard deviations are half-normal,
    as by default in ``normal``. If a key of the normal-inverse-Wishart prior is stated,
    covariance ~ inverse Wishart(freedom, diagonal scale) and mean | covariance ~ N(prior mean, covariance / strength).
    A normal-inverse-Wishart prior cannot be weak for small and for large variances at once.

    Source: Bernstein and Sheldon 2018 sec. 3.2 (bounded statistics, Alg. 1); Foulds et al. 2016 sec. 3.
    """

    inference_options: ClassVar[type[InferenceOptions]] = VectorInference
    name: ClassVar[str] = "multivariate-normal"
    summary: ClassVar[str] = "mean vector and covariance matrix, normal-inverse-Wishart prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sums of D columns, of their squares and of their products; also the noisy number of valid "
        "records, unless this number is public. From the released numbers, inference computes the joint posterior of "
        "the means and the covariance matrix.",
        guarantee="The mechanism gives the guarantee. In units of the columns' ranges, one record moves all released "
        "numbers together by at most (D + 1)^2 in L1. The squared L2 change is at most 4 (D + 1)^2 if D is odd, and 4 "
        "(D + 1)^2 - 4 if D is even. The record count adds nothing to these bounds.",
        assumptions="Each record holds D numbers. Each number is clamped to its public bounds and rounded to a public "
        "grid of 2^14 steps; a record with an invalid number is invalid. Inference assumes that no number reaches its "
        "bounds, and warns if the posterior contradicts this. Inference also treats the sums of many records as normal "
        "given the parameters. With impute:VALUE, an invalid cell of any column counts as if it held VALUE; the "
        "custodian states that VALUE is a fair stand-in. The bounds must be stated; they cannot be chosen privately. "
        "The 90 % interval of a variance begins at 0 and ends at the 90 % quantile if this is shorter than the central "
        "interval, which would leave out variances that the noise hides. `plan` and `release` state beforehand which "
        "standard deviations the noise can hide.",
        source="Bernstein and Sheldon 2018, sec. 3.2 and Alg. 1; Park and Casella 2008 (scale mixture); Bartlett 1933.",
        corrections="The noisy matrix of second moments need not be positive definite. It needs no repair: given "
        "the released numbers, inference draws covariance matrices from a law on positive definite "
        "matrices. The plug-in posterior (method: naive) replaces negative eigenvalues by 0.",
        prefer_when="You have several measurements of each person, and want to know how they vary together.",
    )
    domain_type: ClassVar[type[Section]] = MultivariateNormalDomain
    prior_type: ClassVar[type[Section]] = MultivariateNormalPrior
    examples: ClassVar[tuple[Example, ...]] = tuple(
        Example({"columns": {name: {"lower": -1.0, "upper": 3.0} for name in names}}) for names in ("a", "ab", "abc")
    )
    first_spec: ClassVar[Mapping[str, str]] = {
        "columns": "{height: {lower: 100, upper: 220}, weight: {lower: 30, upper: 250}}"
    }

    freedom: float
    spread: float | None = None  # the scale of standard deviations; None if the prior is conjugate
    sd_freedom: int = 1  # 2: variances are exponential; 1: standard deviations are half-normal

    @classmethod
    def complete_prior(cls, domain: Section, prior: Section) -> Section:
        if is_conjugate(prior):
            return with_defaults(prior, strength=1.0)
        stated = require_type(prior, MultivariateNormalPrior)
        return stated if stated.spread is not None else with_defaults(stated, variance_scale=1.0)

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        stated_prior = require_type(cls.complete_prior(domain, prior), MultivariateNormalPrior)
        columns = sorted(require_type(domain, MultivariateNormalDomain).columns.items())  # in any order in the spec
        freedom = len(columns) + 3.0 if stated_prior.freedom is None else stated_prior.freedom
        if not freedom > len(columns) + 1:
            raise SpecError(
                f"freedom is {freedom:g}, expected more than {len(columns) + 1}; otherwise the prior covariance has "
                "no mean",
                where="prior.freedom",
            )
        bounds = tuple((name, box.lower, box.upper) for name, box in columns)
        by_column = prior_by_column(bounds, stated_prior.mean, stated_prior.deviation)
        strength, spread, sd_freedom = stated_prior.strength or 1.0, stated_prior.spread, 1
        if stated_prior.variance_scale is not None:
            spread, sd_freedom = (stated_prior.variance_scale / 2.0) ** 0.5, 2
        return cls(bounds, *by_column, strength, freedom, spread, sd_freedom)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The means, then the variances and covariances row by row."""
        names = self.column_names
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
        spread = [f"variance[{a}]" if a == b else f"covariance[{a},{b}]" for a, b in pairs]
        return (*(f"mean[{name}]" for name in names), *spread)

    @property
    def can_be_hidden(self) -> tuple[bool, ...]:
        return tuple(self.sd_freedom == 2 and name.startswith("variance[") for name in self.parameters)

    def hidden_share(self, noise: NoiseLaw, n_records: int) -> float:
        """Return the standard deviation, in units of the range, below which intervals depend on the default prior.

        Its variance is 4 times the standard deviation of the noise on a variance.
        """
        return float((noise.variance**0.5 / (n_records * STEPS**2)) ** 0.5)

    def known_miscalibration(self, noise: NoiseLaw, n_records: int | None) -> tuple[str, ...]:
        """Return a warning with the standard deviations that the noise hides, unless these are very small."""
        n = n_records or _UNKNOWN_RECORDS
        share = self.hidden_share(noise, n)
        if self.spread is None or share < _SMALLEST_SHARE:
            return ()
        of_column = "; ".join(f"{(high - low) * share:.2g} for {name}" for name, low, high in self.bounds)
        more = "" if n_records else " With four times as many records, it hides half of that."
        return (
            f"with {n:,} records, the noise can hide standard deviations below about {of_column}.{more} If one is "
            "lower, the release tells little about it, and intervals are wide and depend on the default prior. More "
            "records, more epsilon or narrower bounds help",
        )

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        return dict(zip(self.column_names, mean, strict=False))

    def findings(self, column: str, estimates: Sequence[float]) -> Findings:
        names = self.column_names
        others = names[1] if len(names) == 2 else other_columns(len(names) - 1)
        topic = f"this release estimates how {names[0]} and {others} vary together"
        means = tuple(mean_of(name, k) for k, name in enumerate(names[:2]))
        return Findings(means, topic if len(names) > 1 else "")

    def prior_quantiles(self, levels: "Floats") -> "Floats":
        """Return simulated quantiles of the default prior, or exact quantiles of the conjugate prior."""
        import numpy as np
        from scipy.special import gammainccinv, stdtrit

        if self.spread is not None:
            return simulated_quantiles(self.law(counted=False), levels)
        size = len(self.bounds)
        freedom = self.freedom - size + 1.0
        scatter = np.square(self.deviation) * (self.freedom - size - 1.0)
        means = np.sqrt(scatter / (self.strength * freedom))[:, None] * stdtrit(freedom, levels)
        variances = scatter[:, None] / (2.0 * gammainccinv(freedom / 2.0, levels))
        rows, columns = np.triu_indices(size)
        spread = np.where((rows == columns)[:, None], variances[rows], np.nan)
        return np.concatenate([np.asarray(self.prior_mean)[:, None] + means, spread])

    def law(self, counted: bool) -> "WishartRecords":
        from dpbayes_cli.models.families.wishart_records import WishartRecords

        if self.spread is not None:
            from dpbayes_cli.models.families.bounded_vectors import BoundedVectorRecords, weak_prior

            weak = weak_prior(self.scaled_columns)
            return BoundedVectorRecords(*weak, self.scaled_columns, counted, self.spread, self.sd_freedom)
        return WishartRecords(*self.scaled_prior, self.strength, self.freedom, self.scaled_columns, counted)

    def simulated(self, policy: RecordPolicy, n_records: int, rng: "np.random.Generator") -> Simulated:
        law = self.law(counted=False)
        point = law.draw_prior(1, rng)
        (mean,), (covariance,) = law.scaled(point)
        half, middle = law.half_and_middle
        numbers = middle + half * rng.multivariate_normal(mean, covariance, n_records, method="cholesky")
        return tuple(law.parameters(point)[0].tolist()), evaluate(self.statistic(policy), self.columns, numbers)
