"""``dpbayes predict``: predict a column of new records; post-processing, without ledger or cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import emit, emit_json, output_options, printable, say
from dpbayes_cli.commands.request_flags import pop_document, request_options
from dpbayes_cli.spec.flags import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.core.predicted import Prediction
    from dpbayes_cli.core.predictor import Predictor


_CONFIDENTIAL = "predictions are about the records in DATA, and as confidential as these records"


@click.command("predict")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--target", metavar="NAME", help="Variable of a network to predict [the spec's target].")
@request_options(*LAYOUT)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the CSV here [standard output].")
@output_options
def command(bundle: Path, data: str, target: str | None, out: Path | None, as_json: bool, **flags: Any) -> None:
    """Predict a column of the records in DATA from BUNDLE: labels, probabilities, scores or numbers.

    \b
    dpbayes predict out/ new.csv > predicted.csv

    The result is a CSV with one line per record. Networks and logistic and probit regression predict a label and the
    probability of each class. svm predicts a label and a score, not a probability: it is above 0 for the second class.
    Regressions of a number predict it with its standard deviation and the ends of the central 90 % interval; Huber and
    quantile regression predict the number only.

    Predictions are averages over the posterior, or over its released draws, so they include its uncertainty. DATA need
    not have the predicted column. An invalid cell is replaced by its stand-in as in the release; without a stand-in, a
    network treats it as unknown, and a regression predicts nothing for the record.

    Predictions are about the records in DATA, and as confidential as these records.
    """
    import numpy as np

    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target, publish_file
    from dpbayes_cli.prediction.from_bundle import predictor
    from dpbayes_cli.prediction.records import read_codes

    if out is not None:
        check_target(out)
    contents = read_bundle(bundle)
    model = predictor(contents, target)
    layout = pop_document(flags).get("source", {})
    say(_CONFIDENTIAL)
    if model.note:
        say(printable(model.note))
    empty = model.predict(np.empty((0, len(model.columns)), dtype=np.int64))
    header = ["record", *empty.header(model.name)]
    if out is None and not as_json:
        waiting, count = [header], [0]  # the header waits: a file that cannot be read prints nothing

        def print_block(codes: Integers) -> None:
            emit(_lines([*waiting, *_rows(model.predict(codes), count[0])]), nl=False)
            waiting.clear()
            count[0] += len(codes)

        read_codes(contents, model, data, layout, take=print_block)
        if waiting:
            emit(_lines(waiting), nl=False)
        return
    blocks: list[Prediction] = []
    read_codes(contents, model, data, layout, take=lambda codes: blocks.append(model.predict(codes)))
    predicted = empty.joined(blocks)
    if out is not None:
        publish_file(out, _lines([header, *_rows(predicted, 0)]).encode("utf-8"))
        say(f"wrote {len(predicted)} predictions to {out}")
    if as_json:
        emit_json(_document(contents.document.release_id, model, predicted, out))


def _document(release_id: str, model: Predictor, predicted: Prediction, out: Path | None) -> dict[str, Any]:
    return {
        "release_id": release_id,
        "target": model.name,
        **({} if predicted.classes is None else {"classes": list(predicted.classes)}),
        "draws": len(model.draws),
        "about": _CONFIDENTIAL,
        **({"note": model.note} if model.note else {}),
        "out": None if out is None else str(out),
        "predictions": predicted.documents(),
    }


def _rows(predicted: Prediction, first: int) -> Iterator[list[str]]:
    for i, row in enumerate(predicted.rows()):
        yield [str(first + i + 1), *row]


def _lines(rows: Any) -> str:
    from dpbayes_cli.base.csv_escape import csv_text

    return csv_text(rows)
