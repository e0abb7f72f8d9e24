"""``dpbayes evaluate``: score the predictions of a release on labeled records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.options import bundle_argument
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options, printable
from dpbayes_cli.commands.request_command import pop_document, request_options, target_option
from dpbayes_cli.spec.request_flags import LAYOUT

if TYPE_CHECKING:
    from dpbayes_cli.prediction.record_scores import Scores


@click.command("evaluate")
@bundle_argument
@click.argument("data")
@target_option
@request_options(*LAYOUT)
@output_options
def command(bundle: Path, data: str, target: str | None, as_json: bool, **flags: Any) -> None:
    """Compare the predictions of BUNDLE with the true values in DATA. The scores are NOT PRIVATE.

    \b
    dpbayes evaluate out/ test.csv

    For a target with classes, the scores are accuracy, log score, Brier score and calibration; for two classes, also
    the ROC curve (its points are in the JSON document) and the area under it. svm predicts no probabilities, so its
    scores are accuracy and the ROC curve.

    For a numeric target, the scores are RMSE, MAE, and R^2 against the mean of the true values in DATA; for quantile
    regression, also the pinball loss and the share of true values at or below the prediction; for models with
    predictive distributions, also the log density, and the coverage and width of the 90 % intervals. True values are
    not clamped to the bounds of the release.

    For a hidden Markov model, the score is the log likelihood of new records in the sequences of the release; each
    record is predicted from the posterior of the hidden state at its sequence and step.

    The scores are exact statistics of DATA and are not charged to any budget: publish them only if DATA is public.
    """
    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.prediction.record_scores import evaluate_bundle

    contents = read_bundle(bundle)
    name, note, scores = evaluate_bundle(contents, data, target, pop_document(flags).get("source", {}))
    if as_json:
        emit_json(scores.document(contents.document.release_id, name, note))
    else:
        _show(scores, name, note)


def _show(scores: Scores, target: str, note: str) -> None:
    from dpbayes_cli.prediction.record_scores import STAMP

    emit(STAMP)
    emit(f"{'target':18} {target}")
    if note:
        emit(f"{'note':18} {printable(note)}")
    for figure in scores.counts:
        if figure.label and (figure.value or figure.key == "scored"):
            emit(figure.line)
    if not any(figure.value for figure in scores.counts if figure.key == "scored"):
        return
    for figure in scores.figures:
        if figure.label and math.isfinite(figure.value):
            emit(figure.line)
    if scores.more.get("calibration"):
        emit(f"calibration of {scores.more['calibrated_for']}:")
        rows = [
            [
                f"{b['low']:.1f} to {b['high']:.1f}",
                str(b["count"]),
                f"{b['mean_predicted']:.4f}",
                f"{b['observed']:.4f}",
            ]
            for b in scores.more["calibration"]
            if b["count"]
        ]
        emit_table(["predicted", "records", "mean predicted", "observed"], rows)
