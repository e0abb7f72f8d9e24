"""``dpbayes synthesize``: draw synthetic tables from a bundle; this is post-processing and costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.commands.options import PATH, bounds_option, bundle_argument
from dpbayes_cli.commands.output import emit_result, output_options, say
from dpbayes_cli.commands.progress import delayed_bar

if TYPE_CHECKING:
    from dpbayes_cli.synthesis.files import TableFormat


@click.command("synthesize")
@bundle_argument
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Records of each table [as in the release].")
@click.option(
    "--datasets",
    type=click.IntRange(min=1),
    metavar="M",
    help="Number of tables, each from another posterior draw [10].",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="S", help="Equal seeds give equal tables [0].")
@bounds_option("Write a column with cuts as numbers within these bounds; may be repeated [its intervals as texts].")
@click.option(
    "--format", "table_format", type=click.Choice(["csv", "parquet"]), default="csv", help="Format of the tables [csv]."
)
@click.option(
    "--out", type=PATH, metavar="DIR", required=True, help="New directory for the tables and their README.md."
)
@output_options
def command(
    bundle: Path,
    rows: int | None,
    datasets: int | None,
    seed: int,
    bounds: tuple[str, ...],
    table_format: TableFormat,
    out: Path,
    as_json: bool,
) -> None:
    """Write synthetic tables with the columns of BUNDLE; they cost nothing more.

    \b
    dpbayes synthesize out/ --out synthetic/
    dpbayes synthesize out/ --rows 2000 --datasets 20 --bounds age=17:90 --out synthetic/

    Each table has its own draw from the posterior, so that the tables differ as much as the release is uncertain.
    README.md says how to analyze them; from one table alone, or from all in one, intervals are too narrow. For most
    questions, dpbayes analyze gives narrower intervals without any tables.

    The columns and their texts are those of the spec. A column with cuts holds the release's intervals or, with
    --bounds, numbers uniformly within them; bounds without decimals give whole numbers if the cuts are whole.
    """
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target
    from dpbayes_cli.synthesis.cut_numbers import parse_bounds
    from dpbayes_cli.synthesis.files import write_tables
    from dpbayes_cli.synthesis.records import synthesize

    check_target(out)
    tables = synthesize(read_bundle(bundle), rows, datasets, seed, parse_bounds(bounds))
    default = tables.source.n_records
    if rows is None and default is not None:
        say(f"each table has {tables.rows:,} records, {default[1]}")
    for warning in tables.source.warnings:
        say(warning)
    with delayed_bar("writing tables") as report:
        names = write_tables(tables, out, table_format, report)
    document = {
        **tables.metadata,
        "out": str(out),
        "files": names,
        "rows": tables.rows,
        "posterior_draws": list(tables.draws),
        "columns": list(tables.source.law.names),
    }
    written = f"wrote {len(names)} synthetic table{'s' * (len(names) > 1)} of {tables.rows:,} records to {out}"
    emit_result(document, f"{written}; README.md there says how to analyze them", as_json=as_json)
