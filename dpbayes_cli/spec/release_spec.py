"""The typed spec of a release: a YAML file and the flags of the command line taken together."""

import itertools
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, cast

import msgspec
from msgspec import Meta, field

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.errors import SpecError, join_mistakes
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import INFERENCE, PRIVACY, SAMPLING, Options, fields_of
from dpbayes_cli.core.private_choice import Chosen, PrivateChoice
from dpbayes_cli.core.private_quantile import PrivateBounds
from dpbayes_cli.core.private_tree import PrivateTree
from dpbayes_cli.core.registry import check_supports, mechanism_type, model_type
from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.account_name import check_name
from dpbayes_cli.spec.bounds_section import BoundsSection, domain_between
from dpbayes_cli.spec.convert_section import convert_section
from dpbayes_cli.spec.foreign_options import find_foreign_options, inference_options, pair_of
from dpbayes_cli.spec.groups_section import GroupsSection, check_groups, finds_keys, no_delta, split_delta, with_delta
from dpbayes_cli.spec.mistakes import control_characters, mistakes_in
from dpbayes_cli.spec.option_sections import InferenceSection, PrivacySection, SamplingSection, with_options
from dpbayes_cli.spec.public_reasons import REASONS, with_reasons_apart
from dpbayes_cli.spec.request_flags import description_of
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.spec.structure_section import StructureSection, choice_fields, domain_with_tree, private_section
from dpbayes_cli.spec.version_1 import canonical_request, find_renamed_keys

_IMPUTE = "impute:"
_MOST_NUMBERS = 250_000_000
"""The largest number of values in all samples together: this many values take 2 GB of memory."""
_FREE = ("prior", "inference")
"""Sections that change the inference, but not what is requested of the data."""
_OUTSIDE = ("data", "dataset", "records")
"""Keys of a spec that are not part of the request; ``public_reasons`` is not part of it either."""
_READ_BY = ("engine", "master")
"""Keys of the source that name the engine; they are not part of the request: all engines give the same integers."""


