"""Predictions of linear regression: the predictive law of a number, averaged over the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpbayes_cli.core.contracts import Model, expect
from dpbayes_cli.models.linear_regression import LinearRegression
from dpbayes_cli.prediction.predictor import IntervalPredictor, only_target

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class LinearRegressionPredictor(IntervalPredictor):
    """Mixtures of normal laws over the draws of the coefficients and of the variance."""

    serves: ClassVar[type] = LinearRegression

    @classmethod
    def place(cls, model: Model, asked: str | None) -> int:
        """Return the column of the target, the first."""
        return only_target(model, 0, asked)

    def intervals(self, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return mean, sd and quantiles of the predictive law."""
        from dpbayes_cli.inference.predictive.predict_normal import predictive_intervals

        return predictive_intervals(self._draws, features, levels)

    def feature_log_densities(self, features: Floats, targets: Floats) -> Floats:
        """Return the log densities of the predictive law at targets."""
        from dpbayes_cli.inference.predictive.predict_normal import log_predictive_densities

        return log_predictive_densities(self._draws, features, targets)

    @property
    def _draws(self) -> Floats:
        """Intercept, slopes and variance, one row a draw."""
        return expect(self.model, LinearRegression).complete_draws(self.draws)
