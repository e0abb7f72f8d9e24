"""One cell of a calibration study: what defines its numbers, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dpbayes_cli import __version__
from dpbayes_cli.experiments.calibration.study import CalibrationStudy, CaseSection, Method, OpsSection, coordinates
from dpbayes_cli.experiments.cell import Cell


@dataclass(frozen=True)
class CalibrationCell(Cell):
    """One case at one n and epsilon under one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        n_records, epsilon, method: where in the grid.
        trials, draws, seed, mechanism, delta, mmd, ops: those of the study.
    """

    name: str
    case: CaseSection
    n_records: int
    epsilon: str
    method: Method
    trials: int
    draws: int
    seed: int
    mechanism: str
    delta: str | None
    mmd: bool
    ops: OpsSection

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        return f"{self.name}, n {self.n_records}, epsilon {self.epsilon}, {self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """What the simulated parameters, records and releases depend on; see ``Cell.data``."""
        return {
            "model": self.case.model,
            "domain": self.case.domain,
            "prior": self.case.prior,
            "n_records": self.n_records,
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "delta": self.delta,
            "trials": self.trials,
            "seed": self.seed,
        }

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on, and nothing else: a change elsewhere recomputes no cell."""
        of_ops = self.method == "ops"
        return {
            **self.data,
            "version": __version__,
            "method": self.method,
            "draws": self.draws,
            "parameter": self.case.parameter,
            "mmd": self.mmd,
            "unclamped": self.case.unclamped if self.mmd or self.method == "non-private" else None,
            "support": list(self.case.support) if of_ops and self.case.support else None,
            "ops": msgspec.to_builtins(self.ops) if of_ops else None,
        }


def cells(study: CalibrationStudy) -> list[CalibrationCell]:
    """Return the cells of a study in the order of its file."""
    return [
        CalibrationCell(
            name,
            study.cases[name],
            n,
            epsilon,
            method,
            study.trials,
            study.draws,
            study.seed,
            study.mechanism,
            study.delta,
            study.mmd,
            study.ops,
        )
        for name, n, epsilon, method in coordinates(study)
    ]
