"""Scores of class probabilities against the true classes: accuracy, log and Brier scores, calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Booleans, Floats, Integers

N_BINS = 10
LOG_SCORE_FLOOR = 1e-15
"""The log score replaces smaller probabilities by this value; else one record of probability zero would dominate it."""


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
        n_floored: how many records have a probability below ``LOG_SCORE_FLOOR`` for the true class.
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
    n_floored: int
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
        int((true < LOG_SCORE_FLOOR).sum()),
        mean_or_nan(choice == truth),
        mean_or_nan(np.log(np.maximum(true, LOG_SCORE_FLOOR))),
        mean_or_nan(squared_error),
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
        means = mean_or_nan(predicted[within]), mean_or_nan(happened[within])
        bins.append(CalibrationBin(k / N_BINS, (k + 1) / N_BINS, int(within.sum()), *means))
    return tuple(bins)


def mean_or_nan(values: Floats | Booleans) -> float:
    """Return the mean of values, NaN if there are none."""
    return float(values.mean()) if values.size else float("nan")
