"""How well scores separate two classes: the receiver operating characteristic and the area under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

MAX_POINTS = 101


@dataclass(frozen=True)
class RocPoint:
    """What share of each class has a score of a threshold or more.

    Attributes:
        threshold: the score; infinite at the first point, where no record has it.
        false_positive_rate: the share of class 0.
        true_positive_rate: the share of class 1.
    """

    threshold: float
    false_positive_rate: float
    true_positive_rate: float


@dataclass(frozen=True)
class Roc:
    """The curve and its area.

    Attributes:
        auc: the share of pairs of a record of each class of which that of class 1 has the larger score, a tie counted
            as half; NaN where a class has no record.
        points: from (0, 0) to (1, 1), at most ``MAX_POINTS`` of the thresholds there are; none where a class has no
            record.
    """

    auc: float
    points: tuple[RocPoint, ...]


def roc_curve(scores: Floats, labels: Integers) -> Roc:
    """Return the receiver operating characteristic of scores; records without score or label are left out.

    The area is that of the whole curve, from counts of pairs: exact but for one division.

    Args:
        scores: larger for class 1, NaN where there is none, shape (n_records,).
        labels: 0 or 1, -1 where one is missing, shape (n_records,).

    Raises:
        ValueError: the shapes do not fit, or a label is out of range.
    """
    import numpy as np

    if scores.ndim != 1 or labels.shape != scores.shape:
        raise ValueError(f"scores of shape {scores.shape} and labels of shape {labels.shape}")
    if ((labels < -1) | (labels > 1)).any():
        raise ValueError("labels must be -1, 0 or 1")
    kept = (labels >= 0) & ~np.isnan(scores)
    values, place = np.unique(scores[kept], return_inverse=True)
    positive = np.bincount(place, weights=labels[kept] == 1, minlength=len(values)).astype(np.int64)[::-1]
    negative = np.bincount(place, minlength=len(values)).astype(np.int64)[::-1] - positive
    above_positive, above_negative = np.cumsum(positive), np.cumsum(negative)
    n_positive, n_negative = int(positive.sum()), int(negative.sum())
    if not n_positive or not n_negative:
        return Roc(float("nan"), ())
    # twice the pairs that are in order, ties once: a class-1 record against the class-0 records below it
    doubled = 2 * positive * (n_negative - above_negative) + positive * negative
    auc = int(doubled.sum()) / (2 * n_positive * n_negative)
    rates = np.vstack([np.append(0, above_negative) / n_negative, np.append(0, above_positive) / n_positive])
    thresholds = np.append(np.inf, values[::-1])
    chosen = np.arange(len(thresholds))
    if len(chosen) > MAX_POINTS:  # evenly along the curve, by its length in steps to the right and upwards
        chosen = np.unique(np.searchsorted(rates.sum(axis=0), np.linspace(0.0, 2.0, MAX_POINTS)).clip(max=chosen[-1]))
    points = (RocPoint(float(thresholds[k]), float(rates[0, k]), float(rates[1, k])) for k in chosen.tolist())
    return Roc(auc, tuple(points))
