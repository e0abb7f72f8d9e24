"""The release document: all public facts about a release, and the draw that the ledger seals.

``release.json`` is this document; its JSON Schema is shipped beside this file. Other programs read it, so a key never
changes its meaning; new keys come with a new ``schema_version``.
"""

from inspect import cleandoc
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dpbayes_cli.base.errors import VerificationError
from dpbayes_cli.bundle.document_parts import (
    DocumentPart,
    EffectSummary,
    ExtremeGroups,
    InferenceReport,
    LedgerReference,
    Noise,
    ParameterSummary,
    Points,
    ReleasedBounds,
    ReleasedGroups,
    ReleasedGuarantee,
    ReleasedStatistic,
    StatedResult,
    Structure,
    ValidRecords,
    Width,
    about,
)
from dpbayes_cli.bundle.version_1 import parameters_formerly, parameters_today
from dpbayes_cli.spec.version_1 import with_former_names, with_todays_names

SCHEMA_VERSION = 2
_MAX_CONTAINERS = 9_000_000
"""The largest number of lists and objects in the JSON. An empty one has two characters in the file, but takes many
times as much memory."""


class SealedDraw(DocumentPart, frozen=True, kw_only=True):
    """The privatized values, which the ledger seals before anything is computed from them.

    Privacy: no code that depends on a draw may run before the draw is sealed. Otherwise the failure or the running time
        of that code could reveal something about the draw, and the next attempt would draw again at no further charge.
    """

    schema_version: Literal[1] = 1
    created: str
    record_unit: str
    n_records: int | None
    statistics: list[ReleasedStatistic] = []  # noqa: RUF012 - msgspec copies it
    groups: ReleasedGroups | UnsetType = UNSET
    noise: Noise | None = None
    draws: list[list[float]] = []  # noqa: RUF012 - msgspec copies it
    drawn_states: list[list[int]] | UnsetType = UNSET
    log_weight: float | UnsetType = UNSET
    bounds: ReleasedBounds | UnsetType = UNSET
    structure: Structure | UnsetType = UNSET
    points: Points | UnsetType = UNSET

    def payload(self) -> bytes:
        """Return the bytes that the ledger seals."""
        return msgspec.json.encode(self)

    @property
    def released_states(self) -> list[list[int]]:
        """The hidden states of each draw; empty for models without hidden states."""
        return [] if isinstance(self.drawn_states, UnsetType) else self.drawn_states


class ReleaseDocument(DocumentPart, frozen=True, kw_only=True, dict=True):
    """Everything public about a release."""

    schema_version: Literal[2] = 2
    release_id: str
    title: Annotated[str | UnsetType, about("the custodian's title for the release; absent if there is none")] = UNSET
    account: str
    created: Annotated[str, about("when the data were read, UTC")]
    model: str
    mechanism: str
    spec: Annotated[dict[str, Any], about("the release request with all defaults and without paths")]
    record_unit: Annotated[str, about("the kind of record in the data source, such as a physical line")]
    privacy_unit: Annotated[str, about("the unit in which neighboring data sets differ")]
    n_records: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        about("the public number of records; null if it is private"),
    ]
    statistics: Annotated[
        list[ReleasedStatistic],
        about("the released statistics; empty if draws, estimates or the statistics of groups were released"),
    ]
    groups: Annotated[
        ReleasedGroups | UnsetType, about("the released statistics of groups; absent if there are no groups")
    ] = UNSET
    meanings: Annotated[
        dict[str, str],
        about("what a record adds to each statistic, or to each table of statistics, before the noise"),
    ]
    noise: Annotated[Noise | None, about("the law of the noise; null if draws or estimates were released")]
    draws: Annotated[list[list[float]], about("the released posterior draws or estimates, each a list of parameters")]
    drawn_states: Annotated[
        list[list[int]] | UnsetType,
        about("the hidden states of each draw, numbered from 0, sequence by sequence; absent without hidden states"),
    ] = UNSET
    log_weight: Annotated[
        float | UnsetType,
        about("the noisy log importance weight of an annealed chain; absent if it was not requested"),
    ] = UNSET
    parameters: Annotated[dict[str, Any], about("the parameters that the mechanism's calibration chose")]
    sensitivity_l1: Annotated[int | None, about("the L1 sensitivity; null if a private chain reads rows")]
    bounds: Annotated[
        ReleasedBounds | UnsetType,
        about("the bounds that the first step found privately; absent if the request states bounds"),
    ] = UNSET
    structure: Structure | UnsetType = UNSET
    points: Points | UnsetType = UNSET
    guarantee: ReleasedGuarantee
    posterior: dict[str, ParameterSummary]
    results: Annotated[
        list[StatedResult] | UnsetType,
        about("the numbers that the first sentence of the result states; absent if an earlier version wrote this"),
    ] = UNSET
    effects: Annotated[
        dict[str, EffectSummary] | UnsetType,
        about("ratios, and average effects of a change in one column, in the units of the data; absent without any"),
    ] = UNSET
    width: dict[str, Width]
    posterior_predictive: dict[str, float]
    inference: InferenceReport
    valid_records: Annotated[
        ValidRecords | UnsetType | None,
        about(
            "the posterior of the number of valid records; null if what was released does not count them; absent if an "
            "earlier version of dpbayes wrote the document"
        ),
    ] = UNSET
    extreme_groups: Annotated[
        list[ExtremeGroups] | UnsetType,
        about("for each parameter, the groups that differ most from the mean of all groups; absent without groups"),
    ] = UNSET
    extreme_larger_groups: Annotated[
        list[ExtremeGroups] | UnsetType,
        about("for each parameter, the larger groups whose means differ most from the mean of all; absent without any"),
    ] = UNSET
    tables: Annotated[
        str | UnsetType,
        about("how the counts in tables.csv were computed; absent if the model is not a network"),
    ] = UNSET
    states: Annotated[
        list[list[list[Annotated[float, Meta(ge=0.0, le=1.0)]]]] | UnsetType,
        Meta(
            description="for hidden Markov models: the probability of each state, in lists by sequence, step and "
            "state, with 6 digits; absent for other models"
        ),
    ] = UNSET
    assumptions: list[str]
    corrections: list[str]
    ledger: LedgerReference
    software: Annotated[
        dict[str, str],
        about("versions of dpbayes, of its libraries, and of the packages that the model, mechanism or law comes from"),
    ]

    def payload(self) -> bytes:
        """Return the compact JSON that the ledger keeps of a published release."""
        return msgspec.json.encode(self)

    @property
    def released_states(self) -> list[list[int]]:
        """The hidden states of each draw; empty for models without hidden states."""
        return [] if isinstance(self.drawn_states, UnsetType) else self.drawn_states

    @property
    def heading(self) -> str:
        """The title of the release or, without one, its ID."""
        return f"Private posterior release {self.release_id}" if isinstance(self.title, UnsetType) else self.title

    def pretty(self) -> bytes:
        """Return the bytes of ``release.json``."""
        return msgspec.json.format(self.payload(), indent=2) + b"\n"


