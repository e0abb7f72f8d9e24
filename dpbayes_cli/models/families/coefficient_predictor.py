"""Predictions from draws of the coefficients of a convex loss: probabilities of two classes, scores, or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.core.losses import QuantileLoss
from dpbayes_cli.core.predicted import ClassProbabilities, ClassScores, Numbers, Prediction
from dpbayes_cli.core.predictor import Predictor

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.models.families.convex_loss import ConvexLossModel

_HELD = 1 << 22
"""Entries of a design, or predictions of single draws, that are held at a time."""


@dataclass(frozen=True)
class CoefficientPredictor(Predictor):
    """Released draws of coefficients, as they predict the target: by the mean of what each draw predicts."""

    model: ConvexLossModel

    @property
    def note(self) -> str:
        """What the numbers are not."""
        target, name = self.model.target, self.model.name
        if isinstance(target, NumericColumn):
            what = "a number" if self.level is None else f"the {self.level:g} quantile"
            return f"{name} predicts {what} and has no predictive law: there is no interval"
        if not self.model.has_probabilities:
            return f"{name} gives scores and no probabilities: above 0 for {target.levels[1]!r}"
        return ""

    @property
    def level(self) -> float | None:
        """The level of the quantile that is predicted."""
        return self.model.loss.level if isinstance(self.model.loss, QuantileLoss) else None

    def predict(self, codes: Integers) -> Prediction:
        """Return predictions of the records whose features are all valid; see ``Predictor``."""
        import numpy as np

        features = codes[:, : self.target]
        valid = np.flatnonzero((features >= 0).all(axis=1))
        mean = np.full(len(codes), np.nan)
        size = max(1, _HELD // max(self.model.design.width, len(self.draws)))
        for start in range(0, len(valid), size):
            some = valid[start : start + size]
            mean[some] = self._mean(features[some])
        target = self.model.target
        if isinstance(target, NumericColumn):
            return Numbers(mean)
        if self.model.has_probabilities:
            return ClassProbabilities(np.column_stack([1.0 - mean, mean]), target.levels)
        return ClassScores(mean, target.levels)

    def _mean(self, features: Integers) -> Floats:
        mean: Floats = self.model.predicted(self.draws, self.model.design.rows(features)).mean(axis=1)
        return mean
