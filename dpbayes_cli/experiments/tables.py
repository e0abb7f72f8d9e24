"""The tables of a study: one row a cell, and one row a trial; each stamped NOT PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar

from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.stamped import stamped_csv
from dpbayes_cli.experiments.store import FinishedCell

CellType = TypeVar("CellType", bound=Cell)

Results = Sequence[tuple[CellType, FinishedCell]]
Column = Callable[[Any], Any]

CASE: Mapping[str, Column] = {"case": attrgetter("name")}


@dataclass(frozen=True)
class Tables(Generic[CellType]):
    """What the tables of a kind of study hold.

    Attributes:
        key: the columns that tell cells apart, each with how it is read from a cell.
        measures: what was measured of a cell.
        by_trial: what was measured in each trial; empty where a cell's trials have none of it.
        more: what else is told of a cell.
        trials_file: the file with one row a trial.
        unit: what a trial is called; empty where a cell has none, and no such file is written.
    """

    key: Mapping[str, Column]
    measures: tuple[str, ...]
    by_trial: tuple[str, ...]
    more: Mapping[str, Column] = field(default_factory=dict)
    trials_file: str = "trials.csv"
    unit: str = "trial"

    @property
    def _place(self) -> dict[str, Column]:
        """The columns that say where in the grid a cell is, and how many trials it has."""
        counted = {f"{self.unit}s": attrgetter("trials")} if self.unit else {}
        return {**self.key, **self.more, **counted}

    def rows(self, results: Results[CellType]) -> list[dict[str, Any]]:
        """Return one object a cell: its place in the grid, and its measures."""
        return [
            {
                **{column: read(cell) for column, read in self._place.items()},
                **{name: result.measures[name] for name in self.measures},
            }
            for cell, result in results
        ]

    def files(self, results: Results[CellType]) -> dict[str, bytes]:
        """Return ``results.csv``, one row a cell, and the file with one row a trial."""
        table = stamped_csv((*self._place, *self.measures), (row.values() for row in self.rows(results)))
        if not self.unit:
            return {"results.csv": table}
        trials = (
            (*(read(cell) for read in self.key.values()), trial, *(None if m is None else m[trial] for m in measured))
            for cell, result in results
            for measured in [[result.trials.get(name) for name in self.by_trial]]
            for trial in range(cell.trials)
        )
        return {
            "results.csv": table,
            self.trials_file: stamped_csv((*self.key, self.unit, *self.by_trial), trials),
        }


def columns(*names: str) -> dict[str, Column]:
    """Return columns that are called as what they hold of a cell."""
    return {name: attrgetter(name) for name in names}


def with_errors(*names: str) -> tuple[str, ...]:
    """Return the names of measures, each followed by that of its standard error."""
    return tuple(f"{name}{ending}" for name in names for ending in ("", "_se"))
