"""The files of the posterior of a published table: all its rows, a summary and a report."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbayes_cli.base.cell_grammar import CONTROL_CHARACTERS
from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.base.duck import cursor
from dpbayes_cli.base.errors import OutputError
from dpbayes_cli.bundle.report.digits import rounded
from dpbayes_cli.bundle.write import new_directory, write_new

_TEXTS = ("quantity", "kind", "category")
_NUMBERS = ("estimate", "sd", "low", "high")
_MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`|*_<>[]"})
_WHOLE = {"count", "sum", "difference"}
"""The kinds of quantities that are whole numbers."""
_NO_SD = 1e-6
"""A whole number with a smaller standard deviation is known exactly."""
_MOST_ROWS = 200
"""The largest number of rows in the report."""


def shown_table(rows: Sequence[Mapping[str, Any]], level: float) -> tuple[list[str], list[list[str]]]:
    """Return the posterior as a table of texts: the names of the columns, and a row for each quantity of each group.

    Args:
        rows: the posterior of one quantity of one group each, with its keys.
        level: the probability of the intervals.
    """
    keys = [*dict.fromkeys(key for row in rows for key in row["keys"])]
    columns = ["quantity", *keys, "category", "estimate", "sd", f"{100 * level:g} % interval"]
    return columns, [
        [
            row["quantity"],
            *(row["keys"].get(key, "") for key in keys),
            row["category"],
            *_numbers(*(row[name] for name in _NUMBERS), are_whole=row["kind"] in _WHOLE),
        ]
        for row in rows
    ]


def some_of_each(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return at most ``most`` rows, in their order; the first rows of every quantity are among them."""
    numbered, seen = [], Counter[str]()
    for place, row in enumerate(rows):
        numbered.append((seen[row["quantity"]], place))
        seen[row["quantity"]] += 1
    return [rows[place] for place in sorted(place for _, place in sorted(numbered)[:most])]


def _numbers(
    estimate: float | None, sd: float | None, low: float | None, high: float | None, *, are_whole: bool
) -> list[str]:
    if estimate is None or sd is None or low is None or high is None:
        return ["not defined", "", ""]
    if are_whole and sd < _NO_SD:
        return [f"{estimate:,.0f}", "0", f"{low:,.0f} to {high:,.0f}"]
    width = high - low or abs(estimate) * 1e-3 or 1.0
    ends = [f"{end:,.0f}" if are_whole else rounded(end, width) for end in (low, high)]
    return [rounded(estimate, width), rounded(sd, width), " to ".join(ends)]


def table_document(inferred: Any, table: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the posterior as one JSON document, with null for numbers that are not defined."""
    rows = []
    for row in inferred.rows:
        values = {name: getattr(row, name) for name in _NUMBERS}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        rows.append({"quantity": row.quantity, "kind": row.kind, "keys": row.keys, "category": row.category} | finite)
    return {
        "table": str(table),
        "n_rows": inferred.n_rows,
        "n_cells": inferred.n_cells,
        "interval": inferred.level,
        "posterior": rows,
        "methods": inferred.methods,
        "warnings": list(inferred.warnings),
        "spec": spec,
    }


def write_table_files(target: Path, document: Mapping[str, Any], file_format: str) -> None:
    """Write ``posterior.parquet`` or ``posterior.csv``, ``summary.json`` and ``report.md`` to a new directory.

    Raises:
        OutputError: the directory exists or cannot be written.
    """
    rows = document["posterior"]
    keys = [*dict.fromkeys(key for row in rows for key in row["keys"])]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in _TEXTS}
    for key in keys:
        columns[f"key {key}" if key in {*_TEXTS, *_NUMBERS} else key] = [row["keys"].get(key) for row in rows]
    columns |= {name: [row[name] for row in rows] for name in _NUMBERS}
    with new_directory(target) as directory:
        if file_format == "csv":
            lines = [list(columns), *map(list, zip(*columns.values(), strict=True))]
            write_new(directory / "posterior.csv", csv_text(lines).encode("utf-8"))
        else:
            _write_parquet(directory / "posterior.parquet", columns)
        summary = {key: value for key, value in document.items() if key != "posterior"}
        write_new(directory / "summary.json", (json.dumps(summary, indent=2) + "\n").encode("utf-8"))
        write_new(directory / "report.md", _report(document).encode("utf-8"))


def _write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    import pandas as pd

    place = str(path).replace("'", "''")
    with cursor(OutputError("the posterior could not be written")) as engine:
        engine.register("posterior", pd.DataFrame(columns))
        engine.execute(f"COPY posterior TO '{place}' (FORMAT parquet)")
        engine.unregister("posterior")


def _escape(text: str) -> str:
    """Return a text of the table as Markdown on one line."""
    return CONTROL_CHARACTERS.sub(" ", text).translate(_MARKS)


def _report(document: Mapping[str, Any]) -> str:
    rows = document["posterior"]
    columns, cells = shown_table(some_of_each(rows, _MOST_ROWS), document["interval"])
    lines = ["# The posterior of a table of noisy counts", ""]
    lines += [f"Table: `{document['table']}`, {document['n_rows']:,} rows, {document['n_cells']:,} noisy counts.", ""]
    spec = document["spec"]
    for name, law in ({"": spec["noise"]} | spec.get("noise_of", {})).items():
        stated = ", ".join(f"{key} {value}" for key, value in law.items())
        lines.append(f"- Noise{f' of {_escape(name)}' * bool(name)}: {_escape(stated)}.")
    lines += [f"- **Warning**: {_escape(warning)}." for warning in document["warnings"]]
    lines += [f"- {_escape(name)}: {method}." for name, method in document["methods"].items()]
    table = [columns, ["---"] * len(columns), *([_escape(cell) for cell in row] for row in cells)]
    lines += ["", *("| " + " | ".join(row) + " |" for row in table)]
    if left_out := len(rows) - len(cells):
        lines += ["", f"{left_out:,} more rows are in the file of the posterior."]
    lines += ["", "## The spec", "", "```json", json.dumps(spec, indent=2), "```"]
    return "\n".join(lines) + "\n"
