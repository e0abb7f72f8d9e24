"""Scores of predictions, by hand: of classes, of numbers, and the receiver operating characteristic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.inference.scores import (
    LOG_SCORE_FLOOR,
    MAX_ROC_POINTS,
    N_BINS,
    calibration_bins,
    class_scores,
    interval_scores,
    number_scores,
    quantile_scores,
    roc_curve,
)

NAN = float("nan")
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


def binary(*positive: float) -> np.ndarray:
    return np.column_stack([1.0 - np.array(positive), np.array(positive)])


def test_two_classes_by_hand() -> None:
    scores = class_scores(binary(0.9, 0.8, 0.3, 0.6), np.array([1, 0, 0, 1]))
    assert scores.n_scored == 4
    assert scores.accuracy == 0.75
    assert scores.log_score == pytest.approx(math.log(0.9 * 0.2 * 0.7 * 0.6) / 4)
    assert scores.brier == pytest.approx((0.01 + 0.64 + 0.09 + 0.16) / 4)
    assert [each.count for each in scores.calibration] == [0, 0, 0, 1, 0, 0, 1, 0, 1, 1]
    assert scores.calibration[8].observed == 0.0
    assert scores.calibration[9].mean_predicted == pytest.approx(0.9)
    assert scores.calibration_error == pytest.approx((0.3 + 0.4 + 0.8 + 0.1) / 4)


def test_more_classes_by_hand() -> None:
    p = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    scores = class_scores(p, np.array([1, 0]))
    assert scores.accuracy == 0.5
    assert scores.log_score == pytest.approx(math.log(0.5 * 0.1) / 2)
    assert scores.brier == pytest.approx((0.04 + 0.25 + 0.09 + 0.81 + 0.01 + 0.64) / 2)
    assert (scores.calibration[5].count, scores.calibration[5].observed) == (1, 1.0)
    assert (scores.calibration[8].count, scores.calibration[8].observed) == (1, 0.0)
    assert scores.calibration_error == pytest.approx((0.5 + 0.8) / 2)


def test_missing_labels_and_missing_predictions_are_counted_and_left_out() -> None:
    p = np.vstack([binary(0.9, 0.2, 0.7), np.full((2, 2), np.nan)])
    scores = class_scores(p, np.array([1, -1, 1, 0, -1]))
    assert (scores.n_scored, scores.n_unlabeled, scores.n_unpredicted) == (2, 2, 1)
    kept = class_scores(binary(0.9, 0.7), np.array([1, 1]))
    assert (scores.accuracy, scores.log_score, scores.brier) == (kept.accuracy, kept.log_score, kept.brier)
    assert scores.calibration[9] == kept.calibration[9]


def test_scores_of_no_classes_are_nan() -> None:
    scores = class_scores(binary(0.5), np.array([-1]))
    assert scores.n_scored == 0
    assert all(
        math.isnan(value) for value in (scores.accuracy, scores.log_score, scores.brier, scores.calibration_error)
    )
    assert all(each.count == 0 and math.isnan(each.observed) for each in scores.calibration)


def test_the_log_score_has_a_floor() -> None:
    scores = class_scores(binary(0.0, 1.0), np.array([1, 1]))
    assert scores.log_score == pytest.approx(math.log(LOG_SCORE_FLOOR) / 2)
    assert scores.brier == 0.5


def test_a_tie_goes_to_the_first_class() -> None:
    assert class_scores(binary(0.5, 0.5, 0.5), np.array([0, 0, 1])).accuracy == pytest.approx(2 / 3)


def test_the_ends_of_bins() -> None:
    edges = np.arange(N_BINS) / N_BINS
    assert [each.count for each in calibration_bins(edges, np.ones(N_BINS, dtype=bool))] == [1] * N_BINS
    last = calibration_bins(np.array([1.0]), np.array([True]))[-1]
    assert (last.low, last.high, last.count) == (0.9, 1.0, 1)
    assert calibration_bins(np.nextafter(edges[1:], 0.0), np.ones(N_BINS - 1, dtype=bool))[N_BINS - 1].count == 0


def test_errors_of_numbers_by_hand() -> None:
    scores = number_scores(np.array([1.0, 2.0, 4.0]), np.array([1.0, 4.0, 1.0]))
    assert scores.rmse == pytest.approx(math.sqrt((0 + 4 + 9) / 3))
    assert scores.mae == pytest.approx(5 / 3)
    assert scores.r_squared == pytest.approx(1 - 13 / 6)
    assert (scores.n_scored, scores.n_unlabeled, scores.n_unpredicted) == (3, 0, 0)


def test_r_squared_of_known_predictions() -> None:
    """1 for the true values, 0 for their mean, and the squared correlation for a least-squares line."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    y = 1e6 + 2.0 * x + rng.normal(size=200)
    assert number_scores(y, y).r_squared == 1.0
    assert number_scores(np.full(200, y.mean()), y).r_squared == pytest.approx(0.0, abs=1e-12)
    slope, intercept = np.polyfit(x, y, 1)
    assert number_scores(intercept + slope * x, y).r_squared == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)


def test_missing_targets_and_predictions_are_counted_and_left_out() -> None:
    scores = number_scores(np.array([1.0, NAN, 3.0, NAN]), np.array([2.0, 1.0, NAN, NAN]))
    assert (scores.n_scored, scores.n_unlabeled, scores.n_unpredicted) == (1, 2, 1)
    assert (scores.rmse, scores.mae) == (1.0, 1.0)
    assert math.isnan(scores.r_squared)  # one target does not vary
    nothing = number_scores(np.array([NAN]), np.array([1.0]))
    assert all(map(math.isnan, (nothing.rmse, nothing.mae, nothing.r_squared)))
    empty = number_scores(np.empty(0), np.empty(0))
    assert (empty.n_scored, math.isnan(empty.rmse)) == (0, True)


def test_a_quantile_by_hand() -> None:
    scores = quantile_scores(np.array([2.0, 2.0, 2.0, NAN]), np.array([1.0, 2.0, 5.0, 1.0]), 0.9)
    assert scores.pinball == pytest.approx((0.1 * 1 + 0 + 0.9 * 3) / 3)
    assert scores.at_or_below == pytest.approx(2 / 3)


def test_intervals_by_hand() -> None:
    lower, upper = np.array([0.0, 0.0, 1.0, NAN, 0.0]), np.array([1.0, 2.0, 5.0, NAN, 1.0])
    scores = interval_scores(lower, upper, np.array([1.0, 3.0, 1.0, 2.0, NAN]))
    assert scores.coverage == pytest.approx(2 / 3)
    assert scores.width == pytest.approx((1 + 2 + 4) / 3)


def test_wrong_labels_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        roc_curve(np.zeros(2), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="0 or 1"):
        roc_curve(np.zeros(2), np.array([0, 2]))
    with pytest.raises(ValueError, match="from 0 to 1"):
        class_scores(binary(0.5), np.array([2]))
    with pytest.raises(ValueError, match="shape"):
        class_scores(binary(0.5), np.array([0, 1]))
    with pytest.raises(ValueError, match="shape"):
        class_scores(np.ones((3, 1)), np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="shape"):
        number_scores(np.zeros(2), np.zeros(3))
