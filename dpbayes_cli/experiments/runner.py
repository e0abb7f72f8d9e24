"""Compute the points of a study that its directory lacks, in one or several processes, and write the study's files.

The file of a finished point is named by the digest of all inputs that determine the results. A killed run can
therefore be resumed, and after a change of the study only the points that changed are computed again.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dpbayes_cli.base.atomic_file import locked_directory, sync
from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.csv_escape import csv_text
from dpbayes_cli.base.errors import DpbayesError, OutputError, SpecError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.plots import figure_files
from dpbayes_cli.experiments.results import (
    Claim,
    GridPoint,
    PointOutcome,
    Result,
    Results,
    differences_in_words,
    in_words,
)
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.spec.yaml_reader import read_spec_file

Progress = Callable[[GridPoint, float, int, int], None]
"""A function that is called with a point, its seconds, the number of finished points, and the number of all points."""
_STUDY, _CELLS = "study.yaml", "cells"


class FinishedPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of a finished point's file; see ``GridPoint`` and ``PointOutcome``."""

    stamp: str = NOT_PRIVATE
    definition: dict[str, Any]
    measures: dict[str, float | None]
    trials: dict[str, list[float]]
    seconds: float


def run_study(study: Study, directory: Path, jobs: int, progress: Progress) -> Results:
    """Compute the points that a study's directory lacks, by ``jobs`` processes, and return all results."""
    grid = study.grid()
    if not grid:
        message = "there is nothing to compute: none of the methods can be run at the stated epsilons"
        raise SpecError(message, where="methods")
    _open_directory(directory, study)
    parts = [study.parts(point) for point in grid]
    in_turn = [part for parts_in_turn in zip_longest(*parts) for part in parts_in_turn if part]  # first parts first
    finished = {part.digest: stored for part in in_turn if (stored := _finished(directory, part)) is not None}
    missing = list({part.digest: part for part in in_turn if part.digest not in finished}.values())
    total = len(finished) + len(missing)
    for part, computed in _computed(study, missing, jobs):
        _write_whole(_file(directory, part), msgspec.json.encode(computed) + b"\n")
        finished[part.digest] = computed
        progress(part, computed.seconds, len(finished), total)
    return Results(
        Result(point, *_joined(study, [finished[part.digest] for part in own]))
        for point, own in zip(grid, parts, strict=True)
    )


def compute(study: Study, point: GridPoint) -> FinishedPoint:
    """Compute one point of a study."""
    start = time.perf_counter()
    outcome = study.run(point)
    return FinishedPoint(
        definition=dict(point.definition),
        measures=dict(outcome.measures),
        trials={name: values.tolist() for name, values in outcome.trials.items()},
        seconds=round(time.perf_counter() - start, 3),
    )


def _joined(study: Study, parts: list[FinishedPoint]) -> tuple[Mapping[str, float | None], dict[str, list[float]]]:
    """Return the measures and trials of a point from those of its parts."""
    if len(parts) == 1:
        return parts[0].measures, parts[0].trials
    trials = {name: [value for part in parts for value in part.trials[name]] for name in parts[0].trials}
    arrays = {name: np.array(values) for name, values in trials.items()}
    return PointOutcome.averaged(arrays, study.by_trial).measures, trials


def publish(directory: Path, study: Study, results: Results, formats: Sequence[str] = ("svg",)) -> list[str]:
    """Write the files of a study that has run, and return their names; equal results give equal files."""
    rows, figures = result_rows(study, results), figure_files(study.figures(results), formats)
    files = {"results.csv": _stamped_csv(rows[0], (row.values() for row in rows))}
    if study.unit:
        trials = (
            (*(each[name] for name in study.columns), trial, *(None if m is None else m[trial] for m in measured))
            for each in results
            for measured in [[each.trials.get(name) for name in study.by_trial]]
            for trial in range(len(next(iter(each.trials.values()))))
        )
        files[study.trials_file] = _stamped_csv((*study.columns, study.unit, *study.by_trial), trials)
    files |= {"summary.md": summary(study, results, list(figures)).encode(), **figures}
    for name, content in files.items():
        _write_whole(directory / name, content)
    return list(files)


