"""Normal: the mean and the variance of a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta

from dpbayes_cli.core.columns import NumericColumn, Outside, RecordPolicy, check_bounds
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.model import MethodInfo
from dpbayes_cli.core.noisy_observation import NoisySums, RecordLaw
from dpbayes_cli.core.section import Positive, Section, require_type
from dpbayes_cli.core.statistic import Statistic, can_be_null, second_moments
from dpbayes_cli.models.families.capabilities import BoundedNumber, record_count
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats

STEPS = 1 << 14
"""Grid steps between the bounds: squares of a billion records stay below 2^60."""
MAX_BOUND = 1e12


class NormalDomain(Section, frozen=True, kw_only=True):
    """The public bounds of a number."""

    lower: Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND, description="the lower bound")]
    upper: Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND, description="the upper bound")]
    out_of_bounds: Annotated[Outside, Meta(description="clamp numbers outside to the bound, or drop the record")] = (
        "clamp"
    )

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


class NormalPrior(Section, frozen=True, kw_only=True):
    """Normal-inverse-gamma prior: 1 / variance ~ Gamma(shape, rate), mean ~ N(mean, variance / strength)."""

    mean: Annotated[float, Meta(ge=-MAX_BOUND, le=MAX_BOUND, description="prior mean of the mean")] = 0.0
    strength: Annotated[Positive, Meta(description="how many records the prior mean is worth")] = 1.0
    shape: Annotated[Positive, Meta(description="shape of the Gamma prior of 1 / variance")] = 2.0
    rate: Annotated[Positive, Meta(description="rate of that prior: shape times a typical variance")] = 2.0


@dataclass(frozen=True)
class NormalRecords(RecordLaw):
    """The law of what a normal number, clamped or dropped at its bounds, adds to sum, sum of squares and valid records.

    The coordinates are (mean - prior mean) / a typical prior sd of the mean, and log(1 / variance).

    Attributes:
        prior_mean, strength, shape, rate: the prior; see ``Normal``.
        column: the column of numbers.
        counted: whether the statistic includes the number of valid records.
        inside: whether the law is that of a number inside the bounds, because others do not count as records.
    """

    prior_mean: float
    strength: float
    shape: float
    rate: float
    column: NumericColumn
    counted: bool
    inside: bool = False

    @property
    def dimension(self) -> int:
        """Two coordinates."""
        return 2

    def draw_prior(self, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw points from the prior; a shape below one is drawn in logarithms."""
        import numpy as np

        log_precision = np.log(rng.standard_gamma(self.shape + 1.0, size)) + np.log1p(-rng.random(size)) / self.shape
        log_precision = log_precision - np.log(self.rate)
        offset = rng.standard_normal(size) * np.exp(-0.5 * log_precision) / self.strength**0.5
        return np.column_stack([offset / self._unit, log_precision])

    @property
    def _unit(self) -> float:
        """A typical prior standard deviation of the mean."""
        return float((self.rate / self.shape / self.strength) ** 0.5)

    def log_prior(self, points: "Floats") -> "Floats":
        """Return the log density of the prior, up to a constant."""
        import numpy as np

        offset, log_precision = points[..., 0] * self._unit, points[..., 1]
        rate = self.rate + 0.5 * self.strength * offset**2
        return np.asarray((self.shape + 0.5) * log_precision - rate * np.exp(log_precision))

    def parameters(self, points: "Floats") -> "Floats":
        """Return mean and variance."""
        import numpy as np

        variance = np.exp(-points[..., 1])
        return np.stack([self.prior_mean + points[..., 0] * self._unit, variance], axis=-1)

    def moments(self, points: "Floats") -> "tuple[Floats, Floats]":
        """Return mean and covariance of (2 v, v^2, 1), v the number scaled to [-1, 1]; zero if it is dropped."""
        import numpy as np
        from scipy.special import ndtr

        from dpbayes_cli.models.families.truncated_normal import interval_moments

        parameters = self.parameters(points)
        half, middle = (self.column.upper - self.column.lower) / 2.0, (self.column.upper + self.column.lower) / 2.0
        mean, sd = (parameters[..., 0] - middle) / half, np.sqrt(parameters[..., 1]) / half
        power = interval_moments(mean, sd, 4)
        if self.column.outside == "clamp":
            below, above = ndtr((-1.0 - mean) / sd), ndtr((mean - 1.0) / sd)
            power = power + above + below * np.array([1.0, -1.0, 1.0, -1.0, 1.0]).reshape(-1, *[1] * mean.ndim)
            power[0] = 1.0
        elif self.inside:
            power = power / power[0]
        orders, weights = ((1, 2, 0), (2.0, 1.0, 1.0)) if self.counted else ((1, 2), (2.0, 1.0))
        scale = float(self.column.steps) ** 2
        first = np.stack([w * power[k] for k, w in zip(orders, weights, strict=True)], axis=-1)
        second = np.stack(
            [
                np.stack([w * x * power[k + j] for j, x in zip(orders, weights, strict=True)], axis=-1)
                for k, w in zip(orders, weights, strict=True)
            ],
            axis=-1,
        )
        covariance = second - first[..., :, None] * first[..., None, :]
        return first * scale, covariance * scale**2

    def complete_data_sd(self, points: "Floats", n_records: "Floats") -> "Floats":
        """Return the sds in the normal-inverse-gamma posterior after n records with typical sums."""
        import numpy as np

        variance = np.exp(-points[..., 1])
        shape, rate = self.shape + n_records / 2.0, self.rate + n_records * variance / 2.0
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = np.where(shape > 1.0, np.sqrt(rate / (shape - 1.0) / (self.strength + n_records)), np.inf)
            of_variance = np.where(shape > 2.0, rate / (shape - 1.0) / np.sqrt(shape - 2.0), np.inf)
        return np.stack([of_mean, of_variance], axis=-1)

    def draw_plug_in(self, observed: "Floats", n_records: float, size: int, rng: "np.random.Generator") -> "Floats":
        """Draw from the normal-inverse-gamma posterior of the nearest possible sums."""
        import numpy as np

        scale, n = float(self.column.steps) ** 2, n_records
        half, middle = (self.column.upper - self.column.lower) / 2.0, (self.column.upper + self.column.lower) / 2.0
        if self.counted:
            n = min(max(observed[2] / scale, 0.0), n_records)
        center = min(max(observed[0] / scale / 2.0, -n), n) / n if n > 0 else 0.0
        square = min(max(observed[1] / scale / n, center**2), 1.0) if n > 0 else 0.0
        mean, spread = middle + half * center, n * half**2 * (square - center**2)
        strength, shape = self.strength + n, self.shape + n / 2.0
        shift = self.strength * n / strength * (mean - self.prior_mean) ** 2
        rate = self.rate + (spread + shift) / 2.0
        variance = rate / rng.standard_gamma(shape, size)
        location = (self.strength * self.prior_mean + n * mean) / strength
        return np.column_stack([location + np.sqrt(variance / strength) * rng.standard_normal(size), variance])


