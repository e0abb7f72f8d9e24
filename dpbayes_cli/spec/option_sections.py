"""The sections privacy, sampling and inference of a spec, with the options that mechanisms and models declare."""

import types
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from dpbayes_cli.base.errors import SpecError, join_mistakes
from dpbayes_cli.core.options import Check, Options, fields_of, notes_of
from dpbayes_cli.core.section import Section
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.convert_section import Exact, exact_number
from dpbayes_cli.spec.request_flags import description_of


class OptionsSection(Section, frozen=True, kw_only=True, dict=True):
    """A section with the options of a mechanism; decimals are kept exactly, as texts in one spelling.

    Attributes:
        place: the name of the section in a spec.
        checks: for each decimal, the function that refuses it if it is out of range.
    """

    has_independent_keys: ClassVar[bool] = True
    place: ClassVar[str] = ""
    checks: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        mistakes = []
        for name, check in self.checks.items():
            try:
                if (exact := exact_number(self, name)) is not None:
                    check(exact)
                    self.values[name] = exact
            except SpecError as error:
                mistakes.append(SpecError(error.reason, where=f"{self.place}.{name}", hint=error.hint))
            except ValueError as error:
                mistakes.append(SpecError(str(error), where=f"{self.place}.{name}"))
        if mistakes:
            raise join_mistakes(mistakes)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The values by name, with decimals as numbers."""
        return msgspec.structs.asdict(self)


class UnitSection(Section, frozen=True, kw_only=True):
    """A privacy unit that may have several records."""

    column: Annotated[str, Meta(min_length=1, description=description_of("privacy.unit.column"))]
    max_contributions: Annotated[
        int, Meta(ge=1, le=100_000, description=description_of("privacy.unit.max_contributions"))
    ] = 1


class PrivacySection(OptionsSection, frozen=True, kw_only=True):
    """The guarantee: the neighbors, the privacy unit, and the options of the mechanism that state the cost."""

    neighbors: Annotated[Neighbors, Meta(description=description_of("privacy.neighbors"))] = Neighbors.REPLACE_ONE
    unit: Annotated[
        UnitSection | None,
        Meta(description="the privacy unit: all records with the same value in a column [a single record]"),
    ] = None


class SamplingSection(OptionsSection, frozen=True, kw_only=True):
    """How a mechanism draws the posterior draws or estimates that it releases."""


class InferenceSection(OptionsSection, frozen=True, kw_only=True):
    """How the posterior is inferred; ``dpbayes infer`` can change it later at no privacy cost."""

    format: Annotated[Literal["parquet", "csv", "netcdf"], Meta(description=description_of("inference.format"))] = (
        "parquet"
    )


Kind = TypeVar("Kind", bound=OptionsSection)


@lru_cache(maxsize=256)
def with_options(base: type[Kind], options: type[Options], place: str) -> type[Kind]:
    """Return the type of a section: its common keys and the options that belong to it, with decimals as exact texts.

    Args:
        base: the section with the common keys.
        options: what a mechanism or an inference reads.
        place: the name of the section in a spec.
    """
    fields: list[Any] = []
    checks: dict[str, Check] = {}
    for item in fields_of(options):
        notes = notes_of(item.type)
        if notes["section"] == place:
            fields.append((item.name, _as_text(item.type), item.default))
            if notes["check"] is not None:
                checks[item.name] = notes["check"]
    section = msgspec.defstruct(
        f"{options.__name__.removesuffix('Options')}{base.__name__}",
        fields,
        bases=(base,),
        namespace={"checks": checks, "place": place},
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
        module=__name__,
    )
    return cast(type[Kind], section)


def _as_text(annotation: Any) -> Any:
    """Return a type with every decimal in it replaced by its exact text."""
    if annotation is Decimal:
        return Exact
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        return Annotated[(_as_text(inner), *notes)]
    if get_origin(annotation) in {Union, types.UnionType}:
        return Union[tuple(_as_text(each) for each in get_args(annotation))]  # noqa: UP007 - made of a list
    return annotation
