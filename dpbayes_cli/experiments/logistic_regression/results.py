"""The tables of a study of logistic regression, each stamped NOT PRIVATE."""

from __future__ import annotations

from typing import Any

from dpbayes_cli.experiments.logistic_regression.cell import LogisticCell
from dpbayes_cli.experiments.logistic_regression.comparison import Results
from dpbayes_cli.experiments.logistic_regression.trials import SCORES
from dpbayes_cli.experiments.stamped import stamped_csv

PLACE = ("case", "price", "epsilon", "method", "rho", "tau", "radius", "step", "steps", "trials")
MEASURES = tuple(f"{name}{ending}" for name in (*SCORES, "commonest") for ending in ("", "_se"))
CHAINS = ("acceptance", "r_hat")


def place(cell: LogisticCell) -> tuple[Any, ...]:
    """Return a cell's place in the grid, and what it draws from."""
    price, law = cell.price, cell.law
    where = (None, None) if price is None else (price.family, price.epsilon)
    return (cell.name, *where, cell.method, law.rho, law.tau, law.radius, law.step, law.steps, cell.trials)


def rows(results: Results) -> list[dict[str, Any]]:
    """Return one object a cell: its place in the grid, and its measures."""
    return [
        {
            **dict(zip(PLACE, place(cell), strict=True)),
            **{name: result.measures[name] for name in (*MEASURES, *CHAINS)},
        }
        for cell, result in results
    ]


def results_csv(results: Results) -> bytes:
    """Return the bytes of ``results.csv``: the stamp, the place in the grid, the measures."""
    return stamped_csv((*PLACE, *MEASURES, *CHAINS), (row.values() for row in rows(results)))


def trials_csv(results: Results) -> bytes:
    """Return the bytes of ``trials.csv``: what was measured in each trial, one row a trial."""
    names = (*SCORES, "commonest")
    table = (
        (*place(cell)[:4], trial, *(result.trials[name][trial] for name in names))
        for cell, result in results
        for trial in range(cell.trials)
    )
    return stamped_csv((*PLACE[:4], "trial", *names), table)
