"""The section ``by`` of a spec, which divides the records into groups."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.cell_grammar import BLANKS, check_levels
from dpbayes_cli.base.errors import SpecError, near_file
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import Delta, Options
from dpbayes_cli.core.section import Level, Section

MAX_GROUPS = 1_000_000
_MAX_FILE_BYTES = 1 << 27


class GroupsSection(Section, frozen=True, kw_only=True):
    """The groups of records, each with its own posterior."""

    column: Annotated[str, Meta(min_length=1, description="the column that holds the key of each record's group")]
    values: Annotated[
        Literal["private"] | Annotated[tuple[Level, ...], Meta(min_length=1, max_length=MAX_GROUPS)],
        Meta(description="the public keys of the groups; or file: PATH; or private: find them in the data"),
    ]

    def __post_init__(self) -> None:
        check_levels(self.keys)
        if self.keys and self.keys[0] == self.column:
            raise ValueError(f"the first key is the name of the column, {self.column!r}: a file of keys has no header")

    @property
    def keys(self) -> tuple[str, ...]:
        """The public keys of the groups; empty if the keys are found in the data."""
        return () if isinstance(self.values, str) else self.values

    @property
    def in_request(self) -> dict[str, Any]:
        """The groups as a request states them: a digest stands for the keys, of which there may be a million."""
        keys = digest("keys of groups", canonical_json(list(self.keys))) if self.keys else self.values
        return {"column": self.column, "keys": keys}


def finds_keys(document: Mapping[str, Any]) -> bool:
    """Return whether a spec asks for groups whose keys are found in the data."""
    by = document.get("by")
    return isinstance(by, Mapping) and by.get("values") == PRIVATE


def no_delta() -> SpecError:
    """Return the error for keys that are found in the data, but no delta is stated."""
    reason = "keys that are found in the data need a delta: the probability that a key shows a single person"
    return SpecError(reason, where="privacy.delta", hint="--delta 1e-6, or list the keys: --groups FILE")


def split_delta(options: type[Options], privacy: Mapping[str, Any]) -> tuple[dict[str, Any], Decimal]:
    """Return the options of the noise, and the delta of the keys that are found in the data.

    If the noise has an epsilon that holds at a delta, noise and keys get half of the stated delta each.

    Args:
        options: what the mechanism reads if keys are listed.
        privacy: the stated options of the cost, with a delta.
    """
    delta = privacy["delta"]
    rest = {name: value for name, value in privacy.items() if name != "delta"}
    if "delta" not in options.__struct_fields__:
        return rest, delta
    if privacy.get("epsilon") is None:
        return {**rest, "delta": None}, delta
    half = _HALF.multiply(delta, Decimal("0.5"))
    return {**rest, "delta": half}, half


@lru_cache(maxsize=64)
def with_delta(options: type[Options]) -> type[Options]:
    """Return the options of a mechanism if keys are found in the data, which needs a delta."""
    if "delta" in options.__struct_fields__:
        return options
    fields: list[Any] = [("delta", Delta, None)]
    name = f"{options.__name__.removesuffix('Options')}DeltaOptions"
    struct = msgspec.defstruct(name, fields, bases=(options,), frozen=True, kw_only=True, module=__name__)
    return cast("type[Options]", struct)


def with_keys(document: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return a spec with the keys of its groups in place of the path of the file that holds them.

    Args:
        document: a spec as it is written.
        base: the directory to which the path is relative.

    Raises:
        SpecError: the file cannot be read, or the spec states both a file and keys.
    """
    by = document.get("by")
    if not isinstance(by, Mapping) or "file" not in by:
        return document
    if "values" in by:
        raise SpecError("state either the keys or the file that holds them", where="by.file", hint="leave one out")
    rest = {key: value for key, value in by.items() if key != "file"}
    return {**document, "by": {**rest, "values": read_keys(base / str(by["file"]))}}


def read_release_file(path: Path) -> dict[str, Any]:
    """Return the spec in a file, with the keys of its groups; see ``read_spec_file`` and ``with_keys``."""
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    return with_keys(read_spec_file(path), path.parent)


def read_keys(path: Path) -> list[str]:
    """Return the keys in a file, one in each line; empty lines are left out.

    Raises:
        SpecError: the file cannot be read, or is not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        lines = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        reason = f"cannot read the keys {str(path)!r}: {error.strerror}"
        raise SpecError(reason, where="by.values", hint=near_file(path)) from None
    except UnicodeDecodeError:
        raise SpecError(f"{str(path)!r} is not UTF-8 text", where="by.values", hint="save it as UTF-8") from None
    if len(content) > _MAX_FILE_BYTES:
        raise SpecError(f"{str(path)!r} is larger than {_MAX_FILE_BYTES >> 20} MiB", where="by.values")
    return [key for line in lines if (key := line.strip(BLANKS))]


def check_groups(model: type[Model], mechanism: str, document: Mapping[str, Any]) -> None:
    """Refuse groups of a model that cannot have them.

    Raises:
        SpecError: the model or the mechanism does not serve groups, the bounds are to be found privately, or the keys
            are in the column of values.
    """
    from dpbayes_cli.core.registry import model_names, model_type

    if not model.has_groups:
        able = [name for name in model_names() if model_type(name).has_groups]
        raise SpecError(
            f"the records of {model.name} cannot be divided into groups", where="by", hint=f"use: {', '.join(able)}"
        )
    if mechanism not in GROUP_MECHANISMS:
        hint = f"use: {', '.join(GROUP_MECHANISMS)}"
        raise SpecError(f"the mechanism {mechanism} does not serve groups", where="mechanism", hint=hint)
    if document.get("bounds") is not None:
        raise SpecError("the bounds of groups cannot be found privately", where="bounds", hint="state them in domain")
    by = document.get("by")
    if isinstance(by, Mapping) and by.get("column") is not None and by.get("column") == document.get("column"):
        reason = f"the column {by['column']!r} holds the keys of the groups"
        raise SpecError(reason, where="column", hint="name the column of values; with only two columns, leave it out")


GROUP_MECHANISMS = ("laplace", "gaussian")
PRIVATE = "private"
_HALF = Context(prec=30, rounding=ROUND_FLOOR)
