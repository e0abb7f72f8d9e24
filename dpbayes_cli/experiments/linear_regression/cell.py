"""One cell of a study of linear regression: what defines its numbers, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dpbayes_cli import __version__
from dpbayes_cli.experiments.cell import Cell
from dpbayes_cli.experiments.file_records import file_digest
from dpbayes_cli.experiments.linear_regression.study import LinearCase, LinearStudy, Method

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class LinearCell(Cell):
    """One case under one prior, at one epsilon, by one method.

    Attributes:
        name: the case's name, which changes no number.
        case: the case in full.
        contents: the digest of its file.
        prior_variance: of every coefficient.
        epsilon: the price; None where nothing is private.
        method: what is predicted by.
        train_share, trials, draws, seed: those of the study.
    """

    name: str
    case: LinearCase
    contents: str
    prior_variance: str
    epsilon: str | None
    method: Method
    train_share: float
    trials: int
    draws: int
    seed: int

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        price = "" if self.epsilon is None else f"epsilon {self.epsilon}, "
        return f"{self.name}, prior variance {self.prior_variance}, {price}{self.method}"

    @property
    def data(self) -> dict[str, Any]:
        """What the records depend on; all priors, prices and methods see the same, and more trials begin with them."""
        stated = msgspec.to_builtins(self.case)
        return {
            **{key: value for key, value in stated.items() if key not in {"records", "methods"}},
            "contents": self.contents,
            "train_share": self.train_share,
            "seed": self.seed,
        }

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that the cell's numbers depend on; see ``Cell.definition``."""
        return {
            **self.data,
            "version": __version__,
            "study": "linear-regression",
            "prior_variance": self.prior_variance,
            "epsilon": self.epsilon,
            "method": self.method,
            "trials": self.trials,
            "draws": self.draws if self.method == "noise-aware" else 1,
        }

    def noise_seed(self) -> np.random.SeedSequence:
        """Return the seed of noise and draws: the same for all priors, which a release does not depend on."""
        return self.seed_of("experiment noise", {**self.data, "epsilon": self.epsilon, "method": self.method})


def methods_of(study: LinearStudy, case: LinearCase) -> list[Method]:
    """Return the methods of a case: its own, or the study's."""
    return list(case.methods or study.methods)


def cells(study: LinearStudy) -> list[LinearCell]:
    """Return the cells in the order of the file; without a price one cell a prior is enough.

    Raises:
        SourceError: a file cannot be read.
    """
    found = []
    for name, case in study.cases.items():
        contents, methods = file_digest(case.records), methods_of(study, case)
        sizes = (study.train_share, study.trials, study.draws, study.seed)
        for variance in study.prior_variance:
            if "non-private" in methods:
                found.append(LinearCell(name, case, contents, variance, None, "non-private", *sizes))
            for epsilon in study.epsilon:
                found += [
                    LinearCell(name, case, contents, variance, epsilon, method, *sizes)
                    for method in methods
                    if method != "non-private"
                ]
    return found
