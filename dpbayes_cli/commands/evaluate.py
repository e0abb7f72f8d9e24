"""``dpbayes evaluate``: score the predictions of a release on labeled records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.output import emit_json, output_options
from dpbayes_cli.commands.request_flags import pop_document, request_options
from dpbayes_cli.spec.flags import LAYOUT


@click.command("evaluate")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--target", metavar="NAME", help="Variable of a network to predict [the spec's target].")
@request_options(*LAYOUT)
@output_options
def command(bundle: Path, data: str, target: str | None, as_json: bool, **flags: Any) -> None:
    """Score the predictions of BUNDLE on the labeled records in DATA: accuracy, calibration and ROC, or errors.

    \b
    dpbayes evaluate out/ test.csv

    Predicted classes: accuracy, log score, Brier score and calibration; for two classes also the ROC curve (its points
    with --json) and the area under it. svm predicts scores, not probabilities: accuracy and ROC only.

    Predicted numbers: RMSE, MAE, and R^2 against the mean of these targets. Quantiles: pinball loss, and the share of
    targets at or below. Predictive distributions: log density, and coverage and width of the 90 % intervals. Targets
    are compared as they are in DATA, not clamped to the public bounds of the release.

    Hidden Markov model: the log likelihood of all features of held-out records, by the state of their sequence at their
    step.

    The scores are exact statistics of DATA, and no budget pays for them: they are NOT PRIVATE unless DATA is public.
    """
    import numpy as np

    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.commands.evaluation import evaluation_of, held_out_evaluation, show
    from dpbayes_cli.prediction.from_bundle import held_out, predictor
    from dpbayes_cli.prediction.records import read_labeled

    layout = pop_document(flags).get("source", {})
    contents = read_bundle(bundle)
    release_id = contents.document.release_id
    likelihood = held_out(contents, data, layout)
    if likelihood is not None:
        evaluation = held_out_evaluation(release_id, likelihood)
        emit_json(evaluation.document) if as_json else show(evaluation)
        return
    model = predictor(contents, target)
    no_codes, no_targets = np.empty((0, len(model.columns)), dtype=np.int64), np.empty(0)
    predicted, targets = [], [no_targets]
    first = model.log_densities(no_codes, no_targets)
    densities = None if first is None else [first]

    def score(codes: Any, block: Any) -> None:
        predicted.append(model.predict(codes))
        targets.append(block)
        density = model.log_densities(codes, block)
        if densities is not None and density is not None:
            densities.append(density)

    read_labeled(contents, model, data, layout, take=score)
    evaluation = evaluation_of(
        release_id,
        model,
        model.predict(no_codes).joined(predicted),
        np.concatenate(targets),
        None if densities is None else np.concatenate(densities),
    )
    if as_json:
        emit_json(evaluation.document)
    else:
        show(evaluation)
