"""Neighbouring data sets that a mechanism can tell apart as well as any: made up, written to files, and read as others.

The records that differ are those that attain the sensitivity, where there is a statistic; else the ends of the domain.
The others are all alike, or half and half: where posteriors are narrow at an end, one record moves them most.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from dpbayes_cli.columns import AnyColumn, Column, CutColumn
from dpbayes_cli.convex_loss import ConvexLossModel
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.question import Question, opened_source
from dpbayes_cli.release import read_evidence
from dpbayes_cli.sources.location import locate
from dpbayes_cli.spec.release_spec import ReleaseSpec
from dpbayes_cli.statistic import Cells, Statistics

_OF_ONE_COLUMN = ("x", "value")


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets as the question reads them.

    Attributes:
        described: what they are, in words.
        one, other: the exact evidence of each.
    """

    described: str
    one: Statistics
    other: Statistics


def pairs(question: Question, n_records: int, directory: Path) -> list[Pair]:
    """Return pairs of neighbouring data sets, read by the embedded engine from files of their own.

    Args:
        question: what is asked; its spec names the layout.
        n_records: how many records each has; under add-remove the larger one.
        directory: where the files are written; they hold no person.
    """
    found = []
    for described, record, neighbor in _changes(question):
        bases = [("all others like the one", [record]), ("all others like the other", [neighbor])]
        if record is not None and neighbor is not None:
            bases.append(("half of the others like each", [record, neighbor]))
        for base, like in bases:
            if None in like:
                continue
            others = [like[i % len(like)] for i in range(n_records - 1)]
            one, other = (
                _read(question, [cells for cells in (changed, *others) if cells is not None], directory)
                for changed in (record, neighbor)
            )
            found.append(Pair(f"{described}, {base}", one, other))
    return found


def _changes(question: Question) -> Iterator[tuple[str, Cells | None, Cells | None]]:
    """Yield the records in which neighbours differ; None is none."""
    statistic, model, policy = question.plan.steps[0].statistic, question.model, question.spec.policy
    if statistic.sensitivity_l1:
        witnesses = [("the pair that attains the L1 sensitivity", statistic.witness)]
        if statistic.witness_l2 is not None:
            witnesses.append(("the pair that attains the L2 sensitivity", statistic.witness_l2))
        for described, witness in witnesses:
            yield described, witness.record, witness.neighbor
        return
    low, high = (tuple(_end(column, last=last) for column in model.columns) for last in (False, True))
    if policy.neighbors is Neighbors.ADD_REMOVE:
        yield "a record at an end of the domain, or none", high, None
        return
    yield "records at both ends of the domain", high, low
    if isinstance(model, ConvexLossModel):  # the same features and another target: gradients that point apart
        yield "records that differ in the target", high, (*high[:-1], low[-1])


def _end(column: AnyColumn, *, last: bool) -> str:
    """Return a valid cell at an end of a column's domain."""
    if isinstance(column, Column):
        return column.levels[-1 if last else 0]
    if isinstance(column, CutColumn):
        return repr(column.cuts[-1] if last else min(column.cuts) - 1.0)
    return column.cell(1.0 if last else 0.0)


def _read(question: Question, records: list[Cells], directory: Path) -> Statistics:
    """Write records to a file, and read it as the question reads any other."""
    model, spec = question.model, question.spec
    spec = _plain(spec)
    names = [str(name) for name in model.column_names or (spec.column,)]
    most = 1 if spec.privacy.unit is None else spec.privacy.unit.max_contributions
    path = directory / "records.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        owned = spec.privacy.unit is not None and spec.privacy.unit.column not in names
        writer.writerow([*names, *([spec.privacy.unit.column] if spec.privacy.unit is not None and owned else [])])
        for i, cells in enumerate(records):
            writer.writerows([[*cells, *([str(i)] if owned else [])]] * most)
    location = locate(str(path))
    with closing(opened_source(spec, location, model)) as source:
        return read_evidence(replace(question, spec=spec, location=location), source)


def _plain(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a spec that reads a comma-separated file with a header, by the embedded engine."""
    import msgspec

    column = spec.column
    if column is None and not spec.build_model().column_names:
        unit = spec.privacy.unit
        column = next(name for name in _OF_ONE_COLUMN if unit is None or name != unit.column)
    return msgspec.structs.replace(spec, source=type(spec.source)(), records=None, column=column)
