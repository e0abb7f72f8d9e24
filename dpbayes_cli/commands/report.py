"""``dpbayes report``: a bundle as a page to read, its figures, or an entry for a registry; free, without data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import emit, emit_json, output_options, say

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.read import Bundle
    from dpbayes_cli.bundle.report.report_context import BudgetChange

_BY_SUFFIX = {".html": "html", ".htm": "html", ".yaml": "registry", ".yml": "registry"}


@click.command("report")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown", "svg", "registry"]),
    help="html: one page with plots; markdown: the text of report.md; svg: the page's plots, a file each; registry: an "
    "entry for OpenDP's deployments registry, in YAML [by the name of --out, else markdown].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write it here [standard output]; of svg: a new directory.",
)
@click.option(
    "--records",
    type=click.IntRange(1, 10**6),
    metavar="N",
    help="Where the number of records is private: how many to plan for, in what was to be expected without privacy.",
)
@click.option(
    "--state",
    "statements",
    multiple=True,
    metavar="FIELD=TEXT",
    help="With registry: what only the custodian knows, as basic.name=TEXT. May be repeated.",
)
@click.option("--no-ledger", is_flag=True, help="The page tells nothing of the account that paid.")
@ledger_option
@output_options
def command(
    bundle: Path,
    form: str | None,
    out: Path | None,
    records: int | None,
    statements: tuple[str, ...],
    no_ledger: bool,
    ledger_place: str | None,
    as_json: bool,
) -> None:
    """Report what BUNDLE holds, for people: the promise, the posterior, its width, its computation, its assumptions.

    \b
    dpbayes report out/ --format html --out report.html
    dpbayes report out/ --format svg --out figures/
    dpbayes report out/ --format registry --state basic.name='Relapse rates' --out registry.yaml

    The page holds its own style and plots: it fetches nothing and runs nothing. Where the ledger knows the release, the
    page tells what the account held before and after it; whoever is not to read that gets a page made with --no-ledger.
    Nothing is written into the bundle.
    """
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target, publish_file

    form = form or ("markdown" if out is None else _BY_SUFFIX.get(out.suffix.lower(), "markdown"))
    if form == "svg" and out is None:
        raise click.UsageError("--format svg writes several files: name a directory with --out")
    if no_ledger and ledger_place is not None:
        raise click.UsageError("--no-ledger and --ledger exclude each other")
    if statements and form != "registry":
        raise click.UsageError("--state belongs to --format registry")
    kept = read_bundle(bundle)
    document = kept.document
    if out is not None:
        check_target(out)
    result = {
        "release_id": document.release_id,
        "bundle": str(bundle),
        "format": form,
        "out": None if out is None else str(out),
    }
    if form == "svg" and out is not None:
        figures = _write_figures(kept, out)
        say(f"wrote {len(figures)} figure{'s' * (len(figures) != 1)} to {out}")
        if as_json:
            emit_json({**result, "report": None, "figures": figures})
        return
    if form == "html":
        from dpbayes_cli.bundle.read import analysis_of
        from dpbayes_cli.bundle.report.page import report_html
        from dpbayes_cli.workflow.reporting import beside

        budget = None if no_ledger else _budget(document, ledger_place)
        content = report_html(document, analysis_of(kept), beside(kept, budget=budget, records=records))
    elif form == "registry":
        from dpbayes_cli.bundle.registry_entry import registry_yaml

        content = registry_yaml(document, _stated(statements))
    else:
        from dpbayes_cli.bundle.report.markdown import report_markdown

        content = report_markdown(document)
    if out is not None:
        publish_file(out, content)
        say(f"wrote {out}")
    text = content.decode("utf-8")
    if as_json:
        emit_json({**result, "report": text if out is None else None})
    elif out is None:
        emit(text, nl=False)


def _budget(document: ReleaseDocument, place: str | None) -> BudgetChange | str:
    """Return what the ledger says of the account, or why it says nothing.

    Raises:
        LedgerError: a ledger that the command names cannot be read, or not be trusted.
    """
    from dpbayes_cli.base.errors import LedgerError
    from dpbayes_cli.workflow.reporting import budget_around

    try:
        ledger = open_ledger(place)
        if not ledger.storage.exists:
            if place is not None:
                raise LedgerError(f"there is no ledger at {ledger.location!r}")
            return "There is no ledger here."
        return budget_around(document, ledger)
    except LedgerError:
        if place is not None:
            raise
        return "The ledger that is here could not be read, or not be trusted."


def _stated(statements: tuple[str, ...]) -> dict[str, str]:
    """Return what the custodian states, by field.

    Raises:
        click.UsageError: a statement is no field with a text.
    """
    found: dict[str, str] = {}
    for statement in statements:
        field, equals, text = statement.partition("=")
        if not equals or not text.strip() or field in found:
            raise click.UsageError(f"--state {statement!r} is not of the form FIELD=TEXT, once a field")
        found[field] = text
    return found


def _write_figures(bundle: Bundle, out: Path) -> list[str]:
    """Write the figures of the page into a new directory; return the names of the files.

    Raises:
        OutputError: there is no figure, or the directory cannot be written.
    """
    from dpbayes_cli.base.errors import OutputError
    from dpbayes_cli.bundle.read import analysis_of
    from dpbayes_cli.bundle.report.svg_files import pictures_of, svg_file
    from dpbayes_cli.bundle.write import new_directory, write_new
    from dpbayes_cli.workflow.reporting import beside

    pictures = pictures_of(bundle.document, analysis_of(bundle), beside(bundle))
    if not pictures:
        raise OutputError("the page of this release has no figures", hint="choose --format html or markdown")
    files = {f"{picture.name}.svg": svg_file(picture) for picture in pictures}
    with new_directory(out) as directory:
        for name, content in files.items():
            write_new(directory / name, content)
    return list(files)
