"""Check a file before a release: its layout, its columns, and the cells that are invalid under a spec. NOT PRIVATE."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dpbayes_cli.base.cell_grammar import POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError, SpecError, nearest
from dpbayes_cli.check import remedies
from dpbayes_cli.check.column_profile import (
    ColumnProfile,
    Scan,
    are_grouped,
    commonest_invalid,
    count_beyond,
    count_keys,
    count_valid_records,
    mean_and_variance,
)
from dpbayes_cli.check.file_layout import UTF8, UTF16, FileLayout, first_wrong_line
from dpbayes_cli.check.file_table import Table
from dpbayes_cli.check.header_lines import header_line_advice
from dpbayes_cli.check.spec_of_file import suggested_spec
from dpbayes_cli.check.suggested_spec import suggested_model
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.model import Model
from dpbayes_cli.sources.file_mistakes import has_blanks_between_names, name_of_copy
from dpbayes_cli.sources.location import Location
from dpbayes_cli.sources.source import column_index
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.spec.source_section import SourceSection
from dpbayes_cli.workflow.pricing import price
from dpbayes_cli.workflow.release_data import source_of


@dataclass(frozen=True)
class CheckedColumn:
    """The valid and invalid cells of a column under a spec.

    Attributes:
        name: the name of the column.
        records: the number of cells.
        invalid: the number of invalid cells.
        commonest: the most common invalid texts with their frequencies.
        advice: what to state or to change, a line each.
    """

    name: str
    records: int
    invalid: int
    commonest: tuple[tuple[str, int], ...]
    advice: tuple[str, ...]

    @property
    def is_ready(self) -> bool:
        """Whether all cells but empty ones can be read, and nothing is advised but what to do about empty ones."""
        return not any(text for text, _ in self.commonest) and len(self.advice) == bool(self.invalid)


@dataclass
class FileCheck:
    """The result of checking a file.

    Attributes:
        layout: the guessed layout; None for Parquet.
        records: the number of records.
        columns: the profiles of the columns.
        wrong_lines: the number of lines that cannot be split into the fields of the header.
        advice: what to state or to change, a line each.
        checked: the columns that the spec names; empty if there is no spec.
        suggestion: a spec to start from, if the user gave none; empty if no model suits the file.
        valid: the number of records that are valid in all columns; None without a spec of several columns.
        refusal: why a release with the same flags refuses the file before it reads a record; empty if it does not.
    """

    layout: FileLayout | None
    records: int
    columns: list[ColumnProfile]
    wrong_lines: int = 0
    advice: list[str] = field(default_factory=list)
    checked: list[CheckedColumn] = field(default_factory=list)
    suggestion: str = ""
    valid: int | None = None
    refusal: str = ""


def check_file(
    location: Location,
    spec: ReleaseSpec | None = None,
    stated: Sequence[str] = (),
    stated_layout: SourceSection | None = None,
    model: str | None = None,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
) -> FileCheck:
    """Return what a file holds, and which cells are invalid under a spec. NOT PRIVATE: for the custodian only.

    Args:
        location: one file.
        spec: the request; None to check the file alone.
        stated: the names of columns that the user stated.
        stated_layout: the layout that the user stated; None for the default layout.
        model: the model of the suggested spec; None for the usual model of the column.
        kept: what the user stated in the sections privacy and by, which the suggested spec keeps.

    Raises:
        SourceError: the location is not a file, or cannot be read.
    """
    table, section = Table(location, stated_layout), SourceSection() if stated_layout is None else stated_layout
    layout, columns = table.layout, table.profiles()
    check = FileCheck(layout, columns[0].records if columns else 0, columns)
    if spec is not None:
        check.refusal = _refusal(location, spec, section)
    places = [_index(table.names, name, ()) for name in stated]
    named = [columns[i] for i in places if i is not None] or columns
    if layout is not None:
        check.wrong_lines = max(layout.lines - layout.skipped - layout.header - check.records, 0)
        # if a release reads the header, each column says how its own cells are quoted
        quote = section.quote if spec is None or check.refusal else layout.quote
        section = msgspec.structs.replace(section, quote=quote)
        check.advice += _layout_advice(
            layout, table.path, check, section, reads_numbers=any(map(_holds_numbers, named))
        )
        check.advice += header_line_advice(layout, table.path, table.scan(), columns)
    check.advice += _name_advice(table.names, stated)
    if "unit" not in (kept or {}).get("privacy", {}):
        check.advice += _unit_advice(table, columns)
    if spec is not None:
        _check_spec(check, spec, table, location)
    else:
        shown = [each for each in columns if each.name in stated or not stated]
        by_case = {each.name: remedies.case_remedy(each, table.path) for each in shown}
        check.advice += [f"texts of {name!r} {remedy}" for name, remedy in by_case.items() if remedy]
        if len(stated) == 1 and places[0] is not None and model in (None, suggested_model(named[0])):
            check.advice += remedies.about_law(table, named[0])
        if len(stated) == 1 and places[0] is not None and model is None and (missing := named[0].missing):
            check.advice.append(
                f"missing cells ({missing}) are dropped with their records, unless --on-invalid impute:VALUE"
            )
        with suppress(SourceError, SpecError):  # no column has a usual model, or there is no such model
            chosen = stated[0] if stated else None
            check.suggestion = suggested_spec(str(table.path), table, columns, chosen, model, kept)
    return check


def _layout_advice(
    layout: FileLayout, path: Path, check: FileCheck, stated: SourceSection, *, reads_numbers: bool
) -> Iterable[str]:
    if not layout.is_utf8:
        encoding = "UTF-16" if layout.encoding == UTF16 else "not UTF-8, but probably Windows-1252"
        yield f"the file is {encoding}; convert it: {remedies.conversion(layout, path)}"
    if layout.skipped:
        as_utf8 = replace(layout, encoding=UTF8)
        file = path if layout.is_utf8 else Path(*shlex.split(name_of_copy(str(path), "utf8")))
        yield f"lines above the header: {layout.skipped}; remove them: {remedies.conversion(as_utf8, file)}"
    if len(check.columns) == 1 and has_blanks_between_names(layout.names):
        copied = f"{remedies.shell(str(path))} > {name_of_copy(str(path), 'table')}"
        yield f"fields seem to be separated by blanks; put commas: tr -s ' ' , < {copied}"
    elif layout.delimiter != stated.delimiter and len(check.columns) > 1:
        flag = f"--delimiter {remedies.shell(layout.delimiter)}"
        yield f"fields are separated by {layout.delimiter!r}, not by {stated.delimiter!r}: {flag}"
    if layout.quote != stated.quote:
        yield f"texts are quoted by {layout.quote!r}, not by {stated.quote!r}: --quote {remedies.shell(layout.quote)}"
    if reads_numbers and layout.marks not in {stated.marks, POINT}:
        yield remedies.marks_remedy(layout.marks)
    if not layout.header and stated.header:
        yield f"the file has no header; name its columns: --no-header --columns {','.join(layout.names)}"
    if check.wrong_lines:
        number, goes_on = first_wrong_line(path, layout)
        yield (
            f"{check.wrong_lines} of the lines cannot be split into the fields of the header; "
            f"their cells are invalid; the first is {'record' if layout.quoted_newlines else 'line'} {number}"
        )
        if goes_on and not layout.quoted_newlines:
            yield "if a text in quotes goes on in the next line: --quoted-newlines"
    if not check.records:
        yield "the file has no records"


def _holds_numbers(column: ColumnProfile) -> bool:
    """Return whether the marks in the numbers of a column matter; two numbers are more likely codes of two texts."""
    return column.numbers > 0 and column.distinct > 2


def _name_advice(names: Sequence[str], stated: Sequence[str]) -> Iterable[str]:
    for name, count in Counter(names).items():
        places = [i + 1 for i, each in enumerate(names) if each == name]
        if count > 1:
            listed = " or ".join(f"--column {place}" for place in places)
            yield f"{count} columns are named {name!r}; name the one to use by its position: {listed}"
        elif not name:
            yield f"column {places[0]} has no name; name it by its position: --column {places[0]}"
    for name in stated:
        if name not in names and _index(names, name, ()) is None:
            same = [each for each in names if each.casefold().strip() == name.casefold().strip()]
            yield f"there is no column {name!r}; " + (
                f"write --column {remedies.shell(same[0])}" if same else nearest(name, names)
            )


def _unit_advice(table: Table, columns: Sequence[ColumnProfile]) -> Iterable[str]:
    """Yield a line for each column with IDs that repeat: by default, a release protects records and not people."""
    for index, column in enumerate(columns):
        if column.may_be_unit and (most := table.largest_group(index)) > 1:
            yield (
                f"{column.name!r} seems to be an ID, with up to {most} records each; to protect people rather than "
                f"single records: --unit {remedies.shell(column.name)} --max-contributions {most}"
            )


def _index(names: Sequence[str], wanted: str | None, others: Sequence[str | None]) -> int | None:
    """Return the index of a column; None if a release would refuse its name."""
    try:
        return column_index(names, wanted, others=others)
    except SourceError:
        return None


def _names_of(spec: ReleaseSpec, model: Model) -> list[str | None]:
    return [name or None for name in model.column_names] or [spec.column]


def _refusal(location: Location, spec: ReleaseSpec, layout: SourceSection) -> str:
    """Return why a release refuses a file in the stated layout before it reads a record; empty if it does not."""
    model = spec.build_model()
    source = source_of(msgspec.structs.replace(layout, engine="duckdb"), location, spec.privacy.unit)
    try:
        source.check(model.columns, _names_of(spec, model))
    except (SourceError, SpecError) as error:
        return error.message
    return ""


def _about_numbers(
    model: Model, column: NumericColumn, profile: ColumnProfile, scan: Scan, index: int, marks: NumberMarks
) -> tuple[list[str], list[str]]:
    """Return sentences about the numbers beyond the bounds of a column, and about how the numbers suit the model."""
    moments = partial(mean_and_variance, scan, index, marks=marks)
    beyond = remedies.beyond_bounds(column, profile, count_beyond(scan, index, column, marks), moments)
    if len(model.columns) == 1 or getattr(model, "base", None) is not None:  # one column of values, perhaps by groups
        return beyond, [*remedies.about_spread(model, column, moments(column))]
    is_target = column is model.columns[-1]
    return beyond, [] if is_target else remedies.about_feature(model, column, profile)


def _check_spec(check: FileCheck, spec: ReleaseSpec, table: Table, location: Location) -> None:
    """Add the invalid cells of each column that the spec names and the file has."""
    model, scan, indices = spec.build_model(), table.scan_as_released(spec.source.quote), []
    names, columns = _names_of(spec, model), model.columns
    is_single = len(columns) == 1 or spec.by is not None

    def quote_flag(index: int, quote: str) -> str:
        """Return the flags that read cells in this quote character, although the header may be in another one."""
        layout = msgspec.structs.replace(spec.source, quote=quote)
        if table.layout is not None:
            layout = msgspec.structs.replace(layout, delimiter=table.layout.delimiter)
        by_position = len(names) == 1 and _refusal(location, spec, layout)
        return f"--quote {remedies.shell(quote)}" + (f" --column {index + 1}" if by_position else "")

    for column, wanted in zip(columns, names, strict=False):
        index = _index(table.names, wanted, names)
        if index is None and wanted is None:
            suitable = [i for i, each in enumerate(check.columns) if suggested_model(each) == spec.model]
            index = suitable[0] if len(suitable) == 1 else None
            named = "NAME, and check that column too" if index is None else remedies.shell(table.names[index])
            check.advice.append(f"name the column that the model reads: --column {named}")
        if index is None:
            continue
        profile, name = check.columns[index], table.names[index]
        marks = table.marks(name, spec.source.marks)
        indices.append((index, column, marks))
        invalid, commonest = commonest_invalid(scan, index, column, marks)
        advice: list[str] = []
        is_value = is_single and column is columns[-1]
        if empty := sum(count for text, count in commonest if not text):
            advice.append(
                remedies.about_empty(empty, invalid, spec.on_invalid if is_value or spec.by is None else "none")
            )
        if isinstance(column, Column) and column.finds_keys:
            advice = ["these records count in no group"] * (invalid > 0)
        elif invalid and isinstance(column, Column):
            quoted = partial(quote_flag, index)
            flags = spec.domain.__struct_fields__ if is_value else ()
            advice += remedies.level_remedies(
                column, profile, commonest, flags, table.path, partial(table.texts, name), quoted
            )
        elif invalid:
            texts = [text for text, _ in commonest if text]
            remedy = partial(remedies.number_remedy, column, texts, table.path, partial(quote_flag, index))
            advice += dict.fromkeys(filter(None, map(remedy, texts)))
        beyond: list[str] = []
        if isinstance(column, NumericColumn):
            beyond, more = _about_numbers(model, column, profile, scan, index, marks)
            advice += [*beyond, *more]
        if not (beyond or invalid or isinstance(column, Column)) and marks == POINT and are_grouped(scan, index):
            advice.append("numbers such as 1.234 are read as 1.234; if they mean 1234: --decimal , --thousands .")
        check.checked.append(CheckedColumn(name, profile.records, invalid, commonest, tuple(advice)))
    if len(model.columns) > 1 and len(indices) == len(model.columns):
        check.valid = count_valid_records(scan, indices)
    if spec.key_delta is not None and len(indices) == len(model.columns):
        with suppress(SpecError):  # no epsilon is stated yet
            least = price(spec).plan.parameters["key_records"]
            check.advice.append(remedies.keys_advice(*count_keys(scan, indices, least), least, spec.privacy.unit))
