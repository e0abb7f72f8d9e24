from __future__ import annotations

from pathlib import Path

import pytest

from dpbayes_cli.bundle.read import read_document
from dpbayes_cli.bundle.report.citation import bibtex, citations, known_papers, papers_of
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type
from tests.conftest import SAMPLE_DATA, Cli


def test_every_source_of_a_method_is_a_known_paper() -> None:
    infos = [mechanism_type(name).info for name in mechanism_names()] + [
        model_type(name).info for name in model_names()
    ]
    for info in infos:
        for part in info.source.split(";"):
            assert papers_of(part), part
    named = {paper for info in infos for paper in papers_of(info.source)}
    assert named == set(known_papers())
    keys = [paper.bibtex.partition("{")[2].partition(",")[0] for paper in known_papers()]
    assert len(set(keys)) == len(keys)


@pytest.mark.usefixtures("without_figures")
def test_how_to_cite(dpbayes: Cli) -> None:
    request = SAMPLE_DATA / "relapse.csv", "--model", "beta-bernoulli", "--eps", "1", "--out", "out"
    assert dpbayes("release", *request).code == 0
    document = read_document(Path("out"))
    entries = bibtex(document)
    assert entries.count("{") == entries.count("}")
    assert f"@misc{{release-{document.release_id}," in entries
    assert "@inproceedings{bernstein2018," in entries
    assert "geumlek2017" not in entries
    page = dpbayes("report", "out", "--format", "html").out
    assert all(line.split(",")[0] in page for line in citations(document))
