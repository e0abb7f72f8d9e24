"""Predictions from bundles: what is printed, what is refused, and averages over the posterior."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import special

import dpbayes_cli as dpb
from dpbayes_cli.bundle.read import read_bundle
from dpbayes_cli.prediction.records import MAX_DRAWS, predictor
from tests.commands.networks import VARIABLES, bayes_net, naive_bayes, people, release
from tests.commands.regressions import LEVEL, linear_predictors, patients, release_regression
from tests.conftest import Cli, often

CLASSES = ["no", "yes"]


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


ABOUT = "the predictions are as confidential as the records that they describe\n"


def probabilities(text: str) -> Any:
    return np.array([[float(cell) for cell in row[2:]] for row in rows_of(text)[1:]])


def test_predict_prints_a_line_for_each_record_with_label_and_probabilities(dpbayes: Cli, bundle: Path) -> None:
    done = dpbayes("predict", bundle, "new.csv")
    assert (done.code, done.err) == (0, ABOUT)
    assert dpbayes("predict", bundle, "new.csv", "-q").err == ""
    rows = rows_of(done.out)
    assert rows[0] == ["record", "class", "p[class=no]", "p[class=yes]"]
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(1, 201)]
    predicted = probabilities(done.out)
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0, atol=2e-5)  # six digits are printed
    assert [row[1] for row in rows[1:]] == [CLASSES[k] for k in predicted.argmax(axis=1)]
    assert dpbayes("predict", bundle, "new.csv").out == done.out


def test_predictions_follow_a_stated_prior(dpbayes: Cli, bundle: Path) -> None:
    own = dpbayes("predict", bundle, "new.csv").out
    strong = dpbayes("predict", bundle, "new.csv", "--prior", "concentration=10000").out
    assert np.abs(probabilities(own) - 0.5).max() > 0.2
    np.testing.assert_allclose(probabilities(strong), 0.5, atol=0.05)  # 10,000 records a cell outweigh 400
    from_python = dpb.predict(bundle, "new.csv", prior={"concentration": 10_000})
    np.testing.assert_allclose(np.array(from_python["probabilities"].tolist()), probabilities(strong), atol=1e-5)
    assert dpbayes("predict", bundle, "new.csv", "--prior", "alpha=1").code == 3
    assert dpbayes("infer", bundle, "--prior", "concentration=2", "--out", "again").code == 0
    assert "dpbayes infer wrote this directory" in dpbayes("predict", "again", "new.csv").err


def test_the_file_and_the_json_hold_the_same(dpbayes: Cli, bundle: Path) -> None:
    printed = dpbayes("predict", bundle, "new.csv").out
    done = dpbayes("predict", bundle, "new.csv", "--out", "predicted.csv")
    assert (done.code, done.out) == (0, "")
    assert Path("predicted.csv").read_text() == printed
    assert Path("predicted.csv").stat().st_mode & 0o777 == 0o600
    assert dpbayes("predict", bundle, "new.csv", "--out", "predicted.csv").code == 8
    assert dpbayes("predict", bundle, "new.csv", "--out", "out/predicted.csv").code == 8
    document = dpbayes("predict", bundle, "new.csv", "--json").json
    assert (document["target"], document["classes"], document["out"]) == ("class", CLASSES, None)
    assert document["release_id"] == json.loads((bundle / "release.json").read_text())["release_id"]
    predicted = np.array([each["probabilities"] for each in document["predictions"]])
    np.testing.assert_allclose(predicted, probabilities(printed), rtol=1e-5)
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0, rtol=1e-12)


def test_the_target_need_not_be_in_the_file_and_is_not_read(dpbayes: Cli, bundle: Path) -> None:
    known = dpbayes("predict", bundle, "new.csv").out
    lines = [line.split(",", 1)[1] for line in Path("new.csv").read_text().splitlines()]
    Path("without.csv").write_text("\n".join(lines) + "\n")
    assert dpbayes("predict", bundle, "without.csv").out == known
    assert dpbayes("predict", bundle, "-", stdin=Path("without.csv").read_bytes()).out == known
    other = Path("new.csv").read_text().replace("yes,", "no,")
    Path("other.csv").write_text(other)
    assert dpbayes("predict", bundle, "other.csv").out == known


def test_a_missing_feature_is_a_data_error_that_says_nothing_of_the_header(dpbayes: Cli, bundle: Path) -> None:
    Path("short.csv").write_text("class,kind,S3NTINEL,age\nyes,u,1,30\n")
    for more in ([], ["--json"], ["--out", "predicted.csv"]):
        done = dpbayes("predict", bundle, "short.csv", *more, "-vv")
        assert (done.code, done.out) == (4, "")
        assert "'flag'" in done.err
        assert "S3NTINEL" not in done.err
    assert not Path("predicted.csv").exists()
    Path("nothing.csv").write_text("")
    assert dpbayes("predict", bundle, "nothing.csv").code == 4
    assert dpbayes("predict", bundle, "missing.csv").out == ""
    Path("empty.csv").write_text("kind,flag,age\n")
    assert dpbayes("predict", bundle, "empty.csv").out == "record,class,p[class=no],p[class=yes]\n"
    assert dpbayes("predict", bundle, "empty.csv", "--json").json["predictions"] == []


def test_an_invalid_cell_counts_as_in_the_release(dpbayes: Cli, bundle: Path) -> None:
    Path("cells.csv").write_text("kind,flag,age\nu,0,30\n,0,30\nx,,old\nw,1,70\nw,1\n")
    rows = [row[2:] for row in rows_of(dpbayes("predict", bundle, "cells.csv").out)[1:]]
    assert rows[0] == rows[1] == rows[2]
    assert rows[3] != rows[0]


def test_invalid_cell_without_a_stand_in_is_unknown_to_a_network(dpbayes: Cli, place: Path) -> None:
    variables = {name: {k: v for k, v in part.items() if k != "impute"} for name, part in VARIABLES.items()}
    spec = naive_bayes(domain={"target": "class", "variables": variables})
    assert release(dpbayes, people(place / "people.csv", 400), spec).code == 0
    Path("cells.csv").write_text("kind,flag,age\n,,\n?,2,old\nw,1,70\n")
    predicted = probabilities(dpbayes("predict", "out", "cells.csv").out)
    prior = json.loads(Path("out/release.json").read_text())["posterior"]["theta[class=yes]"]
    assert predicted[0, 1] == pytest.approx(predicted[1, 1])
    assert abs(predicted[0, 1] - prior["mean"]) < 8 * prior["sd"] / np.sqrt(300)


def test_another_variable_may_be_predicted(dpbayes: Cli, bundle: Path) -> None:
    done = dpbayes("predict", bundle, "new.csv", "--target", "kind")
    assert rows_of(done.out)[0] == ["record", "kind", "p[kind=u]", "p[kind=v]", "p[kind=w]"]
    of_class = {line.split(",")[0]: row for line, row in zip(
        Path("new.csv").read_text().splitlines()[1:], probabilities(done.out), strict=True)}  # fmt: skip
    assert of_class["yes"][0] > of_class["no"][0]
    refused = dpbayes("predict", bundle, "new.csv", "--target", "knid")
    assert (refused.code, refused.out, "'kind'" in refused.err or "kind" in refused.err) == (3, "", True)


def test_models_that_do_not_predict_are_refused_with_a_hint(dpbayes: Cli, place: Path, coin: Path) -> None:
    assert dpbayes("release", coin, "--model", "beta-bernoulli", "--eps", "1", "--out", "scalar").code == 0
    dpbayes("predict", "scalar", coin).exits(3, "posterior_predictive")
    assert dpbayes("evaluate", "scalar", coin).code == 3
    domain = {"variables": bayes_net()["domain"]["variables"]}
    assert release(dpbayes, people(place / "people.csv", 400), bayes_net(domain=domain)).code == 0
    dpbayes("predict", "out", "people.csv").exits(3, "--target")
    assert dpbayes("predict", "out", "people.csv", "--target", "class").code == 0


def codes(data: Path) -> list[tuple[int, int, int]]:
    codes = []
    for line in data.read_text().splitlines()[1:]:
        _, kind, flag, age = line.split(",")
        codes.append(("uvw".index(kind), int(flag), int(np.searchsorted([20, 40, 60], float(age), side="right"))))
    return codes


def brute_force(draws: Any, data: Path) -> Any:
    """Return the mean over draws of theta_c times the shares of the features, divided by its sum over the classes."""
    shapes = [(2, 3), (2, 2), (2, 4)]
    ends = np.cumsum([2, *(a * b for a, b in shapes)])
    tables = [draws[:, ends[i] : ends[i + 1]].reshape(-1, *shape) for i, shape in enumerate(shapes)]
    result = []
    for record in codes(data):
        weights = draws[:, :2].copy()
        for table, code in zip(tables, record, strict=True):
            weights *= table[:, :, code]
        result.append((weights / weights.sum(axis=1, keepdims=True)).mean(axis=0))
    return np.array(result)


def test_probabilities_are_averages_over_the_released_draws(dpbayes: Cli, place: Path) -> None:
    """40 records at epsilon 0.2 leave so much uncertainty that averages differ from predictions at the mean."""
    data = people(place / "people.csv", 40)
    assert release(dpbayes, data, naive_bayes(privacy={"epsilon": 0.2})).code == 0
    draws = predictor(read_bundle(Path("out")), None).draws
    assert 0 < len(draws) <= MAX_DRAWS
    exact = brute_force(draws, data)

    def predicted(bundle: str = "out") -> Any:
        predictions = dpbayes("predict", bundle, data, "--json").json["predictions"]
        return np.array([each["probabilities"] for each in predictions])

    np.testing.assert_allclose(predicted(), exact, rtol=1e-9)
    drawn = naive_bayes(mechanism="ops", sampling={"draws": 3})
    assert release(dpbayes, data, drawn, out="drawn").code == 0
    few = np.array(json.loads(Path("drawn/release.json").read_text())["draws"])
    np.testing.assert_allclose(predicted("drawn"), brute_force(few, data), rtol=1e-9)


def test_predict_reads_parquet_and_other_layouts(dpbayes: Cli, bundle: Path) -> None:
    printed = dpbayes("predict", bundle, "new.csv").out
    duckdb.sql("COPY (SELECT kind, flag, age FROM read_csv('new.csv')) TO 'new.parquet' (FORMAT parquet)")
    assert dpbayes("predict", bundle, "new.parquet").out == printed
    Path("new.txt").write_text(Path("new.csv").read_text().replace(",", ";"))
    assert dpbayes("predict", bundle, "new.txt", "--delimiter", ";").out == printed


@pytest.mark.slow
def test_predict_ends_if_its_reader_is_gone(dpbayes: Cli, bundle: Path, place: Path) -> None:
    people(place / "many.csv", 200_000, seed=3)
    command = f"{sys.executable} -m dpbayes_cli predict {bundle} many.csv | head -2; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 141
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ABOUT


SCORES = "svm predicts scores, not probabilities: a score above 0 means 'yes'\n"


def table(done: Any) -> Any:
    assert done.code == 0, done.err
    return [row[1:] for row in rows_of(done.out)]


@pytest.mark.parametrize("model", often(["logistic-regression", "probit-regression"], 2))
def test_regressions_of_a_class_average_the_probabilities_of_their_draws(dpbayes: Cli, place: Path, model: str) -> None:
    """The draws are so far apart that the mean of the predictions is not the prediction at the mean.

    Median difference 0.02, and it grows as the square of the distance in four directions: below 1e-7 in 1e-10 of runs.
    """
    bundle = release_regression(dpbayes, patients(place / "patients.csv"), model, privacy={"mu": 0.5})
    new = patients(place / "new.csv", 60, seed=2)
    done = dpbayes("predict", bundle, new)
    header, *rows = table(done)
    assert (done.err, header) == (ABOUT, ["ill", "p[ill=no]", "p[ill=yes]"])
    t = linear_predictors(bundle, new)
    mean = special.expit if model.startswith("logistic") else special.ndtr
    exact = mean(t).mean(axis=1)
    p = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.testing.assert_allclose(p, np.column_stack([1.0 - exact, exact]), atol=2e-6)
    assert [row[0] for row in rows] == [CLASSES[k] for k in p.argmax(axis=1)]
    assert np.max(np.abs(mean(t.mean(axis=1)) - exact)) > 1e-7
    document = dpbayes("predict", bundle, new, "--json").json
    assert (document["classes"], document["draws"], "note" in document) == (CLASSES, 2, False)
    np.testing.assert_allclose([each["probabilities"][1] for each in document["predictions"]], exact, rtol=1e-9)


def test_svm_predicts_scores_with_a_note_that_they_are_not_probabilities(dpbayes: Cli, place: Path) -> None:
    bundle = release_regression(dpbayes, patients(place / "patients.csv"), "svm")
    new = patients(place / "new.csv", 60, seed=2)
    done = dpbayes("predict", bundle, new)
    header, *rows = table(done)
    assert (done.err, header) == (ABOUT + SCORES, ["ill", "score[ill=yes]"])
    scores = linear_predictors(bundle, new).mean(axis=1)
    np.testing.assert_allclose([float(row[1]) for row in rows], scores, rtol=1e-5)
    assert [row[0] for row in rows] == [CLASSES[int(score > 0)] for score in scores]
    document = dpbayes("predict", bundle, new, "--json", "-q")
    assert (document.json["note"] + "\n", document.json["classes"], document.err) == (SCORES, CLASSES, "")
    np.testing.assert_allclose([each["score"] for each in document.json["predictions"]], scores, rtol=1e-9)
    assert [each["label"] for each in document.json["predictions"]] == [row[0] for row in rows]


@pytest.mark.parametrize("model", often(["quantile-regression", "huber-regression"], 2))
def test_regressions_of_a_number_predict_it_in_its_own_units(dpbayes: Cli, place: Path, model: str) -> None:
    bundle = release_regression(dpbayes, patients(place / "patients.csv"), model)
    new = patients(place / "new.csv", 60, seed=2)
    done = dpbayes("predict", bundle, new)
    header, *rows = table(done)
    assert header == ["days"]
    assert "without a predictive law" in done.err
    assert (f"the {LEVEL:g} quantile" in done.err) == (model == "quantile-regression")
    exact = 20.0 + 20.0 * linear_predictors(bundle, new).mean(axis=1)
    np.testing.assert_allclose([float(row[0]) for row in rows], exact, rtol=1e-8)
    document = dpbayes("predict", bundle, new, "--json").json
    assert "classes" not in document
    Path("header.csv").write_text("age,kind\n")
    assert dpbayes("predict", bundle, "header.csv").out == "record,days\n"
    assert [float(f"{each['prediction']:.10g}") for each in document["predictions"]] == [float(row[0]) for row in rows]


def test_record_without_a_feature_is_predicted_only_with_a_stand_in(dpbayes: Cli, place: Path) -> None:
    data = patients(place / "patients.csv")
    bundle = release_regression(dpbayes, data, "logistic-regression")
    cells = ["50,u", ",u", "old,u", "50,?", "900,w", "100,w"]
    Path("cells.csv").write_text("age,kind\n" + "\n".join(cells) + "\n")
    _, *rows = table(dpbayes("predict", bundle, "cells.csv"))
    assert rows[0] == rows[1] == rows[2]  # 50 stands for an age
    assert rows[3] == ["", "", ""]  # nothing for a kind
    assert rows[4] == rows[5]  # clamped
    document = dpbayes("predict", bundle, "cells.csv", "--json").json["predictions"]
    assert document[3] == {"label": None, "probabilities": [None, None]}
    Path("cells.csv").write_text("kind,age\n?,1\n?,2\n")
    assert table(dpbayes("predict", bundle, "cells.csv"))[1:] == [["", "", ""]] * 2
    for target in ("ill", "age"):
        dpbayes("predict", bundle, "cells.csv", "--target", target).exits(3, "logistic-regression predicts 'ill'")
