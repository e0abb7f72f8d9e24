"""Every kind of study: its stored numbers, its files and their stamps, and points that depend on nothing else.

A digest changes if one of the first six digits of a number of ``results.csv`` does. The version is part of what numbers
depend on, and fixed here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.study import STUDIES, Study, build_study
from tests.experiments.studies import BENCHMARK, REGRESSIONS, SMALL, run, write_records

DIGESTS = {
    "calibration": "2abd8104bc5e1a40", "classification": "61791eacccea0c59",
    "logistic-regression": "7e19c5a1735544da", "linear-regression": "bd143515b233cdcf", "hmm": "c9ac936a6507f26d",
    "estimation": "c75e58a14f457694", "adversarial-data": "726b6f526f982559", "renyi-curves": "d77bb4a4ad68ae03",
    "renyi-utility": "827d88a019c70964", "groups": "9ec571a9ed39dc39", "regression-accuracy": "a7be307ff81017dc",
    "regression-calibration": "81a384b6e5e0a7ee",
    "synthetic": "450898da5f897a78", "benchmark": "4d8ba71d2d9a5af5", "benchmark, whole": "67fa731cf4aa72cc",
    "hmm, whole": "41299aa266651615",
    "regression-calibration, whole": "bde42f59650a0fd8",
    "renyi-utility, whole": "939803a675ddb692",
}  # fmt: skip
PART: dict[str, dict[str, Any]] = {
    "regression-accuracy": {"methods": ["non-private", "gibbs-posterior"]},
    "benchmark": {"cases": {name: BENCHMARK["cases"][name] for name in ("coin", "pairs")}},
    "hmm": {"states": ["1"], "epsilon": ["1"]},
    "linear-regression": {"epsilon": ["1"], "prior_variance": ["1"]},
    "regression-calibration": {
        "trials": "2",
        "cases": {name: {**case, "methods": ["naive"]} for name, case in REGRESSIONS["cases"].items()},
    },
    "renyi-utility": {"epsilon": ["0.1"], "orders": ["2"]},
}
"""What the fast tests compute of studies that take more than a second."""
CHAINS = {
    "regression-accuracy": ("method", ["noisy-newton"]), "regression-calibration": ("method", ["noise-aware"]),
    "linear-regression": ("method", ["noise-aware"]), "benchmark": ("case", ["line", "classes"]),
}  # fmt: skip
"""Rows whose chains multiply the last digits of numbers, which depend on the processor: no digest has them."""
SHARED = {
    "calibration": "theta", "classification": "majority", "logistic-regression": "commonest",
    "linear-regression": "mean_mse", "hmm": "n_test", "groups": "records", "regression-accuracy": "commonest",
    "synthetic": "records",
}  # fmt: skip
"""A column of the trials that depends on the data alone."""


def published(document: dict[str, Any], place: Path) -> tuple[Study, Path]:
    write_records(place)
    study = build_study(document, place)
    run(study, place / "out")
    return study, place / "out"


def digest(name: str, out: Path) -> str:
    """Return a digest of the results; the processor decides digits beyond the sixth."""
    results = pd.read_csv(out / "results.csv", comment="#")
    if name in CHAINS:
        column, values = CHAINS[name]
        results = results[~results[column].isin(values)]
    return hashlib.sha256(results.to_csv(index=False, float_format="%.6g").encode()).hexdigest()[:16]


@pytest.mark.parametrize("document", SMALL, ids=lambda document: document["name"])
def test_the_numbers_are_those_that_are_stored(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are made, and drawn in the slow tests."""
    monkeypatch.setattr("dpbayes_cli.__version__", "0.2.0")
    monkeypatch.setattr("dpbayes_cli.experiments.runner.figure_files", lambda *_: {})
    name = document["name"]
    study, out = published({**document, **PART.get(name, {})}, tmp_path)
    assert digest(name, out) == DIGESTS[name]
    assert_stamped(out)
    if study.unit:
        assert_trials_agree(study, out, SHARED.get(name))


def assert_stamped(out: Path) -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in out.rglob("*") if path.is_file()}
    assert {"results.csv", "summary.md", "study.yaml"} < set(files)
    assert [name for name, text in files.items() if NOT_PRIVATE not in text] == []
    figures = [text for name, text in files.items() if name.endswith(".svg")]
    assert all(f">{NOT_PRIVATE}<" in text for text in figures), "visible, not a comment"


def assert_trials_agree(study: Study, out: Path, shared: str | None) -> None:
    """The means and standard errors of ``results.csv`` are those of the trials; all methods see the same data."""
    keys = list(study.columns)
    results = pd.read_csv(out / "results.csv").set_index(keys).sort_index()
    trials = pd.read_csv(out / study.trials_file)
    averaged = [name for name in study.by_trial if f"{name}_se" in results]
    if averaged:
        groups = trials.groupby(keys, dropna=False)[averaged]
        errors = results[[f"{name}_se" for name in averaged]].set_axis(averaged, axis=1)
        for computed, expected in ((groups.mean(), results[averaged]), (groups.sem(), errors)):
            pd.testing.assert_frame_equal(computed.sort_index(), expected, check_dtype=False, atol=1e-12)
    if shared is not None:
        data = [name for name in ("case", "n", study.unit) if name in trials]
        assert trials.groupby(data)[shared].nunique().eq(1).all()


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("document", SMALL, ids=lambda each: each["name"])
def test_all_numbers_are_those_that_are_stored(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of some chains of linear regression depend on the processor, whose last digits they multiply."""
    monkeypatch.setattr("dpbayes_cli.__version__", "0.2.0")
    name, (_, out) = document["name"], published(document, tmp_path)
    if name != "linear-regression":
        assert digest(name, out) == DIGESTS.get(f"{name}, whole", DIGESTS[name])
    assert_stamped(out)


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("document", [each for each in SMALL if each["name"] in SHARED], ids=lambda each: each["name"])
def test_the_numbers_depend_on_neither_processes_nor_order(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_records(tmp_path)
    turned: dict[str, Any] = {
        **document,
        **{key: document[key][::-1] for key in ("methods", "epsilon", "n") if key in document},
    }
    tables = []
    for jobs, each in ((1, document), (2, turned)):
        study = build_study(each, tmp_path)
        monkeypatch.setattr(type(study), "figures", lambda *_: {})
        run(study, tmp_path / str(jobs), jobs)
        tables.append(pd.read_csv(tmp_path / str(jobs) / "results.csv"))
    keys = list(study.columns)
    pd.testing.assert_frame_equal(
        *(table.sort_values(keys, ignore_index=True) for table in tables), check_exact=True
    )  # fmt: skip


def test_every_kind_of_study_has_stored_numbers() -> None:
    assert {document.get("study", "calibration") for document in SMALL} == set(STUDIES)
