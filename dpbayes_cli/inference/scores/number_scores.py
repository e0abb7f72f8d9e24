"""Scores of predicted numbers against the true ones: errors, quantile scores, coverage of intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Floats
from dpbayes_cli.inference.scores.class_scores import mean_or_nan


@dataclass(frozen=True)
class NumberScores:
    """Errors over the records that have both a target and a prediction; NaN if there is no such record.

    Attributes:
        n_scored: how many records are scored.
        n_unlabeled: how many records are left out because they have no target.
        n_unpredicted: how many records are left out because they have a target, but no prediction.
        rmse: the root mean squared error.
        mae: the mean absolute error.
        r_squared: one minus the sum of squared errors divided by the sum of squared deviations of the targets from
            their mean. 1 is best; 0 is no better than predicting the mean target; NaN if all targets are equal.
    """

    n_scored: int
    n_unlabeled: int
    n_unpredicted: int
    rmse: float
    mae: float
    r_squared: float


@dataclass(frozen=True)
class QuantileScores:
    """Scores of a predicted quantile.

    Attributes:
        level: the level of the quantile.
        pinball: the mean pinball loss, in units of the target; 0 is best.
        at_or_below: the share of targets at or below the predicted quantile; near ``level`` if the prediction is good.
    """

    level: float
    pinball: float
    at_or_below: float


@dataclass(frozen=True)
class IntervalScores:
    """The share of targets within their predictive intervals, ends included, and the mean width of the intervals."""

    coverage: float
    width: float


def number_scores(predicted: Floats, targets: Floats) -> NumberScores:
    """Return the errors of predicted numbers, shape (n_records,); missing predictions and targets are NaN.

    Raises:
        ValueError: the shapes do not fit.
    """
    scored = _scored(predicted, targets)
    p, y = predicted[scored], targets[scored]
    errors = p - y
    spread = float(np.square(y - y.mean()).sum()) if len(y) else 0.0
    unexplained = float(np.square(errors).sum())
    return NumberScores(
        len(y),
        int(np.isnan(targets).sum()),
        int((np.isnan(predicted) & ~np.isnan(targets)).sum()),
        float(np.sqrt(mean_or_nan(np.square(errors)))),
        mean_or_nan(np.abs(errors)),
        1.0 - unexplained / spread if spread > 0.0 else float("nan"),
    )


def quantile_scores(predicted: Floats, targets: Floats, level: float) -> QuantileScores:
    """Return the scores of predictions of the quantile at a level in (0, 1); see ``number_scores``.

    Source: Koenker and Bassett 1978 (the pinball loss).
    """
    scored = _scored(predicted, targets)
    above = targets[scored] - predicted[scored]
    return QuantileScores(
        level, mean_or_nan(np.maximum(level * above, (level - 1.0) * above)), mean_or_nan(above <= 0.0)
    )


def interval_scores(lower: Floats, upper: Floats, targets: Floats) -> IntervalScores:
    """Return how often intervals contain the targets, and how wide they are; see ``number_scores``."""
    scored = _scored(lower, targets) & _scored(upper, targets)
    low, high, y = lower[scored], upper[scored], targets[scored]
    return IntervalScores(mean_or_nan((low <= y) & (y <= high)), mean_or_nan(high - low))


def _scored(predicted: Floats, targets: Floats) -> Booleans:
    if predicted.ndim != 1 or predicted.shape != targets.shape:
        raise ValueError(f"predictions have shape {predicted.shape}, but targets have shape {targets.shape}")
    return ~(np.isnan(predicted) | np.isnan(targets))
