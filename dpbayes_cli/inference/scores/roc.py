"""How well scores separate two classes: the receiver operating characteristic and the area under it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbayes_cli.base.numeric import Floats, Integers

MAX_POINTS = 101


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
        points: from (0, 0) to (1, 1), for at most ``MAX_POINTS`` thresholds; empty if a class has no record.
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
    if len(chosen) > MAX_POINTS:  # spread evenly along the curve, by the sum of both rates
        chosen = np.unique(np.searchsorted(rates.sum(axis=0), np.linspace(0.0, 2.0, MAX_POINTS)).clip(max=chosen[-1]))
    points = (RocPoint(float(thresholds[k]), float(rates[0, k]), float(rates[1, k])) for k in chosen.tolist())
    return Roc(auc, tuple(points))
