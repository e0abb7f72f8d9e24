"""Scores of a release's predictions on labeled records; the scores are not private."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.predicted import (
    COVERAGE,
    ClassProbabilities,
    ClassScores,
    NumberPrediction,
    Prediction,
    PredictiveLaws,
)
from dpbayes_cli.prediction.records import NewRecords, predictor

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.bundle.read import Bundle
    from dpbayes_cli.core.held_out import HeldOutScore
    from dpbayes_cli.core.predictor import Predictor
    from dpbayes_cli.inference.scores import Roc
    from dpbayes_cli.sources.location import Location

STAMP = "NOT PRIVATE: scores reveal something about the scored records; keep them to yourself unless DATA is public"


@dataclass(frozen=True)
class Figure:
    """One score."""

    key: str  # the name of the score in the JSON document
    value: float | int  # the score; NaN if there is nothing to score
    label: str = ""  # the name of the score in printed text; empty if only the JSON document shows the score
    more: str = ""  # the text after the value

    @property
    def line(self) -> str:
        """The score as a line of text, with four decimals, or with four digits if it is very large or very small."""
        value = self.value
        plain = isinstance(value, int) or value == 0.0 or 1e-3 <= abs(value) < 1e6
        text = str(value) if isinstance(value, int) else f"{value:.4f}" if plain else f"{value:.4g}"
        return f"{self.label:18} {text}{self.more}"


@dataclass(frozen=True)
class Scores:
    """The scores of predictions on labeled records."""

    counts: tuple[Figure, ...]  # how many records there are, how many are scored, and how many are not, by reason
    figures: tuple[Figure, ...]  # the scores
    more: dict[str, Any] = dataclasses.field(default_factory=dict)  # further parts of the JSON document, such as curves

    def document(self, release_id: str, target: str, note: str) -> dict[str, Any]:
        """Return the scores as a JSON document; ``note`` is a caution about the predictions, or empty."""
        return {
            "stamp": STAMP,
            "release_id": release_id,
            "target": target,
            **({"note": note} if note else {}),
            **{figure.key: _finite(figure.value) for figure in (*self.counts, *self.figures)},
            **self.more,
        }


def evaluate_bundle(
    contents: Bundle, data: str | Location, target: str | None, layout: dict[str, Any]
) -> tuple[str, str, Scores]:
    """Return the name of what is scored, a caution about the predictions (or ""), and the scores. NOT PRIVATE.

    For ``data`` and ``layout`` see ``NewRecords``; ``target`` is the variable of a network to predict. A model that
    neither predicts nor scores whole records is a ``SpecError``.
    """
    import numpy as np

    records = NewRecords(contents, data, layout)
    likelihood = records.likelihood()
    if likelihood is not None:
        return "all features", "", held_out_scores(likelihood)
    model = predictor(contents, target)
    blocks: list[tuple[Any, Any, Any]] = []

    def score(codes: Any, targets: Any) -> None:
        blocks.append((model.predict(codes), targets, model.log_densities(codes, targets)))

    # an empty block, in case DATA has no records
    score(np.empty((0, len(model.columns)), dtype=np.int64), np.empty(0))
    records.read_labeled(model, score)
    predicted, targets, densities = zip(*blocks, strict=True)
    density = None if densities[0] is None else np.concatenate(densities)
    scores = scores_of(model, predicted[0].joined(predicted[1:]), np.concatenate(targets), density)
    return model.name, model.note, scores


def scores_of(model: Predictor, predicted: Prediction, targets: Integers | Floats, densities: Floats | None) -> Scores:
    """Return the scores of predictions.

    Targets are class codes (-1 is missing) or numbers (NaN is missing). ``densities`` are the log predictive densities
    of the targets (NaN is missing); they are None if the model has none.
    """
    import numpy as np

    if isinstance(predicted, ClassProbabilities):
        return _of_probabilities(model, predicted, targets.astype(np.int64))
    if isinstance(predicted, ClassScores):
        return _of_scores(model, predicted, targets.astype(np.int64))
    if isinstance(predicted, NumberPrediction | PredictiveLaws):
        return _of_numbers(model, predicted, targets.astype(np.float64), densities)
    raise TypeError(f"no scores for {type(predicted).__name__}")


def held_out_scores(likelihood: HeldOutScore) -> Scores:
    """Return the likelihood of held-out records under a hidden Markov model."""
    counts = (
        Figure("records", likelihood.records),
        Figure("scored", likelihood.scored, "records scored"),
        Figure("without_place", likelihood.records - likelihood.scored, "no sequence/step"),
    )
    figures = (
        Figure("log_likelihood", likelihood.log_likelihood, "log likelihood", " nats per record, larger is better"),
        Figure("without_states", likelihood.without_states, "without states", " nats per record"),
    )
    return Scores(counts, figures)


def _of_probabilities(model: Predictor, predicted: ClassProbabilities, labels: Integers) -> Scores:
    from dpbayes_cli.inference.scores import Roc, class_scores, roc_curve

    scores = class_scores(predicted.values, labels)
    two = len(predicted.levels) == 2
    roc = roc_curve(predicted.values[:, 1], labels) if two else Roc(math.nan, ())
    majority = _majority(predicted.values.sum(axis=1), labels)
    calibrated = "the probability of the predicted class"
    if two:
        calibrated = f"the probability that {model.name} is {predicted.levels[1]}"
    figures = (
        *_accuracy(scores.accuracy, majority),
        Figure("log_score", scores.log_score, "log score", " nats per record, 0 is best"),
        Figure("brier", scores.brier, "Brier score", ", 0 is best"),
        Figure("calibration_error", scores.calibration_error, "calibration error"),
        _area(roc, model.name, predicted.levels),
    )
    curve = [{name: _finite(value) for name, value in dataclasses.asdict(each).items()} for each in scores.calibration]
    more = {"calibrated_for": calibrated, "calibration": curve, "roc": _points(roc)}
    return Scores(_counts(scores.n_scored, scores.n_unlabeled, scores.n_unpredicted), figures, more)


def _of_scores(model: Predictor, predicted: ClassScores, labels: Integers) -> Scores:
    import numpy as np

    from dpbayes_cli.inference.scores import roc_curve

    known = ~np.isnan(predicted.values)
    scored = known & (labels >= 0)
    right = (predicted.values[scored] > 0.0) == labels[scored]
    roc = roc_curve(predicted.values, labels)
    figures = (
        *_accuracy(float(right.mean()) if right.size else math.nan, _majority(predicted.values, labels)),
        _area(roc, model.name, predicted.levels),
    )
    counts = _counts(int(scored.sum()), int((labels < 0).sum()), int(((labels >= 0) & ~known).sum()))
    return Scores(counts, figures, {"roc": _points(roc)})


def _of_numbers(
    model: Predictor, predicted: NumberPrediction | PredictiveLaws, targets: Floats, densities: Floats | None
) -> Scores:
    import numpy as np

    from dpbayes_cli.inference.scores import number_scores

    scores = number_scores(predicted.values, targets)
    figures = [
        Figure("rmse", scores.rmse, "RMSE"),
        Figure("mae", scores.mae, "MAE"),
        Figure("r_squared", scores.r_squared, "R^2", ", 1 is best; the mean of these targets would score 0"),
        *_more_number_scores(model, predicted, targets),
    ]
    if densities is not None:
        known = densities[~np.isnan(densities)]
        mean = float(known.mean()) if len(known) else math.nan
        figures.append(Figure("log_density", mean, "log density", " nats per record, larger is better"))
    counts = _counts(scores.n_scored, scores.n_unlabeled, scores.n_unpredicted)
    column = model.columns[model.target]
    if isinstance(column, NumericColumn):
        beyond = int(((targets < column.lower) | (targets > column.upper)).sum())
        counts = (*counts, Figure("beyond_bounds", beyond, "beyond the bounds"))
    targets_are = "as they are in DATA, not clamped to the public bounds of the release"
    return Scores(counts, tuple(figures), {"targets": targets_are})


def _more_number_scores(
    model: Predictor, predicted: NumberPrediction | PredictiveLaws, targets: Floats
) -> Iterator[Figure]:
    from dpbayes_cli.inference.scores import interval_scores, quantile_scores

    if model.level is not None:
        level = model.level
        quantile = quantile_scores(predicted.values, targets, level)
        yield Figure("level", level)
        yield Figure("pinball_loss", quantile.pinball, "pinball loss", f" at level {level:g}, 0 is best")
        yield Figure("at_or_below", quantile.at_or_below, "at or below", f" of the targets; {level:g} is best")
    if isinstance(predicted, PredictiveLaws):
        ends = predicted.quantiles[:, 0], predicted.quantiles[:, -1]
        interval = interval_scores(*ends, targets)
        yield Figure("interval", COVERAGE)
        yield Figure("coverage", interval.coverage, "coverage", f" of the {COVERAGE:.0%} interval")
        yield Figure("mean_width", interval.width, "mean width", f" of the {COVERAGE:.0%} interval")


def _counts(scored: int, unlabeled: int, unpredicted: int) -> tuple[Figure, ...]:
    return (
        Figure("records", scored + unlabeled + unpredicted),
        Figure("scored", scored, "records scored"),
        Figure("without_label", unlabeled, "without label"),
        Figure("without_prediction", unpredicted, "without prediction"),
    )


def _accuracy(accuracy: float, majority: float) -> tuple[Figure, ...]:
    more = f" (the most frequent class: {majority:.4f})"
    return Figure("accuracy", accuracy, "accuracy", more), Figure("majority_accuracy", majority)


def _majority(known: Floats, labels: Integers) -> float:
    """Return the share of the most frequent class among the records that have a label and a prediction (not NaN)."""
    import numpy as np

    counts = np.bincount(labels[(labels >= 0) & ~np.isnan(known)])
    return float(counts.max() / counts.sum()) if counts.size else math.nan


def _area(roc: Roc, target: str, levels: Sequence[str]) -> Figure:
    return Figure("auc", roc.auc, "AUC", f" for {target} is {levels[1]}, 0.5 is chance")


def _points(roc: Roc) -> list[dict[str, float | None]]:
    return [{name: _finite(value) for name, value in dataclasses.asdict(point).items()} for point in roc.points]


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