class Version1Document(ReleaseDocument, frozen=True, kw_only=True):
    """A document of version 1, with today's names in memory and the old names on disk."""

    schema_version: Literal[1] = 1  # type: ignore[assignment]

    def with_todays_names(self) -> "Version1Document":
        """Return the document that was read from a file, with today's names."""
        parameters = parameters_today(self.mechanism, self.parameters)
        return msgspec.structs.replace(self, spec=with_todays_names(self.spec), parameters=parameters)

    def payload(self) -> bytes:
        """Return the compact JSON that the ledger keeps, with the names of version 1."""
        parameters = parameters_formerly(self.mechanism, self.parameters)
        written = msgspec.structs.replace(self, spec=with_former_names(self.spec), parameters=parameters)
        return msgspec.json.encode(written)


class _Versioned(msgspec.Struct):
    """The schema version, which is read before the rest of the document."""

    schema_version: int


def parse_document(content: bytes) -> ReleaseDocument:
    """Read a release document; raise ``VerificationError`` if it is not valid, or if a later version wrote it."""
    if content.count(b"[") + content.count(b"{") > _MAX_CONTAINERS:
        raise VerificationError("release.json has too many lists and objects to be a release document")
    try:
        version = msgspec.json.decode(content, type=_Versioned).schema_version
    except (msgspec.DecodeError, RecursionError):
        raise VerificationError("release.json is not a release document") from None
    if version not in {1, SCHEMA_VERSION}:
        raise VerificationError(
            f"the bundle has schema version {version}; this dpbayes reads versions 1 to {SCHEMA_VERSION}"
        )
    try:
        if version == 1:
            return msgspec.json.decode(content, type=Version1Document).with_todays_names()
        return msgspec.json.decode(content, type=ReleaseDocument)
    except (msgspec.DecodeError, RecursionError) as error:
        raise VerificationError("release.json is not a valid release document", findings=[str(error)]) from None


def parse_draw(content: bytes) -> SealedDraw:
    """Read a sealed draw; raise ``VerificationError`` if the payload is not one."""
    try:
        return msgspec.json.decode(content, type=SealedDraw)
    except (msgspec.DecodeError, RecursionError):
        raise VerificationError("the sealed draw cannot be read by this version of dpbayes") from None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``release.json``."""
    schema = msgspec.json.schema(ReleaseDocument)
    for definition in schema["$defs"].values():  # some versions of msgspec leave docstrings indented
        if "description" in definition:
            definition["description"] = cleandoc(definition["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
