"""The part of a model's interface that has defaults: for plans, pages, data checks and predictions.

A model overrides a default that does not suit it, so that no code outside ``models/`` depends on which model it is.
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
"""What a data check counts: the model's statistic, the records at each level of each column, or the valid and the
invalid cells of each column."""


class ModelDefaults(ABC):
    """Properties and methods of a model that have a default."""

    name: ClassVar[str]
    data_check: ClassVar[DataCheck] = "cells"
    bound_keys: ClassVar[tuple[str, ...]] = ()
    """The domain keys of bounds that can be chosen privately instead of stated; the lower bound is 0 if ``lower`` is
    not among them. If empty, the bounds must be stated."""
    whole_numbers: ClassVar[bool] = False
    """Whether records and bounds are whole numbers."""
    counts_incomplete_records: ClassVar[bool] = False
    """Whether a record with an invalid cell belongs to the record count of a plan although it contributes nothing."""
    not_simulated: ClassVar[str] = "The model cannot simulate data sets."
    """The reason why plans and pages cannot simulate data sets of this model; empty if they can."""

    @property
    def compared(self) -> tuple[int, ...]:
        """The indices of the parameters whose posteriors a simulation compares."""
        return (0,)

    def simulation_trials(self, trials: int) -> int:
        """Return the number of data sets to simulate, given the number ``trials`` for a model of one parameter."""
        return trials

    def exact_moments(self, values: Sequence[int], n_records: int) -> list[tuple[float, float]]:
        """Return the posterior mean and sd of each ``compared`` parameter given the exact statistic; empty if unknown.

        Args:
            values: the statistic of complete records.
            n_records: the number of records.
        """
        return []

    def simulated_histogram(
        self, column: NumericColumn, n_records: int, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], dict[int, int]]:
        """Draw the reported parameters from the prior; return them and a histogram of drawn numbers by code.

        Args:
            column: the column, on the public range in which private bounds are chosen.
            n_records: the number of numbers to draw.
            rng: the random number generator.
        """
        raise TypeError(f"{self.name} has no bounds that can be chosen privately")

    def sections(self) -> tuple[ModelSection, ...]:
        """Return the sections that pages show in place of one plot a parameter; empty: they show plots."""
        return ()

    def predicted_column(self, requested: str | None) -> int:
        """Return the index of the column that is predicted from the others.

        Args:
            requested: the name that ``--target`` gives, or None.

        Raises:
            SpecError: the model predicts no column, there is no such column, or none is named.
        """
        raise SpecError(
            f"model {self.name!r} does not predict one column from others",
            where="model",
            hint="release.json holds the predictive distribution of a new record: posterior_predictive"
            if self.held_out() is None
            else "dpbayes evaluate scores held-out records",
        )

    def predictor(self, column: int, draws: Floats) -> Predictor:
        """Return the predictor of a column of new records.

        Args:
            column: the index that ``predicted_column`` returned.
            draws: draws of the reported parameters, shape (n_draws, n_parameters).
        """
        raise TypeError(f"{self.name} predicts no column")

    def held_out(self) -> HeldOutLikelihood | None:
        """Return the scorer of whole held-out records; None: the model predicts one column, or nothing."""
        return None
