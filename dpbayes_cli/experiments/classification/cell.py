"""One cell of a classification study: what defines its numbers, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.classification.study import ClassificationCase, ClassificationStudy, Method
from dpbayes_cli.experiments.file_records import file_digest

if TYPE_CHECKING:
    import numpy as np

SCORES = ("accuracy", "log_score", "calibration_error")
ERRORS = ("released_error", "cell_error")


@dataclass(frozen=True)
class ClassificationCell(Cell):
    """One case at one epsilon under one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        contents: digests of the files to learn from and to predict; empty where records are simulated.
        epsilon: the price; None where nothing is private.
        method: what makes a posterior.
        trials, draws, seed: those of the study, and no more trials than the case wants.
    """

    name: str
    case: ClassificationCase
    contents: tuple[str, ...]
    epsilon: str | None
    method: Method
    trials: int
    draws: int
    seed: int

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        return f"{self.name}, {'' if self.epsilon is None else f'epsilon {self.epsilon}, '}{self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """What the records depend on; all prices and methods see the same, and more trials begin with the same."""
        return {
            "model": self.case.model,
            "domain": self.case.domain,
            "prior": self.case.prior,
            "n_train": self.case.n_train,
            "n_test": self.case.n_test,
            "contents": list(self.contents),
            "seed": self.seed,
        }

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {
            **self.data,
            "version": __version__,
            "study": "classification",
            "epsilon": self.epsilon,
            "method": self.method,
            "trials": self.trials,
            "draws": 1 if self.method == "ops" else self.draws,
        }

    def noise_seed(self, mechanism: str) -> np.random.SeedSequence:
        """Return the seed of a mechanism's noise: the same for all that is made of one release."""
        released = {**self.data, "epsilon": self.epsilon, "mechanism": mechanism}
        return self.seed_of("experiment noise", released)


def cells(study: ClassificationStudy) -> list[ClassificationCell]:
    """Return the cells in the order of the file; without a price one cell is enough.

    Raises:
        SourceError: a file cannot be read.
    """
    found = []
    for name, case in study.cases.items():
        contents = tuple(file_digest(path) for path in (case.train, case.test) if path is not None)
        trials = min(study.trials, case.trials or study.trials)

        def cell(
            epsilon: str | None,
            method: Method,
            case: tuple[str, ClassificationCase, tuple[str, ...]] = (name, case, contents),
            trials: int = trials,
        ) -> ClassificationCell:
            return ClassificationCell(*case, epsilon, method, trials, study.draws, study.seed)

        if "non-private" in study.methods:
            found.append(cell(None, "non-private"))
        for epsilon in case.epsilon or study.epsilon:
            found += [cell(epsilon, method) for method in study.methods if method != "non-private"]
    return found
