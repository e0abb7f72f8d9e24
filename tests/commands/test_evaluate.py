"""Scores of predictions match reference formulas, and are stamped as not private."""

from __future__ import annotations

import csv
import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.commands.networks import naive_bayes, people, release
from tests.commands.regressions import LEVEL, patients, release_regression
from tests.conftest import ROOT, SAMPLE_DATA, Cli, often

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


def test_scores_of_two_classes_match_reference_formulas(dpbayes: Cli, bundle: Path) -> None:
    done = dpbayes("evaluate", bundle, "new.csv", "--json")
    evaluation = strict(done.out)
    predictions = dpbayes("predict", bundle, "new.csv", "--json").json["predictions"]
    p = np.array([each["probabilities"][1] for each in predictions])
    truth = np.array([line.startswith("yes") for line in Path("new.csv").read_text().splitlines()[1:]])
    assert evaluation["stamp"].startswith(STAMP)
    counts = ("records", "scored", "without_label", "without_prediction")
    assert [evaluation[name] for name in counts] == [200, 200, 0, 0]
    assert evaluation["accuracy"] == pytest.approx(np.mean((p > 0.5) == truth))
    assert evaluation["majority_accuracy"] == pytest.approx(max(truth.mean(), 1 - truth.mean()))
    assert evaluation["log_score"] == pytest.approx(np.mean(np.log(np.where(truth, p, 1 - p))))
    assert evaluation["brier"] == pytest.approx(np.mean((p - truth) ** 2))
    error = 0.0
    for k, each in enumerate(evaluation["calibration"]):
        inside = (p >= k / 10) & ((p < (k + 1) / 10) | (k == 9))
        assert each["count"] == inside.sum()
        if inside.any():
            assert each["mean_predicted"] == pytest.approx(p[inside].mean())
            assert each["observed"] == pytest.approx(truth[inside].mean())
            error += inside.sum() * abs(p[inside].mean() - truth[inside].mean()) / 200
        else:
            assert (each["mean_predicted"], each["observed"]) == (None, None)
    assert evaluation["calibration_error"] == pytest.approx(error)
    text = dpbayes("evaluate", bundle, "new.csv").out
    assert text.startswith(STAMP)
    assert f"{evaluation['accuracy']:.4f}" in text
    assert f"{evaluation['log_score']:.4f}" in text


def test_records_without_a_label_are_left_out(dpbayes: Cli, bundle: Path) -> None:
    """Also if the release imputes a missing class."""
    whole = dpbayes("evaluate", bundle, "new.csv", "--json").json
    with Path("new.csv").open("a") as file:
        file.write(",u,1,30\nmaybe,w,0,20\n")
    evaluation = dpbayes("evaluate", bundle, "new.csv", "--json").json
    assert (evaluation["records"], evaluation["scored"], evaluation["without_label"]) == (202, 200, 2)
    assert {**evaluation, "records": 200, "without_label": 0} == whole
    assert "without label" in dpbayes("evaluate", bundle, "new.csv").out


def test_scores_without_records_are_null(dpbayes: Cli, bundle: Path, place: Path) -> None:
    regression = release_regression(dpbayes, patients(place / "patients.csv"), "huber-regression", out="regression")
    for out, content in (
        (bundle, "class,kind,flag,age\n"),
        (bundle, "class,kind,flag,age\n?,u,1,30\n"),
        (regression, "ill,age,kind,days\n?,50,u,?\n"),
    ):
        Path("none.csv").write_text(content)
        evaluation = strict(dpbayes("evaluate", out, "none.csv", "--json").out)
        assert evaluation["scored"] == 0
        scores = {"accuracy", "majority_accuracy", "log_score", "brier", "calibration_error", "auc", "rmse"}
        assert {evaluation[name] for name in scores & set(evaluation)} == {None}
        shown = dpbayes("evaluate", out, "none.csv")
        assert (shown.code, "nan" in shown.out, shown.out.startswith(STAMP)) == (0, False, True)


def test_data_without_labels_are_refused(dpbayes: Cli, bundle: Path) -> None:
    Path("unlabeled.csv").write_text("kind,flag,age\nu,1,30\n")
    for more in ([], ["--json"]):
        done = dpbayes("evaluate", bundle, "unlabeled.csv", *more)
        assert (done.code, done.out) == (4, "")
        assert "'class'" in done.err


