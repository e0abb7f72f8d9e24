"""Predictions for records: probabilities of classes, scores of two classes, or numbers; and how each is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

LEVELS = (0.05, 0.95)
"""The levels of predictive quantiles: the ends of the central interval."""
COVERAGE = 0.9
"""The probability that the central interval contains the target."""


@dataclass(frozen=True)
class Prediction(ABC):
    """Predictions for several records, in their order; NaN for a record without a prediction.

    Attributes:
        values: the predictions, one row for each record.
    """

    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    @abstractmethod
    def header(self, target: str) -> list[str]:
        """Return the column names of ``rows``; the first column holds the predicted class or number."""

    @abstractmethod
    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of each record; they are empty if there is no prediction."""

    @abstractmethod
    def documents(self) -> list[dict[str, Any]]:
        """Return each record's prediction as a JSON object."""

    def joined(self, others: Sequence[Self]) -> Self:
        """Return these predictions followed by others."""
        import numpy as np

        parts = [self, *others]
        names = [item.name for item in fields(self) if isinstance(getattr(self, item.name), np.ndarray)]
        return replace(self, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes, None if a number is predicted."""
        return None


@dataclass(frozen=True)
class ClassPrediction(Prediction):
    """Predictions of a class.

    Attributes:
        levels: the classes.
    """

    levels: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes."""
        return self.levels


@dataclass(frozen=True)
class ClassProbabilities(ClassPrediction):
    """Probabilities of classes.

    Attributes:
        values: shape (n_records, n_classes).
        levels: the classes.
    """

    @property
    def labels(self) -> list[str]:
        """The most probable class of each record, the first in a tie; an empty text if there is no prediction."""
        import numpy as np

        known = ~np.isnan(self.values).any(axis=1)
        best = np.where(known, np.nan_to_num(self.values).argmax(axis=1), -1)
        return [self.levels[k] if k >= 0 else "" for k in best.tolist()]

    def header(self, target: str) -> list[str]:
        """Return the columns of the label and of each class probability."""
        return [target, *(f"p[{target}={level}]" for level in self.levels)]

    def rows(self) -> Iterator[list[str]]:
        """Yield the label and the probabilities."""
        for label, row in zip(self.labels, self.values.tolist(), strict=True):
            yield [label, *(_cell(p, 6) for p in row)]

    def documents(self) -> list[dict[str, Any]]:
        """Return labels and probabilities."""
        return [
            {"label": label or None, "probabilities": [_or_none(p) for p in row]}
            for label, row in zip(self.labels, self.values.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class ClassScores(ClassPrediction):
    """Scores that are not probabilities: above zero for the second of two classes.

    Attributes:
        values: shape (n_records,).
        levels: the two classes.
    """

    @property
    def labels(self) -> list[str]:
        """The class of each record: the second above score zero, else the first; an empty text without a score."""
        return ["" if value != value else self.levels[value > 0.0] for value in self.values.tolist()]  # noqa: PLR0124

    def header(self, target: str) -> list[str]:
        """Return the columns of the label and the score."""
        return [target, f"score[{target}={self.levels[1]}]"]

    def rows(self) -> Iterator[list[str]]:
        """Yield the label and the score."""
        for label, value in zip(self.labels, self.values.tolist(), strict=True):
            yield [label, _cell(value, 6)]

    def documents(self) -> list[dict[str, Any]]:
        """Return labels and scores."""
        return [
            {"label": label or None, "score": _or_none(value)}
            for label, value in zip(self.labels, self.values.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class NumberPrediction(Prediction):
    """Numbers, in units of the file.

    Attributes:
        values: shape (n_records,).
    """

    def header(self, target: str) -> list[str]:
        """Return the column of the prediction."""
        return [target]

    def rows(self) -> Iterator[list[str]]:
        """Yield the prediction."""
        for value in self.values.tolist():
            yield [_cell(value, 10)]

    def documents(self) -> list[dict[str, Any]]:
        """Return the predictions."""
        return [{"prediction": _or_none(value)} for value in self.values.tolist()]


@dataclass(frozen=True)
class PredictiveLaws(Prediction):
    """Numbers with their predictive laws, in units of the file.

    Attributes:
        values: the means, shape (n_records,).
        sd: the standard deviations, shape (n_records,).
        quantiles: at ``LEVELS``, shape (n_records, n_levels).
    """

    sd: Floats
    quantiles: Floats

    def header(self, target: str) -> list[str]:
        """Return the columns of the mean, the standard deviation and the ends of the interval."""
        return [target, *(f"{name}[{target}]" for name in ("sd", "q05", "q95"))]

    def rows(self) -> Iterator[list[str]]:
        """Yield mean, standard deviation and ends of the interval."""
        for row in self._table():
            yield [_cell(value, 10) for value in row]

    def documents(self) -> list[dict[str, Any]]:
        """Return mean, standard deviation and ends of the interval."""
        names = ("prediction", "sd", "q05", "q95")
        return [dict(zip(names, map(_or_none, row), strict=True)) for row in self._table()]

    def _table(self) -> list[list[float]]:
        import numpy as np

        table: list[list[float]] = np.column_stack(
            [self.values, self.sd, self.quantiles[:, 0], self.quantiles[:, -1]]
        ).tolist()
        return table


def _cell(value: float, digits: int) -> str:
    return "" if value != value else f"{value:.{digits}g}"  # noqa: PLR0124 - not a number


def _or_none(value: float) -> float | None:
    return None if value != value else value  # noqa: PLR0124 - not a number
