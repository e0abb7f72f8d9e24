"""Predictions of a linear regression: mixtures of normal laws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.core.predictor import IntervalPredictor
from dpbayes_cli.core.second_moments import factors_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class LinearPredictor(IntervalPredictor):
    """Predicts the target by a mixture of normal laws, one for each draw of intercept, slopes and variance."""

    def intervals(self, features: "Floats", levels: Sequence[float]) -> "tuple[Floats, Floats, Floats]":
        from dpbayes_cli.inference.predictive.predict_normal import predictive_intervals

        return predictive_intervals(self.draws, self._with_indicators(features), levels)

    def feature_log_densities(self, features: "Floats", targets: "Floats") -> "Floats":
        from dpbayes_cli.inference.predictive.predict_normal import log_predictive_densities

        return log_predictive_densities(self.draws, self._with_indicators(features), targets)

    def _with_indicators(self, features: "Floats") -> "Floats":
        """Return numbers and indicators, in the order of the slopes."""
        import numpy as np

        own = [column for i, column in enumerate(self.columns) if i != self.target]
        codes = [features[:, i].astype(np.int64) for i in range(len(own))]
        parts = [
            features[:, factor.column] if factor.level is None else factor.of_codes(codes) for factor in factors_of(own)
        ]
        return np.column_stack(parts)
