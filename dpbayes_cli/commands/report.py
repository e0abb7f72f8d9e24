"""``dpbayes report``: a bundle as a page to read; post-processing, without data, ledger or cost."""

from __future__ import annotations

from pathlib import Path

import click

from dpbayes_cli.commands.output import emit, emit_json, output_options, say


@click.command("report")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    help="html: one page with plots; markdown: the text of report.md [by the name of --out, else markdown].",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it here [standard output].")
@output_options
def command(bundle: Path, form: str | None, out: Path | None, as_json: bool) -> None:
    """Report what BUNDLE holds, for people: the promise, the posterior, its width, its computation, its assumptions.

    \b
    dpbayes report out/ --format html --out report.html

    The page holds its own style and plots: it fetches nothing and runs nothing. Nothing is written into the bundle.
    """
    from dpbayes_cli.bundle.files import analysis_of, spec_of
    from dpbayes_cli.bundle.read import read_document
    from dpbayes_cli.bundle.write import check_target, new_file

    document = read_document(bundle)
    if out is not None:
        check_target(out)
    form = form or ("html" if out is not None and out.suffix.lower() in {".html", ".htm"} else "markdown")
    if form == "html":
        from dpbayes_cli.bundle.page import report_html

        content = report_html(document, analysis_of(document))
    else:
        from dpbayes_cli.bundle.report import report_markdown

        spec_of(document)
        content = report_markdown(document)
    if out is not None:
        new_file(out, content)
        say(f"wrote {out}")
    text = content.decode("utf-8")
    if as_json:
        emit_json(
            {
                "release_id": document.release_id,
                "bundle": str(bundle),
                "format": form,
                "out": None if out is None else str(out),
                "report": text if out is None else None,
            }
        )
    elif out is None:
        emit(text, nl=False)
