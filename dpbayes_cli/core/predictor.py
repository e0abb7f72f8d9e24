"""What predicts a column of new records: draws from the posterior of a release, whatever its model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, NumericColumn
from dpbayes_cli.core.predicted import LEVELS, Prediction, PredictiveLaws

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers


@dataclass(frozen=True)
class Predictor(ABC):
    """The posterior of a release, as it predicts one of its columns.

    Attributes:
        columns: the columns of a record, the target among them.
        names: their names in the file.
        target: the index of the column that is predicted, among them.
        draws: draws from the posterior of all parameters, shape (n_draws, n_parameters).
    """

    columns: tuple[AnyColumn, ...]
    names: tuple[str, ...]
    target: int
    draws: Floats

    @abstractmethod
    def predict(self, codes: Integers) -> Prediction:
        """Return what is predicted of coded records, averaged over the draws.

        Args:
            codes: shape (n_records, n_columns), -1 for an invalid cell; the target's are not looked at.
        """

    @property
    def name(self) -> str:
        """The name of the column that is predicted."""
        return self.names[self.target]

    @property
    def note(self) -> str:
        """What a reader of the predictions must know about them, or an empty text."""
        return ""

    @property
    def level(self) -> float | None:
        """The level of the quantile that is predicted, None where it is no quantile."""
        return None

    def log_densities(self, codes: Integers, targets: Floats) -> Floats | None:
        """Return the log predictive densities of observed numbers, None where there is no predictive law.

        Args:
            codes: of the records.
            targets: in units of the file, NaN where one is missing, shape (n_records,).
        """
        return None


@dataclass(frozen=True)
class IntervalPredictor(Predictor):
    """A posterior with a law for the number that is predicted; a subclass states the two methods below.

    Features are numbers in units of the file, clamped and rounded as in the release; of a text the code of its level.
    """

    @abstractmethod
    def intervals(self, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return means and standard deviations, shape (n_records,), and quantiles, shape (n_records, n_levels).

        Args:
            features: in the order of the columns without the target, none missing, shape (n_records, n_features).
            levels: of the quantiles, ascending.
        """

    def feature_log_densities(self, features: Floats, targets: Floats) -> Floats | None:
        """Return the log predictive densities of targets, shape (n_records,); None: they are not offered.

        Args:
            features: as in ``intervals``.
            targets: in units of the file, none missing, shape (n_records,).
        """
        return None

    def predict(self, codes: Integers) -> PredictiveLaws:
        """Return means, standard deviations and quantiles; see ``Predictor``."""
        import numpy as np

        valid, features = self._features(codes)
        found = np.full((len(codes), 2 + len(LEVELS)), np.nan)
        if len(valid):
            mean, sd, quantiles = self.intervals(features, LEVELS)
            found[valid] = np.column_stack([mean, sd, quantiles])
        return PredictiveLaws(found[:, 0], found[:, 1], found[:, 2:])

    def log_densities(self, codes: Integers, targets: Floats) -> Floats | None:
        """Return log predictive densities, NaN where the target or a feature is missing; see ``Predictor``."""
        import numpy as np

        valid, features = self._features(codes)
        known = np.isfinite(targets[valid])
        densities = self.feature_log_densities(features[known], targets[valid][known])
        if densities is None:
            return None
        found = np.full(len(codes), np.nan)
        found[valid[known]] = densities
        return found

    def _features(self, codes: Integers) -> tuple[Integers, Floats]:
        """Return the indices of the records that have all features, and these."""
        import numpy as np

        places = [i for i in range(len(self.columns)) if i != self.target]
        valid = np.flatnonzero((codes[:, places] >= 0).all(axis=1))
        features = codes[valid][:, places].astype(np.float64)
        for k, i in enumerate(places):
            column = self.columns[i]
            if isinstance(column, NumericColumn):
                features[:, k] = np.clip(column.lower + features[:, k] * column.step, column.lower, column.upper)
        return valid, features


def fixed_target(model: str, names: Sequence[str], place: int, asked: str | None) -> int:
    """Return the index of the one column that a model predicts.

    Args:
        model: its name.
        names: of its columns.
        place: the index of that column.
        asked: the name that is asked for, or None.

    Raises:
        SpecError: another is asked for, or the same one: of a regression there is nothing to ask.
    """
    if asked is not None:
        raise SpecError(
            f"{model} predicts {names[place]!r}, as its spec says, and no other column",
            where="target",
            hint="leave --target out: it chooses among the variables of a network",
        )
    return place
