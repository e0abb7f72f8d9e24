"""Predictions for records, and how they are written: probabilities of classes, scores of two classes, or numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpbayes_cli.privacy.lazy_numpy import np

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Booleans, Floats, Integers

LEVELS = (0.05, 0.95)
"""The levels of the predictive quantiles that are the ends of the central interval."""
COVERAGE = 0.9
"""The probability that the central interval contains the target."""


@dataclass(frozen=True)
class Prediction(ABC):
    """Predictions: ``values`` has one row for each record, NaN for a record without a prediction."""

    values: Floats
    digits: ClassVar[int] = 10
    """The number of significant digits in a file."""

    def __len__(self) -> int:
        return len(self.values)

    @abstractmethod
    def columns(self) -> list[tuple[str, str, Sequence[Any]]]:
        """Return the columns of a table of predictions, one row for each record.

        Returns:
            For each column its name in a CSV file, its key in JSON, and its values. In the name, {} stands for the
            target. If a record has no prediction, its text is empty, or its number is NaN.
        """

    def header(self, target: str) -> list[str]:
        """Return the names of the cells that ``rows`` yields; the first cell is the predicted class or number."""
        return [name.replace("{}", target, 1) for name, _, _ in self.columns()]

    def rows(self) -> Iterator[list[str]]:
        """Yield the cells of each record, which are empty if there is no prediction."""
        for row in zip(*(values for _, _, values in self.columns()), strict=True):
            yield [cell if isinstance(cell, str) else self._cell(cell) for cell in row]

    def documents(self) -> list[dict[str, Any]]:
        """Return each record's prediction as a JSON object."""
        columns = self.columns()
        cells = zip(*(values for _, _, values in columns), strict=True)
        return [{key: _or_none(cell) for (_, key, _), cell in zip(columns, row, strict=True)} for row in cells]

    def joined(self, others: Sequence[Self]) -> Self:
        """Return these predictions followed by others."""
        parts = [self, *others]
        names = [item.name for item in fields(self) if isinstance(getattr(self, item.name), np.ndarray)]
        return replace(self, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def rows_at(self, index: Integers) -> Self:
        """Return the predictions with these indices; -1 is the last one."""
        names = [item.name for item in fields(self) if isinstance(getattr(self, item.name), np.ndarray)]
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def only_where(self, valid: Booleans) -> Self:
        """Return the predictions, with NaN for records that are not valid, shape (n_records,)."""
        names = [item.name for item in fields(self) if isinstance(getattr(self, item.name), np.ndarray)]
        arrays = {name: np.array(getattr(self, name), dtype=np.float64) for name in names}
        for array in arrays.values():
            array[~valid] = np.nan
        return replace(self, **arrays)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes; None if a number is predicted."""
        return None

    def _cell(self, value: float) -> str:
        return "" if value != value else f"{value:.{self.digits}g}"  # noqa: PLR0124 - not a number


@dataclass(frozen=True)
class ClassPrediction(Prediction):
    """Predictions of a class, one of ``levels``."""

    levels: tuple[str, ...]
    digits: ClassVar[int] = 6

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes."""
        return self.levels


@dataclass(frozen=True)
class ClassProbabilities(ClassPrediction):
    """Probabilities of classes, shape (n_records, n_classes)."""

    @property
    def labels(self) -> list[str]:
        """The most probable class of each record, the first in a tie; an empty text if there is no prediction."""
        known = ~np.isnan(self.values).any(axis=1)
        best = np.where(known, np.nan_to_num(self.values).argmax(axis=1), -1)
        return [self.levels[k] if k >= 0 else "" for k in best.tolist()]

    def columns(self) -> list[tuple[str, str, Sequence[Any]]]:
        """Return the label, and the probability of each class."""
        probabilities = zip(self.levels, self.values.T.tolist(), strict=True)
        return [("{}", "label", self.labels), *((f"p[{{}}={level}]", level, p) for level, p in probabilities)]

    def documents(self) -> list[dict[str, Any]]:
        """Return each record's label, and the list of its probabilities in the order of the classes."""
        return [
            {"label": label or None, "probabilities": list(map(_or_none, row))}
            for label, row in zip(self.labels, self.values.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class ClassScores(ClassPrediction):
    """Scores that are not probabilities, shape (n_records,); a score above zero predicts the second of two classes."""

    @property
    def labels(self) -> list[str]:
        """The predicted class of each record; an empty text if the record has no score."""
        return ["" if value != value else self.levels[value > 0.0] for value in self.values.tolist()]  # noqa: PLR0124

    def columns(self) -> list[tuple[str, str, Sequence[Any]]]:
        """Return the label and the score."""
        return [("{}", "label", self.labels), (f"score[{{}}={self.levels[1]}]", "score", self.values.tolist())]


@dataclass(frozen=True)
class NumberPrediction(Prediction):
    """Numbers in units of the file, shape (n_records,)."""

    def columns(self) -> list[tuple[str, str, Sequence[Any]]]:
        """Return the number."""
        return [("{}", "prediction", self.values.tolist())]


@dataclass(frozen=True)
class PredictiveLaws(NumberPrediction):
    """Numbers with their predictive laws, in units of the file; ``values`` are the means.

    Attributes:
        sd: the standard deviations, shape (n_records,).
        quantiles: the quantiles at the levels ``LEVELS``, shape (n_records, n_levels).
    """

    sd: Floats
    quantiles: Floats

    def columns(self) -> list[tuple[str, str, Sequence[Any]]]:
        """Return the mean, the standard deviation and the ends of the interval."""
        named = {"sd": self.sd, "q05": self.quantiles[:, 0], "q95": self.quantiles[:, -1]}
        return [*super().columns(), *((f"{name}[{{}}]", name, values.tolist()) for name, values in named.items())]


def _or_none(cell: str | float) -> str | float | None:
    return None if cell == "" or cell != cell else cell  # noqa: PLR0124 - not a number