def study_yaml(study: Study) -> bytes:
    """Return the bytes of ``study.yaml``, with all defaults; the first line states that the study is not private."""
    import yaml

    stated = msgspec.to_builtins(study)
    for part in (stated, *stated["cases"].values()):
        for key in [key for key, value in part.items() if value is None]:
            del part[key]
    text = yaml.safe_dump(stated, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return f"# {NOT_PRIVATE}\n{text}".encode()


def _computed(study: Study, missing: list[GridPoint], jobs: int) -> Iterator[tuple[GridPoint, FinishedPoint]]:
    """Yield points as they are computed: in the order of the grid if one process computes them, else in any order."""
    if jobs == 1 or len(missing) < 2:
        yield from ((point, compute(study, point)) for point in missing)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    pool = ProcessPoolExecutor(min(jobs, len(missing)), mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        waiting = {pool.submit(compute, study, point): point for point in missing}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        hint = "run again, with fewer --jobs if memory was short; finished points are kept"
        raise DpbayesError("a worker process died", hint=hint) from None
    except BaseException:
        for worker in active_children():
            worker.terminate()  # a point may take minutes
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """Ignore interrupts, which the parent process handles, and end when the parent ends."""

    def end_with_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _open_directory(directory: Path, study: Study) -> None:
    """Make the directory of a study; refuse a directory that holds anything but a study of the same name."""
    hint = "choose another --out; a study can only be resumed in its own directory"
    if directory.is_dir() and any(directory.iterdir()):
        try:
            name = read_spec_file(directory / _STUDY).get("name")
        except DpbayesError:
            name = None
        if name is None:
            raise OutputError(f"{str(directory)!r} exists and is not the directory of a study", hint=hint)
        if name != study.name:
            raise OutputError(f"{str(directory)!r} holds the study {name!r}, not {study.name!r}", hint=hint)
    try:
        (directory / _CELLS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {str(directory)!r}: {error.strerror}", hint="choose another --out") from None
    _write_whole(directory / _STUDY, study_yaml(study))


def _file(directory: Path, point: GridPoint) -> Path:
    return directory / _CELLS / f"{point.digest[:32]}.json"


def _finished(directory: Path, point: GridPoint) -> FinishedPoint | None:
    """Return a finished point; None if its file is missing or incomplete, or holds another definition."""
    try:
        stored = msgspec.json.decode(_file(directory, point).read_bytes(), type=FinishedPoint)
    except (OSError, msgspec.DecodeError):
        return None
    return stored if canonical_json(stored.definition) == canonical_json(point.definition) else None


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, sync it and rename it, so that no reader sees an incomplete file."""
    try:
        with locked_directory(path) as directory:
            partial = directory / path.name
            partial.write_bytes(content)
            sync(partial)
            partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror}") from None


def result_rows(study: Study, results: Results) -> list[dict[str, Any]]:
    """Return the rows of ``results.csv``: the columns, the number of trials and the measures of each point."""
    return [
        {
            **{name: each[name] for name in study.columns},
            **{name: each.point.details[name] for name in study.details},
            **({f"{study.unit}s": len(next(iter(each.trials.values())))} if study.unit else {}),
            **{name: each.measures[name] for name in study.measures},
        }
        for each in results
    ]


def summary(study: Study, results: Results, figures: Sequence[str]) -> str:
    """Return the text of ``summary.md``, with links to the files named in ``figures``."""
    stated = ((key, getattr(study, key)) for key in study.__struct_fields__ if key not in {"study", "name"})
    settings = [f"`{key}`: {value}" for key, value in stated if isinstance(value, int | float | str)]
    parts = [
        f"# Study `{study.name}`",
        f"**{NOT_PRIVATE}.** {inspect.getdoc(type(study))}",
        "; ".join([f"{len(results)} points", *settings]),
        f"## Claims\n\n{_claims_table(list(study.claims(results)))}",
    ]
    for name in results.values("case"):
        own = results.where(case=name)
        numbers = {k: v for k, v in msgspec.to_builtins(study.cases[name]).items() if isinstance(v, int | float)}
        parts += [f"## {name}", in_words(numbers), _results_table(study, own)]
        for first, second, measure in study.compared:
            if differences := own.differences(first, second, measure):
                parts.append(f"**`{first}` minus `{second}`, `{measure}`**: {differences_in_words(differences)}.")
    parts += ["## Figures\n\n" + "\n".join(f"- [{name}]({name})" for name in figures), study.legend]
    return "\n\n".join(filter(None, parts)) + "\n"


def _stamped_csv(header: Iterable[str], table: Iterable[Iterable[Any]]) -> bytes:
    """Return the bytes of a CSV file: floats with all digits, None as an empty cell."""
    rows = ((NOT_PRIVATE, *(repr(value) if isinstance(value, float) else value for value in row)) for row in table)
    return csv_text([("stamp", *header), *rows]).encode("utf-8")


def _markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines)


def _claims_table(claims: Sequence[Claim]) -> str:
    if not claims:
        return "These results decide no claim."
    rows = ((c.source, c.says, c.verdict if c.holds else f"**{c.verdict}**", c.measured, c.why) for c in claims)
    return _markdown_table(("whose", "what is shown", "verdict", "measured", "why they differ"), rows)


def _results_table(study: Study, own: Results) -> str:
    """Return the results of a case as a table; leave out measures that were computed at no point."""
    names = (*study.columns[1:], *study.details)
    means = (name for name in study.measures if not name.endswith("_se"))
    measured = [name for name in means if any(each.measures[name] is not None for each in own)]

    def number(value: object, error: float | None = None) -> object:
        shown = f"{value:.4g}" if isinstance(value, float) else value
        return shown if error is None else f"{shown} ± {error:.2g}"

    rows = (
        (
            *(number({**each.point.place, **each.point.details}[name]) for name in names),
            *(number(each.measures[name], each.measures.get(f"{name}_se")) for name in measured),
        )
        for each in own
    )
    return _markdown_table((*names, *measured), rows)