def test_several_classes_are_scored(dpbayes: Cli, bundle: Path) -> None:
    evaluation = strict(dpbayes("evaluate", bundle, "new.csv", "--target", "kind", "--json").out)
    predictions = dpbayes("predict", bundle, "new.csv", "--target", "kind", "--json").json["predictions"]
    p = np.array([each["probabilities"] for each in predictions])
    truth = ["uvw".index(line.split(",")[1]) for line in Path("new.csv").read_text().splitlines()[1:]]
    assert evaluation["log_score"] == pytest.approx(
        np.mean([math.log(row[k]) for row, k in zip(p, truth, strict=True)])
    )
    assert evaluation["brier"] == pytest.approx(np.mean(((p - np.eye(3)[truth]) ** 2).sum(axis=1)))
    assert evaluation["calibrated_for"] == "the probability of the predicted class"


def area(scores: Any, truth: Any) -> float:
    above = scores[truth][:, None] - scores[~truth][None, :]
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def truths(data: Path, column: int) -> list[str]:
    return [line.split(",")[column] for line in data.read_text().splitlines()[1:]]


def test_networks_have_a_roc_curve_of_two_classes(dpbayes: Cli, bundle: Path) -> None:
    evaluation = strict(dpbayes("evaluate", bundle, "new.csv", "--json").out)
    predictions = dpbayes("predict", bundle, "new.csv", "--json").json["predictions"]
    p = np.array([each["probabilities"][1] for each in predictions])
    truth = np.array(truths(Path("new.csv"), 0)) == "yes"
    assert evaluation["auc"] == pytest.approx(area(p, truth))
    assert f"AUC                {evaluation['auc']:.4f}" in dpbayes("evaluate", bundle, "new.csv").out
    first, *inner, last = evaluation["roc"]
    assert first == {"threshold": None, "false_positive_rate": 0.0, "true_positive_rate": 0.0}
    assert (last["false_positive_rate"], last["true_positive_rate"]) == (1.0, 1.0)
    assert len(inner) < 100
    for each in inner:
        assert each["true_positive_rate"] == pytest.approx(np.mean(p[truth] >= each["threshold"]))
    several = strict(dpbayes("evaluate", bundle, "new.csv", "--target", "kind", "--json").out)
    assert (several["auc"], several["roc"]) == (None, [])


def test_regressions_of_a_class_are_scored_like_networks(dpbayes: Cli, place: Path) -> None:
    """The area is more than 0.7, or prediction is broken.

    Over 60 releases of these records it was 0.838 with a standard deviation of 0.0012, so that 0.7 is 100 of them away.
    """
    out = release_regression(dpbayes, patients(place / "patients.csv", 2000), "logistic-regression")
    new = patients(place / "new.csv", 1000, seed=2)
    evaluation = strict(dpbayes("evaluate", out, new, "--json").out)
    predictions = dpbayes("predict", out, new, "--json").json["predictions"]
    p = np.array([each["probabilities"][1] for each in predictions])
    truth = np.array(truths(new, 0)) == "yes"
    assert (evaluation["scored"], evaluation["target"]) == (1000, "ill")
    assert evaluation["log_score"] == pytest.approx(np.mean(np.log(np.where(truth, p, 1 - p))))
    assert evaluation["auc"] == pytest.approx(area(p, truth))
    assert evaluation["auc"] > 0.7


def test_svm_has_accuracy_and_roc_only(dpbayes: Cli, place: Path) -> None:
    out = release_regression(dpbayes, patients(place / "patients.csv"), "svm")
    new = patients(place / "new.csv", 200, seed=2)
    with new.open("a") as file:
        file.write("maybe,50,u,1\nyes,50,?,1\n")
    evaluation = strict(dpbayes("evaluate", out, new, "--json").out)
    predictions = dpbayes("predict", out, new, "--json").json["predictions"][:200]
    scores, truth = np.array([each["score"] for each in predictions]), np.array(truths(new, 0)[:200]) == "yes"
    assert [evaluation[key] for key in ("records", "scored", "without_label", "without_prediction")] == [202, 200, 1, 1]
    assert evaluation["accuracy"] == pytest.approx(np.mean((scores > 0) == truth))
    assert evaluation["majority_accuracy"] == pytest.approx(max(truth.mean(), 1 - truth.mean()))
    assert evaluation["auc"] == pytest.approx(area(scores, truth))
    assert not {"log_score", "brier", "calibration"} & set(evaluation)
    assert "not probabilities" in evaluation["note"]
    shown = dpbayes("evaluate", out, new).out
    assert all(text in shown for text in (STAMP, "not probabilities", "AUC", "without prediction 1"))
    assert "log score" not in shown


