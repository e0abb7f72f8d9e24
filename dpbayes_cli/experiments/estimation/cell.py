"""One cell of a study of estimates: what defines its numbers, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.estimation.study import EstimationCase, EstimationStudy, Method, coordinates


@dataclass(frozen=True)
class EstimationCell(Cell):
    """One case at one n and epsilon under one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        n_records, epsilon, method: where in the grid; no price where nothing is private.
        trials, seed: those of the study.
    """

    name: str
    case: EstimationCase
    n_records: int
    epsilon: str | None
    method: Method
    trials: int
    seed: int

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        price = "" if self.epsilon is None else f"epsilon {self.epsilon}, "
        return f"{self.name}, n {self.n_records}, {price}{self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """What the records depend on; all prices and methods see the same."""
        return {"theta": self.case.theta, "n_records": self.n_records, "trials": self.trials, "seed": self.seed}

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {
            **self.data,
            "version": __version__,
            "study": "estimation",
            "alpha": self.case.alpha,
            "beta": self.case.beta,
            "support": list(self.case.support) if self.method == "ops" else None,
            "epsilon": self.epsilon,
            "method": self.method,
        }


def cells(study: EstimationStudy) -> list[EstimationCell]:
    """Return the cells in the order of the file."""
    return [
        EstimationCell(name, study.cases[name], n, epsilon, method, study.trials, study.seed)
        for name, n, epsilon, method in coordinates(study)
    ]
