"""One cell of a study of hidden Markov models: what defines its numbers, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.file_records import file_digest
from dpbayes_cli.experiments.hmm.study import HmmCase, HmmStudy, Method

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class HmmCell(Cell):
    """One case with so many states, at one epsilon, by one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        contents: the digest of its file.
        states: the number of states.
        epsilon: the price; None where nothing is private.
        method: what predicts.
        trials, draws, held_out, least_share, converged, sweeps, seed: those of the study.
    """

    name: str
    case: HmmCase
    contents: str
    states: int
    epsilon: str | None
    method: Method
    trials: int
    draws: int
    held_out: float
    least_share: float
    converged: int
    sweeps: int
    seed: int

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        price = "" if self.epsilon is None else f"epsilon {self.epsilon}, "
        return f"{self.name}, {self.states} state{'s' * (self.states > 1)}, {price}{self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """What the trials depend on; all states, prices and methods see the same, and more trials begin with them."""
        return {
            "domain": self.case.domain,
            "contents": self.contents,
            "held_out": self.held_out,
            "seed": self.seed,
        }

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        own: dict[str, Any] = {"draws": self.draws}
        if self.method == "ops":
            own = {"least_share": self.least_share, "converged": self.converged}
        elif self.method == "gibbs":
            own = {"sweeps": self.sweeps}
        return {
            **self.data,
            **own,
            "prior": msgspec.to_builtins(self.case.prior),
            "version": __version__,
            "study": "hmm",
            "states": self.states,
            "epsilon": self.epsilon,
            "method": self.method,
            "trials": self.trials,
        }

    def noise_seed(self) -> np.random.SeedSequence:
        """Return the seed of a release's noise: the same for all that is made of the release."""
        return self.seed_of("experiment noise", {**self.data, "epsilon": self.epsilon, "one": self.states == 1})


def cells(study: HmmStudy) -> list[HmmCell]:
    """Return the cells in the order of the file; without a price one cell a number of states is enough.

    Raises:
        SourceError: a file cannot be read.
    """
    found = []
    for name, case in study.cases.items():
        contents = file_digest(case.records)

        def cell(
            states: int,
            epsilon: str | None,
            method: Method,
            place: tuple[str, HmmCase, str] = (name, case, contents),
        ) -> HmmCell:
            return HmmCell(
                *place, states, epsilon, method, study.trials, study.draws, study.held_out, study.least_share,
                study.converged, study.sweeps, study.seed,
            )  # fmt: skip

        for states in study.states:
            if "non-private" in study.methods:
                found.append(cell(states, None, "non-private"))
            for epsilon in study.epsilon:
                found += [cell(states, epsilon, method) for method in study.methods if method != "non-private"]
    return found
