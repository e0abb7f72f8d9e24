"""Run the unfinished points of a study, on one process or on many: the numbers do not depend on how many."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context, parent_process
from pathlib import Path

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.plots import Format
from dpbayes_cli.experiments.point import GridPoint
from dpbayes_cli.experiments.results import Result, Results
from dpbayes_cli.experiments.store import FinishedPoint, finish, finished, open_directory, write_whole
from dpbayes_cli.experiments.study import Study

Progress = Callable[[GridPoint, float, int, int], None]
"""Told of every point that is computed: the point, its seconds, how many are finished, how many there are."""


def run_study(study: Study, directory: Path, jobs: int, progress: Progress) -> Results:
    """Compute the points of a study that its directory lacks.

    Args:
        study: the study.
        directory: the directory of its points; created if it does not exist.
        jobs: the number of processes.
        progress: called after every point that is computed.

    Returns:
        The results of all points in the order of the study.

    Raises:
        SpecError: the study cannot be simulated.
        OutputError: the directory belongs to another study, or cannot be written.
    """
    grid = study.grid()
    if not grid:
        raise SpecError(
            "there is nothing to compute: none of the methods can be run at the stated epsilons", where="methods"
        )
    open_directory(directory, study)
    found = {point.digest: kept for point in grid if (kept := finished(directory, point)) is not None}
    missing = list({point.digest: point for point in grid if point.digest not in found}.values())
    total, before = len(found) + len(missing), len(found)
    for done, (point, result) in enumerate(_computed(study, missing, jobs), start=before + 1):
        finish(directory, point, result)
        found[point.digest] = result
        progress(point, result.seconds, done, total)
    return Results(Result(point, (kept := found[point.digest]).measures, kept.trials) for point in grid)


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


def publish(directory: Path, study: Study, results: Results, formats: Sequence[Format] = ("svg",)) -> list[str]:
    """Write the files of a study that has run, each a function of its finished points; return their names.

    Raises:
        OutputError: the files cannot be written.
    """
    files = study.files(results, formats)
    for name, content in files.items():
        write_whole(directory / name, content)
    return list(files)


def _computed(study: Study, missing: list[GridPoint], jobs: int) -> Iterator[tuple[GridPoint, FinishedPoint]]:
    """Return points as they are computed: on one process in their order, on several as they come."""
    if jobs == 1 or len(missing) < 2:
        for point in missing:
            yield point, compute(study, point)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    workers = min(jobs, len(missing))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin)
    try:
        waiting = {pool.submit(compute, study, point): point for point in missing}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise DpbayesError(
            "a worker process died", hint="finished points are kept: run again, with fewer --jobs if memory was short"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Prepare a worker: one thread, interrupts are the parent's, and it does not outlive the parent."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