class ReleaseSpec(Section, frozen=True, kw_only=True, dict=True):
    """A release request: a model, a mechanism, a guarantee, and where the data are."""

    model: str
    domain: Section
    prior: Section
    bounds: BoundsSection | None = None
    structure: StructureSection | None = None
    mechanism: Annotated[str, Meta(description="the name of a mechanism; see: dpbayes mechanisms")] = "laplace"
    dataset: Annotated[str | None, Meta(description=description_of("dataset"))] = None
    data: Annotated[
        str | Annotated[tuple[str, ...], Meta(min_length=1)] | None,
        Meta(description="the file, or a list of files that are one data set, relative to the spec; '-' for stdin"),
    ] = None
    column: Annotated[str | None, Meta(description=description_of("column"))] = None
    by: GroupsSection | None = None
    on_invalid: Annotated[str, Meta(description=description_of("on_invalid"))] = "drop"
    records: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description=description_of("records"))] = None
    public_reasons: Annotated[
        dict[str, str] | None,
        Meta(description="why each value that was read from the data is public, by its key, e.g. domain.upper [none]"),
    ] = None
    privacy: PrivacySection = field(default_factory=PrivacySection)
    source: SourceSection = field(default_factory=SourceSection)
    sampling: SamplingSection = field(default_factory=SamplingSection)
    inference: InferenceSection = field(default_factory=InferenceSection)

    has_independent_keys: ClassVar[bool] = True

    def __post_init__(self) -> None:
        mistakes = []
        try:
            if self.dataset is not None:
                check_name(self.dataset)
        except ValueError as error:
            mistakes.append(SpecError(str(error), where="dataset"))
        if self.on_invalid != "drop" and not (self.on_invalid.startswith(_IMPUTE) and self.on_invalid != _IMPUTE):
            reason = f"is {self.on_invalid!r}; expected drop, or impute:VALUE"
            mistakes.append(SpecError(reason, where="on_invalid"))
        if self.records is not None and self.privacy.neighbors is Neighbors.ADD_REMOVE:
            reason = "under add-remove the number of records is private and cannot be stated"
            mistakes.append(SpecError(reason, where="records", hint="leave it out"))
        if self.finds_keys and self.stated_delta is None:
            mistakes.append(no_delta())
        if mistakes:
            raise join_mistakes(mistakes)

    def build_model(self, chosen: Chosen | None = None, keys: tuple[str, ...] | None = None) -> Model:
        """Build the statistical model that the spec states.

        Args:
            chosen: the bounds or the structure that were found privately, if the spec requests this; None stands for
                the whole public range of numbers, or for a star, which are used before they are found.
            keys: the keys of groups that were published, if the spec asks to find them in the data; None before.

        Raises:
            SpecError: the domain, the private choices and the prior do not fit each other.
        """
        model = model_type(self.model).build(self.domain_at(chosen), self.prior)
        by = self.by
        if by is None:
            return model
        parents = by.larger_groups(pooled=self.inference_options.value("pooling") == "partial")
        return model.grouped(by.columns[0], self.column, by.keys or keys or (), self.key_delta, parents)

    def complete_prior(self, domain: Section, prior: Section) -> Section:
        """Return a prior of the model with its defaults for this mechanism."""
        kind, adds_noise = model_type(self.model), mechanism_type(self.mechanism).post_processing
        return (kind.complete_prior if adds_noise else kind.complete_prior_of_draws)(domain, prior)

    def domain_at(self, chosen: Chosen | None) -> Section:
        """Return the domain with what was chosen; see ``build_model``."""
        if self.private_bounds is not None:
            return domain_between(model_type(self.model), self.private_bounds, self.domain, chosen)
        if self.private_tree is not None:
            return domain_with_tree(model_type(self.model), self.private_tree, self.domain, chosen)
        if chosen is not None:
            raise SpecError("bounds or parents were given, but the spec does not request a private choice")
        return self.domain

    def check_samples(self, model: Model) -> None:
        """Raise ``SpecError`` if the samples of all parameters would take too much memory."""
        of_groups = len(model.group_parameters) * len(model.group_keys)
        chosen = 0 if self.private_choice is None else self.private_choice.most_parameters
        for key, n_parameters in (("samples", max(len(model.parameters), chosen)), ("samples_per_group", of_groups)):
            samples = self.inference_options.value(key) or 0
            if n_parameters * samples > _MOST_NUMBERS:
                raise SpecError(
                    f"{samples:,} samples of {n_parameters:,} parameters are more than "
                    f"{_MOST_NUMBERS:,} numbers, which would take more memory than a release should",
                    where=f"inference.{key}",
                    hint=f"at most {max(1, _MOST_NUMBERS // n_parameters):,} samples",
                )

    @cached_property
    def private_bounds(self) -> PrivateBounds | None:
        """The law by which bounds are found privately; None if the domain states them."""
        if self.bounds is None:
            return None
        return self.bounds.law(model_type(self.model), self.policy, self.domain)

    @cached_property
    def private_tree(self) -> PrivateTree | None:
        """The law by which a tree is found privately; None if the domain states the structure."""
        if self.structure is None:
            return None
        return self.structure.law(model_type(self.model), self.policy, self.domain, self.options.value("epsilon"))

    @property
    def private_choice(self) -> PrivateChoice | None:
        """The law of what is found privately; None if the domain states everything."""
        return self.private_bounds or self.private_tree

    @cached_property
    def policy(self) -> RecordPolicy:
        """The neighbors, the treatment of invalid records, and the contribution bound."""
        impute = self.on_invalid.removeprefix(_IMPUTE) if self.on_invalid.startswith(_IMPUTE) else None
        unit = self.privacy.unit
        return RecordPolicy(self.privacy.neighbors, impute, 1 if unit is None else unit.max_contributions)

    @cached_property
    def options(self) -> Options:
        """The options that the mechanism reads, without the delta of keys that are found in the data."""
        kind = self._options_type
        privacy = self.privacy.values if self.key_delta is None else split_delta(kind, self.privacy.values)[0]
        values = {**privacy, **self.sampling.values}
        return kind(**{name: values[name] for name in kind.__struct_fields__})

    @property
    def _options_type(self) -> type[Options]:
        return mechanism_type(self.mechanism).options_for(model_type(self.model))

    @cached_property
    def key_delta(self) -> Decimal | None:
        """The delta of the keys that are found in the data; None if no keys are."""
        if not self.finds_keys:
            return None
        return split_delta(self._options_type, self.privacy.values)[1]

    @property
    def finds_keys(self) -> bool:
        """Whether the keys of groups are found in the data."""
        return self.by is not None and not self.by.keys

    @property
    def stated_delta(self) -> Decimal | None:
        """The delta that the spec states; None if it states none."""
        return self.privacy.values.get("delta")

    @cached_property
    def inference_options(self) -> Options:
        """The options that the inference of this model reads."""
        kind = inference_options(model_type(self.model), mechanism_type(self.mechanism), grouped=self.by is not None)
        return kind(**{name: getattr(self.inference, name) for name in kind.__struct_fields__})

    @cached_property
    def request(self) -> dict[str, Any]:
        """The canonical request with the names of version 1, without paths.

        Keys with the default value of version 1 are left out. So is the mechanism if it is laplace, even if the model
        has another default.
        """
        stated = canonical_request(self, self.model, self.mechanism)
        stated.pop(REASONS, None)
        if self.by is not None:
            stated["by"] = self.by.in_request
        request = {**_without_places(stated), "mechanism": self.mechanism}
        return {key: value for key, value in request.items() if (key, value) != ("mechanism", "laplace")}

    @cached_property
    def stated_in_full(self) -> dict[str, Any]:
        """The request with every default written out, as a bundle keeps it."""
        full = _without_places(msgspec.to_builtins(self))
        return {key: value for key, value in full.items() if value is not None}

    @cached_property
    def question_digest(self) -> str:
        """The digest of the part of the request that has a privacy cost; a ledger stores it under this name."""
        free = _FREE if mechanism_type(self.mechanism).post_processing else ("inference",)
        priced = {key: value for key, value in self.request.items() if key not in free}
        return digest("question", canonical_json(priced))

    @cached_property
    def request_digest(self) -> str:
        """The digest of the whole canonical request."""
        return digest("request", canonical_json(self.request))


