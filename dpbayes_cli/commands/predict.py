"""``dpbayes predict``: predict a column of new records from a bundle; this is post-processing and costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.commands.options import PATH, bundle_argument
from dpbayes_cli.commands.output import emit_document, emit_json, output_options, printable, say
from dpbayes_cli.commands.request_command import pop_document, request_options, target_option
from dpbayes_cli.spec.request_flags import LAYOUT

if TYPE_CHECKING:
    from dpbayes_cli.bundle.read import Bundle
    from dpbayes_cli.core.predicted import Prediction

_CONFIDENTIAL = "the predictions are as confidential as the records that they describe"


@click.command("predict")
@bundle_argument
@click.argument("data", required=False)
@target_option
@request_options("prior", *LAYOUT)
@click.option("--out", type=PATH, metavar="FILE", help="Write the CSV here [standard output].")
@output_options
def command(bundle: Path, data: str | None, target: str | None, out: Path | None, as_json: bool, **flags: Any) -> None:
    """Predict a column of the records in DATA from BUNDLE.

    \b
    dpbayes predict out/ new.csv > predicted.csv
    dpbayes predict out/ new.csv --prior concentration=5

    The result is a CSV file with one line per record. Bayesian networks, logistic and probit regression predict a label
    and the probability of each class. svm predicts a label and a score, not a probability: the label is the second
    class if the score is above 0. If a regression has a numeric target, it predicts a number, its standard deviation
    and the ends of its central 90 % interval; Huber and quantile regression predict the number only.

    Predictions average over the posterior or its released draws, so they take account of the uncertainty of the
    parameters. With --prior, they use the posterior under this prior, which costs nothing. DATA need not have the
    predicted column. An invalid cell is replaced by its stand-in value as in the release; without a stand-in, a network
    treats it as unknown, and a regression predicts nothing for the record.

    A bundle of groups predicts the value of a record from the key of its group; a key that is not listed stands for a
    new group. Without DATA, the result has one line per group, with the posterior of its parameters and the prediction
    for a record of the group. The last line, whose key is empty, is about a group that is not listed.

    Predictions are about the records in DATA, and as confidential as these records.
    """
    import numpy as np

    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target, publish_file
    from dpbayes_cli.prediction.records import NewRecords, predictor
    from dpbayes_cli.workflow.inferring import infer_again

    if out is not None:
        check_target(out)
    contents = read_bundle(bundle)
    changes = pop_document(flags)
    if data is None:
        _predict_groups(contents, changes, target, out, as_json)
        return
    records = NewRecords(contents, data, changes.pop("source", {}))
    model = predictor(contents, target, infer_again(contents, changes).analysis if changes else None)
    say(_CONFIDENTIAL)
    if model.note:
        say(printable(model.note))
    empty = model.predict(np.empty((0, len(model.columns)), dtype=np.int64))
    header = ["record", *empty.header(model.name)]
    if out is None and not as_json:
        waiting, count = [header], 0  # the header waits: a file that cannot be read prints nothing

        def print_block(codes: Integers) -> None:
            nonlocal count
            emit_document(csv_text([*waiting, *_rows(model.predict(codes), count)]))
            waiting.clear()
            count += len(codes)

        records.read_codes(model, print_block)
        if waiting:
            emit_document(csv_text(waiting))
        return
    predicted = records.predictions(model)
    if out is not None:
        publish_file(out, csv_text([header, *_rows(predicted, 0)]).encode("utf-8"))
        say(f"wrote {len(predicted)} predictions to {out}")
    if as_json:
        emit_json(
            {
                "release_id": contents.document.release_id,
                "target": model.name,
                **({} if predicted.classes is None else {"classes": list(predicted.classes)}),
                "draws": len(model.draws),
                "about": _CONFIDENTIAL,
                **({"note": model.note} if model.note else {}),
                "out": None if out is None else str(out),
                "predictions": predicted.documents(),
            }
        )


def _predict_groups(
    contents: Bundle, changes: dict[str, Any], target: str | None, out: Path | None, as_json: bool
) -> None:
    from dpbayes_cli.bundle.write import publish_file
    from dpbayes_cli.core.section import require_type
    from dpbayes_cli.prediction.group_predictions import GroupPredictor
    from dpbayes_cli.prediction.records import predictor
    from dpbayes_cli.workflow.inferring import infer_again

    if contents.spec.by is None or changes.pop("source", None):
        raise click.UsageError("name the DATA to predict; only a bundle of groups predicts without them")
    again = infer_again(contents, changes).analysis if changes else None
    model = require_type(predictor(contents, target, again), GroupPredictor)
    table = csv_text([model.header(), *model.rows()])
    if out is not None:
        publish_file(out, table.encode("utf-8"))
        say(f"wrote {len(model.keys)} predictions to {out}")
    if as_json:
        parts: dict[str, Any] = {"release_id": contents.document.release_id, "target": model.name}
        classes = model.outcomes.classes
        parts |= {} if classes is None else {"classes": list(classes)}
        emit_json({**parts, "out": None if out is None else str(out), "groups": model.documents()})
    elif out is None:
        emit_document(table)


def _rows(predicted: Prediction, before: int) -> Iterator[list[str]]:
    """Yield the rows of the CSV file, numbered from ``before + 1``."""
    for number, row in enumerate(predicted.rows(), before + 1):
        yield [str(number), *row]
