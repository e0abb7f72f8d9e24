"""Predictions of linear regressions with normal errors: the predictive law, averaged over the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.core.predictor import IntervalPredictor

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class RegressionPredictor(IntervalPredictor):
    """Predicts by mixtures of normal laws over the draws, each with its intercept, slopes and variance."""

    def intervals(self, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return mean, sd and quantiles of the predictive law."""
        from dpbayes_cli.inference.predictive.predict_normal import predictive_intervals

        return predictive_intervals(self.draws, features, levels)

    def feature_log_densities(self, features: Floats, targets: Floats) -> Floats:
        """Return the log densities of the predictive law at targets."""
        from dpbayes_cli.inference.predictive.predict_normal import log_predictive_densities

        return log_predictive_densities(self.draws, features, targets)
