"""Compute the unfinished points of a study, in one process or several; results do not depend on their number.

The directory of a study has one file per finished point, named by the digest of everything that the point's results
depend on. A killed run can therefore be resumed, and after a change of the study only the points that changed are
computed again. The directory of another study is refused.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import msgspec

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import DpbayesError, OutputError, SpecError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.report import study_files
from dpbayes_cli.experiments.results import GridPoint, Result, Results
from dpbayes_cli.experiments.study import Study
from dpbayes_cli.spec.yaml_reader import read_spec_file

Progress = Callable[[GridPoint, float, int, int], None]
"""A function of a computed point, its seconds, the number of finished points, and the number of all points."""
_STUDY, _CELLS, _PARTIAL = "study.yaml", "cells", ".partial"


class FinishedPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of one finished point.

    Attributes:
        stamp: the notice that study output is not private.
        definition: everything that the results depend on; see ``GridPoint``.
        measures: the numbers of the point, by name.
        trials: arrays with one number per trial, by name.
        seconds: how long the point took.
    """

    stamp: str
    definition: dict[str, Any]
    measures: dict[str, float | None]
    trials: dict[str, list[float]]
    seconds: float


def run_study(study: Study, directory: Path, jobs: int, progress: Progress) -> Results:
    """Compute the points of a study that its directory lacks.

    Args:
        study: the study to run.
        directory: the directory of the study; created if it does not exist.
        jobs: the number of processes.
        progress: called after every point that is computed.

    Returns:
        The results of all points in the order of the study.

    Raises:
        SpecError: a point of the study cannot be computed.
        OutputError: the directory belongs to another study, or cannot be written.
    """
    grid = study.grid()
    if not grid:
        raise SpecError(
            "there is nothing to compute: none of the methods can be run at the stated epsilons", where="methods"
        )
    _open_directory(directory, study)
    finished = {point.digest: stored for point in grid if (stored := _finished(directory, point)) is not None}
    missing = list({point.digest: point for point in grid if point.digest not in finished}.values())
    total = len(finished) + len(missing)
    for point, computed in _computed(study, missing, jobs):
        _write_whole(_file(directory, point), msgspec.json.encode(computed) + b"\n")
        finished[point.digest] = computed
        progress(point, computed.seconds, len(finished), total)
    return Results(Result(point, (stored := finished[point.digest]).measures, stored.trials) for point in grid)


def compute(study: Study, point: GridPoint) -> FinishedPoint:
    """Compute one point of a study.

    Raises:
        SpecError: the point cannot be computed; the message names it.
    """
    start = time.perf_counter()
    outcome = study.run(point)
    return FinishedPoint(
        stamp=NOT_PRIVATE,
        definition=dict(point.definition),
        measures=dict(outcome.measures),
        trials={name: values.tolist() for name, values in outcome.trials.items()},
        seconds=round(time.perf_counter() - start, 3),
    )


def publish(directory: Path, study: Study, results: Results, formats: Sequence[str] = ("svg",)) -> list[str]:
    """Write the files of a study that has run, and return their names.

    Raises:
        OutputError: the files cannot be written.
    """
    files = study_files(study, results, formats)
    for name, content in files.items():
        _write_whole(directory / name, content)
    return list(files)


def study_yaml(study: Study) -> bytes:
    """Return the file ``study.yaml``: all defaults are written out, and a first line says that it is not private."""
    import yaml

    stated = {key: value for key, value in msgspec.to_builtins(study).items() if value is not None}
    stated["cases"] = {
        name: {key: value for key, value in case.items() if value is not None} for name, case in stated["cases"].items()
    }
    text = yaml.safe_dump(stated, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return f"# {NOT_PRIVATE}\n{text}".encode()


def _computed(study: Study, missing: list[GridPoint], jobs: int) -> Iterator[tuple[GridPoint, FinishedPoint]]:
    """Yield points as they are computed: in the order of the grid by one process, in any order by several."""
    if jobs == 1 or len(missing) < 2:
        yield from ((point, compute(study, point)) for point in missing)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    workers = min(jobs, len(missing))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        waiting = {pool.submit(compute, study, point): point for point in missing}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise DpbayesError(
            "a worker process died", hint="run again, with fewer --jobs if memory was short; finished points are kept"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """Ignore interrupts, which the parent process handles, and end when the parent ends."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _open_directory(directory: Path, study: Study) -> None:
    """Make the directory of a study, or check the one that exists."""
    if os.path.lexists(directory):
        _check_same(directory, study)
    try:
        (directory / _CELLS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {str(directory)!r}: {error.strerror}", hint="choose another --out") from None
    for left in (directory / _CELLS).glob(f"*{_PARTIAL}"):
        with suppress(OSError):
            left.unlink()
    _write_whole(directory / _STUDY, study_yaml(study))


def _check_same(directory: Path, study: Study) -> None:
    """Refuse a path that is not the directory of a study of the same name."""
    hint = "choose another --out; a study can only be resumed in its own directory"
    if not directory.is_dir():
        raise OutputError(f"{str(directory)!r} exists and is not a directory", hint=hint)
    if not any(directory.iterdir()):
        return
    try:
        name = read_spec_file(directory / _STUDY).get("name")
    except DpbayesError:
        name = None
    if name is None:
        raise OutputError(f"{str(directory)!r} exists and is not the directory of a study", hint=hint) from None
    if name != study.name:
        raise OutputError(f"{str(directory)!r} holds the study {name!r}, not {study.name!r}", hint=hint)


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
    """Write a file under a temporary name, sync it and rename it, so that no reader sees an incomplete file."""
    partial = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{_PARTIAL}")
    try:
        try:
            with partial.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror}") from None
