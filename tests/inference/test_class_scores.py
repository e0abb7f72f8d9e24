"""Scores of class probabilities, compared with computations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbayes_cli.inference.scores import LOG_SCORE_FLOOR, N_BINS, calibration_bins, class_scores


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


def test_scores_of_no_records_are_nan() -> None:
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


def test_wrong_labels_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        class_scores(binary(0.5), np.array([2]))
    with pytest.raises(ValueError, match="shape"):
        class_scores(binary(0.5), np.array([0, 1]))
    with pytest.raises(ValueError, match="shape"):
        class_scores(np.ones((3, 1)), np.zeros(3, dtype=np.int64))
