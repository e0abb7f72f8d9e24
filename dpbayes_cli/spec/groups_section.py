"""The section ``by`` of a spec, which divides the records into groups."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.cell_grammar import BLANKS, check_levels
from dpbayes_cli.base.errors import SpecError, near_file, nearest_word
from dpbayes_cli.core.columns import LargerGroups
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.options import Delta, Options
from dpbayes_cli.core.section import Level, Section

MAX_GROUPS = 1_000_000
Pair = Annotated[tuple[Level, ...], Meta(min_length=2, max_length=2)]
"""The key of a group, and the key of the larger group that contains it, such as a county and its state.

The type is not ``tuple[Level, Level]``, because msgspec crashes on unions of it with texts.
"""
_MAX_FILE_BYTES = 1 << 27
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


class GroupsSection(Section, frozen=True, kw_only=True):
    """The groups of records, each with its own posterior."""

    column: Annotated[
        Annotated[str, Meta(min_length=1)] | Pair,
        Meta(description="the column that holds the key of each record's group; or [county, state] for two levels"),
    ]
    values: Annotated[
        Literal["private"] | Annotated[tuple[Level | Pair, ...], Meta(min_length=1, max_length=MAX_GROUPS)],
        Meta(description="the public keys of the groups; or file: PATH; or private: find them in the data"),
    ]

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            if not isinstance(self.column, str):
                raise ValueError("keys of two columns cannot be found in the data; list the pairs")
            return
        if any(isinstance(value, str) != isinstance(self.column, str) for value in self.values):
            raise ValueError("the keys of one column are texts; those of two columns are pairs, such as [Kings, NY]")
        parents = self.larger_groups()
        if parents is None:
            check_levels(self.keys)
        else:
            _check_pairs(self.columns, self.keys, parents.keys)
        if self.values[0] == self.column:
            raise ValueError(f"the first key is the name of the column, {self.column!r}: a file of keys has no header")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of keys."""
        return (self.column,) if isinstance(self.column, str) else self.column

    @property
    def keys(self) -> tuple[str, ...]:
        """The public keys of the groups; empty if the keys are found in the data.

        With two levels, groups of different larger groups may have equal keys.
        """
        if isinstance(self.values, str):
            return ()
        return tuple(value if isinstance(value, str) else value[0] for value in self.values)

    def larger_groups(self, *, pooled: bool = True) -> LargerGroups | None:
        """Return the larger groups that contain the groups; None with one level."""
        if isinstance(self.column, str):
            return None
        return LargerGroups(self.column[1], tuple(value[1] for value in self.values), pooled)

    @property
    def in_request(self) -> dict[str, Any]:
        """The groups as a request states them: a digest stands for the keys, of which there may be a million."""
        if isinstance(self.values, str):
            return {"column": self.column, "keys": self.values}
        return {"column": self.column, "keys": digest("keys of groups", canonical_json(list(self.values)))}


def _check_pairs(columns: Sequence[str], keys: Sequence[str], parents: Sequence[str]) -> None:
    """Refuse pairs of keys that no record could match, and two pairs that one record would match."""
    if columns[0] == columns[1]:
        raise ValueError(f"both columns are {columns[0]!r}; name the smaller groups first, as in [county, state]")
    members: dict[str, list[str]] = {}
    for key, parent in zip(keys, parents, strict=True):
        members.setdefault(parent, []).append(key)
    check_levels(tuple(members))
    for parent, inside in members.items():
        try:
            check_levels(inside)
        except ValueError as mistake:
            raise ValueError(f"within {parent!r}: {mistake}") from None
    if len(members) == len(keys) > 2 * len(set(keys)):
        raise ValueError(
            f"each key of {columns[1]!r} has only one key of {columns[0]!r}: name the smaller groups first, as in "
            "[county, state]"
        )


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
    return {**document, "by": {**rest, "values": read_keys(base / str(by["file"]), by.get("column"))}}


def read_release_file(path: Path) -> dict[str, Any]:
    """Return the spec in a file, with the keys of its groups; see ``read_spec_file`` and ``with_keys``."""
    from dpbayes_cli.spec.yaml_reader import read_spec_file

    return with_keys(read_spec_file(path), path.parent)


