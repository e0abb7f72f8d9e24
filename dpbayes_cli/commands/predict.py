"""``dpbayes predict``: what a released network says about new records; post-processing, without ledger or cost."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.options import LAYOUT_KEYS, question_options, stated
from dpbayes_cli.commands.output import emit, emit_json, output_options, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpbayes_cli.numeric import Floats, Integers
    from dpbayes_cli.prediction import Predictor


_CONFIDENTIAL = "predictions are about the records in DATA, and as confidential as they are"


@click.command("predict")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("data")
@click.option("--target", metavar="NAME", help="The variable to predict [the spec's target].")
@question_options(*LAYOUT_KEYS)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the CSV here [standard output].")
@output_options
def command(bundle: Path, data: str, target: str | None, out: Path | None, as_json: bool, **flags: Any) -> None:
    """Predict a column of the records in DATA from BUNDLE: labels and class probabilities, one line a record.

    \b
    dpbayes predict out/ new.csv > predicted.csv

    Probabilities are averaged over the posterior, so that they know how uncertain it is. The column that is predicted
    need not be in DATA; a cell without a valid value counts as in the release, or is left open. What is printed is
    about the records in DATA, and as confidential as they are.
    """
    import numpy as np

    from dpbayes_cli.bundle.write import check_target, new_file
    from dpbayes_cli.prediction import predictor, read_codes

    if out is not None:
        check_target(out)
    found = predictor(bundle, target)
    layout = stated(flags).get("source", {})
    say(_CONFIDENTIAL)
    if out is None and not as_json:
        waiting, count = [_header(found)], [0]  # nothing is printed of a file that cannot be read

        def print_block(codes: Integers) -> None:
            emit(_lines([*waiting, *_rows(found, found.probabilities(codes), count[0])]), nl=False)
            waiting.clear()
            count[0] += len(codes)

        read_codes(found, data, layout, labelled=False, take=print_block)
        if waiting:
            emit(_lines(waiting), nl=False)
        return
    blocks: list[Floats] = []
    read_codes(found, data, layout, labelled=False, take=lambda codes: blocks.append(found.probabilities(codes)))
    probabilities = np.concatenate(blocks) if blocks else np.empty((0, len(found.classes)))
    if out is not None:
        new_file(out, _lines([_header(found), *_rows(found, probabilities, 0)]).encode("utf-8"))
        say(f"wrote {len(probabilities)} predictions to {out}")
    if as_json:
        emit_json(
            {
                "release_id": found.document.release_id,
                "target": found.name,
                "classes": list(found.classes),
                "draws": len(found.draws),
                "about": _CONFIDENTIAL,
                "out": None if out is None else str(out),
                "predictions": [
                    {"label": label or None, "probabilities": [None if np.isnan(p) else float(p) for p in row]}
                    for label, row in zip(_labels(found, probabilities), probabilities, strict=True)
                ],
            }
        )


def _header(found: Predictor) -> list[str]:
    return ["record", found.name, *(f"p[{found.name}={level}]" for level in found.classes)]


def _rows(found: Predictor, probabilities: Floats, first: int) -> Iterator[list[str]]:
    """Yield the lines of a block: the record's number, its label, the probability of each class."""
    for i, (label, row) in enumerate(zip(_labels(found, probabilities), probabilities.tolist(), strict=True)):
        yield [str(first + i + 1), label, *("" if p != p else f"{p:.6g}" for p in row)]  # noqa: PLR0124 - not a number


def _labels(found: Predictor, probabilities: Floats) -> list[str]:
    """Return the most probable class of each record, an empty text where it is not known."""
    import numpy as np

    known = ~np.isnan(probabilities).any(axis=1)
    best = np.where(known, np.nan_to_num(probabilities).argmax(axis=1), -1)
    return [found.classes[k] if k >= 0 else "" for k in best.tolist()]


def _lines(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
