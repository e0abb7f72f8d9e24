"""What plans, pages, checks and predictions ask of a model beside its statistic; the answers of one that adds nothing.

A model overrides what differs for it, so that nobody outside ``models/`` asks which model it is.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.held_out import HeldOutLikelihood
from dpbayes_cli.core.model_sections import ModelSection

if TYPE_CHECKING:
    import numpy as np

    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.core.predictor import Predictor

DataCheck = Literal["statistic", "levels", "cells"]
"""What a check of the data counts: the model's statistic, the records of each level of each column, or the valid and
the invalid cells of each column."""


class ModelDefaults(ABC):
    """The questions, with the answers of a plain model."""

    name: ClassVar[str]
    data_check: ClassVar[DataCheck] = "cells"
    bound_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of the domain that state bounds which can be found privately instead, none where they cannot; where
    ``lower`` is not among them, it is 0."""
    whole_numbers: ClassVar[bool] = False
    """Whether records and bounds are whole numbers."""
    counts_incomplete_records: ClassVar[bool] = False
    """Whether a record with an invalid cell is one of the records that a plan rests on, and adds nothing."""
    not_simulated: ClassVar[str] = "The model draws no data sets."
    """Why plans and pages simulate no data sets of this model, a sentence; empty where they do."""

    @property
    def compared(self) -> tuple[int, ...]:
        """The parameters that a simulation looks at: the first."""
        return (0,)

    def simulation_trials(self, trials: int) -> int:
        """Return how many simulated data sets say as much as so many of a model of one parameter."""
        return trials

    def exact_moments(self, values: Sequence[int], n_records: int) -> list[tuple[float, float]]:
        """Return posterior mean and sd of each of the ``compared`` parameters, given the exact statistic.

        Nothing where they are not known.

        Args:
            values: the statistic of complete records.
            n_records: how many they are.
        """
        return []

    def simulated_histogram(
        self, column: NumericColumn, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], dict[int, int]]:
        """Draw the reported parameters from the prior; return them, and how many numbers have each code of a column.

        Args:
            column: on the public range in which bounds are sought.
            n_records: how many numbers are drawn.
            rng: the randomness.
        """
        raise TypeError(f"{self.name} has no bounds that can be found privately")

    def sections(self) -> tuple[ModelSection, ...]:
        """Return what the parameters are together, drawn in place of one picture a parameter; nothing: they are not."""
        return ()

    def predicted_column(self, asked: str | None) -> int:
        """Return the index of the column that is predicted from the others.

        Args:
            asked: the name that ``--target`` gives, or None.

        Raises:
            SpecError: the model predicts none, there is no such column, or none is named.
        """
        raise SpecError(
            f"model {self.name!r} does not predict one column from others",
            where="model",
            hint="what it says about a new record is posterior_predictive in release.json"
            if self.held_out() is None
            else "dpbayes evaluate scores held-out records",
        )

    def predictor(self, column: int, draws: Floats) -> Predictor:
        """Return what predicts a column of new records.

        Args:
            column: what ``predicted_column`` returned.
            draws: of the reported parameters, shape (n_draws, n_parameters).
        """
        raise TypeError(f"{self.name} predicts no column")

    def held_out(self) -> HeldOutLikelihood | None:
        """Return what scores whole new records, None where one column is predicted from the others, or nothing is."""
        return None
