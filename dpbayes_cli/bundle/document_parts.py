"""The parts of a release document: statistics, guarantee, noise, posterior, groups and how they were computed."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.privacy.neighbors import Neighbors


def about(description: str) -> Meta:
    """Return the metadata of a key with a description."""
    return Meta(description=description)


class DocumentPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the document; an unknown key is an error."""


class ReleasedStatistic(DocumentPart, frozen=True, kw_only=True):
    """One privatized integer."""

    name: str
    value: Annotated[
        int,
        Meta(
            ge=-(2**62),
            le=2**62,
            description="the exact count plus noise; the sum may be negative or above the number of records",
        ),
    ]
    noise_scale: Annotated[float, about("scale of the noise, in units of the value")]


class ReleasedGroups(DocumentPart, frozen=True, kw_only=True):
    """The privatized integers of groups, in the order of the keys in the spec or of the published keys."""

    components: Annotated[list[str], about("the names of the integers of one group")]
    values: Annotated[
        list[Annotated[int, Meta(ge=-(2**62), le=2**62)]],
        about("the integers, group by group: the exact counts plus noise"),
    ]
    noise_scale: Annotated[float, about("scale of the noise on each integer")]
    keys: Annotated[
        list[str] | UnsetType,
        about("the keys found in the data that passed the threshold, sorted; absent if the spec lists the keys"),
    ] = UNSET


Kind = Literal["pure", "approximate", "bounded-range", "zcdp", "gdp", "rdp", "failure", "composition"]


class ReleasedGuarantee(DocumentPart, frozen=True, kw_only=True, omit_defaults=True):
    """A privacy guarantee."""

    kind: Kind
    epsilon: Annotated[
        float | None, about("the epsilon of the guarantee at this delta; null if there is no such epsilon")
    ]
    delta: float
    neighbors: Neighbors
    rho: Annotated[float | None, about("zCDP")] = None
    mu: Annotated[float | None, about("Gaussian differential privacy")] = None
    rdp: Annotated[
        list[Annotated[list[float], Meta(min_length=2, max_length=2)]] | None,
        about("pairs of an order and an upper bound on the Renyi divergence"),
    ] = None
    order_max: Annotated[float | None, about("no bound on the Renyi divergence holds at this order or above it")] = None
    parts: Annotated["list[ReleasedGuarantee]", about("the guarantee of each step of a composition, in order")] = []


Structure = Annotated[
    dict[str, list[str]],
    about("the parents of each variable, which the first step found privately; absent if the request states them"),
]


Points = Annotated[
    list[list[int]],
    about(
        "the coefficients, in units of 1/1024, at which each round's derivatives were released; absent without rounds"
    ),
]


class ReleasedBounds(DocumentPart, frozen=True, kw_only=True):
    """The bounds of the statistics, if they were found privately."""

    lower: float
    upper: float


class Noise(DocumentPart, frozen=True, kw_only=True):
    """The exact law of the noise, which is independent for each statistic."""

    law: Annotated[
        str,
        about(
            "the name of the law: discrete-laplace, discrete-gaussian, rounded-gaussian, or the name that a plug-in "
            "registers"
        ),
    ]
    scale: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e15)] | None,
        Meta(
            description="The probability of an integer z is proportional to exp(-|z| / scale) for discrete-laplace, "
            "and to exp(-z^2 / (2 * scale^2)) for discrete-gaussian; rounded-gaussian noise is a normal number with "
            "standard deviation scale, rounded to an integer; null if noise_scale differs between statistics",
        ),
    ]
    parameters: Annotated[
        dict[str, Any] | UnsetType, about("further parameters of the law; absent if there are none")
    ] = UNSET

    def __post_init__(self) -> None:
        noise_law_type(self.law)


class ParameterSummary(DocumentPart, frozen=True, kw_only=True):
    """The summary of one parameter's posterior.

    For a single released draw, and for point estimates, all fields except ``mean`` are null.
    """

    mean: float
    sd: float | None
    q05: float | None
    q50: float | None
    q95: float | None


class Width(DocumentPart, frozen=True, kw_only=True):
    """The two parts of a posterior standard deviation: sd^2 = sd_data^2 + sd_noise^2."""

    sd_data: Annotated[float, about("the standard deviation that would remain if the exact statistics were known")]
    sd_noise: Annotated[float, about("the standard deviation that the noise on the statistics adds")]


class EffectSummary(ParameterSummary, frozen=True, kw_only=True):
    """The summary of the posterior of an effect."""

    log_width: Annotated[
        Width | UnsetType, about("the parts of the standard deviation of the logarithm of a ratio; absent if unknown")
    ] = UNSET


class StatedResult(DocumentPart, frozen=True, kw_only=True):
    """A number that the first sentence of the result states."""

    statement: Annotated[str, about("the clause of the sentence, with the rounded estimate")]
    parameter: Annotated[str, about("the parameter from which the number is computed, or the first of them")]
    estimate: Annotated[float, about("the number; a probability from 0 to 1 if the clause states a percentage")]
    q05: Annotated[float | None, about("the lower end of the 90 % interval; null if there is no interval")]
    q95: Annotated[float | None, about("the upper end of the 90 % interval; null if there is no interval")]


class ValidRecords(DocumentPart, frozen=True, kw_only=True):
    """The posterior of the number of valid records, computed from the released statistics alone."""

    mean: float
    q05: Annotated[float, about("lower end of the 90 % interval: the 10 % quantile if q95 is the number of records")]
    q95: Annotated[float, about("upper end of the 90 % interval: the number of records if all of them may be valid")]


class ExtremeGroup(DocumentPart, frozen=True, kw_only=True):
    """The posterior of one group."""

    key: str
    mean: float
    q05: float
    q95: float
    records: Annotated[float, about("the posterior mean of the group's number of valid records")]


_ALL_IF_FEW = "; all of them if there are at most ten groups"


class ExtremeGroups(DocumentPart, frozen=True, kw_only=True):
    """The groups whose 90 % interval of a parameter excludes the mean of all groups, or all groups if these are few."""

    parameter: str
    n_above: int
    n_below: int
    highest: Annotated[list[ExtremeGroup], about(f"up to ten groups above the mean, the highest first{_ALL_IF_FEW}")]
    lowest: Annotated[list[ExtremeGroup], about(f"up to ten groups below the mean, the lowest first{_ALL_IF_FEW}")]


ReportedMethod = Literal["noise-aware", "chain", "naive", "posterior-draws", "estimates"]


class InferenceReport(DocumentPart, frozen=True, kw_only=True):
    """How the posterior was computed from the statistics."""

    method: ReportedMethod
    how: str
    exact: bool
    monte_carlo_error: Annotated[
        float, about("the largest Monte Carlo standard error of a mean, in posterior standard deviations")
    ]
    diagnostics: dict[str, float | None]
    warnings: list[str]
    samples: int
    samples_format: Literal["parquet", "csv", "netcdf"]

    @property
    def samples_file(self) -> str:
        """The name of the file that holds the samples."""
        return f"samples.{'nc' if self.samples_format == 'netcdf' else self.samples_format}"


class LedgerReference(DocumentPart, frozen=True, kw_only=True):
    """The ledger entry that charged the release."""

    sequence: int
    hash: str
