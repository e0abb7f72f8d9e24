"""``dpbayes evaluate``: how good the predictions of a release are on labelled records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpbayes_cli.commands.output import emit_json, output_options
from dpbayes_cli.commands.request_flags import request_options, stated
from dpbayes_cli.spec.flags import LAYOUT


@click.command("evaluate")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--target", metavar="NAME", help="Of a network: the variable to predict [the spec's target].")
@request_options(*LAYOUT)
@output_options
def command(bundle: Path, data: str, target: str | None, as_json: bool, **flags: Any) -> None:
    """Score the predictions of BUNDLE on the labelled records in DATA: accuracy, calibration, ROC; or errors.

    \b
    dpbayes evaluate out/ test.csv

    Of classes: accuracy, log score, Brier score, calibration and, of two, the ROC curve (its points with --json) and
    the area under it; of svm, whose scores are no probabilities, accuracy and ROC. Of numbers: RMSE, MAE and R^2
    against the mean of these targets; of quantiles the pinball loss and the share of targets at or below; of predictive
    laws the coverage and width of their 90 % intervals and the log density. Targets are compared as they are in DATA,
    not clamped to the public bounds of the release. Of a hidden Markov model: the log likelihood of all features of
    held-out records, by the state of their sequence at their step.

    The scores are exact statistics of DATA: they are NOT PRIVATE unless DATA is public, and no budget pays for them.
    """
    import numpy as np

    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.commands.evaluation import evaluation_of, held_out_evaluation, show
    from dpbayes_cli.prediction.from_bundle import held_out, predictor
    from dpbayes_cli.prediction.records import read_labeled

    layout = stated(flags).get("source", {})
    kept = read_bundle(bundle)
    release_id = kept.document.release_id
    likely = held_out(kept, data, layout)
    if likely is not None:
        whole = held_out_evaluation(release_id, likely)
        emit_json(whole.document) if as_json else show(whole)
        return
    found = predictor(kept, target)
    nobody, nothing = np.empty((0, len(found.columns)), dtype=np.int64), np.empty(0)
    predicted, targets = [], [nothing]
    first = found.log_densities(nobody, nothing)
    densities = None if first is None else [first]

    def score(codes: Any, block: Any) -> None:
        predicted.append(found.predict(codes))
        targets.append(block)
        density = found.log_densities(codes, block)
        if densities is not None and density is not None:
            densities.append(density)

    read_labeled(kept, found, data, layout, take=score)
    evaluation = evaluation_of(
        release_id,
        found,
        found.predict(nobody).joined(predicted),
        np.concatenate(targets),
        None if densities is None else np.concatenate(densities),
    )
    if as_json:
        emit_json(evaluation.document)
    else:
        show(evaluation)
