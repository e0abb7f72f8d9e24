"""Predictors of a column of new records, from the posterior of a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, NumericColumn
from dpbayes_cli.core.predicted import LEVELS, Prediction, PredictiveLaws
from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class Predictor(ABC):
    """A predictor of one column of new records, from the posterior of a release.

    Attributes:
        columns: the columns of a record, the target included.
        names: the names of the columns in the file.
        target: the index of the predicted column in ``columns``.
        draws: draws from the joint posterior of the parameters, shape (n_draws, n_parameters).
    """

    columns: tuple[AnyColumn, ...]
    names: tuple[str, ...]
    target: int
    draws: Floats

    @abstractmethod
    def predict(self, codes: Integers) -> Prediction:
        """Return predictions for coded records, averaged over the draws.

        Args:
            codes: shape (n_records, n_columns), -1 for an invalid cell; the target's codes are ignored.
        """

    @property
    def name(self) -> str:
        """The name of the predicted column."""
        return self.names[self.target]

    @property
    def note(self) -> str:
        """A warning for readers of the predictions; may be empty."""
        return ""

    @property
    def level(self) -> float | None:
        """The level of the predicted quantile, None if no quantile is predicted."""
        return None

    def log_densities(self, codes: Integers, targets: Floats) -> Floats | None:
        """Return the log predictive densities of observed numbers; None if the predictor has no predictive law.

        Args:
            codes: the records, as in ``predict``.
            targets: the observed numbers in units of the file, NaN for a missing number, shape (n_records,).
        """
        return None


@dataclass(frozen=True)
class IntervalPredictor(Predictor):
    """A predictor that gives a predictive law of a number; a subclass implements ``intervals``.

    A numeric feature is given in units of the file, clamped and rounded as in the release; a text feature is given as
    the code of its level.
    """

    @abstractmethod
    def intervals(self, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return means and standard deviations, shape (n_records,), and quantiles, shape (n_records, n_levels).

        Args:
            features: the features in the order of the columns, without missing values, shape (n_records, n_features).
            levels: the levels of the quantiles, ascending.
        """

    def feature_log_densities(self, features: Floats, targets: Floats) -> Floats | None:
        """Return the log predictive densities of targets, shape (n_records,), or None if there is no density.

        Args:
            features: as in ``intervals``.
            targets: numbers in units of the file, without missing values, shape (n_records,).
        """
        return None

    def predict(self, codes: Integers) -> PredictiveLaws:
        """Return means, standard deviations and quantiles; see ``Predictor``."""
        valid, features = self._features(codes)
        table = np.full((len(codes), 2 + len(LEVELS)), np.nan)
        if len(valid):
            mean, sd, quantiles = self.intervals(features, LEVELS)
            table[valid] = np.column_stack([mean, sd, quantiles])
        return PredictiveLaws(table[:, 0], table[:, 1], table[:, 2:])

    def log_densities(self, codes: Integers, targets: Floats) -> Floats | None:
        """Return log predictive densities, NaN if the target or a feature is missing; see ``Predictor``."""
        valid, features = self._features(codes)
        known = np.isfinite(targets[valid])
        densities = self.feature_log_densities(features[known], targets[valid][known])
        if densities is None:
            return None
        all_densities = np.full(len(codes), np.nan)
        all_densities[valid[known]] = densities
        return all_densities

    def _features(self, codes: Integers) -> tuple[Integers, Floats]:
        indices = [i for i in range(len(self.columns)) if i != self.target]
        valid = np.flatnonzero((codes[:, indices] >= 0).all(axis=1))
        features = codes[valid][:, indices].astype(np.float64)
        for k, i in enumerate(indices):
            column = self.columns[i]
            if isinstance(column, NumericColumn):
                features[:, k] = np.clip(column.lower + features[:, k] * column.step, column.lower, column.upper)
        return valid, features


def fixed_target(model: str, names: Sequence[str], index: int, requested: str | None) -> int:
    """Return the index of the target of a model that predicts one column only; ``requested`` is the value of --target.

    Raises:
        SpecError: a target was requested, even if it is the target of the model.
    """
    if requested is not None:
        raise SpecError(
            f"{model} predicts {names[index]!r}, the target in its spec, and no other column",
            where="target",
            hint="leave --target out; only a network needs it, to choose the variable to predict",
        )
    return index
