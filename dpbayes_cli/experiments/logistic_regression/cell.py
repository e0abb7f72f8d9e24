"""One cell of a study of logistic regression: what defines its numbers, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.file_records import file_digest
from dpbayes_cli.experiments.logistic_regression.records import model_of, n_train_of
from dpbayes_cli.experiments.logistic_regression.study import LogisticCase, LogisticStudy, Method
from dpbayes_cli.experiments.logistic_regression.temperatures import Price, Tempered, tempered

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class LogisticCell(Cell):
    """One case at one price under one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        contents: digests of the files.
        n_train: the number of records to learn from.
        price: the price; None where nothing is private.
        method: what is drawn. It changes no number beside ``law``.
        law: what is drawn from; cells of one law have the same numbers, and are computed once.
        metropolis_steps: of the chains that stand for exact draws.
        trials, seed: those of the study.
    """

    name: str
    case: LogisticCase
    contents: tuple[str, ...]
    n_train: int
    price: Price | None
    method: Method
    law: Tempered
    metropolis_steps: int
    trials: int
    seed: int

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        price = "" if self.price is None else f"{self.price.family}, epsilon {self.price.epsilon}, "
        return f"{self.name}, {price}{self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """What the records depend on; all prices and methods see the same, and more trials begin with the same."""
        stated = msgspec.to_builtins(self.case)
        paths = ("train", "test")
        return {
            **{key: value for key, value in stated.items() if key not in paths},
            "contents": list(self.contents),
            "seed": self.seed,
        }

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {
            **self.data,
            "version": __version__,
            "study": "logistic-regression",
            "law": self.law.definition(),
            "metropolis_steps": self.metropolis_steps if self.law.steps is None else None,
            "trials": self.trials,
        }

    def noise_seed(self) -> np.random.SeedSequence:
        """Return the seed of the draws: the same for all laws, whose differences are then those of the laws."""
        return self.seed_of("experiment noise", self.data)


def cells(study: LogisticStudy) -> list[LogisticCell]:
    """Return the cells in the order of the file; without a price one cell is enough.

    Raises:
        SpecError: a price is too small for any draw.
        SourceError: a file cannot be read.
    """
    at_orders = [Price(epsilon, order=order) for order in study.orders for epsilon in study.epsilon]
    at_delta = [Price(epsilon, delta=study.delta) for epsilon in study.epsilon_at_delta]
    places: list[tuple[Price | None, Method]] = []
    if "true-posterior" in study.methods:
        places.append((None, "true-posterior"))
    rest: list[Method] = [method for method in study.methods if method != "true-posterior"]
    places += [(price, method) for price in at_orders for method in rest if method != "minami-langevin"]
    places += [(price, method) for price in at_delta for method in rest if method.endswith("-langevin")]
    found = []
    for name, case in study.cases.items():
        contents = tuple(file_digest(path) for path in (case.train, case.test) if path is not None)
        n = n_train_of(case)
        model = model_of(case, n)
        for price, method in places:
            law = tempered(method, price, model, n, study.langevin_steps)
            sizes = (study.metropolis_steps, study.trials, study.seed)
            found.append(LogisticCell(name, case, contents, n, price, method, law, *sizes))
    return found
