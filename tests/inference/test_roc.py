"""The receiver operating characteristic: against all pairs, and against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.inference.scores import MAX_ROC_POINTS, roc_curve

RECORDS = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=40)


def by_pairs(scores: Any, labels: Any) -> float:
    """Return the share of pairs in order, ties as half, one pair at a time."""
    pairs = [(p, n) for p in scores[labels == 1] for n in scores[labels == 0]]
    return sum(2 * (p > n) + (p == n) for p, n in pairs) / (2 * len(pairs)) if pairs else math.nan


@settings(max_examples=200)
@given(RECORDS)
def test_the_area_is_that_of_all_pairs_ties_and_all(records: list[tuple[int, int]]) -> None:
    scores, labels = np.array([r[0] for r in records], dtype=float), np.array([r[1] for r in records])
    curve = roc_curve(scores, labels)
    assert curve.auc == pytest.approx(by_pairs(scores, labels), rel=0, abs=0, nan_ok=True)
    if not curve.points:
        return
    fpr, tpr = zip(*((p.false_positive_rate, p.true_positive_rate) for p in curve.points), strict=True)
    assert np.trapezoid(tpr, fpr) == pytest.approx(curve.auc, abs=1e-12)
    for point in curve.points:
        assert point.true_positive_rate == np.mean(scores[labels == 1] >= point.threshold)
        assert point.false_positive_rate == np.mean(scores[labels == 0] >= point.threshold)
    assert len(curve.points) == len(set(scores.tolist())) + 1
    assert roc_curve(-scores, labels).auc == pytest.approx(1.0 - curve.auc, abs=1e-15)


def test_a_curve_of_many_thresholds_has_few_points_that_lie_on_it() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 20_000)
    scores = rng.normal(1.5 * labels)
    curve = roc_curve(scores, labels)
    assert len(curve.points) <= MAX_ROC_POINTS
    assert (curve.points[0].false_positive_rate, curve.points[0].true_positive_rate) == (0.0, 0.0)
    assert (curve.points[-1].false_positive_rate, curve.points[-1].true_positive_rate) == (1.0, 1.0)
    for point in curve.points:
        assert point.true_positive_rate == np.mean(scores[labels == 1] >= point.threshold)
    fpr, tpr = zip(*((p.false_positive_rate, p.true_positive_rate) for p in curve.points), strict=True)
    assert np.trapezoid(tpr, fpr) == pytest.approx(curve.auc, abs=1e-3)
    assert np.max(np.diff(np.array(fpr) + np.array(tpr))) < 0.03


def test_one_long_tie_does_not_lose_the_ends() -> None:
    scores = np.concatenate([np.zeros(10_000), np.linspace(1.0, 2.0, 300)])
    labels = np.tile([0, 1], 5150)
    points = roc_curve(scores, labels).points
    assert len(points) <= MAX_ROC_POINTS
    assert (points[-1].threshold, points[-1].false_positive_rate) == (0.0, 1.0)


def test_records_without_score_or_label_are_left_out() -> None:
    scores, labels = np.array([0.1, 0.7, np.nan, 0.4, 0.9]), np.array([0, 1, 1, 0, -1])
    assert roc_curve(scores, labels) == roc_curve(np.array([0.1, 0.7, 0.4]), np.array([0, 1, 0]))


@pytest.mark.parametrize("labels", [[], [1, 1], [0], [-1, -1]])
def test_one_class_alone_has_no_curve(labels: list[int]) -> None:
    curve = roc_curve(np.arange(float(len(labels))), np.array(labels, dtype=np.int64))
    assert (math.isnan(curve.auc), curve.points) == (True, ())


def test_wrong_labels_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        roc_curve(np.zeros(2), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="0 or 1"):
        roc_curve(np.zeros(2), np.array([0, 2]))
