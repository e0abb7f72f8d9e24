"""The release document: all public facts about a release, and the draw that the ledger seals.

``release.json`` is this document; its JSON Schema is shipped beside this file. Other programs read it, so a key never
changes its meaning; new keys come with a new ``schema_version``.
"""

from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.bundle.version_1 import parameters_formerly, parameters_today
from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.version_1 import with_former_names, with_todays_names

SCHEMA_VERSION = 2
_MAX_CONTAINERS = 9_000_000
"""Lists and objects of a document: in memory each takes many times its two characters."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the document; an unknown key is an error."""


class ReleasedStatistic(_Part, frozen=True, kw_only=True):
    """One privatized integer."""

    name: str
    value: Annotated[
        int,
        Meta(
            ge=-(2**62),
            le=2**62,
            description="the exact count plus noise; may be negative or above the number of records",
        ),
    ]
    noise_scale: Annotated[float, Meta(description="scale of the noise, in counts")]


Kind = Literal["pure", "approximate", "bounded-range", "zcdp", "gdp", "rdp", "composition"]


class ReleasedGuarantee(_Part, frozen=True, kw_only=True, omit_defaults=True):
    """A privacy guarantee."""

    kind: Kind
    epsilon: Annotated[float | None, Meta(description="at delta; null if there is no such guarantee")]
    delta: float
    neighbors: Neighbors
    rho: Annotated[float | None, Meta(description="zCDP")] = None
    mu: Annotated[float | None, Meta(description="Gaussian differential privacy")] = None
    rdp: Annotated[
        list[Annotated[list[float], Meta(min_length=2, max_length=2)]] | None,
        Meta(description="[order, Renyi divergence] pairs"),
    ] = None
    order_max: Annotated[float | None, Meta(description="there is no bound at or above this order")] = None
    parts: Annotated[
        "list[ReleasedGuarantee]", Meta(description="of a composition: the guarantee of each step, in order")
    ] = []


class ReleasedBounds(_Part, frozen=True, kw_only=True):
    """The bounds of the statistics, if they were found privately."""

    lower: float
    upper: float


class Noise(_Part, frozen=True, kw_only=True):
    """The exact law of the noise, which is independent for each statistic."""

    law: Annotated[str, Meta(description="a registered kind: discrete-laplace, discrete-gaussian, or a plug-in's")]
    scale: Annotated[
        Annotated[float, Meta(gt=0.0, le=1e15)] | None,
        Meta(
            description="P(z) on the integers is proportional to exp(-|z| / scale), or exp(-z^2 / (2 scale^2)); null "
            "if the statistics have different scales: see the noise_scale of each",
        ),
    ]
    parameters: Annotated[
        dict[str, Any] | UnsetType, Meta(description="further parameters of the law; absent if there are none")
    ] = UNSET

    def __post_init__(self) -> None:
        noise_law_type(self.law)


class ParameterSummary(_Part, frozen=True, kw_only=True):
    """The posterior of one parameter; a single posterior draw has only a mean, which is the draw."""

    mean: float
    sd: float | None
    q05: float | None
    q50: float | None
    q95: float | None


class Width(_Part, frozen=True, kw_only=True):
    """The two parts of a posterior standard deviation: sd^2 = sd_data^2 + sd_noise^2."""

    sd_data: Annotated[
        float, Meta(description="the sd that would remain on average if the exact statistics were known")
    ]
    sd_noise: Annotated[float, Meta(description="the sd that the noise on the statistics adds")]


class InferenceReport(_Part, frozen=True, kw_only=True):
    """How the posterior was computed from the statistics."""

    method: Literal["noise-aware", "chain", "naive", "posterior-draws", "estimates"]
    how: str
    exact: bool
    monte_carlo_error: Annotated[float, Meta(description="standard error of the reported means, in units of their sd")]
    diagnostics: dict[str, float | None]
    warnings: list[str]
    samples: int
    samples_format: Literal["parquet", "csv", "netcdf"]

    @property
    def samples_file(self) -> str:
        """The name of the file that holds the samples."""
        return samples_name(self.samples_format)


class LedgerReference(_Part, frozen=True, kw_only=True):
    """The ledger entry that charged the release."""

    sequence: int
    hash: str


class SealedDraw(_Part, frozen=True, kw_only=True):
    """The privatized values, which the ledger seals before anything is computed from them.

    Privacy: nothing that depends on a draw may run before it is sealed. Otherwise a failure, a kill or a wait could
        reveal something about a draw that nobody paid for, and the next attempt would draw again.
    """

    schema_version: Literal[1] = 1
    created: str
    record_unit: str
    n_records: int | None
    statistics: list[ReleasedStatistic] = []
    noise: Noise | None = None
    draws: list[list[float]] = []
    drawn_states: list[list[int]] | msgspec.UnsetType = msgspec.UNSET
    log_weight: float | msgspec.UnsetType = msgspec.UNSET
    bounds: ReleasedBounds | msgspec.UnsetType = msgspec.UNSET

    def payload(self) -> bytes:
        """Return the bytes that are sealed."""
        return msgspec.json.encode(self)

    @property
    def released_states(self) -> list[list[int]]:
        """The hidden states of each draw; empty for models without hidden states."""
        return [] if isinstance(self.drawn_states, msgspec.UnsetType) else self.drawn_states