def _without_places(stated: dict[str, Any]) -> dict[str, Any]:
    """Return a spec without the keys that say where the data are, or which engine reads them."""
    request = {key: value for key, value in stated.items() if key not in _OUTSIDE}
    layout = {key: value for key, value in request.pop("source", {}).items() if key not in _READ_BY}
    return {**request, "source": layout} if layout else request


@lru_cache(maxsize=256)
def spec_type(
    model: str, mechanism: str | None = None, *, private: str = "", has_groups: bool = False, finds_keys: bool = False
) -> type[ReleaseSpec]:
    """Return the type of specs for a model and a mechanism: common keys, the model's domain and prior, and options.

    Args:
        mechanism: the name of the mechanism; None: the model's default.
        private: ``bounds`` or ``structure`` if the spec has this section in place of keys of the domain.
        has_groups: whether the spec states ``by``, the groups of the records.
        finds_keys: whether the keys of the groups are found in the data.

    Raises:
        SpecError: there is no such model or mechanism, or the mechanism does not support the model.
    """
    kind = model_type(model)
    mechanism_class = mechanism_type(mechanism or kind.default_mechanism)
    check_supports(mechanism_class, kind)
    name = "".join(part.capitalize() for part in f"{model}-by-{mechanism_class.name}".split("-"))
    name += f"Private{private.capitalize()}Spec" if private else "GroupsSpec" if has_groups else "Spec"
    name = f"FoundKeys{name}" if finds_keys else name
    read = mechanism_class.options_for(kind)
    read = with_delta(read) if finds_keys else read
    privacy = with_options(PrivacySection, read, PRIVACY)
    sampling = with_options(SamplingSection, read, SAMPLING)
    inference = with_options(InferenceSection, inference_options(kind, mechanism_class, grouped=has_groups), INFERENCE)
    by_default = tuple({mechanism_class.name} & {kind.default_mechanism, kind.default_with_delta, kind.former_default})
    domain, choices = choice_fields(kind, private)
    fields: list[Any] = [
        ("model", Annotated[Literal[model], Meta(description=kind.summary)]),
        ("domain", domain, *_default(domain)),
        *choices,
        ("prior", kind.prior_type, *_default(kind.prior_type)),
        ("by", GroupsSection if has_groups else None, *(() if has_groups else (None,))),
        ("mechanism", Annotated[Literal[mechanism_class.name], Meta(description=mechanism_class.summary)], *by_default),
        ("privacy", privacy, field(default_factory=privacy)),
        ("sampling", sampling, field(default_factory=sampling)),
        ("inference", inference, field(default_factory=inference)),
    ]
    struct = msgspec.defstruct(
        name, fields, bases=(ReleaseSpec,), frozen=True, forbid_unknown_fields=True, kw_only=True, module=__name__
    )
    return cast(type[ReleaseSpec], struct)