@pytest.mark.parametrize("model", often(["quantile-regression", "huber-regression"], 2))
def test_scores_of_numbers_use_unclamped_targets(dpbayes: Cli, place: Path, model: str) -> None:
    """Targets are not clamped to the bounds of the release, 0 to 40, and invalid ones have no stand-in."""
    out = release_regression(dpbayes, patients(place / "patients.csv"), model)
    new = patients(place / "new.csv", 300, seed=2)
    with new.open("a") as file:
        file.write("no,50,u,75.5\nno,50,v,-12\nno,50,u,\nno,50,u,many\nno,50,?,3\n")
    evaluation = strict(dpbayes("evaluate", out, new, "--json").out)
    predictions = dpbayes("predict", out, new, "--json").json["predictions"][:302]
    p, y = np.array([each["prediction"] for each in predictions]), np.array(truths(new, 3)[:302], dtype=float)
    counts = ("records", "scored", "without_label", "without_prediction", "beyond_bounds")
    assert [evaluation[key] for key in counts] == [305, 302, 2, 1, 2]
    assert evaluation["rmse"] == pytest.approx(np.sqrt(np.mean((p - y) ** 2)))
    assert evaluation["mae"] == pytest.approx(np.mean(np.abs(p - y)))
    assert evaluation["r_squared"] == pytest.approx(1 - np.sum((p - y) ** 2) / np.sum((y - y.mean()) ** 2))
    assert "not clamped" in evaluation["targets"]
    if model == "quantile-regression":
        loss = np.mean([max(LEVEL * (b - a), (LEVEL - 1) * (b - a)) for a, b in zip(p, y, strict=True)])
        assert (evaluation["level"], evaluation["pinball_loss"]) == (LEVEL, pytest.approx(loss))
        assert evaluation["at_or_below"] == pytest.approx(np.mean(y <= p))
    else:
        assert not {"level", "pinball_loss", "at_or_below"} & set(evaluation)
    assert not {"coverage", "auc", "accuracy"} & set(evaluation)
    shown = dpbayes("evaluate", out, new).out
    assert f"{'RMSE':18} {evaluation['rmse']:.4f}" in shown
    assert ("pinball loss" in shown) == (model == "quantile-regression")


def coded(path: Path, variables: dict[str, Any]) -> Any:
    """Return the codes of all records, with invalid cells replaced by their public stand-ins."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = []
    for name, part in variables.items():
        if "values" in part:
            place = {value: i for i, value in enumerate(part["values"])}
            columns.append([place.get(row[name], place[str(part["impute"])]) for row in rows])
        else:
            numbers = np.array([float(row[name] or part["impute"]) for row in rows])
            columns.append(np.searchsorted(part["cuts"], numbers, side="right").tolist())
    return np.array(columns).T


def conjugate_accuracy(variables: dict[str, Any], target: str) -> float:
    """Return the accuracy of conjugate naive Bayes with uniform priors, from exact counts."""
    train, test = (coded(SAMPLE_DATA / f"adult_{part}.csv.gz", variables) for part in ("train", "test"))
    k = list(variables).index(target)
    classes = np.bincount(train[:, k]) + 1.0
    logs = np.tile(np.log(classes / classes.sum()), (len(test), 1))
    for j, part in enumerate(variables.values()):
        if j == k:
            continue
        size = len(part["values"]) if "values" in part else len(part["cuts"]) + 1
        counts = np.ones((len(classes), size))
        np.add.at(counts, (train[:, k], train[:, j]), 1.0)
        logs += np.log(counts / counts.sum(axis=1, keepdims=True))[:, test[:, j]].T
    return float((logs.argmax(axis=1) == test[:, k]).mean())


@pytest.mark.slow
def test_accuracy_on_adult_at_epsilon_1_is_within_a_point_of_the_one_without_privacy(dpbayes: Cli) -> None:
    """In 20 releases the accuracy was 0.8272 in the mean, sd 0.0012, without privacy 0.8255: 0.0100 is seven sds off.

    False-fail below 1e-9 were it normal; no release of those was more than 0.0036 off.
    """
    config = ROOT / "configs" / "releases" / "adult-naive-bayes.yaml"
    domain = yaml.safe_load(config.read_text())["domain"]
    exact = conjugate_accuracy(domain["variables"], domain["target"])
    assert dpbayes("release", "--spec", config, "--out", "out").code == 0
    scores = dpbayes("evaluate", "out", SAMPLE_DATA / "adult_test.csv.gz", "--json").json
    assert scores["scored"] == 16_281
    assert abs(scores["accuracy"] - exact) < 0.01
    assert scores["accuracy"] > scores["majority_accuracy"] + 0.04
