"""What a study measured: one result a point, means over trials with their errors, and differences of methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbayes_cli.experiments.point import GridPoint, in_words

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


@dataclass(frozen=True)
class PointOutcome:
    """What was computed at a point.

    Attributes:
        measures: the numbers of the point, by name; None for what was not measured.
        trials: the numbers of its trials, by name, each of shape (n_trials,).
    """

    measures: Mapping[str, float | None]
    trials: Mapping[str, Floats]


def averaged(trials: Mapping[str, Floats], names: Iterable[str], **measures: float | None) -> PointOutcome:
    """Return the outcome whose measures are means over trials, each with its standard error as ``name_se``.

    Args:
        trials: the numbers of the trials.
        names: of what the means are taken; None for a name that the trials do not hold.
        measures: other numbers of the point.
    """
    for name in names:
        values = trials.get(name)
        measures[name] = None if values is None else float(values.mean())
        measures[f"{name}_se"] = None if values is None else standard_error(values)
    return PointOutcome(measures, trials)


def with_errors(*names: str) -> tuple[str, ...]:
    """Return the names of measures, each followed by that of its standard error."""
    return tuple(f"{name}{ending}" for name in names for ending in ("", "_se"))


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean of independent trials."""
    return float((values - values[0]).std(ddof=1) / math.sqrt(len(values)))  # of equal numbers exactly zero


class Difference(NamedTuple):
    """A mean difference over trials that two methods saw, and its standard error."""

    value: float
    error: float

    def sign(self, clear: float) -> int:
        """Return 1 or -1 if it is larger than so many standard errors, otherwise 0."""
        return 0 if abs(self.value) <= clear * self.error else (1 if self.value > 0.0 else -1)

    def __str__(self) -> str:
        return f"{self.value:+.4f} ± {self.error:.4f}"


def mean_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Return the mean of ``first`` less ``second`` over the same trials.

    Raises:
        ValueError: there are not as many trials of both.
    """
    away = np.array([a - b for a, b in zip(first, second, strict=True)])
    return Difference(float(away.mean()), standard_error(away))


@dataclass(frozen=True)
class Result:
    """What is known of one point: see ``PointOutcome``; ``result["epsilon"]`` reads its place."""

    point: GridPoint
    measures: Mapping[str, float | None]
    trials: Mapping[str, list[float]]

    def __getitem__(self, column: str) -> Any:
        return self.point[column]

    def measure(self, name: str) -> float:
        """Return a measure, nan if it was not measured."""
        value = self.measures[name]
        return math.nan if value is None else value

    def shown(self, name: str) -> str:
        """Return a measure for people, with its standard error if it has one; empty if it was not measured."""
        value, error = self.measures[name], self.measures.get(f"{name}_se")
        return "" if value is None else f"{value:.4g}" if error is None else f"{value:.4g} ± {error:.2g}"


class Results(tuple[Result, ...]):
    """The results of a study in the order of its grid."""

    __slots__ = ()

    def where(self, **place: Any) -> Results:
        """Return the results of points with these values in these columns."""
        return Results(each for each in self if all(each[column] == value for column, value in place.items()))

    def at(self, **place: Any) -> Results:
        """Return the results of points with these values in these columns, or with none: no price is every price."""
        return Results(each for each in self if all(each[column] in {value, None} for column, value in place.items()))

    def one(self, **place: Any) -> Result:
        """Return the one result with these values in these columns.

        Raises:
            ValueError: no result matches, or several do.
        """
        (found,) = self.where(**place)
        return found

    def values(self, column: str) -> list[Any]:
        """Return the distinct values of a column in their order, without None."""
        return list(dict.fromkeys(each[column] for each in self if each[column] is not None))

    def places(self, *columns: str) -> list[dict[str, Any]]:
        """Return the places that some result has, by the values of these columns, the first changing last."""
        every = (dict(zip(columns, values, strict=True)) for values in product(*map(self.values, columns)))
        return [place for place in every if self.where(**place)]

    def differences(self, first: str, second: str, measure: str) -> dict[str, Difference]:
        """Return the mean differences of two methods of a case, by the other columns, unless both are one law."""
        found = {}
        for each in self.where(method=first):
            place = {name: value for name, value in each.point.place.items() if name not in {"case", "method"}}
            others = self.where(method=second).at(**place)
            if others and others[0].point.digest != each.point.digest:
                found[in_words(place)] = mean_difference(each.trials[measure], others[0].trials[measure])
        return found
