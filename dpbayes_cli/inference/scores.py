"""Scores of predictions against the true values: of class probabilities, of numbers, and of rankings (ROC curves)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Floats, Integers

N_BINS = 10
LOG_SCORE_FLOOR = 1e-15
"""The log score replaces smaller probabilities by this value; else one record of probability zero would dominate it."""
MAX_ROC_POINTS = 101


@dataclass(frozen=True)
class CalibrationBin:
    """The records whose predicted probability is within a bin.

    Attributes:
        low, high: the ends of the bin, which includes its lower end; the last bin includes its upper end, too.
        count: the number of records in the bin.
        mean_predicted: the mean predicted probability of these records; NaN if the bin is empty.
        observed: the share of these records for which the predicted event happened; NaN if the bin is empty.
    """

    low: float
    high: float
    count: int
    mean_predicted: float
    observed: float


@dataclass(frozen=True)
class ProbabilityScores:
    """Scores over the records that have both a label and a prediction; means are NaN if there is no such record.

    Attributes:
        n_scored: how many records are scored.
        n_unlabeled: how many records are left out because they have no label.
        n_unpredicted: how many records are left out because they have a label, but no prediction.
        accuracy: the share of records whose most probable class (of several, the first) is the true class.
        log_score: the mean natural log probability of the true class; 0 is best.
        brier: the mean squared error of the probabilities; 0 is best. With two classes, it is the error of the second
            class's probability (0 to 1); with more classes, the errors of all classes are added (0 to 2).
        calibration: bins of the predicted probability of the second class; with more than two classes, of the most
            probable class.
        calibration_error: the expected calibration error, that is, the mean of |mean_predicted - observed| over bins,
            weighted by ``count``.
    """

    n_scored: int
    n_unlabeled: int
    n_unpredicted: int
    accuracy: float
    log_score: float
    brier: float
    calibration: tuple[CalibrationBin, ...]
    calibration_error: float


def class_scores(probabilities: Floats, labels: Integers) -> ProbabilityScores:
    """Return the scores of predicted class probabilities.

    Args:
        probabilities: shape (n_records, n_classes), at least two classes, rows that sum to one or are NaN.
        labels: codes of the true classes, -1 if missing, shape (n_records,).

    Raises:
        ValueError: the shapes do not fit, or a label is out of range.
    """
    if probabilities.ndim != 2 or probabilities.shape[1] < 2 or labels.shape != probabilities.shape[:1]:
        raise ValueError(f"probabilities have shape {probabilities.shape}, but labels have shape {labels.shape}")
    n_classes = probabilities.shape[1]
    if ((labels < -1) | (labels >= n_classes)).any():
        raise ValueError(f"labels must be -1 or from 0 to {n_classes - 1}")
    labeled, predicted = labels >= 0, ~np.isnan(probabilities).any(axis=1)
    scored = labeled & predicted
    p, truth = probabilities[scored], labels[scored]
    n_scored = len(truth)
    true = p[np.arange(n_scored), truth]
    choice = p.argmax(axis=1)
    squared_error = ((p - np.eye(n_classes)[truth]) ** 2).sum(axis=1)
    if n_classes == 2:
        bins = calibration_bins(p[:, 1], truth == 1)
        squared_error /= 2.0
    else:
        bins = calibration_bins(p.max(axis=1), choice == truth)
    gaps = [b.count * abs(b.observed - b.mean_predicted) for b in bins if b.count]
    return ProbabilityScores(
        n_scored,
        int((~labeled).sum()),
        int((labeled & ~predicted).sum()),
        _mean_or_nan(choice == truth),
        _mean_or_nan(np.log(np.maximum(true, LOG_SCORE_FLOOR))),
        _mean_or_nan(squared_error),
        bins,
        sum(gaps) / n_scored if n_scored else float("nan"),
    )


def calibration_bins(predicted: Floats, happened: Booleans) -> tuple[CalibrationBin, ...]:
    """Return the calibration over ``N_BINS`` bins of equal width; arrays have shape (n_records,).

    Args:
        predicted: the probability of an event for each record.
        happened: whether the event happened.
    """
    bin_index = np.searchsorted(np.arange(1, N_BINS) / N_BINS, predicted, side="right")
    bins = []
    for k in range(N_BINS):
        within = bin_index == k
        means = _mean_or_nan(predicted[within]), _mean_or_nan(happened[within])
        bins.append(CalibrationBin(k / N_BINS, (k + 1) / N_BINS, int(within.sum()), *means))
    return tuple(bins)


def _mean_or_nan(values: Floats | Booleans) -> float:
    return float(values.mean()) if values.size else float("nan")


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
        float(np.sqrt(_mean_or_nan(np.square(errors)))),
        _mean_or_nan(np.abs(errors)),
        1.0 - unexplained / spread if spread > 0.0 else float("nan"),
    )


def quantile_scores(predicted: Floats, targets: Floats, level: float) -> QuantileScores:
    """Return the scores of predictions of the quantile at a level in (0, 1); see ``number_scores``.

    Source: Koenker and Bassett 1978 (the pinball loss).
    """
    scored = _scored(predicted, targets)
    above = targets[scored] - predicted[scored]
    return QuantileScores(
        level, _mean_or_nan(np.maximum(level * above, (level - 1.0) * above)), _mean_or_nan(above <= 0.0)
    )


def interval_scores(lower: Floats, upper: Floats, targets: Floats) -> IntervalScores:
    """Return how often intervals contain the targets, and how wide they are; see ``number_scores``."""
    scored = _scored(lower, targets) & _scored(upper, targets)
    low, high, y = lower[scored], upper[scored], targets[scored]
    return IntervalScores(_mean_or_nan((low <= y) & (y <= high)), _mean_or_nan(high - low))


def _scored(predicted: Floats, targets: Floats) -> Booleans:
    if predicted.ndim != 1 or predicted.shape != targets.shape:
        raise ValueError(f"predictions have shape {predicted.shape}, but targets have shape {targets.shape}")
    return ~(np.isnan(predicted) | np.isnan(targets))


@dataclass(frozen=True)
class RocPoint:
    """A threshold, and for each class the share of its records with a score of at least the threshold.

    The false positive rate is the share of class 0, the true positive rate that of class 1. The first threshold is
    infinite.
    """

    threshold: float
    false_positive_rate: float
    true_positive_rate: float


@dataclass(frozen=True)
class Roc:
    """The receiver operating characteristic and the area under it.

    Attributes:
        auc: the probability that a random record of class 1 has a larger score than a random record of class 0; ties
            count as one half. NaN if a class has no record.
        points: from (0, 0) to (1, 1), for at most ``MAX_ROC_POINTS`` thresholds; empty if a class has no record.
    """

    auc: float
    points: tuple[RocPoint, ...]


def roc_curve(scores: Floats, labels: Integers) -> Roc:
    """Return the receiver operating characteristic of scores; records without a score or a label are left out.

    Args:
        scores: larger for class 1, NaN if missing, shape (n_records,).
        labels: 0 or 1, -1 if missing, shape (n_records,).

    Raises:
        ValueError: the shapes do not fit, or a label is out of range.
    """
    if scores.ndim != 1 or labels.shape != scores.shape:
        raise ValueError(f"scores have shape {scores.shape}, but labels have shape {labels.shape}")
    if ((labels < -1) | (labels > 1)).any():
        raise ValueError("labels must be -1, 0 or 1")
    complete = (labels >= 0) & ~np.isnan(scores)
    values, value_index = np.unique(scores[complete], return_inverse=True)
    positive = np.bincount(value_index, weights=labels[complete] == 1, minlength=len(values)).astype(np.int64)[::-1]
    negative = np.bincount(value_index, minlength=len(values)).astype(np.int64)[::-1] - positive
    above_positive, above_negative = np.cumsum(positive), np.cumsum(negative)
    n_positive, n_negative = int(positive.sum()), int(negative.sum())
    if not n_positive or not n_negative:
        return Roc(float("nan"), ())
    # twice the number of pairs of records in which class 1 has the larger score, plus the number of ties
    ordered_pairs = 2 * positive * (n_negative - above_negative) + positive * negative
    auc = int(ordered_pairs.sum()) / (2 * n_positive * n_negative)
    rates = np.vstack([np.append(0, above_negative) / n_negative, np.append(0, above_positive) / n_positive])
    thresholds = np.append(np.inf, values[::-1])
    chosen = np.arange(len(thresholds))
    if len(chosen) > MAX_ROC_POINTS:  # spread evenly along the curve, by the sum of both rates
        chosen = np.unique(
            np.searchsorted(rates.sum(axis=0), np.linspace(0.0, 2.0, MAX_ROC_POINTS)).clip(max=chosen[-1])
        )
    points = (RocPoint(float(thresholds[k]), float(rates[0, k]), float(rates[1, k])) for k in chosen.tolist())
    return Roc(auc, tuple(points))
