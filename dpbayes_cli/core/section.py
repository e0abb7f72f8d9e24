"""The base class of spec sections, and the types that sections share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, TypeVar, cast

import msgspec

Kind = TypeVar("Kind")


def require_type(value: object, kind: Callable[..., Kind]) -> Kind:
    """Return a value after checking its type.

    Raises:
        TypeError: the value has another type; only a defect of the program can cause this.
    """
    if not isinstance(kind, type) or not isinstance(value, kind):
        raise TypeError(f"expected {kind}, got {type(value).__name__}")
    return cast(Kind, value)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of a spec, typed and frozen. Unknown keys are refused, and ``__post_init__`` may raise ValueError.

    Attributes:
        has_independent_keys: whether ``__post_init__`` checks each key by itself, so that the valid keys of a section
            can be checked although another key is invalid.
    """

    has_independent_keys: ClassVar[bool] = False


_Section = TypeVar("_Section", bound=Section)


def with_defaults(section: _Section, **values: object) -> _Section:
    """Return a section with ``values`` in place of the keys that are None."""
    return msgspec.structs.replace(
        section, **{key: value for key, value in values.items() if getattr(section, key) is None}
    )


YAML_SCALAR = {"format": "written freely"}
"""Marks a text that a spec may also state as a YAML number or boolean; the schema of specs allows all three types."""

Level = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, extra_json_schema=YAML_SCALAR)]
"""The text of a valid cell, as a spec states it; see ``cell_grammar.check_levels``."""

Positive = Annotated[float, msgspec.Meta(ge=1e-6, le=1e9)]
"""A positive parameter of a prior, limited to the range for which inference is tested."""

Scale = Annotated[float, msgspec.Meta(ge=1e-30, le=1e30)]
"""A positive parameter of a prior in the units of the data, whose default follows from the public bounds."""
