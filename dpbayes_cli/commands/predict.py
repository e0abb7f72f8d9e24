"""``dpbayes predict``: what a release says about new records; post-processing, without ledger or cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import emit, emit_json, output_options, printable, say
from dpbayes_cli.commands.request_flags import request_options, stated
from dpbayes_cli.spec.flags import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.core.predicted import Prediction
    from dpbayes_cli.core.predictor import Predictor


_CONFIDENTIAL = "predictions are about the records in DATA, and as confidential as they are"


@click.command("predict")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--target", metavar="NAME", help="Of a network: the variable to predict [the spec's target].")
@request_options(*LAYOUT)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the CSV here [standard output].")
@output_options
def command(bundle: Path, data: str, target: str | None, out: Path | None, as_json: bool, **flags: Any) -> None:
    """Predict a column of the records in DATA from BUNDLE: labels, probabilities, scores or numbers, one line a record.

    \b
    dpbayes predict out/ new.csv > predicted.csv

    Networks, logistic and probit regression give a label and the probability of each class; svm a label and a score,
    above 0 for the second class, which is no probability; regressions of a number that number, with standard deviation
    and ends of the central 90 % interval where the model has a predictive law: Huber and quantile regression have none.

    Predictions are averaged over the posterior, or over the released draws of it, so that probabilities know how
    uncertain it is. The column that is predicted need not be in DATA; a cell without a valid value counts as in the
    release. Where nothing stands for it, a network leaves it open, and a regression predicts nothing for the record.
    What is printed is about the records in DATA, and as confidential as they are.
    """
    import numpy as np

    from dpbayes_cli.bundle.read import read_bundle
    from dpbayes_cli.bundle.write import check_target, publish_file
    from dpbayes_cli.prediction.from_bundle import predictor
    from dpbayes_cli.prediction.records import read_codes

    if out is not None:
        check_target(out)
    kept = read_bundle(bundle)
    found = predictor(kept, target)
    layout = stated(flags).get("source", {})
    say(_CONFIDENTIAL)
    if found.note:
        say(printable(found.note))
    empty = found.predict(np.empty((0, len(found.columns)), dtype=np.int64))
    header = ["record", *empty.header(found.name)]
    if out is None and not as_json:
        waiting, count = [header], [0]  # nothing is printed of a file that cannot be read

        def print_block(codes: Integers) -> None:
            emit(_lines([*waiting, *_rows(found.predict(codes), count[0])]), nl=False)
            waiting.clear()
            count[0] += len(codes)

        read_codes(kept, found, data, layout, take=print_block)
        if waiting:
            emit(_lines(waiting), nl=False)
        return
    blocks: list[Prediction] = []
    read_codes(kept, found, data, layout, take=lambda codes: blocks.append(found.predict(codes)))
    predicted = empty.joined(blocks)
    if out is not None:
        publish_file(out, _lines([header, *_rows(predicted, 0)]).encode("utf-8"))
        say(f"wrote {len(predicted)} predictions to {out}")
    if as_json:
        emit_json(_document(kept.document.release_id, found, predicted, out))


def _document(release_id: str, found: Predictor, predicted: Prediction, out: Path | None) -> dict[str, Any]:
    return {
        "release_id": release_id,
        "target": found.name,
        **({} if predicted.classes is None else {"classes": list(predicted.classes)}),
        "draws": len(found.draws),
        "about": _CONFIDENTIAL,
        **({"note": found.note} if found.note else {}),
        "out": None if out is None else str(out),
        "predictions": predicted.documents(),
    }


def _rows(predicted: Prediction, first: int) -> Iterator[list[str]]:
    """Yield the lines of a block, each with the record's number."""
    for i, row in enumerate(predicted.rows()):
        yield [str(first + i + 1), *row]


def _lines(rows: Any) -> str:
    from dpbayes_cli.base.csv_escape import csv_text

    return csv_text(rows)
