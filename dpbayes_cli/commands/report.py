"""``dpbayes report``: write a bundle as a page, as text, as figures or as a registry entry, without data or cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.errors import LedgerError, OutputError
from dpbayes_cli.commands.options import PATH, interval_option, ledger_options, open_ledger
from dpbayes_cli.commands.output import emit_document, emit_json, say

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.read import Bundle
    from dpbayes_cli.bundle.report.report_context import BudgetChange

_BY_SUFFIX = {".html": "html", ".htm": "html", ".yaml": "registry", ".yml": "registry"}


@click.command("report")
@click.argument("bundle", type=PATH, required=False)
@click.option("--index", type=PATH, metavar="DIR", help="In place of BUNDLE: write one page about all bundles in DIR.")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["html", "markdown", "svg", "registry"]),
    help="html: one page with plots; markdown: the text of report.md; svg: each plot of the page as a file; registry: "
    "a YAML entry for OpenDP's registry of deployments [by the suffix of --out, else markdown].",
)
@click.option("--out", type=PATH, metavar="PATH", help="File, or new directory for svg [standard output].")
@click.option(
    "--records",
    type=click.IntRange(1, 10**6),
    metavar="N",
    help="Number of records per simulated data set, for the width without privacy [as the bundle states].",
)
@click.option(
    "--state",
    "statements",
    multiple=True,
    metavar="FIELD=TEXT",
    help="With registry: fill in a field that the bundle does not state, as in basic.name=TEXT. May be repeated.",
)
@interval_option
@click.option("--no-ledger", is_flag=True, help="Do not show the account on the page.")
@ledger_options
def command(
    bundle: Path | None,
    index: Path | None,
    report_format: str | None,
    out: Path | None,
    records: int | None,
    statements: tuple[str, ...],
    interval: float,
    no_ledger: bool,
    ledger_place: str | None,
    as_json: bool,
) -> None:
    """Write BUNDLE as a report: its guarantee, posterior, precision, computation and assumptions.

    \b
    dpbayes report out/ --format html --out report.html
    dpbayes report out/ --format svg --out figures/
    dpbayes report out/ --format registry --state basic.name='Relapse rates' --out registry.yaml
    dpbayes report --index clinic-nights/ --out clinic-nights.html

    The HTML page is one file: it loads nothing and runs no scripts. If the ledger knows the release, the page shows the
    account before and after the release; use --no-ledger for readers who must not see the account. The bundle is not
    changed.

    The page of --index lists the bundles in a directory and shows the budget of their accounts over time. Each row
    links to NAME.html if this file is beside the bundle NAME, else to report.md in the bundle. Without --out, links are
    relative to the current directory.
    """
    if (bundle is None) == (index is None):
        raise click.UsageError("name one bundle, or --index DIR for a directory of bundles")
    if no_ledger and ledger_place is not None:
        raise click.UsageError("--no-ledger and --ledger exclude each other")
    if index is not None:
        if statements or records is not None or report_format not in {None, "html"}:
            raise click.UsageError("--index takes no --format but html, no --records and no --state")
        _write_index(index, out, ledger_place, with_ledger=not no_ledger, as_json=as_json)
        return
    report_format = report_format or ("markdown" if out is None else _BY_SUFFIX.get(out.suffix.lower(), "markdown"))
    if report_format == "svg" and out is None:
        raise click.UsageError("--format svg writes several files: name a new directory with --out")
    if statements and report_format != "registry":
        raise click.UsageError("--state is for --format registry only")
    if bundle is not None:
        _write_report(
            bundle,
            report_format,
            out,
            records,
            _parse_statements(statements),
            interval,
            ledger_place,
            with_ledger=not no_ledger,
            as_json=as_json,
        )


def _write_report(
    bundle: Path,
    report_format: str,
    out: Path | None,
    records: int | None,
    statements: dict[str, str],
    interval: float,
    ledger_place: str | None,
    *,
    with_ledger: bool,
    as_json: bool,
) -> None:
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target

    contents = read_bundle(bundle)
    document = contents.document
    if out is not None:
        check_target(out)
    result = {
        "release_id": document.release_id,
        "bundle": str(bundle),
        "format": report_format,
        "out": None if out is None else str(out),
    }
    if report_format == "svg" and out is not None:
        figures = _write_figures(contents, out, interval)
        say(f"wrote {len(figures)} figure{'s' * (len(figures) != 1)} to {out}")
        if as_json:
            emit_json({**result, "report": None, "figures": figures})
        return
    match report_format:
        case "html":
            from dpbayes_cli.bundle.read import analysis_of
            from dpbayes_cli.bundle.report.intervals import sampled_intervals
            from dpbayes_cli.bundle.report.page import report_html
            from dpbayes_cli.workflow.reporting import build_report_context

            budget = _budget(document, ledger_place) if with_ledger else None
            context = build_report_context(contents, budget=budget, records=records)
            analysis = analysis_of(contents)
            intervals = sampled_intervals(document, analysis.samples, interval)
            content = report_html(document, analysis, context, intervals)
        case "registry":
            from dpbayes_cli.bundle.registry_entry import registry_yaml

            content = registry_yaml(document, statements)
        case _:
            from dpbayes_cli.bundle.report.markdown import report_markdown
            from dpbayes_cli.bundle.samples import intervals_of_bundle

            content = report_markdown(document, intervals_of_bundle(bundle, document, interval))
    _deliver(content, out, result, as_json=as_json)


def _write_index(index: Path, out: Path | None, ledger_place: str | None, *, with_ledger: bool, as_json: bool) -> None:
    """Write the page that lists the bundles in a directory."""
    from dpbayes_cli.bundle.report.index_page import index_html
    from dpbayes_cli.bundle.write import check_target
    from dpbayes_cli.workflow.bundle_index import budgets_of, bundles_in

    if out is not None:
        check_target(out)
    start = Path() if out is None else out.absolute().parent
    bundles = bundles_in(index, Path(os.path.relpath(index, start)))
    ledger = open_ledger(ledger_place) if with_ledger else None
    content = index_html(bundles, budgets_of(bundles, ledger))
    listed = [{"release_id": each.document.release_id, "bundle": each.name, "link": each.link} for each in bundles]
    document = {"index": str(index), "out": None if out is None else str(out), "bundles": listed}
    _deliver(content, out, document, as_json=as_json)


def _deliver(content: bytes, out: Path | None, document: dict[str, Any], *, as_json: bool) -> None:
    """Write a report to its file or, without one, to standard output; with ``--json``, print the JSON document."""
    from dpbayes_cli.bundle.write import publish_file

    text = content.decode("utf-8")
    if out is not None:
        publish_file(out, content)
        say(f"wrote {out}")
    if as_json:
        emit_json({**document, "report": text if out is None else None})
    elif out is None:
        emit_document(text)


def _budget(document: ReleaseDocument, place: str | None) -> BudgetChange | str:
    """Return the account before and after the release, or, unless the command names a ledger, why it is unknown."""
    from dpbayes_cli.workflow.reporting import budget_around

    try:
        ledger = open_ledger(place)
        if not ledger.storage.exists:
            if place is not None:
                ledger.storage.require()
            return "No ledger was found."
        return budget_around(document, ledger)
    except LedgerError:
        if place is not None:
            raise
        return "The ledger could not be read or trusted."


def _parse_statements(statements: tuple[str, ...]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for statement in statements:
        field, equals, text = statement.partition("=")
        if not equals or not text.strip() or field in texts:
            raise click.UsageError(f"--state {statement!r} is not of the form FIELD=TEXT, with each field once")
        texts[field] = text
    return texts


def _write_figures(bundle: Bundle, out: Path, interval: float) -> list[str]:
    """Write the figures of the page into a new directory; return the names of the files."""
    from dpbayes_cli.bundle.read import analysis_of
    from dpbayes_cli.bundle.report.inline_svg import svg_file
    from dpbayes_cli.bundle.report.intervals import sampled_intervals
    from dpbayes_cli.bundle.report.page_figures import page_figures
    from dpbayes_cli.bundle.write import new_directory, write_new
    from dpbayes_cli.workflow.reporting import build_report_context

    analysis = analysis_of(bundle)
    intervals = sampled_intervals(bundle.document, analysis.samples, interval)
    pictures = page_figures(bundle.document, analysis, build_report_context(bundle), intervals).pictures
    if not pictures:
        raise OutputError("this release has no figures", hint="choose --format html or markdown")
    files = {f"{picture.name}.svg": svg_file(picture) for picture in pictures}
    with new_directory(out) as directory:
        for name, content in files.items():
            write_new(directory / name, content)
    return list(files)
