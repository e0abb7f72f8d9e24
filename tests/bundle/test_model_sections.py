"""Hidden Markov models in a bundle: states in the document, as a table and on the page."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.bundle.document import parse_document
from dpbayes_cli.bundle.files import rounded_states
from dpbayes_cli.bundle.read import analysis_of, read_bundle
from dpbayes_cli.bundle.report.page import report_html
from dpbayes_cli.bundle.report.page_figures import MAX_FEATURES, drawn_sections, page_figures
from tests.bundle.pictures import EVIL, Page, check_picture
from tests.bundle.regimes import hmm_spec, months, release_made_up, states_of
from tests.bundle.test_page import check as check_page
from tests.conftest import Cli, files_of
from tests.schemas import check_document

SMALL = hmm_spec(
    ["=Baghdad", "Kandahar", "<b>Helmand"],
    ["Q1", "Q2", "Q3", "Q4"],
    {"type": ["fire", "explosion", EVIL[0]], "killed": ["0", "1", "2+"]},
    2,
)


def test_states_are_in_the_document_and_in_a_table(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    release_made_up(dpbayes, monkeypatch, SMALL)
    released = files_of("out")
    assert set(released) == {"release.json", "statistics.csv", "samples.parquet", "states.csv", "report.md"}
    document = json.loads(released["release.json"])
    check_document(document)
    states = np.array(document["states"])
    assert states.shape == (3, 4, 2)
    assert states == pytest.approx(states_of(3, 4, 2), rel=5e-6)
    assert all(len(f"{p:.12g}".replace("0.", "").lstrip("0")) <= 6 for p in states.ravel().tolist())
    parsed = parse_document(released["release.json"])
    assert parsed.pretty() == released["release.json"]
    assert parse_document(parsed.payload()) == parsed
    with Path("out/states.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head == ["sequence", "step", "state", "p1", "p2"]
    domain = SMALL["domain"]
    sequences = ["'=Baghdad", *domain["sequence"]["values"][1:]]  # no spreadsheet takes it for a formula
    assert [row[:2] for row in rows] == [[s, t] for s in sequences for t in domain["time"]["values"]]
    assert [[float(p) for p in row[3:]] for row in rows] == states.reshape(-1, 2).tolist()
    assert [int(row[2]) for row in rows] == (states.reshape(-1, 2).argmax(axis=1) + 1).tolist()
    assert b"`states.csv` holds, for each sequence and step, the most likely state" in released["report.md"]
    again = release_made_up(dpbayes, monkeypatch, SMALL, "again")
    assert again["replayed"]
    assert files_of("again") == released
    dpbayes("infer", "out", "--out", "inferred").exits(0)
    assert files_of("inferred")["states.csv"] == released["states.csv"]


DAMAGES: dict[str, Any] = {
    "a sequence less": lambda states: states.pop(),
    "a step more": lambda states: states[0].append(states[0][0]),
    "a state less": lambda states: states[1][2].pop(),
    "no probability": lambda states: states[0][0].__setitem__(0, 1.5),
}


def test_states_of_another_shape_are_exit_7(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    release_made_up(dpbayes, monkeypatch, SMALL)
    path = Path("out/release.json")
    whole = path.read_text()
    for damage in DAMAGES.values():
        document = json.loads(whole)
        damage(document["states"])
        path.write_text(json.dumps(document))
        assert dpbayes("report", "out").code == 7


def test_states_of_another_model_are_exit_7(dpbayes: Cli, coin: Path) -> None:
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "out").code == 0
    path = Path("out/release.json")
    document = json.loads(path.read_text())
    assert "states" not in document
    path.write_text(json.dumps({**document, "states": [[[1.0]]]}))
    assert dpbayes("report", "out").code == 7
    assert not Path("out/states.csv").exists()


@pytest.mark.slow
def test_the_report_has_a_section_about_states_with_every_picture(
    dpbayes: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_made_up(dpbayes, monkeypatch, SMALL)
    bundle = read_bundle(Path("out"))
    document, model, analysis = bundle.document, bundle.model, analysis_of(bundle)
    content = report_html(document, analysis).decode("utf-8")
    page = Page(content)
    check_page(content, page)
    assert "the-states" in page.sections()
    assert "<b>" not in content
    assert "<script" not in content
    (section,) = drawn_sections(document, model)
    pictures = section.pictures
    assert [picture.name for picture in pictures] == ["states", "emissions-0", "emissions-1", "transitions"]
    for picture in pictures:
        check_picture(picture, labeled=True)
        assert picture.svg in content
    every = page_figures(document, analysis).pictures
    assert [picture.name for picture in every] == [picture.name for picture in pictures]
    assert re.findall("<svg.*?</svg>", content, re.DOTALL) == [picture.svg.strip() for picture in every]
    without = parse_document(
        json.dumps({k: v for k, v in json.loads(document.payload()).items() if k != "states"}).encode()
    )
    (section,) = drawn_sections(without, model)
    assert [picture.name for picture in section.pictures] == ["emissions-0", "emissions-1", "transitions"]
    assert section.about_file == ""


def test_many_features_plot_the_first(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.bundle.report.page_figures.MAX_FEATURES", 1)
    release_made_up(dpbayes, monkeypatch, SMALL)
    bundle = read_bundle(Path("out"))
    (section,) = drawn_sections(bundle.document, bundle.model)
    assert section.left_out == "The emissions of the first 1 of 2 features are plotted."
    assert [picture.name for picture in section.pictures] == ["states", "emissions-0", "transitions"]
    assert MAX_FEATURES > 1


def test_states_keep_six_digits_and_stay_probabilities() -> None:
    states = np.array([[[0.123456789, 0.876543211], [1.0 + 1e-5, 1e-9 / 3], [1.0, -1e-17]]])
    assert rounded_states(states) == [[[0.123457, 0.876543], [1.0, 3.33333e-10], [1.0, 0.0]]]


@pytest.mark.slow
def test_a_large_page(dpbayes: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    regions = [f"a very long name of a region, number {i}" for i in range(45)]
    features = {f"f{j}": ["x", "y"] for j in range(MAX_FEATURES + 1)}
    release_made_up(dpbayes, monkeypatch, hmm_spec(regions, months(130), features, 9))
    content = dpbayes("report", "out", "--format", "html").out
    page = Page(content)
    check_page(content, page)
    assert "The emissions of the first 12 of 13 features are plotted." in page.text()
    assert len(content) < 1_500_000
