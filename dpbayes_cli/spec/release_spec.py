"""The typed spec of a release: what a YAML file and the command line's flags state together."""

import re
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, field

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.grammar import STEERING
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.contracts import WRITTEN_FREELY, Model, Section
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.registry import mechanism_type, model_names, model_type
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.bounds_section import (
    BoundsSection,
    check_place_of_bounds,
    domain_between,
    expect_bounded,
    no_bounds,
    unbounded_domain,
)
from dpbayes_cli.spec.question_sections import PrivacySection, SamplingSection
from dpbayes_cli.spec.sections import convert_section

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_MASTER = re.compile(r"local(?:\[(?:\*|[0-9]{1,4})\])?|yarn|spark://[\w.:,-]+|k8s://https?://[\w.:-]+", re.ASCII)
_IMPUTE = "impute:"
_MOST_NUMBERS = 250_000_000
"""2 GB in memory."""
_FREE = ("prior", "inference")
"""Sections that change what is made of the privatized statistics, not what is asked of the data."""
_OUTSIDE = ("data", "dataset", "records")
"""Keys that say where the data are, whose they are and how many there should be: not what is asked of them."""

_READ_BY = ("engine", "master")


def check_name(name: str) -> None:
    """Refuse the name of an account that is not a plain word.

    Raises:
        ValueError: other characters than letters, digits, dot, underscore and hyphen, or more than 100 of them.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a name: use letters, digits, '.', '_' and '-', at most 100, a letter or digit first"
        )


class InferenceSection(Section, frozen=True, kw_only=True):
    """What is made of the privatized statistics; free, and open to change later with ``dpbayes infer``."""

    method: Annotated[
        Literal["noise-aware", "chain", "naive"],
        Meta(description="noise-aware (exact where affordable), chain (Markov chains everywhere) or naive"),
    ] = "noise-aware"
    ess: Annotated[int, Meta(ge=50, le=100_000, description="effective draws that Markov chains must reach")] = 400
    sweeps: Annotated[
        int, Meta(ge=50, le=100_000, description="with hmm: sweeps of each Markov chain after warming up")
    ] = 120
    sampler: Annotated[
        Literal["blocked", "collapsed"],
        Meta(description="with hmm: states drawn together, or one after the other with the transitions integrated out"),
    ] = "blocked"
    samples: Annotated[int, Meta(ge=1, le=10_000_000, description="posterior samples to write")] = 4000
    format: Annotated[
        Literal["parquet", "csv", "netcdf"], Meta(description="format of the samples file; netcdf is for ArviZ")
    ] = "parquet"


class SourceSection(Section, frozen=True, kw_only=True):
    """How the file is laid out; never guessed from the data."""

    format: Annotated[Literal["csv", "parquet"] | None, Meta(description="default: by the file's name")] = None
    delimiter: Annotated[str, Meta(description="one character, or tab")] = ","
    quote: Annotated[str, Meta(description="one character")] = '"'
    header: Annotated[bool, Meta(description="whether the first line names the columns")] = True
    columns: Annotated[tuple[str, ...], Meta(description="the columns' names where there is no header")] = ()
    quoted_newlines: Annotated[
        bool, Meta(description="quoted texts may span lines; neighbours are then parsed records")
    ] = False

    engine: Annotated[
        Literal["duckdb", "spark"], Meta(description="what reads the data: the embedded DuckDB, or Spark")
    ] = "duckdb"
    master: Annotated[str, Meta(description="with spark: where it runs")] = "local[*]"

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            raise ValueError(
                "master is none that is known: local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
            )
        for name in ("delimiter", "quote"):
            mark = getattr(self, name)
            if mark in {"\\t", "tab"}:
                msgspec.structs.force_setattr(self, name, "\t")
            elif mark != "\t" and not (len(mark) == 1 and "!" <= mark <= "~" and not mark.isalnum()):
                raise ValueError(f"{name} is {mark!r}: one printable ASCII character, no letter or digit, or tab")
        if self.delimiter == self.quote:
            raise ValueError("delimiter and quote are the same")
        if self.header and self.columns:
            raise ValueError("columns are named although the header names them: add header: false (--no-header)")
        if not self.header and not self.columns:
            raise ValueError("a file without header needs column names: columns: [a, b] (--columns a,b)")


class ReleaseSpec(Section, frozen=True, kw_only=True):
    """A question: a model, a mechanism, a promise, and where the data are."""

    model: str
    domain: Section
    prior: Section
    bounds: BoundsSection | None = None
    mechanism: Annotated[str, Meta(description="a name from: dpbayes mechanisms")] = "laplace"
    dataset: Annotated[str | None, Meta(description="the account that pays; default: the file's stem")] = None
    data: Annotated[
        str | Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(description="the file, or a list of files that are one data set, relative to the spec; '-' for stdin"),
    ] = None
    column: Annotated[str | None, Meta(description="the column; needed if there are several")] = None
    on_invalid: Annotated[str, Meta(description="drop, or impute:VALUE with a value of the domain")] = "drop"
    records: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="the public number, checked")] = None
    privacy: PrivacySection = field(default_factory=PrivacySection)
    source: SourceSection = field(default_factory=SourceSection)
    sampling: SamplingSection = field(default_factory=SamplingSection)
    inference: InferenceSection = field(default_factory=InferenceSection)

    def __post_init__(self) -> None:
        if self.dataset is not None:
            check_name(self.dataset)
        if self.on_invalid != "drop" and not (self.on_invalid.startswith(_IMPUTE) and self.on_invalid != _IMPUTE):
            raise ValueError(f"on_invalid is {self.on_invalid!r}: drop, or impute:VALUE")
        if self.records is not None and self.privacy.neighbors is Neighbors.ADD_REMOVE:
            raise ValueError("under add-remove the number of records is private and cannot be stated")

    def build_model(self, bounds: tuple[float, float] | None = None) -> Model:
        """Build the statistical model that the spec states.

        Args:
            bounds: the bounds that were found privately, where the spec asks for that; None: the whole public range,
                as before they are found.

        Raises:
            SpecError: the domain, the bounds and the prior do not fit each other.
        """
        kind, law = model_type(self.model), self.private_bounds
        if law is None and bounds is not None:
            raise SpecError("the question does not ask for private bounds", where="bounds")
        domain = self.domain
        if law is not None:
            domain = domain_between(expect_bounded(kind), law, domain, bounds)
        return kind.build(domain, self.prior)

    def check_samples(self, model: Model) -> None:
        """Refuse samples of a model's parameters that are too many to hold.

        Raises:
            SpecError: they are.
        """
        if len(model.parameters) * self.inference.samples > _MOST_NUMBERS:
            raise SpecError(
                f"{self.inference.samples:,} samples of {len(model.parameters):,} parameters are more than "
                f"{_MOST_NUMBERS:,} numbers, which would take more memory than a release should",
                where="inference.samples",
                hint=f"at most {max(1, _MOST_NUMBERS // len(model.parameters)):,} samples",
            )

    @property
    def private_bounds(self) -> PrivateBounds | None:
        """The law by which bounds are found privately, None where the domain states them."""
        if self.bounds is None:
            return None
        return self.bounds.law(expect_bounded(model_type(self.model)), self.policy, self.domain)

    @property
    def policy(self) -> RecordPolicy:
        """Neighbours, and what an invalid record counts as."""
        impute = self.on_invalid.removeprefix(_IMPUTE) if self.on_invalid.startswith(_IMPUTE) else None
        unit = self.privacy.unit
        return RecordPolicy(self.privacy.neighbors, impute, 1 if unit is None else unit.max_contributions)

    @property
    def request(self) -> dict[str, Any]:
        """The canonical request: what was asked for, without what was left at its default, and without paths."""
        return _as_asked(_without_defaults(self))

    @property
    def stated_in_full(self) -> dict[str, Any]:
        """The request with every default written out, as a bundle keeps it."""
        full = _as_asked(msgspec.to_builtins(self))
        return {key: value for key, value in full.items() if value is not None}

    @property
    def question_digest(self) -> str:
        """The digest of the part of the request that has a price: everything but what comes after privacy."""
        free = _FREE if mechanism_type(self.mechanism).post_processing else ("inference",)
        priced = {key: value for key, value in self.request.items() if key not in free}
        return digest("question", canonical_json(priced))

    @property
    def request_digest(self) -> str:
        """The digest of the whole canonical request."""
        return digest("request", canonical_json(self.request))


def _as_asked(stated: dict[str, Any]) -> dict[str, Any]:
    """Return what is stated without where the data are, and what reads them: every engine gives the same integers."""
    asked = {key: value for key, value in stated.items() if key not in _OUTSIDE}
    layout = {key: value for key, value in asked.pop("source", {}).items() if key not in _READ_BY}
    return {**asked, "source": layout} if layout else asked


def _without_defaults(section: Section) -> dict[str, Any]:
    """Return the builtin form of a section without what equals its default."""
    stated: dict[str, Any] = {}
    for item in msgspec.structs.fields(section):
        value = getattr(section, item.name)
        if value == item.default and item.default is not msgspec.NODEFAULT:
            continue
        if item.default_factory is not msgspec.NODEFAULT and value == item.default_factory():
            continue
        stated[item.name] = _without_defaults(value) if isinstance(value, Section) else msgspec.to_builtins(value)
    return stated


@lru_cache(maxsize=64)
def spec_type(model: str, *, private_bounds: bool = False) -> type[ReleaseSpec]:
    """Return the typed spec of one model: the common keys with the model's own domain and prior.

    Args:
        model: its name.
        private_bounds: whether ``bounds`` is stated in place of the bounds in the domain.

    Raises:
        SpecError: there is no such model.
    """
    kind = model_type(model)
    name = "".join(part.capitalize() for part in model.split("-")) + ("PrivateBoundsSpec" if private_bounds else "Spec")
    domain = unbounded_domain(expect_bounded(kind)) if private_bounds else kind.domain_type
    bounds: tuple[Any, ...] = (BoundsSection,) if private_bounds else (no_bounds(kind), None)
    fields: list[Any] = [
        ("model", Annotated[Literal[model], Meta(description=kind.summary)]),
        ("domain", domain, *_default(domain)),
        ("bounds", *bounds),
        ("prior", kind.prior_type, *_default(kind.prior_type)),
    ]
    struct = msgspec.defstruct(
        name, fields, bases=(ReleaseSpec,), frozen=True, forbid_unknown_fields=True, kw_only=True, module=__name__
    )
    return cast(type[ReleaseSpec], struct)


def _default(kind: type[Section]) -> tuple[Any, ...]:
    """Return the default of a section all of whose keys have one."""
    required = any(item.required for item in msgspec.structs.fields(kind))
    return () if required else (field(default_factory=kind),)


def build_spec(document: dict[str, Any]) -> ReleaseSpec:
    """Check a document against its model's spec.

    Args:
        document: nested mappings and lists of texts, from a file and flags.

    Raises:
        SpecError: a key is unknown, missing or has a wrong value; the first is named, with its place.
    """
    _check_texts(document)
    model = document.get("model")
    if not isinstance(model, str):
        raise SpecError("no model is stated", where="model", hint=f"one of: {', '.join(model_names())}")
    private = document.get("bounds") is not None
    if private:
        check_place_of_bounds(model_type(model), document)
    kind = spec_type(model, private_bounds=private)
    return convert_section(document, kind, how_to_state=partial(_how_to_state, None if private else model_type(model)))


def convert_layout(stated: dict[str, Any]) -> SourceSection:
    """Check the layout of a file, as flags state it apart from any spec; see ``build_spec``."""
    _check_texts(stated, "source")
    return convert_section(stated, SourceSection, "source")


def _check_texts(document: Any, where: str = "") -> None:
    """Refuse a key or a text that holds a control character: names and levels are printed and written into files.

    Raises:
        SpecError: one does; a single tab is a delimiter.
    """
    if isinstance(document, dict):
        for key, value in document.items():
            _check_texts(key, where)
            _check_texts(value, f"{where}.{key}".lstrip("."))
    elif isinstance(document, list | tuple):
        for item in document:
            _check_texts(item, where)
    elif isinstance(document, str) and document != "\t" and STEERING.search(document):
        raise SpecError(f"{document[:100]!r} holds a control character", where=where, hint="state printable texts")


def _how_to_state(public: type[Model] | None, where: str) -> str:
    flags = {
        "privacy.epsilon": "--eps 1",
        "domain": "the flags of the model's domain, e.g. --categories a,b,c or --upper 10",
        "domain.lower": "--lower -10",
        "domain.upper": "--upper 10",
        "domain.variance": "--variance 4",
        "domain.categories": "--categories a,b,c",
        "bounds.private.epsilon": "--bounds-epsilon 0.1",
        "bounds.private.high": "--bounds-high 100",
    }
    found = ""
    if where in {"domain", "domain.lower", "domain.upper"} and public and public.bound_keys:
        found = "; or have the bounds found privately, at their own price: --bounds-epsilon 0.1 --bounds-high 100"
    return (f"state it in the spec or with {flags[where]}" if where in flags else "state it in the spec") + found


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file, one alternative a model."""
    private = [name for name in model_names() if model_type(name).bound_keys]
    kinds = [spec_type(name) for name in model_names()] + [spec_type(name, private_bounds=True) for name in private]
    references, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dpbayes release spec",
        "oneOf": list(references),
        "$defs": _freely(definitions),
    }


def _freely(schema: Any) -> Any:
    """Let the texts that are marked so be written as numbers and truth values, as YAML tools would parse them."""
    if isinstance(schema, list):
        return [_freely(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _freely(value) for key, value in schema.items()}
    if result.items() >= WRITTEN_FREELY.items():
        result = {key: value for key, value in result.items() if key not in WRITTEN_FREELY}
        result["type"] = ["string", "number", "boolean"]
    return result
