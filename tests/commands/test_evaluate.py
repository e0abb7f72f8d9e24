"""Scores of predictions: against a computation by hand, and stamped as what they are."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands.networks import naive_bayes, people, release
from tests.conftest import Cli

STAMP = "NOT PRIVATE"


@pytest.fixture
def bundle(dpbayes: Cli, place: Path) -> Path:
    assert release(dpbayes, people(place / "people.csv", 400), naive_bayes()).code == 0
    people(place / "new.csv", 200, seed=2)
    return Path("out")


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_scores_are_those_computed_by_hand(dpbayes: Cli, bundle: Path) -> None:
    done = dpbayes("evaluate", bundle, "new.csv", "--json")
    found = strict(done.out)
    predictions = dpbayes("predict", bundle, "new.csv", "--json").json["predictions"]
    p = np.array([each["probabilities"][1] for each in predictions])
    truth = np.array([line.startswith("yes") for line in Path("new.csv").read_text().splitlines()[1:]])
    assert found["stamp"].startswith(STAMP)
    assert (found["records"], found["scored"], found["without_label"], found["without_prediction"]) == (200, 200, 0, 0)
    assert found["accuracy"] == pytest.approx(np.mean((p > 0.5) == truth))
    assert found["majority_accuracy"] == pytest.approx(max(truth.mean(), 1 - truth.mean()))
    assert found["log_score"] == pytest.approx(np.mean(np.log(np.where(truth, p, 1 - p))))
    assert found["brier"] == pytest.approx(np.mean((p - truth) ** 2))
    error = 0.0
    for k, each in enumerate(found["calibration"]):
        inside = (p >= k / 10) & ((p < (k + 1) / 10) | (k == 9))
        assert each["count"] == inside.sum()
        if inside.any():
            assert each["mean_predicted"] == pytest.approx(p[inside].mean())
            assert each["observed"] == pytest.approx(truth[inside].mean())
            error += inside.sum() * abs(p[inside].mean() - truth[inside].mean()) / 200
        else:
            assert (each["mean_predicted"], each["observed"]) == (None, None)
    assert found["calibration_error"] == pytest.approx(error)
    text = dpbayes("evaluate", bundle, "new.csv").out
    assert text.startswith(STAMP)
    assert f"{found['accuracy']:.4f}" in text
    assert f"{found['log_score']:.4f}" in text


def test_records_without_a_label_are_left_out(dpbayes: Cli, bundle: Path) -> None:
    """Not even where the release counts a missing class as one."""
    whole = dpbayes("evaluate", bundle, "new.csv", "--json").json
    with Path("new.csv").open("a") as file:
        file.write(",u,1,30\nmaybe,w,0,20\n")
    found = dpbayes("evaluate", bundle, "new.csv", "--json").json
    assert (found["records"], found["scored"], found["without_label"]) == (202, 200, 2)
    assert {k: v for k, v in found.items() if k not in {"records", "without_label"}} == {
        k: v for k, v in whole.items() if k not in {"records", "without_label"}
    }
    assert "without label" in dpbayes("evaluate", bundle, "new.csv").out


@pytest.mark.parametrize("records", ["", "?,u,1,30\n"])
def test_nothing_to_score_is_null(dpbayes: Cli, bundle: Path, records: str) -> None:
    Path("none.csv").write_text("class,kind,flag,age\n" + records)
    found = strict(dpbayes("evaluate", bundle, "none.csv", "--json").out)
    for name in ("accuracy", "majority_accuracy", "log_score", "brier", "calibration_error"):
        assert found[name] is None
    assert found["scored"] == 0
    shown = dpbayes("evaluate", bundle, "none.csv")
    assert (shown.code, "nan" in shown.out) == (0, False)
    assert shown.out.startswith(STAMP)


def test_labels_are_needed(dpbayes: Cli, bundle: Path) -> None:
    Path("unlabelled.csv").write_text("kind,flag,age\nu,1,30\n")
    for more in ([], ["--json"]):
        done = dpbayes("evaluate", bundle, "unlabelled.csv", *more)
        assert (done.code, done.out) == (4, "")
        assert "'class'" in done.err


def test_several_classes_are_scored(dpbayes: Cli, bundle: Path) -> None:
    found = strict(dpbayes("evaluate", bundle, "new.csv", "--target", "kind", "--json").out)
    predictions = dpbayes("predict", bundle, "new.csv", "--target", "kind", "--json").json["predictions"]
    p = np.array([each["probabilities"] for each in predictions])
    truth = ["uvw".index(line.split(",")[1]) for line in Path("new.csv").read_text().splitlines()[1:]]
    assert found["log_score"] == pytest.approx(np.mean([math.log(row[k]) for row, k in zip(p, truth, strict=True)]))
    assert found["brier"] == pytest.approx(np.mean(((p - np.eye(3)[truth]) ** 2).sum(axis=1)))
    assert found["calibrated_for"] == "the probability of the predicted class"
