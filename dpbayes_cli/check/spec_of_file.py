"""The spec suggested for a file: from its header, which is public, or from its cells, and then NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.check import remedies
from dpbayes_cli.check.column_profile import ColumnProfile
from dpbayes_cli.check.file_layout import read_header
from dpbayes_cli.check.file_table import Table, only_file
from dpbayes_cli.check.suggested_spec import (
    layout_keys,
    spec_from_data,
    spec_from_header,
    suggested_model,
    usual_column,
    usual_model,
)
from dpbayes_cli.sources.location import Location
from dpbayes_cli.sources.parquet import parquet_columns


def suggested_spec(
    file: str,
    table: Table,
    profiles: Sequence[ColumnProfile],
    column: str | None = None,
    model: str | None = None,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Return a YAML spec with values from the data; see ``spec_from_data``. NOT PRIVATE."""
    source, kept = {} if table.layout is None else layout_keys(table.layout), dict(kept or {})
    column = column or (usual_column(profiles) if model is None else None)
    of_column = [profile for profile in profiles if profile.name == column]
    usual = suggested_model(of_column[0]) if of_column else None
    if of_column and model in (None, usual) and remedies.about_law(table, of_column[0]):
        model, kept["domain"] = usual_model("numbers"), {"out_of_bounds": "recorded"}
    return spec_from_data(file, source, profiles, table.texts, column=column, model=model, kept=kept)


def spec_of_header(location: Location, model: str | None = None) -> str:
    """Return a YAML spec with the columns of a file; only the header is read, which is public.

    Raises:
        SourceError: the location is not one file, or the file has no header.
    """
    path = only_file(location)
    if location.format == "parquet":
        return spec_from_header(str(path), {}, list(parquet_columns(path)), model)
    layout = read_header(path)
    return spec_from_header(str(path), layout_keys(layout), layout.names, model)


def spec_of_data(location: Location, column: str | None = None, model: str | None = None) -> str:
    """Return a YAML spec whose values come from the data; see ``spec_from_data``. NOT PRIVATE.

    Raises:
        SourceError: the location is not one file that a release can read, or no model suits the column.
    """
    table = Table(location)
    if table.layout is not None and (command := remedies.conversion(table.layout, table.path)):
        raise SourceError("a release cannot read the file as it is", hint=f"convert it first: {command}")
    return suggested_spec(str(table.path), table, table.profiles(), column, model)