@dataclass(frozen=True)
class Normal(BoundedNumber):
    """Records are N(mean, variance), both unknown, clamped or dropped at public bounds.

    1 / variance ~ Gamma(shape, rate); mean | variance ~ N(prior mean, variance / strength).

    Source: Bernstein and Sheldon 2018 sec. 3.3, Alg. 2-3 (univariate families with truncation); Foulds et al. 2016
        sec. 3.
    """

    name: ClassVar[str] = "normal"
    summary: ClassVar[str] = "mean and variance of a number, normal-inverse-gamma prior"
    info: ClassVar[MethodInfo] = MethodInfo(
        releases="The noisy sum of the numbers and of their squares and, if it is private, the noisy number of "
        "records that count; and the joint posterior of mean and variance inferred from them.",
        guarantee="The mechanism gives the guarantee. In units of the range, one record moves sum, squares and count "
        "together by at most 4, not by 5, the sum of their separate sensitivities: the count costs nothing.",
        assumptions="Each record holds one number, rounded to a public grid of 2^14 steps between public bounds; a "
        "number outside the bounds is clamped to them or dropped. Before that, records are normal. Inference takes "
        "the sum of many records to be normal given the parameters. With impute:VALUE, the custodian states that "
        "VALUE is a fair stand-in.",
        source="Bernstein and Sheldon 2018, sec. 3.3 and Alg. 2-3; Park and Casella 2008 (scale mixture).",
        corrections="The paper's listing omits a factor from the mean of a random sum, draws the truncated sum from "
        "its prior, and treats its three regions as independent, which makes variances 1.21 times too large in its "
        "own example. Here mean and covariance are those of one record, clamped or dropped, times the number of "
        "records, and the sum is drawn given what was released.",
        prefer_when="You have a measurement of unknown mean and spread. If the spread is known, normal-mean spends "
        "all of the budget on the mean.",
    )
    domain_type: ClassVar[type[Section]] = NormalDomain
    prior_type: ClassVar[type[Section]] = NormalPrior
    bound_keys: ClassVar[tuple[str, ...]] = ("lower", "upper")
    examples: ClassVar[tuple[Example, ...]] = (
        Example({"lower": -3.0, "upper": 1.5}),
        Example({"lower": 0.0, "upper": 1.5, "out_of_bounds": "drop"}),
    )
    first_spec: ClassVar[Mapping[str, str]] = {"lower": "0", "upper": "100"}

    lower: float
    upper: float
    prior_mean: float
    strength: float
    shape: float
    rate: float
    out_of_bounds: Outside = "clamp"

    @classmethod
    def build(cls, domain: Section, prior: Section) -> Self:
        """Build the model from its sections of a spec."""
        bounds, normal = require_type(domain, NormalDomain), require_type(prior, NormalPrior)
        parts = (normal.mean, normal.strength, normal.shape, normal.rate)
        return cls(bounds.lower, bounds.upper, *parts, bounds.out_of_bounds)

    @property
    def column(self) -> NumericColumn:
        """The number."""
        return NumericColumn("value", self.lower, self.upper, STEPS, outside=self.out_of_bounds)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The mean and the variance."""
        return ("mean", "variance")

    def predictive(self, mean: Sequence[float]) -> dict[str, float]:
        """Return the mean of a new record."""
        return {"mean": mean[0]}

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sum, the sum of squares and, if it is private, the number of valid records.

        Privacy: see ``second_moments`` for one column: L1 sensitivity 4 S^2, S the number of grid steps.
        Source: design notes, integer statistics on a public grid.
        """
        return second_moments(self.columns, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        """Return the noisy sums as an observation; see ``NoisyStatistics``."""
        counted, total = can_be_null(policy, self.column), record_count(policy, n_records)
        inside = total.kind == "unbounded" and self.out_of_bounds == "drop"
        law = NormalRecords(self.prior_mean, self.strength, self.shape, self.rate, self.column, counted, inside)
        return NoisySums(law, tuple(released), noise, total, STEPS**2 if counted else 0)

    def draw_records(self, n_records: int, rng: "np.random.Generator") -> "tuple[tuple[float, ...], Floats]":
        """Draw mean and variance from the prior, and normal numbers with them."""
        law = NormalRecords(self.prior_mean, self.strength, self.shape, self.rate, self.column, False)
        mean, variance = law.parameters(law.draw_prior(1, rng))[0].tolist()
        return (mean, variance), rng.normal(mean, variance**0.5, n_records)
