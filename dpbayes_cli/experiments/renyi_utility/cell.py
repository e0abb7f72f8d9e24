"""One cell of a study of utility at Renyi prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.renyi_utility.study import Method, RenyiUtilityStudy, UtilityCase, coordinates


@dataclass(frozen=True)
class UtilityCell(Cell):
    """One case at one order and epsilon under one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        order: of the Renyi divergence.
        epsilon: the price at that order; None for the true posterior, whose price is what it is.
        method: what is released.
        trials, seed: of no effect.
    """

    name: str
    case: UtilityCase
    order: str
    epsilon: str | None
    method: Method
    trials: int = 0
    seed: int = 0

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        price = "" if self.epsilon is None else f"epsilon {self.epsilon}, "
        return f"{self.name}, order {self.order}, {price}{self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """The prior and the data."""
        return msgspec.to_builtins(self.case)  # type: ignore[no-any-return]

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {
            **self.data,
            "version": __version__,
            "study": "renyi-utility",
            "order": self.order,
            "epsilon": self.epsilon,
            "method": self.method,
        }


def cells(study: RenyiUtilityStudy) -> list[UtilityCell]:
    """Return the cells in the order of the file."""
    return [UtilityCell(name, study.cases[name], *place) for name, *place in coordinates(study)]  # type: ignore[arg-type]
