"""Sections with the options of a mechanism in them, made from what it declares that it reads."""

import types
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin

import msgspec

from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.core.options import Check, Options
from dpbayes_cli.core.section import Section
from dpbayes_cli.spec.convert_section import Exact, exactly


class OptionsSection(Section, frozen=True, kw_only=True):
    """A section with options of a mechanism; decimals are texts in it, exact and in one spelling.

    Attributes:
        checks: for each decimal what refuses it where it is out of range.
    """

    checks: ClassVar[Mapping[str, Check]] = {}

    def __post_init__(self) -> None:
        for name, check in self.checks.items():
            exact = exactly(self, name)
            if exact is not None:
                check(exact)

    def values(self) -> dict[str, Any]:
        """Return its values by name, decimals as numbers."""
        stated = msgspec.structs.asdict(self)
        exact = {name: parse_decimal(stated[name]) for name in self.checks if stated[name] is not None}
        return {**stated, **exact}


Kind = TypeVar("Kind", bound=OptionsSection)


@lru_cache(maxsize=256)
def with_options(base: type[Kind], options: type[Options], place: str) -> type[Kind]:
    """Return the type of a section: its common keys and the options that stand in it, decimals as exact texts.

    Args:
        base: the section with the common keys.
        options: what is read beside them.
        place: the name of the section in a spec.
    """
    fields: list[Any] = []
    checks: dict[str, Check] = {}
    for item in msgspec.structs.fields(options):
        said = said_of(item.type)
        if said["section"] == place:
            fields.append((item.name, _as_text(item.type), item.default))
            if said["check"] is not None:
                checks[item.name] = said["check"]
    section = msgspec.defstruct(
        f"{options.__name__.removesuffix('Options')}{base.__name__}",
        fields,
        bases=(base,),
        namespace={"checks": checks},
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
        module=__name__,
    )
    return cast(type[Kind], section)


def said_of(annotation: Any) -> Mapping[str, Any]:
    """Return what is said about an option beside its description."""
    notes = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next(note.extra for note in notes if getattr(note, "extra", None))


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
