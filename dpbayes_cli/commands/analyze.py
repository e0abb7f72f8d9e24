"""``dpbayes analyze``: means, tables, correlations and regressions from a bundle; this is free."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.base.errors import OutputError
from dpbayes_cli.commands.options import PATH, bounds_option, bundle_argument, interval_option
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options, say

if TYPE_CHECKING:
    from dpbayes_cli.inference.estimands.cell_regression import Family
    from dpbayes_cli.synthesis.analysis_result import Analyzed

_SUFFIXES = {".svg", ".png"}


@click.command("analyze")
@bundle_argument
@click.argument("formula", required=False)
@click.option(
    "--family",
    type=click.Choice(["logistic", "linear", "poisson"]),
    help="Kind of regression [logistic for an outcome with two values, else linear].",
)
@click.option("--success", metavar="VALUE", help="Value whose probability is modeled [the second of two].")
@click.option("--mean", metavar="COLUMN", help="Mean of a column of numbers, or the shares of its values.")
@click.option("--by", metavar="COLUMNS", help="With --mean: for each value of these columns, as a,b.")
@click.option("--table", metavar="COLUMNS", help="Joint shares of the values of these columns.")
@click.option("--correlation", metavar="A,B", help="Correlation of two columns.")
@bounds_option("Use the middles of the intervals of a column with cuts, within these bounds; may be repeated.")
@interval_option
@click.option("--plot", type=PATH, metavar="FILE", help="Write a plot of the estimates here, as .svg or .png.")
@output_options
def command(
    bundle: Path,
    formula: str | None,
    family: Family | None,
    success: str | None,
    mean: str | None,
    by: str | None,
    table: str | None,
    correlation: str | None,
    bounds: tuple[str, ...],
    interval: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Analyze the columns of BUNDLE: a regression, a mean, a table or a correlation, with intervals that hold.

    \b
    dpbayes analyze out/ "income ~ age + sex" --bounds age=17:90
    dpbayes analyze out/ --mean income --by sex
    dpbayes analyze out/ --table sex,income
    dpbayes analyze out/ --correlation age,income --bounds age=17:90

    The result is computed exactly on the joint law of the columns given each posterior draw, so that its intervals
    include the uncertainty from the noise. A regression is that of the whole population, by maximum likelihood with the
    probabilities of the cells as weights. In a formula, columns of texts enter as categories with the first value of
    the spec as the base; C(age) makes categories of numbers; a * b adds the interaction.

    The network must hold the dependence that is asked for: without an edge between two columns, it assumes that they
    are independent given others. The result names missing edges, and is refused if it would not depend on the data.
    """
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target, publish_file
    from dpbayes_cli.synthesis.analyses import analyze
    from dpbayes_cli.synthesis.analysis_result import AnalysisRequest
    from dpbayes_cli.synthesis.cut_numbers import parse_bounds

    if plot is not None:
        if plot.suffix.lower() not in _SUFFIXES:
            raise OutputError(f"{str(plot)!r} is neither .svg nor .png", hint="--plot estimates.svg")
        check_target(plot, "--plot")
    request = AnalysisRequest(
        formula=formula,
        family=family,
        success=success,
        mean=mean,
        by=_names(by),
        table=_names(table),
        correlation=_names(correlation),
        bounds=parse_bounds(bounds),
        interval=interval,
    )
    result = analyze(read_bundle(bundle), request)
    if plot is not None:
        from dpbayes_cli.synthesis.estimate_plot import plot_bytes

        publish_file(plot, plot_bytes(result, plot.suffix.lower()))
        say(f"wrote {plot}")
    if as_json:
        emit_json(result.document())
    else:
        _show(result)


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(next(csv.reader([text], skipinitialspace=True), ()))


def _show(result: Analyzed) -> None:
    from dpbayes_cli.bundle.report.digits import rounded

    emit(f"{result.title[0].upper()}{result.title[1:]}:")
    emit("")
    columns = result.summary()
    widths = columns["high"] - columns["low"]
    ends = [f"{50 * (1 + sign * result.interval):g} %" for sign in (-1, 1)]
    keys = ("mean", "sd", "low", "high")
    rows = [
        [name, *(rounded(float(columns[key][k]), float(widths[k])) for key in keys)]
        for k, name in enumerate(result.names)
    ]
    emit_table(["estimate", "mean", "sd", *ends], rows, optional=("sd",))
    emit("")
    for text in (*result.notes, *result.warnings):
        emit(text)
