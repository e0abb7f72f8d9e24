"""The numbers of every study are those that are stored: the same seeds, the same draws in the same order.

A digest changes if a number of ``results.csv`` does. The version is part of what numbers depend on, and fixed here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from dpbayes_cli.experiments.runner import run_study
from dpbayes_cli.experiments.studies import STUDIES, build_study
from tests.experiments.small import SMALL, write_records

DIGESTS = {
    "calibration": "66aea7b8c42dc1e2",
    "classification": "b8629f7178e9fcfd",
    "logistic-regression": "801f3ca6c665460f",
    "linear-regression": "73737c229082fadb",
    "hmm": "25933706289546ef",
    "estimation": "3360f928bca70b58",
    "adversarial-data": "48233cd7cd499555",
    "renyi-curves": "f02c84b4397a1e03",
    "renyi-utility": "2957c9527a51192f",
    "linear-regression, whole": "73fa4a558a09eb89",
    "hmm, whole": "c74d32f3874be7be",
    "renyi-utility, whole": "086267f7ca3de956",
}
SLOW = {"hmm", "linear-regression", "renyi-utility"}
"""More than a second each; a part of each is in the fast tests."""
PART: dict[str, dict[str, Any]] = {
    "hmm": {"states": ["1"], "epsilon": ["1"]},
    "linear-regression": {"epsilon": ["1"], "prior_variance": ["1"]},
    "renyi-utility": {"epsilon": ["0.1"], "orders": ["2"]},
}


def digest(document: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The digest of ``results.csv``."""
    monkeypatch.setattr("dpbayes_cli.__version__", "0.2.0")
    write_records(place)
    study = build_study(document, place)
    monkeypatch.setattr(type(study), "figures", lambda *_: {})
    results = run_study(study, place / "out", 1, lambda *_: None)
    return hashlib.sha256(study.files(results)["results.csv"]).hexdigest()[:16]


@pytest.mark.parametrize("document", SMALL, ids=lambda document: document["name"])
def test_the_numbers_are_those_that_are_stored(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = document["name"]
    assert digest({**document, **PART.get(name, {})}, tmp_path, monkeypatch) == DIGESTS[name]


@pytest.mark.slow
@pytest.mark.parametrize("document", [each for each in SMALL if each["name"] in SLOW], ids=lambda each: each["name"])
def test_all_numbers_are_those_that_are_stored(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert digest(document, tmp_path, monkeypatch) == DIGESTS[f"{document['name']}, whole"]


def test_every_kind_of_study_has_stored_numbers() -> None:
    assert {document.get("study", "calibration") for document in SMALL} == set(STUDIES)
