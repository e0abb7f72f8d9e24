"""One curve of a study of Renyi curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell, CellOutcome
from dpbayes_cli.experiments.renyi_curves.study import Method, Records, RenyiCase, RenyiCurvesStudy, coordinates
from dpbayes_cli.privacy.conjugate import gain_term, loss_term


@dataclass(frozen=True)
class RenyiCurveCell(Cell):
    """One case under one method and weight.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        method: what the weight acts on.
        records: whether records may be invalid.
        weight: r or m.
        highest_order, points: those of the study.
        seed: of no effect.
    """

    name: str
    case: RenyiCase
    method: Method
    records: Records
    weight: str
    highest_order: float
    points: int
    seed: int = 0

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        return f"{self.name}, {self.method}, {self.records} records, weight {self.weight}"

    @property
    def data(self) -> dict[str, Any]:
        """The prior and the number of records: there are no data."""
        return msgspec.to_builtins(self.case)  # type: ignore[no-any-return]

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {
            **self.data,
            "version": __version__,
            "study": "renyi-curves",
            "method": self.method,
            "records": self.records,
            "weight": self.weight,
            "highest_order": self.highest_order,
            "points": self.points,
        }

    @property
    def r_and_m(self) -> tuple[float, float]:
        """The weight of the likelihood and the divisor of the prior."""
        weight = float(self.weight)
        return (weight, 1.0) if self.method == "rdp-diffuse" else (1.0, weight)

    @property
    def order_max(self) -> float:
        """The order at and above which the divergence is infinite."""
        return self.case.model.family(self.case.n).order_max(*self.r_and_m)

    @property
    def orders(self) -> list[float]:
        """The orders of the study at which the divergence is finite."""
        steps = np.linspace(1.0, self.highest_order, self.points + 1)[1:]
        return [order for order in steps.tolist() if math.isfinite(self.divergence(order))]

    @property
    def trials(self) -> int:  # type: ignore[override]
        """The number of points of the curve."""
        return len(self.orders)

    def divergence(self, order: float) -> float:
        """Return what one draw costs at an order.

        With dropped records the other records add up to anything, so that both terms of the divergence are at the
        prior itself; see ``privacy.conjugate.DirichletFamily`` for complete ones.
        """
        family, (r, m) = self.case.model.family(self.case.n), self.r_and_m
        if self.records == "complete" or order >= family.order_max(r, m):
            return family.divergence(order, r, m)
        first, second = (each / m for each in family.concentration)
        return max(gain_term(x, order, r) + loss_term(y, order, r) for x, y in ((first, second), (second, first)))


def evaluate_curve(cell: RenyiCurveCell) -> CellOutcome:
    """Evaluate the curve of a cell."""
    orders = cell.orders
    costs = np.array([cell.divergence(order) for order in orders])
    return CellOutcome(
        {"order_max": cell.order_max, "epsilon_at_2": _finite(cell.divergence(2.0))},
        {"order": np.array(orders), "epsilon": costs},
    )


def cells(study: RenyiCurvesStudy) -> list[RenyiCurveCell]:
    """Return the cells in the order of the file."""
    return [
        RenyiCurveCell(name, study.cases[name], method, records, weight, study.highest_order, study.points)
        for name, method, records, weight in coordinates(study)
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
