"""Models of jointly normal numbers: columns, second moments, and their noisy observation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta
from msgspec.structs import asdict

from dpbayes_cli.base.errors import SpecError, nearest
from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, check_bounds
from dpbayes_cli.core.inference_options import InferenceOptions, SumInference
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisySums, valid_count
from dpbayes_cli.core.second_moments import second_moments
from dpbayes_cli.core.section import Positive, Section
from dpbayes_cli.core.statistic import Statistic, can_be_null
from dpbayes_cli.models.families.domain_types import Bound
from dpbayes_cli.privacy.noise import NoiseLaw

if TYPE_CHECKING:
    from dpbayes_cli.core.record_law import LatentSums, RecordLaw

STEPS = 1 << 14
"""Number of grid steps between the bounds; a sum of a billion products of codes stays below 2^60."""


Spread = Annotated[
    Positive | None,
    Meta(
        description="scale of the half-normal prior of a standard deviation, in units of (mean - lower) * (upper - "
        "mean) / (upper - lower) [1]"
    ),
]
"""The key of the default prior of means, standard deviations and correlations."""


_SCALES = ("variance_scale", "spread")
"""The keys of priors that are not conjugate; a prior has at most one of them."""


def is_conjugate(prior: Section) -> bool:
    """Return whether a key of the conjugate prior is stated."""
    return any(value is not None and value != {} for key, value in asdict(prior).items() if key not in _SCALES)


def check_one_prior(prior: Section) -> None:
    """Raise ``ValueError`` if keys of several priors are stated."""
    stated = [key for key in _SCALES if getattr(prior, key, None) is not None]
    stated += ["keys of the conjugate prior"] * is_conjugate(prior)
    if len(stated) > 1:
        raise ValueError(f"state {', or '.join(stated)}, but not both")


class NumberBounds(Section, frozen=True, kw_only=True):
    """The public bounds of a number."""

    lower: Annotated[Bound, Meta(description="the lower bound, to which lower numbers are clamped")]
    upper: Annotated[Bound, Meta(description="the upper bound, to which higher numbers are clamped")]

    def __post_init__(self) -> None:
        check_bounds(self.lower, self.upper)


@dataclass(frozen=True)
class JointNormal(NoisyStatistics):
    """A model of records that are normal vectors.

    Attributes:
        bounds: name, lower and upper bound of each column.
        prior_mean, deviation: prior mean and standard deviation of each column, in the units of the file.
        strength: the weight of the prior means, in records.
    """

    inference_options: ClassVar[type[InferenceOptions]] = SumInference

    bounds: tuple[tuple[str, float, float], ...]
    prior_mean: tuple[float, ...]
    deviation: tuple[float, ...]
    strength: float

    @property
    def scaled_columns(self) -> tuple[NumericColumn, ...]:
        """The columns of numbers whose second moments are released."""
        return tuple(NumericColumn(name, low, high, STEPS) for name, low, high in self.bounds)

    @property
    def columns(self) -> tuple[AnyColumn, ...]:
        return self.scaled_columns

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.bounds)

    @property
    def scaled_prior(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Prior means and deviations of the numbers scaled to [-1, 1]."""
        ranges = [((high - low) / 2.0, (high + low) / 2.0) for _, low, high in self.bounds]
        mean = tuple((m - middle) / half for m, (half, middle) in zip(self.prior_mean, ranges, strict=True))
        return mean, tuple(s / half for s, (half, _) in zip(self.deviation, ranges, strict=True))

    @abstractmethod
    def law(self, counted: bool) -> RecordLaw | LatentSums:
        """Return the law of the statistic; with ``counted``, it includes the count of valid records."""

    def statistic(self, policy: RecordPolicy) -> Statistic:
        """Return the sums of values, squares and products; also the number of valid records, if that number is private.

        Privacy: see ``second_moments``: the L1 sensitivity is (D + 1)^2 S^2 for D columns and S grid steps.
        Source: derived here.
        """
        return second_moments(self.columns, policy)

    def observation(
        self, policy: RecordPolicy, released: Sequence[int], noise: NoiseLaw, n_records: int | None
    ) -> NoisySums:
        counted = can_be_null(policy, *self.columns)
        weight = STEPS**2 if counted else 0
        return NoisySums(self.law(counted), tuple(released), noise, valid_count(policy, n_records), weight)


def prior_by_column(
    bounds: Sequence[tuple[str, float, float]], mean: Mapping[str, float], deviation: Mapping[str, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the prior mean and deviation of each column; by default, the middle and a sixth of the column's range.

    Raises:
        SpecError: the prior names an unknown column.
    """
    names = [name for name, _, _ in bounds]
    for key, stated in (("mean", mean), ("deviation", deviation)):
        for name in stated:
            if name not in names:
                raise SpecError(f"there is no column {name!r}", where=f"prior.{key}", hint=nearest(name, names))
    means = tuple(mean.get(name, (low + high) / 2.0) for name, low, high in bounds)
    return means, tuple(deviation.get(name, (high - low) / 6.0) for name, low, high in bounds)