def read_keys(path: Path, column: Any) -> list[Any]:
    """Return the keys in a file, one in each line; empty lines are left out.

    A key may be quoted as in a CSV file: ``"North ""A"", East"`` is the key ``North "A", East``.

    Args:
        path: the file.
        column: the column of the keys. If it is a pair of columns, the file is a CSV file with a header that names
            both, and pairs of keys are returned.

    Raises:
        SpecError: the file cannot be read, is not UTF-8 text, lacks one of two columns, or has a line that begins with
            a quotation mark but is not one quoted key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        lines = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        reason = f"cannot read the keys {str(path)!r}: {error.strerror}"
        is_private = nearest_word(path.name, [PRIVATE]) is not None
        hint = f"did you mean {PRIVATE}? It finds the keys in the data" if is_private else near_file(path)
        if not hint and "," in path.name:
            hint = "write the keys into a file, one a line, or into a spec as by: {column: NAME, values: [a, b]}"
        raise SpecError(reason, where="by.values", hint=hint) from None
    except UnicodeDecodeError:
        raise SpecError(f"{str(path)!r} is not UTF-8 text", where="by.values", hint="save it as UTF-8") from None
    if len(content) > _MAX_FILE_BYTES:
        raise SpecError(f"{str(path)!r} is larger than {_MAX_FILE_BYTES >> 20} MiB", where="by.values")
    if isinstance(column, list | tuple) and len(column) == _MOST_LEVELS:
        return _pairs_in(lines, [str(name) for name in column], str(path))
    stated = [(i, key) for i, line in enumerate(lines, 1) if (key := line.strip(BLANKS))]
    if stated and all("," in key and not key.startswith('"') for _, key in stated):
        raise SpecError(
            f"every line of {str(path)!r} has a comma: it seems to hold a list or several columns",
            where="by.values",
            hint='write one key a line; if a key holds a comma, quote it: "Bergen, Norway"',
        )
    return [_unquoted(key, i) for i, key in stated]


def _unquoted(line: str, number: int) -> str:
    if not line.startswith('"'):
        return line
    quoted = _QUOTED.fullmatch(line)
    if quoted is None:
        raise SpecError(
            f"line {number} of the keys begins with a quotation mark, but is not one quoted key",
            where="by.values",
            hint='write one key a line; quote a key that holds quotation marks, and double these: """A"" ward"',
        )
    return quoted[1].replace('""', '"').strip(BLANKS)


def _pairs_in(lines: Sequence[str], columns: Sequence[str], path: str) -> list[list[str]]:
    """Return the pairs of keys in the lines of a CSV file."""
    rows = [
        [cell.strip(BLANKS) for cell in row] for row in csv.reader(lines) if any(cell.strip(BLANKS) for cell in row)
    ]
    header = rows[0] if rows else []
    if any(header.count(name) != 1 for name in columns):
        hint = f"its first line names both, as in: {','.join(columns)}"
        raise SpecError(f"{path!r} has no columns {' and '.join(columns)}", where="by.values", hint=hint)
    places = [header.index(name) for name in columns]
    if any(len(row) != len(header) for row in rows):
        raise SpecError(
            f"the lines of {path!r} have different numbers of fields",
            where="by.values",
            hint="write one pair of keys in each line",
        )
    return [[row[place] for place in places] for row in rows[1:]]


def check_groups(model: type[Model], mechanism: str, document: Mapping[str, Any]) -> None:
    """Refuse groups of a model that cannot have them.

    Raises:
        SpecError: the model or the mechanism does not support groups, the bounds are to be found privately, or the keys
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
        raise SpecError(f"the mechanism {mechanism} does not support groups", where="mechanism", hint=hint)
    by, inference = document.get("by"), document.get("inference")
    keys = by.get("column") if isinstance(by, Mapping) else None
    pooling = inference.get("pooling") if isinstance(inference, Mapping) else None
    if not model.has_larger_groups and isinstance(keys, list | tuple) and pooling != "none":
        reason = f"groups of {model.name} cannot learn from each other within larger groups"
        hint = "state one column; or two columns and --pooling none, with which each group has the stated prior alone"
        raise SpecError(reason, where="by.column", hint=hint)
    if document.get("bounds") is not None:
        raise SpecError("the bounds of groups cannot be found privately", where="bounds", hint="state them in domain")
    if finds_keys(document) and model.sums_squares:
        reason = f"keys that are found in the data are not supported by {model.name}"
        raise SpecError(reason, where="by.values", hint="list the keys, or use normal-mean, whose variance is known")
    value = document.get("column")
    if value is not None and (value == keys or (isinstance(keys, list | tuple) and value in keys)):
        reason = f"the column {value!r} holds the keys of the groups"
        raise SpecError(reason, where="column", hint="name the column of values, or leave it out if there are only two")


GROUP_MECHANISMS = ("laplace", "gaussian")
_MOST_LEVELS = 2
PRIVATE = "private"
_HALF = Context(prec=30, rounding=ROUND_FLOOR)
