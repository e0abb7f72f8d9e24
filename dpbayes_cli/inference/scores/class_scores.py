"""How good class probabilities are, given the true classes: accuracy, log and Brier scores, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpbayes_cli.base.numeric import Floats, Integers

    Booleans = NDArray[np.bool_]

N_BINS = 10
FLOOR = 1e-15
"""The log score takes no probability below this, lest one record that was thought impossible decide it alone."""


@dataclass(frozen=True)
class CalibrationBin:
    """The records whose predicted probability lies within a bin.

    Attributes:
        low, high: the ends of the bin; it holds its lower end, and the last one its upper end too.
        count: how many records.
        mean_predicted: the mean of their predicted probabilities; NaN where there are none.
        observed: how often what was predicted was true; NaN where there are none.
    """

    low: float
    high: float
    count: int
    mean_predicted: float
    observed: float


@dataclass(frozen=True)
class ClassScores:
    """Scores over the records that have a label and a prediction; the means are NaN where there is no such record.

    Attributes:
        n_scored: how many records are scored.
        n_unlabelled: how many are left out because they have no label.
        n_unpredicted: how many have a label, but no prediction.
        n_floored: for how many the log score counts a probability below ``FLOOR`` as ``FLOOR``.
        accuracy: how often the most probable class, the first of several, is the true one.
        log_score: the mean log probability, natural, of the true class; 0 is best.
        brier: the mean squared distance of the probabilities from the truth; of two classes that of the second alone,
            0 to 1, of more the sum over all, 0 to 2. 0 is best.
        calibration: of two classes by the probability of the second, of more by that of the predicted class.
        calibration_error: the expected calibration error: the mean over the records of the distance between the mean
            prediction and the observed frequency in their bin.
    """

    n_scored: int
    n_unlabelled: int
    n_unpredicted: int
    n_floored: int
    accuracy: float
    log_score: float
    brier: float
    calibration: tuple[CalibrationBin, ...]
    calibration_error: float


def class_scores(probabilities: Floats, labels: Integers) -> ClassScores:
    """Return the scores of predicted class probabilities.

    Args:
        probabilities: shape (n_records, n_classes), at least two classes, rows that sum to one or are NaN.
        labels: codes of the true classes, -1 where one is missing, shape (n_records,).

    Raises:
        ValueError: the shapes do not fit, or a label is out of range.
    """
    import numpy as np

    if probabilities.ndim != 2 or probabilities.shape[1] < 2 or labels.shape != probabilities.shape[:1]:
        raise ValueError(f"probabilities of shape {probabilities.shape} and labels of shape {labels.shape}")
    n_classes = probabilities.shape[1]
    if ((labels < -1) | (labels >= n_classes)).any():
        raise ValueError(f"labels must be -1 or from 0 to {n_classes - 1}")
    labelled, predicted = labels >= 0, ~np.isnan(probabilities).any(axis=1)
    scored = labelled & predicted
    p, truth = probabilities[scored], labels[scored]
    n_scored = len(truth)
    true = p[np.arange(n_scored), truth]
    choice = p.argmax(axis=1)
    distance = ((p - np.eye(n_classes)[truth]) ** 2).sum(axis=1)
    if n_classes == 2:
        bins = calibration_bins(p[:, 1], truth == 1)
        distance /= 2.0
    else:
        bins = calibration_bins(p.max(axis=1), choice == truth)
    gaps = [each.count * abs(each.observed - each.mean_predicted) for each in bins if each.count]
    return ClassScores(
        n_scored,
        int((~labelled).sum()),
        int((labelled & ~predicted).sum()),
        int((true < FLOOR).sum()),
        _mean(choice == truth),
        _mean(np.log(np.maximum(true, FLOOR))),
        _mean(distance),
        bins,
        sum(gaps) / n_scored if n_scored else float("nan"),
    )


def calibration_bins(predicted: Floats, happened: Booleans) -> tuple[CalibrationBin, ...]:
    """Return the calibration curve over ``N_BINS`` bins of equal width.

    Args:
        predicted: probabilities, shape (n,).
        happened: whether what was predicted was true, shape (n,).
    """
    import numpy as np

    place = np.searchsorted(np.arange(1, N_BINS) / N_BINS, predicted, side="right")
    bins = []
    for k in range(N_BINS):
        within = place == k
        observed = _mean(happened[within])
        bins.append(CalibrationBin(k / N_BINS, (k + 1) / N_BINS, int(within.sum()), _mean(predicted[within]), observed))
    return tuple(bins)


def _mean(values: Floats | Booleans) -> float:
    return float(values.mean()) if values.size else float("nan")
