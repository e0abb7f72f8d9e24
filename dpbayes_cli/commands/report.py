"""``dpbayes report``: a bundle as a page to read, or its figures; post-processing, without data, ledger or cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbayes_cli.commands.output import emit, emit_json, output_options, say

if TYPE_CHECKING:
    from dpbayes_cli.bundle.document import ReleaseDocument


@click.command("report")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown", "svg"]),
    help="html: one page with plots; markdown: the text of report.md; svg: the page's plots, a file each [by the name "
    "of --out, else markdown].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write it here [standard output]; of svg: a new directory.",
)
@output_options
def command(bundle: Path, form: str | None, out: Path | None, as_json: bool) -> None:
    """Report what BUNDLE holds, for people: the promise, the posterior, its width, its computation, its assumptions.

    \b
    dpbayes report out/ --format html --out report.html
    dpbayes report out/ --format svg --out figures/

    The page holds its own style and plots: it fetches nothing and runs nothing. Nothing is written into the bundle.
    """
    from dpbayes_cli.bundle.files import analysis_of, spec_of
    from dpbayes_cli.bundle.read import read_document
    from dpbayes_cli.bundle.write import check_target, new_file

    if form == "svg" and out is None:
        raise click.UsageError("--format svg writes several files: name a directory with --out")
    document = read_document(bundle)
    if out is not None:
        check_target(out)
    form = form or ("html" if out is not None and out.suffix.lower() in {".html", ".htm"} else "markdown")
    result = {
        "release_id": document.release_id,
        "bundle": str(bundle),
        "format": form,
        "out": None if out is None else str(out),
    }
    if form == "svg" and out is not None:
        figures = _write_figures(document, out)
        say(f"wrote {len(figures)} figure{'s' * (len(figures) != 1)} to {out}")
        if as_json:
            emit_json({**result, "report": None, "figures": figures})
        return
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
        emit_json({**result, "report": text if out is None else None})
    elif out is None:
        emit(text, nl=False)


def _write_figures(document: ReleaseDocument, out: Path) -> list[str]:
    """Write the figures of the page into a new directory; return the names of the files.

    Raises:
        OutputError: there is no figure, or the directory cannot be written.
    """
    from dpbayes_cli.bundle.files import analysis_of
    from dpbayes_cli.bundle.svg_files import pictures_of, svg_file
    from dpbayes_cli.bundle.write import new_directory, write_new
    from dpbayes_cli.errors import OutputError

    pictures = pictures_of(document, analysis_of(document))
    if not pictures:
        raise OutputError("the page of this release has no figures", hint="choose --format html or markdown")
    files = {f"{picture.name}.svg": svg_file(picture) for picture in pictures}
    with new_directory(out) as directory:
        for name, content in files.items():
            write_new(directory / name, content)
    return list(files)
