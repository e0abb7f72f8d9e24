"""The typed spec of a release: what a YAML file and the command line's flags state together."""

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, field

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.cell_grammar import STEERING
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import INFERENCE, PRIVACY, SAMPLING, Options
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.registry import check_supports, mechanism_type, model_type
from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.bounds_section import (
    BoundsSection,
    check_place_of_bounds,
    domain_between,
    expect_bounded,
    no_bounds,
    unbounded_domain,
)
from dpbayes_cli.spec.convert_section import convert_section
from dpbayes_cli.spec.flags import said
from dpbayes_cli.spec.foreign_options import check_read, inference_options, pair_of
from dpbayes_cli.spec.inference_section import InferenceSection
from dpbayes_cli.spec.option_sections import with_options
from dpbayes_cli.spec.privacy_section import PrivacySection
from dpbayes_cli.spec.sampling_section import SamplingSection
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.spec.version_1 import frozen_defaults, without_defaults

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
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


class ReleaseSpec(Section, frozen=True, kw_only=True):
    """A question: a model, a mechanism, a promise, and where the data are."""

    model: str
    domain: Section
    prior: Section
    bounds: BoundsSection | None = None
    mechanism: Annotated[str, Meta(description="a name from: dpbayes mechanisms")] = "laplace"
    dataset: Annotated[str | None, Meta(description=said("dataset"))] = None
    data: Annotated[
        str | Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(description="the file, or a list of files that are one data set, relative to the spec; '-' for stdin"),
    ] = None
    column: Annotated[str | None, Meta(description=said("column"))] = None
    on_invalid: Annotated[str, Meta(description=said("on_invalid"))] = "drop"
    records: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description=said("records"))] = None
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
        samples = self.inference_options.value("samples") or 0
        if len(model.parameters) * samples > _MOST_NUMBERS:
            raise SpecError(
                f"{samples:,} samples of {len(model.parameters):,} parameters are more than "
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
        """Neighbors, and what an invalid record counts as."""
        impute = self.on_invalid.removeprefix(_IMPUTE) if self.on_invalid.startswith(_IMPUTE) else None
        unit = self.privacy.unit
        return RecordPolicy(self.privacy.neighbors, impute, 1 if unit is None else unit.max_contributions)

    @property
    def options(self) -> Options:
        """What the mechanism reads of the question beside the common keys."""
        kind = mechanism_type(self.mechanism).options_for(model_type(self.model))
        values = {**self.privacy.values(), **self.sampling.values()}
        return kind(**{name: values[name] for name in kind.__struct_fields__})

    @property
    def inference_options(self) -> Options:
        """What the inference of this model reads beside the common keys."""
        kind = inference_options(model_type(self.model), mechanism_type(self.mechanism))
        return kind(**{name: getattr(self.inference, name) for name in kind.__struct_fields__})

    @property
    def request(self) -> dict[str, Any]:
        """The canonical request: what was asked for, without what was left at its default, and without paths.

        The mechanism is left out if it is laplace, whatever the model's own is.
        """
        frozen = frozen_defaults(self.model, self.mechanism)
        asked = {**_as_asked(without_defaults(self, frozen)), "mechanism": self.mechanism}
        return {key: value for key, value in asked.items() if (key, value) != ("mechanism", "laplace")}

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


@lru_cache(maxsize=256)
def spec_type(model: str, mechanism: str | None = None, *, private_bounds: bool = False) -> type[ReleaseSpec]:
    """Return the typed spec of a model and a mechanism: the common keys with the model's domain and prior, and options.

    Args:
        model: the model's name.
        mechanism: the mechanism's name; None: the model's own.
        private_bounds: whether ``bounds`` is stated in place of the bounds in the domain.

    Raises:
        SpecError: there is no such model or mechanism, or they do not fit.
    """
    kind = model_type(model)
    answers = mechanism_type(mechanism or kind.default_mechanism)
    check_supports(answers, kind)
    name = "".join(part.capitalize() for part in f"{model}-by-{answers.name}".split("-"))
    name += "PrivateBoundsSpec" if private_bounds else "Spec"
    read = answers.options_for(kind)
    privacy = with_options(PrivacySection, read, PRIVACY)
    sampling = with_options(SamplingSection, read, SAMPLING)
    inference = with_options(InferenceSection, inference_options(kind, answers), INFERENCE)
    by_default = (answers.name,) if answers.name == kind.default_mechanism else ()
    domain = unbounded_domain(expect_bounded(kind)) if private_bounds else kind.domain_type
    bounds: tuple[Any, ...] = (BoundsSection,) if private_bounds else (no_bounds(kind), None)
    fields: list[Any] = [
        ("model", Annotated[Literal[model], Meta(description=kind.summary)]),
        ("domain", domain, *_default(domain)),
        ("bounds", *bounds),
        ("prior", kind.prior_type, *_default(kind.prior_type)),
        ("mechanism", Annotated[Literal[answers.name], Meta(description=answers.summary)], *by_default),
        ("privacy", privacy, field(default_factory=privacy)),
        ("sampling", sampling, field(default_factory=sampling)),
        ("inference", inference, field(default_factory=inference)),
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
    """Check a document against the spec of its model and mechanism.

    Args:
        document: nested mappings and lists of texts, from a file and flags.

    Raises:
        SpecError: a key is unknown, missing, not read by the mechanism or has a wrong value; the first is named, with
            its place.
    """
    _check_texts(document)
    kind = type_of(document)
    check_read(document, kind)
    public = None if document.get("bounds") is not None else model_type(document["model"])
    return convert_section(document, kind, how_to_state=partial(_how_to_state, public))


def type_of(document: Mapping[str, Any]) -> type[ReleaseSpec]:
    """Return the type of the spec that a document is to be: that of its model and mechanism.

    Raises:
        SpecError: it names no model, or there is none; or bounds are to be found that cannot be.
    """
    model, mechanism = pair_of(document)
    private = document.get("bounds") is not None
    if private:
        check_place_of_bounds(model, document)
    return spec_type(model.name, mechanism.name, private_bounds=private)


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
