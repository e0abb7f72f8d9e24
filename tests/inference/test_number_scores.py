"""Scores of predicted numbers: by hand, and of predictions that are what they should be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbayes_cli.inference.scores import interval_scores, number_scores, quantile_scores

NAN = float("nan")


def test_errors_by_hand() -> None:
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


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        number_scores(np.zeros(2), np.zeros(3))
