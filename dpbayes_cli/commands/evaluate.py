"""``dpbayes evaluate``: how good the predictions of a released network are on labelled records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.options import LAYOUT_KEYS, question_options, stated
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options

if TYPE_CHECKING:
    from dpbayes_cli.inference.scores import Scores
    from dpbayes_cli.prediction import Predictor

_STAMP = "NOT PRIVATE unless the records it was computed from are public"


@click.command("evaluate")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--target", metavar="NAME", help="The variable to predict [the spec's target].")
@question_options(*LAYOUT_KEYS)
@output_options
def command(bundle: Path, data: str, target: str | None, as_json: bool, **flags: Any) -> None:
    """Score the predictions of BUNDLE on the labelled records in DATA: accuracy, log score, calibration.

    \b
    dpbayes evaluate out/ test.csv

    The scores are exact statistics of DATA: they are NOT PRIVATE unless DATA is public, and no budget pays for them.
    """
    import numpy as np

    from dpbayes_cli.inference.scores import scores_of
    from dpbayes_cli.prediction import predictor, read_codes

    found = predictor(bundle, target)
    probabilities, labels = [np.empty((0, len(found.classes)))], [np.empty(0, dtype=np.int64)]

    def score(codes: Any) -> None:
        probabilities.append(found.probabilities(codes))
        labels.append(codes[:, found.target])

    read_codes(found, data, stated(flags).get("source", {}), labelled=True, take=score)
    predicted, truth = np.concatenate(probabilities), np.concatenate(labels)
    scores = scores_of(predicted, truth)
    counts = np.bincount(truth[(truth >= 0) & ~np.isnan(predicted).any(axis=1)])
    majority = float(counts.max() / counts.sum()) if counts.size else math.nan
    if as_json:
        emit_json(_document(found, scores, majority))
    else:
        _show(found, scores, majority)


def _document(found: Predictor, scores: Scores, majority: float) -> dict[str, Any]:
    return {
        "stamp": _STAMP,
        "release_id": found.document.release_id,
        "target": found.name,
        "records": scores.n_scored + scores.n_unlabelled + scores.n_unpredicted,
        "scored": scores.n_scored,
        "without_label": scores.n_unlabelled,
        "without_prediction": scores.n_unpredicted,
        "accuracy": _finite(scores.accuracy),
        "majority_accuracy": _finite(majority),
        "log_score": _finite(scores.log_score),
        "brier": _finite(scores.brier),
        "calibration_error": _finite(scores.calibration_error),
        "calibrated_for": _calibrated(found),
        "calibration": [
            {
                "low": each.low,
                "high": each.high,
                "count": each.count,
                "mean_predicted": _finite(each.mean_predicted),
                "observed": _finite(each.observed),
            }
            for each in scores.calibration
        ],
    }


def _show(found: Predictor, scores: Scores, majority: float) -> None:
    emit(_STAMP)
    emit(f"{'target':18} {found.name}")
    emit(f"{'records scored':18} {scores.n_scored}")
    for name, count in (("without label", scores.n_unlabelled), ("without prediction", scores.n_unpredicted)):
        if count:
            emit(f"{name:18} {count}")
    if not scores.n_scored:
        return
    emit(f"{'accuracy':18} {scores.accuracy:.4f} (the most frequent class: {majority:.4f})")
    emit(f"{'log score':18} {scores.log_score:.4f} nats a record, 0 is best")
    emit(f"{'Brier score':18} {scores.brier:.4f}, 0 is best")
    emit(f"{'calibration error':18} {scores.calibration_error:.4f}")
    emit(f"calibration of {_calibrated(found)}:")
    rows = [
        [f"{each.low:.1f} to {each.high:.1f}", str(each.count), f"{each.mean_predicted:.4f}", f"{each.observed:.4f}"]
        for each in scores.calibration
        if each.count
    ]
    emit_table(["predicted", "records", "mean predicted", "observed"], rows)


def _calibrated(found: Predictor) -> str:
    if len(found.classes) == 2:
        return f"the probability that {found.name} is {found.classes[1]}"
    return "the probability of the predicted class"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
