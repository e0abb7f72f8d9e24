"""How to cite a release: the release itself, the software, and the papers that its mechanism and model come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.markup import block, code, listed, paragraph, text, titled
from dpbayes_cli.bundle.report.papers import Paper, papers_of
from dpbayes_cli.bundle.report.wording import guarantee_text
from dpbayes_cli.core.registry import mechanism_type, model_type

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import ReportContext

_AUTHORS = "The dpbayes developers"
_SOFTWARE = "dpbayes: private posterior release from the command line"


def citation_section(document: ReleaseDocument, analysis: Analysis, beside: ReportContext) -> str:
    """Return how to cite the release and what it rests on, in plain text and for BibTeX."""
    return titled(
        "How to cite",
        paragraph("The release, the software, and the papers that its mechanism and its model come from:"),
        listed(text(line) for line in citations(document)),
        block(bibtex(document), "The same for BibTeX"),
        paragraph(
            f"Corrections to these papers are above; {code('dpbayes explain')} with the name of a model or a mechanism "
            "tells where each is used.",
            "quiet",
        ),
    )


def papers(document: ReleaseDocument) -> list[Paper]:
    """Return the papers of a release's mechanism and model, each once."""
    found = [
        *papers_of(mechanism_type(document.mechanism).info.source),
        *papers_of(model_type(document.model).info.source),
    ]
    return list(dict.fromkeys(found))


def citations(document: ReleaseDocument) -> list[str]:
    """Return what is to be cited, one line each."""
    version, year = document.software.get("dpbayes", ""), document.created[:4]
    return [
        f"{_title(document)}, {document.created[:10]}. {guarantee_text(document.guarantee)}, "
        f"{document.guarantee.neighbors} neighbors.",
        f"{_AUTHORS}. {_SOFTWARE}, version {version}, {year}.",
        *(paper.plain for paper in papers(document)),
    ]


def bibtex(document: ReleaseDocument) -> str:
    """Return the same as entries for BibTeX."""
    version, year = document.software.get("dpbayes", ""), document.created[:4]
    release = [
        f"@misc{{release-{document.release_id},",
        f"  title = {{{{{_title(document)}}}}},",
        f"  year = {{{year}}},",
        f"  note = {{{guarantee_text(document.guarantee)}; {document.guarantee.neighbors} neighbors; "
        f"ledger entry {document.ledger.sequence}}}",
        "}",
    ]
    software = [
        "@misc{dpbayes,",
        f"  author = {{{{{_AUTHORS}}}}},",
        f"  title = {{{{{_SOFTWARE}}}}},",
        f"  year = {{{year}}},",
        f"  note = {{version {version}}}",
        "}",
    ]
    return "\n\n".join(["\n".join(release), "\n".join(software), *(paper.bibtex for paper in papers(document))])


def _title(document: ReleaseDocument) -> str:
    return f"Private posterior release {document.release_id} ({document.model} through {document.mechanism})"
