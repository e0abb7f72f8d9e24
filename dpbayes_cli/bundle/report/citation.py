"""How to cite a release: the release itself, the software, and the papers behind its mechanism and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbayes_cli.bundle.report.markup import bullet_list, code, code_block, paragraph, text, titled_section
from dpbayes_cli.bundle.report.papers import Paper, papers_of
from dpbayes_cli.bundle.report.wording import guarantee_text
from dpbayes_cli.core.registry import mechanism_type, model_type

if TYPE_CHECKING:
    from dpbayes_cli.bundle.analysis import Analysis
    from dpbayes_cli.bundle.document import ReleaseDocument
    from dpbayes_cli.bundle.report.report_context import ReportContext

_AUTHORS = "The dpbayes developers"
_SOFTWARE = "dpbayes: private posterior release from the command line"


def citation_section(document: ReleaseDocument, analysis: Analysis, context: ReportContext) -> str:
    """Return the citations of the release and its sources, in plain text and for BibTeX."""
    return titled_section(
        "How to cite",
        paragraph("Cite the release, the software, and the papers behind its mechanism and model:"),
        bullet_list(text(line) for line in citations(document)),
        code_block(bibtex(document), "The same citations for BibTeX"),
        paragraph(
            f"Corrections to these papers are listed above; {code('dpbayes explain NAME')} tells which of them a model "
            "or a mechanism uses.",
            "quiet",
        ),
    )


def papers(document: ReleaseDocument) -> list[Paper]:
    """Return the papers behind a release's mechanism and model, each once."""
    papers_twice = [
        *papers_of(mechanism_type(document.mechanism).info.source),
        *papers_of(model_type(document.model).info.source),
    ]
    return list(dict.fromkeys(papers_twice))


def citations(document: ReleaseDocument) -> list[str]:
    """Return the citations in plain text, one line each."""
    version, year = document.software.get("dpbayes", ""), document.created[:4]
    return [
        f"{_title(document)}, {document.created[:10]}. {guarantee_text(document.guarantee)}, "
        f"{document.guarantee.neighbors} neighbors.",
        f"{_AUTHORS}. {_SOFTWARE}, version {version}, {year}.",
        *(paper.plain for paper in papers(document)),
    ]


def bibtex(document: ReleaseDocument) -> str:
    """Return the citations as BibTeX entries."""
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
