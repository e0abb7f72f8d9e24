"""Naive Bayes on Adult at epsilon 1: nearly as accurate as without privacy."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.conftest import ROOT, SAMPLE_DATA, Cli

CONFIG = ROOT / "configs" / "releases" / "adult-naive-bayes.yaml"
TEST = SAMPLE_DATA / "adult_test.csv.gz"


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
    train, test = coded(SAMPLE_DATA / "adult_train.csv.gz", variables), coded(TEST, variables)
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
def test_accuracy_at_epsilon_1_is_within_a_point_of_the_one_without_privacy(dpbayes: Cli) -> None:
    """In 20 releases the accuracy was 0.8272 in the mean, sd 0.0012, without privacy 0.8255: 0.0100 is seven sds off.

    False-fail below 1e-9 were it normal; no release of those was more than 0.0036 off.
    """
    domain = yaml.safe_load(CONFIG.read_text())["domain"]
    exact = conjugate_accuracy(domain["variables"], domain["target"])
    assert dpbayes("release", "--spec", CONFIG, "--out", "out").code == 0
    scores = dpbayes("evaluate", "out", TEST, "--json").json
    print(f"accuracy {scores['accuracy']:.4f}, without privacy {exact:.4f}")
    assert scores["scored"] == 16_281
    assert abs(scores["accuracy"] - exact) < 0.01
    assert scores["accuracy"] > scores["majority_accuracy"] + 0.04
