"""Points of a study's grid, their results, and claims that the results confirm or contradict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpbayes_cli.base.canonical import canonical_json, digest

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

OURS = "dpbayes"
"""The source of claims that no paper makes."""
CLEAR = 3.0
"""Differences beyond this many standard errors are clear; equal methods differ clearly in 1 of 370 comparisons."""
_COLUMNS_WITHOUT_NAMES = {"case", "method", "price"}


@dataclass(frozen=True)
class GridPoint:
    """One point in the grid of a study.

    Attributes:
        place: the point's values in the study's columns, which ``point[column]`` reads. Results do not depend on the
            name of the case.
        data: what the simulated data depend on; it is the same for all methods, which thus use the same data.
        definition: everything that the results depend on; the point is recomputed if and only if this changes.
        seed: the seed of the study; 0 if nothing is random.
        details: further columns of the point's row in ``results.csv``.
    """

    place: Mapping[str, Any]
    data: Mapping[str, Any]
    definition: Mapping[str, Any]
    seed: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Any:
        return self.place[column]

    @property
    def case(self) -> str:
        return str(self.place["case"])

    @property
    def epsilon(self) -> float:
        """The point's epsilon as a float; nan if it has none."""
        return float(self.place["epsilon"] or "nan")

    @property
    def digest(self) -> str:
        """The digest of the definition, which gives the point's file its name."""
        return digest("experiment cell", canonical_json(self.definition))

    def data_seed(self) -> np.random.SeedSequence:
        """Return the seed of the data, which all methods share."""
        return self.seed_of("experiment data", self.data)

    def noise_seed(self, **released: Any) -> np.random.SeedSequence:
        """Return the seed of the noise, which all methods that infer from the same release share."""
        return self.seed_of("experiment noise", {**self.data, **released})

    def inference_seed(self) -> np.random.SeedSequence:
        """Return the seed of the method's own draws."""
        return np.random.SeedSequence([self.seed, int(self.digest, 16)])

    def seed_of(self, purpose: str, content: Mapping[str, Any]) -> np.random.SeedSequence:
        """Return the seed for a purpose; equal contents give equal seeds."""
        return np.random.SeedSequence([self.seed, int(digest(purpose, canonical_json(content)), 16)])


def in_words(place: Mapping[str, Any]) -> str:
    """Return the values of some columns in one line, such as ``coin, n 10, epsilon 0.1, naive``."""
    return ", ".join(
        str(value) if name in _COLUMNS_WITHOUT_NAMES else f"{name.replace('_', ' ')} {value}"
        for name, value in place.items()
        if value is not None
    )


@dataclass(frozen=True)
class PointOutcome:
    """The results of one point.

    Attributes:
        measures: the numbers of the point, by name; None for a number that was not measured.
        trials: the numbers of single trials, by name, each array of shape (n_trials,).
    """

    measures: Mapping[str, float | None]
    trials: Mapping[str, Floats]

    @classmethod
    def averaged(cls, trials: Mapping[str, Floats], names: Iterable[str], **measures: float | None) -> PointOutcome:
        """Return an outcome whose measures are means over trials and their standard errors, and further ``measures``.

        The mean of ``trials[name]`` is the measure ``name``, and its standard error is ``name_se``. Both are None for
        names that ``trials`` lacks.
        """
        for name in names:
            values = trials.get(name)
            measures[name] = None if values is None else float(values.mean())
            measures[f"{name}_se"] = None if values is None else standard_error(values)
        return cls(measures, trials)


def with_errors(*names: str) -> tuple[str, ...]:
    """Return the names of measures, each followed by the name of its standard error."""
    return tuple(f"{name}{ending}" for name in names for ending in ("", "_se"))


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean of independent trials."""
    return float((values - values[0]).std(ddof=1) / math.sqrt(len(values)))  # of equal numbers exactly zero


class Difference(NamedTuple):
    """The mean difference of two methods over the same trials, and its standard error."""

    value: float
    error: float

    def sign(self, clear: float) -> int:
        """Return 1 or -1 if the difference exceeds ``clear`` standard errors, otherwise 0."""
        return 0 if abs(self.value) <= clear * self.error else (1 if self.value > 0.0 else -1)

    def __str__(self) -> str:
        return f"{self.value:+.4f} ± {self.error:.4f}"


def mean_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Return the mean of ``first`` minus ``second`` over the same trials.

    Raises:
        ValueError: the numbers of trials differ.
    """
    gaps = np.array([a - b for a, b in zip(first, second, strict=True)])
    return Difference(float(gaps.mean()), standard_error(gaps))