class ReleaseDocument(_Part, frozen=True, kw_only=True):
    """Everything public about a release."""

    schema_version: Literal[2] = 2
    release_id: str
    account: str
    created: Annotated[str, Meta(description="when the data were read, UTC")]
    model: str
    mechanism: str
    spec: Annotated[dict[str, Any], Meta(description="the release request in full, defaults included, without paths")]
    record_unit: Annotated[str, Meta(description="the kind of a record of the source")]
    privacy_unit: Annotated[str, Meta(description="the unit in which neighboring data sets differ")]
    n_records: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(description="the public number of records; null if it is private"),
    ]
    statistics: Annotated[
        list[ReleasedStatistic], Meta(description="empty if posterior draws or estimates were released")
    ]
    meanings: Annotated[
        dict[str, str],
        Meta(description="for each statistic or table of statistics: what a record adds to it, before the noise"),
    ]
    noise: Annotated[Noise | None, Meta(description="null if posterior draws or estimates were released")]
    draws: Annotated[list[list[float]], Meta(description="the released posterior draws or estimates, one list each")]
    drawn_states: Annotated[
        list[list[int]] | msgspec.UnsetType,
        Meta(description="the hidden states of each draw, from 0, sequence by sequence; absent for models without"),
    ] = msgspec.UNSET
    log_weight: Annotated[
        float | msgspec.UnsetType,
        Meta(description="the noisy log importance weight of an annealed chain; absent unless requested"),
    ] = msgspec.UNSET
    parameters: Annotated[dict[str, Any], Meta(description="the parameters that the mechanism's calibration chose")]
    sensitivity_l1: Annotated[int | None, Meta(description="null if a chain reads rows instead of a statistic")]
    bounds: Annotated[
        ReleasedBounds | msgspec.UnsetType,
        Meta(description="the bounds found privately, at the cost of the first step; absent if stated"),
    ] = msgspec.UNSET
    guarantee: ReleasedGuarantee
    posterior: dict[str, ParameterSummary]
    width: dict[str, Width]
    posterior_predictive: dict[str, float]
    inference: InferenceReport
    tables: Annotated[
        str | msgspec.UnsetType,
        Meta(description="what the counts in tables.csv are; absent if the model is not a network"),
    ] = msgspec.UNSET
    states: Annotated[
        list[list[list[Annotated[float, Meta(ge=0.0, le=1.0)]]]] | msgspec.UnsetType,
        Meta(
            description="for hidden Markov models: the probability of each state, by sequence, step and state, "
            "6 digits; absent for other models"
        ),
    ] = msgspec.UNSET
    assumptions: list[str]
    corrections: list[str]
    ledger: LedgerReference
    software: dict[str, str]

    def payload(self) -> bytes:
        """Return the compact JSON that the ledger keeps of a published release, in the model's order of parameters."""
        return msgspec.json.encode(self)

    @property
    def released_states(self) -> list[list[int]]:
        """The hidden states of each draw; empty for models without hidden states."""
        return [] if isinstance(self.drawn_states, msgspec.UnsetType) else self.drawn_states

    def pretty(self) -> bytes:
        """Return the bytes of ``release.json``."""
        return msgspec.json.format(self.payload(), indent=2) + b"\n"

    def builtins(self) -> dict[str, Any]:
        """Return the document as plain dictionaries and lists."""
        return cast(dict[str, Any], msgspec.to_builtins(self))


class Version1Document(ReleaseDocument, frozen=True, kw_only=True):
    """A document of version 1; in memory ``spec`` and ``parameters`` have the names of today, and on disk their own."""

    schema_version: Literal[1] = 1  # type: ignore[assignment]

    def with_todays_names(self) -> "Version1Document":
        """Return what was read of a file, with the names of today."""
        parameters = parameters_today(self.mechanism, self.parameters)
        return msgspec.structs.replace(self, spec=with_todays_names(self.spec), parameters=parameters)

    def _as_written(self) -> "Version1Document":
        parameters = parameters_formerly(self.mechanism, self.parameters)
        return msgspec.structs.replace(self, spec=with_former_names(self.spec), parameters=parameters)

    def payload(self) -> bytes:
        """Return the compact JSON that the ledger keeps, in the words of version 1."""
        return msgspec.json.encode(self._as_written())

    def builtins(self) -> dict[str, Any]:
        """Return the document as plain dictionaries and lists, in the words of version 1."""
        return cast(dict[str, Any], msgspec.to_builtins(self._as_written()))


class _Versioned(msgspec.Struct):
    """The schema version, which is read first."""

    schema_version: int


def parse_document(content: bytes) -> ReleaseDocument:
    """Read a release document.

    Raises:
        VerificationError: the content is not a release document, or its schema is newer.
    """
    if content.count(b"[") + content.count(b"{") > _MAX_CONTAINERS:
        raise VerificationError("release.json has more lists and objects than a release can have")
    try:
        version = msgspec.json.decode(content, type=_Versioned).schema_version
    except (msgspec.DecodeError, RecursionError):
        raise VerificationError("release.json is not a release document") from None
    if version not in {1, SCHEMA_VERSION}:
        raise VerificationError(f"the bundle has schema version {version}; this dpbayes reads 1 to {SCHEMA_VERSION}")
    try:
        if version == 1:
            return msgspec.json.decode(content, type=Version1Document).with_todays_names()
        return msgspec.json.decode(content, type=ReleaseDocument)
    except (msgspec.DecodeError, RecursionError) as error:
        raise VerificationError("release.json is not a valid release document", findings=[str(error)]) from None


def parse_draw(content: bytes) -> SealedDraw:
    """Read a sealed draw.

    Raises:
        VerificationError: the payload is not a sealed draw.
    """
    try:
        return msgspec.json.decode(content, type=SealedDraw)
    except (msgspec.DecodeError, RecursionError):
        raise VerificationError("the sealed draw cannot be read by this version of dpbayes") from None


def samples_name(form: str) -> str:
    """Return the name of the samples file for a format."""
    return f"samples.{'nc' if form == 'netcdf' else form}"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``release.json``."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(ReleaseDocument)}
