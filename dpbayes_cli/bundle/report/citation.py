"""How to cite a release: the release itself, the software, and the papers behind its mechanism and model."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.report.wording import guarantee_text
from dpbayes_cli.core.registry import mechanism_type, model_type

_AUTHORS = "The dpbayes developers"
_SOFTWARE = "dpbayes: private posterior release from the command line"


@dataclass(frozen=True)
class Paper:
    """A paper behind a model or a mechanism: a row of ``papers.csv``."""

    kind: str  # ``inproceedings`` or ``article``
    authors: str  # given and family names; "and" separates the authors
    title: str
    venue: str  # the proceedings or the journal
    year: str

    @property
    def first_author(self) -> str:
        """The family name of the first author."""
        return self.authors.split(" and ")[0].split()[-1]

    @property
    def plain(self) -> str:
        """The citation of the paper as one line of text."""
        return f"{self.authors.replace(' and ', ', ')}. {self.title}. {self.venue}, {self.year}."

    @property
    def bibtex(self) -> str:
        """The citation of the paper as an entry for BibTeX."""
        venue = "booktitle" if self.kind == "inproceedings" else "journal"
        fields = {"author": self.authors, "title": f"{{{self.title}}}", venue: self.venue, "year": self.year}
        return _bibtex_entry(self.kind, f"{self.first_author.lower()}{self.year}", fields)


@cache
def known_papers() -> tuple[Paper, ...]:
    """Return the rows of ``papers.csv``."""
    with Path(__file__).with_name("papers.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Paper(**row) for row in csv.DictReader(file))


def papers_of(source: str) -> list[Paper]:
    """Return the papers in a text with semicolons between them; each begins with its first author and has its year."""
    return [
        paper
        for part in map(str.strip, source.split(";"))
        for paper in known_papers()
        if part.startswith((f"{paper.first_author} ", f"{paper.first_author}, ")) and paper.year in part
    ]


def citations(document: ReleaseDocument) -> list[str]:
    """Return the citations in plain text, one line each."""
    return [
        f"{_title(document)}, {document.created[:10]}. {guarantee_text(document.guarantee)}, "
        f"{document.guarantee.neighbors} neighbors.",
        f"{_AUTHORS}. {_SOFTWARE}, version {_version(document)}, {document.created[:4]}.",
        *(paper.plain for paper in _papers(document)),
    ]


def bibtex(document: ReleaseDocument) -> str:
    """Return the citations as BibTeX entries."""
    guarantee, year = document.guarantee, document.created[:4]
    note = f"{guarantee_text(guarantee)}; {guarantee.neighbors} neighbors; ledger entry {document.ledger.sequence}"
    release = {"title": f"{{{_title(document)}}}", "year": year, "note": note}
    software = {
        "author": f"{{{_AUTHORS}}}",
        "title": f"{{{_SOFTWARE}}}",
        "year": year,
        "note": f"version {_version(document)}",
    }
    return "\n\n".join(
        [
            _bibtex_entry("misc", f"release-{document.release_id}", release),
            _bibtex_entry("misc", "dpbayes", software),
            *(paper.bibtex for paper in _papers(document)),
        ]
    )


def _papers(document: ReleaseDocument) -> list[Paper]:
    infos = mechanism_type(document.mechanism).info, model_type(document.model).info
    return list(dict.fromkeys(paper for info in infos for paper in papers_of(info.source)))


def _bibtex_entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"


def _title(document: ReleaseDocument) -> str:
    return f"Private posterior release {document.release_id} ({document.model} through {document.mechanism})"


def _version(document: ReleaseDocument) -> str:
    return document.software.get("dpbayes", "")