@dataclass(frozen=True)
class Result:
    """A point and its results; ``result[column]`` reads the point's value in a column."""

    point: GridPoint
    measures: Mapping[str, float | None]
    trials: Mapping[str, list[float]]

    def __getitem__(self, column: str) -> Any:
        return self.point[column]

    def measure(self, name: str) -> float:
        """Return a measure; nan if it was not measured."""
        value = self.measures[name]
        return math.nan if value is None else value

    def shown(self, name: str) -> str:
        """Return a measure as text, with its standard error if that is known; empty if it was not measured."""
        value, error = self.measures[name], self.measures.get(f"{name}_se")
        return "" if value is None else f"{value:.4g}" if error is None else f"{value:.4g} ± {error:.2g}"


class Results(tuple[Result, ...]):
    """The results of a study in the order of its grid."""

    __slots__ = ()

    def where(self, **place: Any) -> Results:
        """Return the results of points with these values in these columns."""
        return Results(each for each in self if all(each[column] == value for column, value in place.items()))

    def at(self, **place: Any) -> Results:
        """Return the results of points with these values in these columns; None in a column matches every value."""
        return Results(each for each in self if all(each[column] in {value, None} for column, value in place.items()))

    def one(self, **place: Any) -> Result:
        """Return the one result with these values in these columns.

        Raises:
            ValueError: no result matches, or several do.
        """
        (result,) = self.where(**place)
        return result

    def values(self, column: str) -> list[Any]:
        """Return the distinct values of a column in the order of the results, without None."""
        return list(dict.fromkeys(each[column] for each in self if each[column] is not None))

    def places(self, *columns: str) -> list[dict[str, Any]]:
        """Return the combinations of values in these columns that occur; the first column varies slowest."""
        every = (dict(zip(columns, values, strict=True)) for values in product(*map(self.values, columns)))
        return [place for place in every if self.where(**place)]

    def differences(self, first: str, second: str, measure: str) -> dict[str, Difference]:
        """Return the mean differences of two methods, except at points where both draw from the same law."""
        differences = {}
        for each in self.where(method=first):
            place = {name: value for name, value in each.point.place.items() if name not in {"case", "method"}}
            others = self.where(method=second).at(**place)
            if others and others[0].point.digest != each.point.digest:
                differences[in_words(place)] = mean_difference(each.trials[measure], others[0].trials[measure])
        return differences


class Claim(NamedTuple):
    """A statement, for example of a paper about its figure, and whether the results confirm it.

    Attributes:
        source: the paper and its figure, or ``OURS``.
        says: the statement.
        holds: whether the results confirm the statement.
        measured: the results that decide this, as text.
        why: the reason if paper and study differ, or another remark; may be empty.
    """

    source: str
    says: str
    holds: bool
    measured: str
    why: str = ""

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "does not hold"


class Comparison(NamedTuple):
    """A statement about the differences of two methods, which results confirm or contradict.

    Attributes:
        source, first, second, says: the paper or ``OURS``, the two methods, and the statement.
        why: the likely reason if results contradict the statement.
        never: the sign, 1 or -1, that no clear difference of ``first`` minus ``second`` may have; 0: both may occur.
        always: the sign that the difference must clearly have at every point; 0: not required.
        some: the sign that the difference must clearly have at one point or more; 0: not required.
    """

    source: str
    first: str
    second: str
    says: str
    why: str = ""
    never: int = 0
    always: int = 0
    some: int = 0

    def claims(self, at: str, results: Results, measure: str, clear: float = CLEAR) -> list[Claim]:
        """Return a list with the claim about a measure, which is empty if no point has both methods.

        Args:
            at: the name of the case, with which the claim begins.
            results: the results of one case.
            clear: differences beyond this many standard errors are clear.
        """
        differences = results.differences(self.first, self.second, measure)
        if not differences:
            return []
        signs = [each.sign(clear) for each in differences.values()]
        holds = not (self.never and self.never in signs)
        holds = holds and (not self.always or set(signs) == {self.always}) and (not self.some or self.some in signs)
        numbers = "; ".join(f"{place}: {each}" for place, each in differences.items())
        measured = f"clearly lower at {signs.count(-1)}, higher at {signs.count(1)} of {len(signs)} points: {numbers}"
        return [Claim(self.source, f"{at}: {self.says}.", holds, measured, "" if holds else self.why)]
