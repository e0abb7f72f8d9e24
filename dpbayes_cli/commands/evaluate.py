"""``dpbayes evaluate``: score the predictions of a release on labeled records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.options import bundle_argument
from dpbayes_cli.commands.output import emit_json, output_options
from dpbayes_cli.commands.request_command import pop_document, request_options, target_option
from dpbayes_cli.spec.request_flags import LAYOUT


@click.command("evaluate")
@bundle_argument
@click.argument("data")
@target_option
@request_options(*LAYOUT)
@output_options
def command(bundle: Path, data: str, target: str | None, as_json: bool, **flags: Any) -> None:
    """Score the predictions of BUNDLE on the records in DATA, which hold the true values. NOT PRIVATE.

    \b
    dpbayes evaluate out/ test.csv

    If the target is a class, the scores are accuracy, log score, Brier score and calibration. With two classes, the ROC
    curve (as points in the JSON document) and the area under it are added. svm predicts no probabilities: it gets
    accuracy and the ROC curve only.

    If the target is a number, the scores are RMSE, MAE, and R^2 against the mean of the true values in DATA. Quantile
    regression gets the pinball loss too, and the share of true values at or below the prediction. A model with
    predictive distributions gets the log density, and coverage and width of the 90 % intervals. True values are taken
    as they are in DATA, not clamped to the bounds of the release.

    A hidden Markov model gets the log likelihood of new records in the sequences of the release; each record is
    predicted from the posterior of the hidden state at its sequence and step.

    The scores are exact statistics of DATA, and no budget pays for them: they are NOT PRIVATE unless DATA is public.
    """
    import numpy as np

    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.commands.evaluation import held_out_scores, scores_of
    from dpbayes_cli.prediction.from_bundle import held_out, predictor
    from dpbayes_cli.prediction.records import read_labeled

    layout = pop_document(flags).get("source", {})
    contents = read_bundle(bundle)
    likelihood = held_out(contents, data, layout)
    if likelihood is not None:
        name, note, scores = "all features", "", held_out_scores(likelihood)
    else:
        model = predictor(contents, target)
        blocks: list[tuple[Any, Any, Any]] = []

        def score(codes: Any, targets: Any) -> None:
            blocks.append((model.predict(codes), targets, model.log_densities(codes, targets)))

        score(np.empty((0, len(model.columns)), dtype=np.int64), np.empty(0))  # DATA may have no records
        read_labeled(contents, model, data, layout, take=score)
        predicted, targets, densities = zip(*blocks, strict=True)
        density = None if densities[0] is None else np.concatenate(densities)
        name, note = model.name, model.note
        scores = scores_of(model, predicted[0].joined(predicted[1:]), np.concatenate(targets), density)
    if as_json:
        emit_json(scores.document(contents.document.release_id, name, note))
    else:
        scores.show(name, note)
