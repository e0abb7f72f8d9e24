"""Score the predictions of simulated releases on new simulated records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.model import Model

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

TESTED, _DRAWS = 500, 100
"""The number of test records, and of draws with which a prediction is made."""


@dataclass(frozen=True)
class TestRecords:
    """Simulated records for testing predictions of one column from the others.

    Attributes:
        model: the model that predicts.
        codes: the records, shape (n_records, n_columns).
        target: the index of the predicted column.
    """

    model: Model
    codes: Integers
    target: int

    @classmethod
    def draw(cls, model: Model, parameters: Sequence[float], rng: np.random.Generator) -> Self | None:
        """Return records drawn given the parameters; None if the model predicts no column."""
        codes = model.simulated_records(parameters, TESTED, rng)
        return None if codes is None else cls(model, codes, model.predicted_column(None))

    def scores(self, private: Floats, plain: Floats) -> Floats:
        """Return the scores of predictions with privacy, without privacy, and without using any feature.

        The score of a class is its accuracy, of a number its mean absolute error, and of a quantile its mean pinball
        loss. Without features, the prediction is the most common class, or the median (or the quantile) of the targets.

        Args:
            private, plain: draws of the reported parameters, shape (n_draws, n_parameters).
        """
        column, codes = self.model.columns[self.target], self.codes[:, self.target]
        predictors = [self.model.predictor(self.target, draws[:_DRAWS]) for draws in (private, plain)]
        predicted = [predictor.predict(self.codes) for predictor in predictors]
        if not isinstance(column, NumericColumn):
            truth = np.array(column.levels)[codes]
            right = [float(np.mean(np.array(each.labels) == truth)) for each in predicted]  # type: ignore[attr-defined]
            return np.array([*right, np.bincount(codes).max() / len(codes)])
        numbers, level = column.lower + codes * column.step, predictors[0].level
        middle = np.full(len(numbers), np.quantile(numbers, 0.5 if level is None else level))
        return np.array([_loss(numbers - each, level) for each in (*(p.values for p in predicted), middle)])


def _loss(residuals: Floats, level: float | None) -> float:
    if level is None:
        return float(np.mean(np.abs(residuals)))
    return float(np.mean(np.maximum(level * residuals, (level - 1.0) * residuals)))
