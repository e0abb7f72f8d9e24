"""Look at a file before a release: its layout, its columns, and the cells that a spec would not read. NOT PRIVATE."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpbayes_cli.base.cell_grammar import normal_cell
from dpbayes_cli.base.errors import SourceError, nearest
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.registry import model_names, model_type
from dpbayes_cli.sources.column_profile import (
    ColumnProfile,
    commonest_invalid,
    parquet_names,
    parquet_relation,
    profile_columns,
    text_relation,
)
from dpbayes_cli.sources.file_layout import UTF8, UTF8_MARKED, UTF16, FileLayout, guess_layout
from dpbayes_cli.sources.location import Location
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.source_section import SourceSection

_MANY_LEVELS = 50
_COMMA_DECIMAL = re.compile(r"[+-]?\d+,\d+")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,. '])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_WITH_UNIT = re.compile(r"[^\w.+-]?\s*[+-]?\d+(?:\.\d+)?\s*[^\d\s].*")
_YES = ("yes", "y", "true", "t", "positive", "pos", "ja", "oui", "si", "case", "dead", "died")


@dataclass(frozen=True)
class CheckedColumn:
    """The cells of a column under a spec.

    Attributes:
        name: the name of the column.
        records: the number of cells.
        invalid: the number of cells that the spec does not read.
        commonest: the commonest texts among these, with their numbers of cells.
        advice: what to state or to change, a line each.
    """

    name: str
    records: int
    invalid: int
    commonest: tuple[tuple[str, int], ...]
    advice: tuple[str, ...]


@dataclass
class FileCheck:
    """The result of looking at a file.

    Attributes:
        layout: the guessed layout; None for Parquet.
        records: the number of records.
        columns: the profiles of the columns.
        wrong_lines: the number of lines with another number of fields than the header.
        advice: what to state or to change, a line each.
        checked: the columns of the spec; empty without one.
    """

    layout: FileLayout | None
    records: int
    columns: list[ColumnProfile]
    wrong_lines: int = 0
    advice: list[str] = field(default_factory=list)
    checked: list[CheckedColumn] = field(default_factory=list)


def check_file(
    location: Location,
    spec: ReleaseSpec | None = None,
    stated: Sequence[str] = (),
    stated_layout: SourceSection | None = None,
) -> FileCheck:
    """Return what a file holds, and what a spec would not read of it. NOT PRIVATE: for the custodian only.

    Args:
        location: one file.
        spec: the request; None: look at the file alone.
        stated: names of columns that the user stated, to be compared with the header.
        stated_layout: the layout that the user stated; None: the default one.

    Raises:
        SourceError: the location is not a file, or cannot be read.
    """
    if len(location.paths) != 1 or location.is_stream:
        raise SourceError("only a single file can be checked", hint="dpbayes check FILE")
    (path,) = location.paths
    layout = None if location.format == "parquet" else guess_layout(path)
    names = parquet_names(path) if layout is None else layout.names
    relation = parquet_relation(path, names) if layout is None else text_relation(path, layout)
    columns = profile_columns(relation, names)
    check = FileCheck(layout, columns[0].records if columns else 0, columns)
    if layout is not None:
        check.wrong_lines = max(layout.lines - layout.skipped - layout.header - check.records, 0)
        check.advice += _layout_advice(layout, path, check, SourceSection() if stated_layout is None else stated_layout)
    check.advice += _name_advice(names, stated)
    if spec is not None:
        model = spec.build_model()
        if layout is not None:  # as the release reads it
            relation = text_relation(path, replace(layout, quote=spec.source.quote))
        check.checked = list(_checked(spec, model, relation, columns))
    return check


def _layout_advice(layout: FileLayout, path: Path, check: FileCheck, stated: SourceSection) -> Iterable[str]:
    if layout.encoding == UTF16:
        yield f"the file is UTF-16; convert it: iconv -f utf-16 -t utf-8 {path.name} > utf8.csv"
    elif layout.encoding not in {UTF8, UTF8_MARKED}:
        yield f"the file is not UTF-8 but probably Windows-1252: iconv -f cp1252 -t utf-8 {path.name} > utf8.csv"
    if layout.skipped:
        tail = f"tail -n +{layout.skipped + 1} {path.name} > table.csv"
        yield f"lines above the header: {layout.skipped}; remove them: {tail}"
    if layout.delimiter != stated.delimiter:
        flag = f"--delimiter {_shell(layout.delimiter)}"
        yield f"fields are separated by {layout.delimiter!r}, not by {stated.delimiter!r}: {flag}"
    if layout.quote != stated.quote:
        yield f"texts are quoted by {layout.quote!r}, not by {stated.quote!r}: --quote {_shell(layout.quote)}"
    if not layout.header and stated.header:
        yield f"the file has no header; name its columns: --no-header --columns {','.join(layout.names)}"
    if check.wrong_lines:
        yield f"{check.wrong_lines} lines have another number of fields than the header; their cells are invalid"
    if not check.records:
        yield "the file has no records"


def _name_advice(names: Sequence[str], stated: Sequence[str]) -> Iterable[str]:
    for name, count in Counter(names).items():
        if count > 1:
            first = names.index(name) + 1
            yield f"{count} columns are named {name!r}; name the one to use by its position: --column {first}"
    for name in stated:
        if name not in names:
            same = [each for each in names if each.casefold().strip() == name.casefold().strip()]
            yield f"there is no column {name!r}; " + (
                f"write --column {_shell(same[0])}" if same else nearest(name, names)
            )


def _checked(
    spec: ReleaseSpec, model: Model, relation: str, columns: Sequence[ColumnProfile]
) -> Iterable[CheckedColumn]:
    """Yield what the spec would not read of each of its columns that the file has."""
    names = [column.name for column in columns]
    wanted = model.column_names or (spec.column or (names[0] if len(names) == 1 else None),)
    for column, name in zip(model.columns, wanted, strict=False):
        if name not in names:
            continue
        index = names.index(name)
        invalid, commonest = commonest_invalid(relation, index, column)
        advice = tuple(_cell_advice(column, columns[index], commonest)) if invalid else ()
        yield CheckedColumn(name, columns[index].records, invalid, commonest, advice)


def _cell_advice(column: AnyColumn, profile: ColumnProfile, commonest: Sequence[tuple[str, int]]) -> Iterable[str]:
    """Yield one line for each reason why the commonest invalid texts are invalid."""
    reasons = dict.fromkeys(_reason(column, text) for text, _ in commonest if text)
    if isinstance(column, Column) and len(column.levels) == len(profile.commonest) == 2 and not any(reasons):
        success, failure = success_and_failure(profile)
        reasons = {f"the two texts of the column: --success {_shell(success)} --failure {_shell(failure)}": None}
    yield from (reason for reason in reasons if reason)


def _reason(column: AnyColumn, text: str) -> str:
    """Return what to state so that a text becomes valid; empty if there is no advice."""
    inner = text.strip("'\"`")
    if isinstance(column, Column):
        normal = [normal_cell(level) for level in column.levels]
        if inner != text and normal_cell(inner) in normal:
            return f"texts stand in quotes: --quote {_shell(text[0])}"
        same = [level for level in column.levels if level.casefold() == inner.casefold()]
        return f"{text!r} is not {same[0]!r}: state the text with the same upper and lower case" if same else ""
    if inner != text:
        return f"numbers stand in quotes: --quote {_shell(text[0])}"
    if match := _THOUSANDS.fullmatch(text):
        return f"numbers have a mark between thousands: --thousands {_shell(match[1])}"
    if _COMMA_DECIMAL.fullmatch(text):
        return "numbers have a decimal comma: --decimal ,"
    if _DATE.fullmatch(text):
        return "dates are not numbers: compute a number, such as an age or a duration, into a column of its own"
    if _WITH_UNIT.fullmatch(text):
        return "numbers stand beside a sign or a unit: remove it from the column"
    if isinstance(column, NumericColumn) and column.integers:
        return "the model reads whole numbers only"
    return ""


def success_and_failure(column: ColumnProfile) -> tuple[str, str]:
    """Return the two texts of a column, the one first that most users would count as success."""
    texts = [text for text, _ in column.commonest]
    success = next((text for text in texts if text.casefold() in _YES), max(texts))
    return success, next(text for text in texts if text != success)


def _shell(text: str) -> str:
    """Return a text as a shell reads it; a tab by its name."""
    import shlex

    return "tab" if text == "\t" else shlex.quote(text)


def suggested_model(column: ColumnProfile) -> str:
    """Return the name of the model that most users would choose for a column; empty if there is none."""
    kind = _kind(column)
    return next((name for name in model_names() if kind and model_type(name).suggested_for == kind), "")


def _kind(column: ColumnProfile) -> str:
    """Return the kind of a column as in ``Model.suggested_for``; empty for columns without a usual model."""
    if column.distinct <= 1 or column.missing == column.records:
        return ""
    if len(column.commonest) == 2:
        return "two texts"
    if column.is_numeric:
        return "numbers"
    return "texts" if column.distinct <= _MANY_LEVELS else ""


def suggested_spec(file: str, layout: FileLayout | None, column: ColumnProfile) -> str:
    """Return a YAML spec to start from; what must come from public knowledge is left to fill in."""
    model, kind = suggested_model(column), _kind(column)
    domain: dict[str, str] = {}
    if kind == "two texts":
        success, failure = success_and_failure(column)
        domain = {"success": _yaml(success), "failure": _yaml(failure)}
    elif kind == "numbers":
        domain = {"lower": "# from public knowledge, not from this file", "upper": "#"}
    else:
        domain = {"categories": "# every possible value, from public knowledge, not from this file"}
    source = {}
    if layout is not None and layout.delimiter != ",":
        source["delimiter"] = _yaml("tab" if layout.delimiter == "\t" else layout.delimiter)
    if layout is not None and layout.quote != '"':
        source["quote"] = _yaml(layout.quote)
    lines = [f"model: {model}", f"data: {_yaml(file)}", f"column: {_yaml(column.name)}", "domain:"]
    lines += [f"  {key}: {text}" for key, text in domain.items()]
    lines += ["source:", *(f"  {key}: {text}" for key, text in source.items())] if source else []
    return "\n".join([*lines, "privacy:", "  epsilon: 1"]) + "\n"


def _yaml(text: str) -> str:
    """Return a text as YAML reads it."""
    import json

    return json.dumps(text, ensure_ascii=False)
