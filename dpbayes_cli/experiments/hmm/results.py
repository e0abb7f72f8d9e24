"""The tables of a study of hidden Markov models, each stamped NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.stamped import stamped_csv
from dpbayes_cli.experiments.store import FinishedCell

Results = Sequence[tuple[HmmCell, FinishedCell]]

PLACE = ("case", "states", "epsilon", "method", "trials")
MEASURES = ("power", "log_likelihood", "log_likelihood_se")
TRIALS = ("log_likelihood", "n_test")


def place(cell: HmmCell) -> tuple[Any, ...]:
    """Return a cell's place in the grid."""
    return (cell.name, cell.states, cell.epsilon, cell.method, cell.trials)


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one object a cell: its place in the grid, and its measures."""
    return [
        {**dict(zip(PLACE, place(cell), strict=True)), **{name: result.measures[name] for name in MEASURES}}
        for cell, result in results
    ]


def results_csv(results: Results) -> bytes:
    """Return the bytes of ``results.csv``: the stamp, the place in the grid, the measures."""
    return stamped_csv((*PLACE, *MEASURES), (row.values() for row in rows(results)))


def trials_csv(results: Results) -> bytes:
    """Return the bytes of ``trials.csv``: what was measured in each trial, one row a trial."""
    table = (
        (*place(cell)[:-1], trial, *(result.trials[name][trial] for name in TRIALS))
        for cell, result in results
        for trial in range(cell.trials)
    )
    return stamped_csv((*PLACE[:-1], "trial", *TRIALS), table)