def _default(kind: type[Section]) -> tuple[Any, ...]:
    """Return the default of a section for ``defstruct``; an empty tuple if one of its keys is required."""
    required = any(item.required for item in fields_of(kind))
    return () if required else (field(default_factory=kind),)


def build_spec(document: dict[str, Any], *, needs_cost: bool = False) -> ReleaseSpec:
    """Check a document against the spec of its model and mechanism.

    Args:
        document: nested mappings and lists of texts, from a file and flags.
        needs_cost: whether a missing epsilon is listed among other mistakes.

    Raises:
        SpecError: keys are unknown, renamed, missing, not read by the mechanism or have wrong values; the error names
            every such key and its place.
    """
    document = with_reasons_apart(document)
    try:
        for mistake in itertools.chain(control_characters(document), find_renamed_keys(document)):
            raise mistake
        kind = type_of(document)
        for mistake in find_foreign_options(document, kind):
            raise mistake
        spec = convert_section(document, kind)
    except SpecError as first:
        raise join_mistakes(mistakes_in(document, ReleaseSpec, _type_for, needs_cost=needs_cost) or [first]) from None
    if spec.bounds is not None:  # the bounds are not known yet, and a prior may depend on them; see build_model
        return spec
    return msgspec.structs.replace(spec, prior=spec.complete_prior(spec.domain, spec.prior))


def _type_for(model: type[Model], mechanism: type[Mechanism], document: Mapping[str, Any]) -> type[ReleaseSpec]:
    private, has_groups = private_section(model, document), document.get("by") is not None
    if has_groups:
        check_groups(model, mechanism.name, document)
    has_private_keys = finds_keys(document)
    return spec_type(model.name, mechanism.name, private=private, has_groups=has_groups, finds_keys=has_private_keys)


def type_of(document: Mapping[str, Any]) -> type[ReleaseSpec]:
    """Return the type of specs for the model and the mechanism that a document names.

    Raises:
        SpecError: the document names no known model, or requests private bounds or groups that it cannot have.
    """
    return _type_for(*pair_of(document), document)


def convert_layout(stated: dict[str, Any]) -> SourceSection:
    """Check the layout of a file, as stated by flags without a spec; see ``build_spec``."""
    for mistake in control_characters(stated, "source"):
        raise mistake
    return convert_section(stated, SourceSection, "source")
