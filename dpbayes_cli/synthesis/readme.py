"""The texts beside synthetic tables: a README.md that says how to analyze them, and metadata of the CSV files."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dpbayes_cli import __version__
from dpbayes_cli.base.csv_escape import escape_row
from dpbayes_cli.core.columns import CutColumn
from dpbayes_cli.synthesis.records import SyntheticTables

_MAX_EDGES = 60


def readme(tables: SyntheticTables, names: Sequence[str]) -> str:
    """Return the text of README.md."""
    labels, source = tables.metadata, tables.source
    form = names[0].rpartition(".")[2]
    lines = [
        "# Synthetic records",
        "",
        f"The {len(names)} tables {names[0]} to {names[-1]} hold {tables.rows:,} synthetic records each."
        if len(names) > 1
        else f"The table {names[0]} holds {tables.rows:,} synthetic records.",
        "No row is a record of a person: the rows were drawn from the posterior of a private release. They have the "
        "guarantee of that release, and cost nothing more.",
        "",
        f"- release: `{labels['release_id']}`",
        f"- model: `{labels['model']}`; mechanism: `{labels['mechanism']}`",
        f"- guarantee: {labels['guarantee']}",
        f"- made by: dpbayes {__version__}, `dpbayes synthesize --seed {tables.seed}`",
        f"- posterior draws, one for each table: {', '.join(map(str, tables.draws))}",
        *(f"- {warning}" for warning in source.warnings),
        "",
        "## How to analyze them",
        "",
        *_how_to_analyze(tables, form),
        "",
        "## What they can show",
        "",
        *_about_dependence(tables),
        *_about_numbers(tables),
        *(["- A text that a spreadsheet could run as a formula has an apostrophe before it."] if form == "csv" else []),
        "",
    ]
    return "\n".join(lines)


def _how_to_analyze(tables: SyntheticTables, form: str) -> list[str]:
    first = (
        "If `dpbayes analyze` can compute what you need, use it: it needs no tables, and its intervals are narrower, "
        "because they have no sampling error of tables."
    )
    if len(tables) == 1:
        return [
            first,
            "",
            "One table alone shows neither the uncertainty of the posterior nor that of the noise: intervals from it "
            "are too narrow. Ask for several tables, `--datasets 10`.",
        ]
    return [
        first,
        "",
        "Else analyze each table alone, as if it were real, and combine the estimates and their variances (squared "
        "standard errors):",
        "",
        "```python",
        "import glob",
        "import pandas as pd",
        "import dpbayes_cli as dpb",
        "",
        f'tables = [pd.read_{form}(name) for name in sorted(glob.glob("synthetic-*.{form}"))]',
        "estimates, variances = zip(*(my_analysis(table) for table in tables))",
        "print(dpb.combine(estimates, variances, interval=0.95))",
        "```",
        "",
        "Intervals from a single table, or from all tables in one, are too narrow. With m tables, the mean v of the "
        "variances and the variance b of the estimates, the variance of the mean estimate is T = (1 + 1/m) b - v "
        "(Raghunathan, Reiter and Rubin 2003, for fully synthetic data). It is not the rule for multiple imputation, "
        "which adds v.",
        "",
        "If the tables are much larger than the original data and there are about 100 of them or more, use "
        '`dpb.combine(..., rule="mixture")` (Raisa, Jalko and Honkela 2025).',
    ]


def _about_dependence(tables: SyntheticTables) -> list[str]:
    law = tables.source.law
    if law.unknown_shares:
        columns = " and ".join(f"`{law.names[i]}`" for i in law.unknown_shares)
        return [
            f"- The release does not say how frequent the values of {columns} are. Here all of them are equally "
            "frequent: make statements about the other columns given these, not about these."
        ]
    if len(law.columns) == 1:
        return []
    network = law.network
    edges = [f"`{network.names[j]}` - `{network.names[i]}`" for i in range(len(network)) for j in network.parents[i]]
    shown = ", ".join(edges[:_MAX_EDGES]) + (f" and {len(edges) - _MAX_EDGES} more" if edges[_MAX_EDGES:] else "")
    hidden = network.names[len(law.columns) :]
    about = f" `{hidden[0]}` is hidden: it is in no table." if hidden else ""
    return [
        f"- Columns depend on each other only along the edges of the network of the release: {shown or 'none'}.{about} "
        "Any other dependence in the original data is not in these tables."
    ]


def _about_numbers(tables: SyntheticTables) -> list[str]:
    lines = []
    for i, (name, column) in enumerate(zip(tables.source.law.names, tables.source.law.columns, strict=True)):
        if i in tables.numbers:
            kind = "whole numbers" if tables.numbers[i].whole else "numbers"
            lines.append(
                f"- `{name}` holds {kind} {tables.numbers[i]}, uniform within the intervals of the release: "
                f"{', '.join(column.levels)}. The bounds were stated for these tables; the release does not know them."
            )
        elif isinstance(column, CutColumn):
            lines.append(
                f"- `{name}` holds intervals, because the release counted its numbers between cuts; "
                f"`--bounds {name}=LOW:HIGH` writes numbers."
            )
    return lines


def csv_metadata(tables: SyntheticTables, names: Sequence[str]) -> bytes:
    """Return the metadata of the CSV files, in the form of the W3C recommendation "CSV on the Web"."""
    law = tables.source.law
    columns = []
    for i, name in enumerate(law.names):
        kind = "string" if i not in tables.numbers else ("integer" if tables.numbers[i].whole else "number")
        columns.append({"titles": escape_row([name])[0], "datatype": kind})
    document = {
        "@context": "http://www.w3.org/ns/csvw",
        **{f"dpbayes:{key}": text for key, text in tables.metadata.items()},
        "tables": [
            {
                "url": name,
                "dpbayes:posterior_draw": draw,
                "dpbayes:synthetic": "true",
                "tableSchema": {"columns": columns},
            }
            for name, draw in zip(names, tables.draws, strict=True)
        ],
    }
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
