"""Run the unfinished cells of a study, on one process or on many: the numbers do not depend on how many."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from dpbayes_cli.base.errors import DpbayesError
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.kind import Kind
from dpbayes_cli.experiments.kinds import kind_of
from dpbayes_cli.experiments.store import FinishedCell, finish, finished, open_directory
from dpbayes_cli.experiments.study import Study

Progress = Callable[[Cell, float, int, int], None]
"""Told of every cell that is computed: the cell, its seconds, how many are finished, how many there are."""


def run_study(study: Study, directory: Path, jobs: int, progress: Progress) -> list[tuple[Cell, FinishedCell]]:
    """Compute what is missing in the directory of a study.

    Args:
        study: the study.
        directory: where its cells are; made if it is not there.
        jobs: how many processes.
        progress: told of every cell that is computed.

    Returns:
        All cells in the order of the study, with their results.

    Raises:
        SpecError: the study cannot be simulated.
        OutputError: the directory is another's, or cannot be written.
    """
    kind = kind_of(study)
    grid = kind.cells(study)
    open_directory(directory, study)
    results = {cell.digest: found for cell in grid if (found := finished(directory, cell)) is not None}
    missing = list({cell.digest: cell for cell in grid if cell.digest not in results}.values())
    total, before = len(results) + len(missing), len(results)
    for done, (cell, result) in enumerate(_computed(kind, missing, jobs), start=before + 1):
        finish(directory, cell, result)
        results[cell.digest] = result
        progress(cell, result.seconds, done, total)
    return [(cell, results[cell.digest]) for cell in grid]


def compute(kind: Kind[Any, Any], cell: Cell) -> FinishedCell:
    """Compute one cell of a kind of study.

    Raises:
        SpecError: the cell cannot be simulated; the message names it.
    """
    start = time.perf_counter()
    outcome = kind.compute(cell)
    return FinishedCell(
        stamp=NOT_PRIVATE,
        definition=cell.definition,
        measures=dict(outcome.measures),
        trials={name: values.tolist() for name, values in outcome.trials.items()},
        seconds=round(time.perf_counter() - start, 3),
    )


def _computed(kind: Kind[Any, Any], missing: list[Cell], jobs: int) -> Iterator[tuple[Cell, FinishedCell]]:
    """Return cells as they are computed: on one process in their order, on several as they come."""
    if jobs == 1 or len(missing) < 2:
        for cell in missing:
            yield cell, compute(kind, cell)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    workers = min(jobs, len(missing))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin)
    try:
        waiting = {pool.submit(compute, kind, cell): cell for cell in missing}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise DpbayesError(
            "a worker process died", hint="finished cells are kept: run again, with fewer --jobs if memory was short"
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
