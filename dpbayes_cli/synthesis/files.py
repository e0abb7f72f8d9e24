"""Write synthetic tables to a new directory, with files that say that they are synthetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dpbayes_cli.base.csv_escape import escape_row
from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import OutputError
from dpbayes_cli.bundle.write import check_target, new_directory, write_new
from dpbayes_cli.synthesis.readme import csv_metadata, readme
from dpbayes_cli.synthesis.records import SyntheticTables

if TYPE_CHECKING:
    import pandas as pd

TableFormat = Literal["csv", "parquet"]


def write_tables(
    tables: SyntheticTables,
    target: Path,
    table_format: TableFormat = "csv",
    report: Callable[[float], None] = lambda _share: None,
) -> list[str]:
    """Write the tables and a README.md to a new directory; return the names of the files of the tables.

    Args:
        target: the new directory; if an error occurs, nothing becomes visible.
        table_format: ``csv`` or ``parquet``.
        report: a function that is called with the share of the tables that are written.

    Raises:
        OutputError: the directory exists, or cannot be written.
    """
    check_target(target)
    width = len(str(len(tables)))
    names = [f"synthetic-{k + 1:0{width}}.{table_format}" for k in range(len(tables))]
    with new_directory(target) as partial:
        for k, (name, table) in enumerate(zip(names, tables, strict=True)):
            report(k / len(names))
            labels = {"table": f"{k + 1} of {len(names)}", "posterior_draw": str(tables.draws[k])}
            if table_format == "csv":
                _write_csv(partial / name, table)
            else:
                _write_parquet(partial / name, table, {**tables.metadata, **labels})
        write_new(partial / "README.md", readme(tables, names).encode("utf-8"))
        if table_format == "csv":
            write_new(partial / "csv-metadata.json", csv_metadata(tables, names))
    return names


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    for name in table.select_dtypes("category"):
        table[name] = table[name].cat.rename_categories(escape_row(table[name].cat.categories))
    table.columns = escape_row(table.columns)
    table.to_csv(path, index=False, lineterminator="\n", mode="x")


def _write_parquet(path: Path, table: pd.DataFrame, labels: Mapping[str, str]) -> None:
    stated = ", ".join(f"{_quoted(key)}: {_quoted(text)}" for key, text in labels.items())
    with cursor(OutputError("the synthetic records could not be written")) as engine:
        engine.register("records", table)
        engine.execute(f"COPY records TO {_quoted(str(path))} (FORMAT parquet, KV_METADATA {{{stated}}})")
        engine.unregister("records")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
