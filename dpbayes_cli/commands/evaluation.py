"""What ``dpbayes evaluate`` prints: the scores that fit what is predicted, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.commands.output import emit, emit_table, printable
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.predicted import (
    COVERAGE,
    ClassProbabilities,
    ClassScores,
    NumberPrediction,
    Prediction,
    PredictiveLaws,
)

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.held_out import HeldOutScore
    from dpbayes_cli.core.predictor import Predictor
    from dpbayes_cli.inference.scores.class_scores import CalibrationBin
    from dpbayes_cli.inference.scores.roc import Roc

STAMP = "NOT PRIVATE unless the records it was computed from are public"


@dataclass(frozen=True)
class Figure:
    """One score.

    Attributes:
        key: its name in the JSON document.
        value: NaN where there is nothing to score.
        label: its name in the text; empty: it is in the JSON document alone.
        more: what the text says after it.
    """

    key: str
    value: float | int
    label: str = ""
    more: str = ""

    @property
    def shown(self) -> float | int | None:
        """The value, None where it is no number."""
        return self.value if math.isfinite(self.value) else None

    @property
    def line(self) -> str:
        """The text: figures with a point have four decimals, very large and small ones four digits."""
        value = self.value
        plain = isinstance(value, int) or value == 0.0 or 1e-3 <= abs(value) < 1e6
        text = str(value) if isinstance(value, int) else f"{value:.4f}" if plain else f"{value:.4g}"
        return f"{self.label:18} {text}{self.more}"


@dataclass(frozen=True)
class Evaluation:
    """All scores of a predictor on labelled records.

    Attributes:
        release_id, target, note: whose predictions, of what, and what must be known about them.
        counts: how many records, and how many of them are scored, or why they are not.
        figures: the scores.
        more: what the JSON document holds besides: curves.
        calibrated: what the calibration curve is of.
        bins: the calibration curve.
    """

    release_id: str
    target: str
    note: str
    counts: tuple[Figure, ...]
    figures: tuple[Figure, ...]
    more: dict[str, Any]
    calibrated: str = ""
    bins: tuple[CalibrationBin, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "stamp": STAMP,
            "release_id": self.release_id,
            "target": self.target,
            **({"note": self.note} if self.note else {}),
            **{figure.key: figure.shown for figure in (*self.counts, *self.figures)},
            **self.more,
        }


def evaluation_of(
    release_id: str, found: Predictor, predicted: Prediction, targets: Integers | Floats, densities: Floats | None
) -> Evaluation:
    """Return the scores of predictions.

    Args:
        release_id: whose predictions.
        found: what predicted.
        predicted: its predictions.
        targets: codes of classes, -1 where one is missing, or numbers, NaN where one is missing.
        densities: log predictive densities of the targets, NaN where there is none; None: not offered.
    """
    import numpy as np

    if isinstance(predicted, ClassProbabilities):
        return _of_probabilities(release_id, found, predicted, targets.astype(np.int64))
    if isinstance(predicted, ClassScores):
        return _of_scores(release_id, found, predicted, targets.astype(np.int64))
    if isinstance(predicted, NumberPrediction | PredictiveLaws):
        return _of_numbers(release_id, found, predicted, targets.astype(np.float64), densities)
    raise TypeError(f"no scores for {type(predicted).__name__}")


def held_out_evaluation(release_id: str, found: HeldOutScore) -> Evaluation:
    """Return the likelihood of held-out records under a hidden Markov model."""
    counts = (
        Figure("records", found.records),
        Figure("scored", found.scored, "records scored"),
        Figure("without_place", found.records - found.scored, "of no sequence and step"),
    )
    figures = (
        Figure("log_likelihood", found.log_likelihood, "log likelihood", " nats a record, larger is better"),
        Figure("without_states", found.without_states, "without states", " nats a record"),
    )
    return Evaluation(release_id, "all features", "", counts, figures, {})


def show(evaluation: Evaluation) -> None:
    """Print the scores as text."""
    emit(STAMP)
    emit(f"{'target':18} {evaluation.target}")
    if evaluation.note:
        emit(f"{'note':18} {printable(evaluation.note)}")
    for figure in evaluation.counts:
        if figure.label and (figure.value or figure.key == "scored"):
            emit(figure.line)
    scored = next(figure.value for figure in evaluation.counts if figure.key == "scored")
    if not scored:
        return
    for figure in evaluation.figures:
        if figure.label and figure.shown is not None:
            emit(figure.line)
    if evaluation.bins:
        emit(f"calibration of {evaluation.calibrated}:")
        rows = [
            [f"{b.low:.1f} to {b.high:.1f}", str(b.count), f"{b.mean_predicted:.4f}", f"{b.observed:.4f}"]
            for b in evaluation.bins
            if b.count
        ]
        emit_table(["predicted", "records", "mean predicted", "observed"], rows)


def _of_probabilities(release_id: str, found: Predictor, predicted: ClassProbabilities, labels: Integers) -> Evaluation:
    from dpbayes_cli.inference.scores.class_scores import scores_of
    from dpbayes_cli.inference.scores.roc import Roc, roc_of

    scores = scores_of(predicted.values, labels)
    two = len(predicted.levels) == 2
    roc = roc_of(predicted.values[:, 1], labels) if two else Roc(math.nan, ())
    majority = _majority(predicted.values.sum(axis=1), labels)
    calibrated = "the probability of the predicted class"
    if two:
        calibrated = f"the probability that {found.name} is {predicted.levels[1]}"
    figures = (
        *_accuracy(scores.accuracy, majority),
        Figure("log_score", scores.log_score, "log score", " nats a record, 0 is best"),
        Figure("brier", scores.brier, "Brier score", ", 0 is best"),
        Figure("calibration_error", scores.calibration_error, "calibration error"),
        _area(roc, found.name, predicted.levels),
    )
    curve = [
        {
            "low": each.low,
            "high": each.high,
            "count": each.count,
            "mean_predicted": _finite(each.mean_predicted),
            "observed": _finite(each.observed),
        }
        for each in scores.calibration
    ]
    more = {"calibrated_for": calibrated, "calibration": curve, "roc": _points(roc)}
    counts = _counts(scores.n_scored, scores.n_unlabelled, scores.n_unpredicted)
    return _evaluation(release_id, found, counts, figures, more, calibrated, scores.calibration)


def _of_scores(release_id: str, found: Predictor, predicted: ClassScores, labels: Integers) -> Evaluation:
    import numpy as np

    from dpbayes_cli.inference.scores.roc import roc_of

    known = ~np.isnan(predicted.values)
    scored = known & (labels >= 0)
    right = (predicted.values[scored] > 0.0) == labels[scored]
    roc = roc_of(predicted.values, labels)
    figures = (
        *_accuracy(float(right.mean()) if right.size else math.nan, _majority(predicted.values, labels)),
        _area(roc, found.name, predicted.levels),
    )
    counts = _counts(int(scored.sum()), int((labels < 0).sum()), int(((labels >= 0) & ~known).sum()))
    return _evaluation(release_id, found, counts, figures, {"roc": _points(roc)})


def _of_numbers(
    release_id: str,
    found: Predictor,
    predicted: NumberPrediction | PredictiveLaws,
    targets: Floats,
    densities: Floats | None,
) -> Evaluation:
    import numpy as np

    from dpbayes_cli.inference.scores.number_scores import number_scores

    scores = number_scores(predicted.values, targets)
    figures = [
        Figure("rmse", scores.rmse, "RMSE"),
        Figure("mae", scores.mae, "MAE"),
        Figure("r_squared", scores.r_squared, "R^2", ", 1 is best, 0 is as good as the mean of these targets"),
        *_more_of_numbers(found, predicted, targets),
    ]
    if densities is not None:
        known = densities[~np.isnan(densities)]
        mean = float(known.mean()) if len(known) else math.nan
        figures.append(Figure("log_density", mean, "log density", " nats a record, larger is better"))
    more: dict[str, Any] = {"targets": "as they are in DATA, not clamped to the public bounds of the release"}
    counts = _counts(scores.n_scored, scores.n_unlabelled, scores.n_unpredicted)
    column = found.columns[found.target]
    if isinstance(column, NumericColumn):
        beyond = int(((targets < column.lower) | (targets > column.upper)).sum())
        counts = (*counts, Figure("beyond_bounds", beyond, "beyond the bounds"))
    return _evaluation(release_id, found, counts, figures, more)


def _more_of_numbers(
    found: Predictor, predicted: NumberPrediction | PredictiveLaws, targets: Floats
) -> Iterator[Figure]:
    """Yield the scores of a predicted quantile, and of predictive intervals."""
    from dpbayes_cli.inference.scores.number_scores import interval_scores, quantile_scores

    if found.level is not None:
        level = found.level
        quantile = quantile_scores(predicted.values, targets, level)
        yield Figure("level", level)
        yield Figure("pinball_loss", quantile.pinball, "pinball loss", f" at the level {level:g}, 0 is best")
        yield Figure("at_or_below", quantile.at_or_below, "at or below", f" of the targets; {level:g} is best")
    if isinstance(predicted, PredictiveLaws):
        ends = predicted.quantiles[:, 0], predicted.quantiles[:, -1]
        interval = interval_scores(*ends, targets)
        yield Figure("interval", COVERAGE)
        yield Figure("coverage", interval.coverage, "coverage", f" of the {COVERAGE:.0%} interval")
        yield Figure("mean_width", interval.width, "mean width", f" of the {COVERAGE:.0%} interval")


def _evaluation(
    release_id: str,
    found: Predictor,
    counts: Sequence[Figure],
    figures: Sequence[Figure],
    more: dict[str, Any],
    calibrated: str = "",
    bins: tuple[CalibrationBin, ...] = (),
) -> Evaluation:
    return Evaluation(release_id, found.name, found.note, tuple(counts), tuple(figures), more, calibrated, bins)


def _counts(scored: int, unlabelled: int, unpredicted: int) -> tuple[Figure, ...]:
    return (
        Figure("records", scored + unlabelled + unpredicted),
        Figure("scored", scored, "records scored"),
        Figure("without_label", unlabelled, "without label"),
        Figure("without_prediction", unpredicted, "without prediction"),
    )


def _accuracy(accuracy: float, majority: float) -> tuple[Figure, ...]:
    more = f" (the most frequent class: {majority:.4f})"
    return Figure("accuracy", accuracy, "accuracy", more), Figure("majority_accuracy", majority)


def _majority(known: Floats, labels: Integers) -> float:
    """Return the share of the most frequent class among the records that are scored; NaN in ``known`` where not."""
    import numpy as np

    counts = np.bincount(labels[(labels >= 0) & ~np.isnan(known)])
    return float(counts.max() / counts.sum()) if counts.size else math.nan


def _area(roc: Roc, target: str, levels: Sequence[str]) -> Figure:
    return Figure("auc", roc.auc, "AUC", f" for {target} is {levels[1]}, 0.5 is chance")


def _points(roc: Roc) -> list[dict[str, float | None]]:
    return [
        {
            "threshold": _finite(point.threshold),
            "false_positive_rate": point.false_positive_rate,
            "true_positive_rate": point.true_positive_rate,
        }
        for point in roc.points
    ]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
