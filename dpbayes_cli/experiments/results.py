"""Points of a study's grid, the results at these points, and claims that results confirm or contradict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpbayes_cli.base.canonical import canonical_json, digest
from dpbayes_cli.base.numeric import Floats

OURS = "dpbayes"  # the source of claims that no paper makes
CLEAR = 3.0
"""Differences beyond this many standard errors are clear; equal methods differ clearly in 1 of 370 comparisons."""
_COLUMNS_WITHOUT_NAMES = {"case", "method", "price"}


@dataclass(frozen=True)
class GridPoint:
    """One point in the grid of a study; ``point[column]`` reads its value in a column."""

    place: Mapping[str, Any]  # the point's values in the study's columns; the name of its case has no effect on results
    data: Mapping[str, Any]  # all values on which the simulated data depend; equal for all methods
    definition: Mapping[str, Any]  # all values on which the results depend; if one changes, the point is recomputed
    seed: int = 0  # the seed of the study; 0 if nothing is random
    details: Mapping[str, Any] = field(default_factory=dict)  # further columns of the point's row in ``results.csv``

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
        """The digest of the definition, which is the name of the point's file."""
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
        return np.random.SeedSequence([self.seed, int(digest(purpose, canonical_json(content)), 16)])


def in_words(place: Mapping[str, Any]) -> str:
    """Return the point's values in some columns as one line, such as ``coin, n 10, epsilon 0.1, naive``."""
    return ", ".join(
        str(value) if name in _COLUMNS_WITHOUT_NAMES else f"{name.replace('_', ' ')} {value}"
        for name, value in place.items()
        if value is not None
    )


class PointOutcome(NamedTuple):
    """The measures of a point by name, None if not measured; and arrays with one number per trial, by name."""

    measures: Mapping[str, float | None]
    trials: Mapping[str, Floats]

    @classmethod
    def averaged(cls, trials: Mapping[str, Floats], names: Iterable[str], **measures: float | None) -> PointOutcome:
        """Return an outcome with means over trials (None without trials), their standard errors, and ``measures``."""
        for name in names:
            values = trials.get(name)
            measures[name] = None if values is None else float(values.mean())
            measures[f"{name}_se"] = None if values is None else standard_error(values)
        return cls(measures, trials)


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean of independent trials; exactly zero for equal numbers."""
    return float((values - values[0]).std(ddof=1) / math.sqrt(len(values)))


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
    """Return the mean of ``first`` minus ``second`` over the same trials."""
    gaps = np.array([a - b for a, b in zip(first, second, strict=True)])
    return Difference(float(gaps.mean()), standard_error(gaps))


def differences_in_words(differences: Mapping[str, Difference], clear: float = CLEAR) -> str:
    """Return a text that states how many differences are clear, and lists the difference at each place."""
    signs = [each.sign(clear) for each in differences.values()]
    numbers = "; ".join(f"{place}: {each}" for place, each in differences.items())
    return f"clearly lower at {signs.count(-1)}, higher at {signs.count(1)} of {len(signs)} points: {numbers}"


@dataclass(frozen=True)
class Result:
    """The results at a point; ``result[column]`` reads the point's value in a column."""

    point: GridPoint
    measures: Mapping[str, float | None]
    trials: Mapping[str, list[float]]

    def __getitem__(self, column: str) -> Any:
        return self.point[column]

    def measure(self, name: str) -> float:
        """Return a measure; nan if it was not measured."""
        value = self.measures[name]
        return math.nan if value is None else value


class Results(tuple[Result, ...]):
    """The results of a study in the order of its grid."""

    __slots__ = ()

    def where(self, **place: Any) -> Results:
        """Return the results of points with these values in these columns."""
        return Results(each for each in self if all(each[column] == value for column, value in place.items()))

    def at(self, **place: Any) -> Results:
        """Return the results of points that have, in each of these columns, the given value or None."""
        return Results(each for each in self if all(each[column] in {value, None} for column, value in place.items()))

    def one(self, **place: Any) -> Result:
        """Return the only result with these values in these columns."""
        (result,) = self.where(**place)
        return result

    def values(self, column: str) -> list[Any]:
        """Return the distinct values of a column in the order of the results, without None."""
        return list(dict.fromkeys(each[column] for each in self if each[column] is not None))

    def places(self, *columns: str) -> list[dict[str, Any]]:
        """Return the combinations of these columns' values that occur; the first column varies slowest."""
        every = (dict(zip(columns, values, strict=True)) for values in product(*map(self.values, columns)))
        return [place for place in every if self.where(**place)]

    def differences(self, first: str, second: str, measure: str) -> dict[str, Difference]:
        """Return the mean difference of two methods by place, except where both draw from the same law."""
        differences = {}
        for each in self.where(method=first):
            place = {name: value for name, value in each.point.place.items() if name not in {"case", "method"}}
            others = self.where(method=second).at(**place)
            if others and others[0].point.digest != each.point.digest:
                differences[in_words(place)] = mean_difference(each.trials[measure], others[0].trials[measure])
        return differences


class Claim(NamedTuple):
    """A statement, for example of a paper about its figure, and whether the results confirm it."""

    source: str  # the paper and its figure, or ``OURS``
    says: str
    holds: bool
    measured: str  # the results that decide whether the claim holds, as text
    why: str = ""  # why paper and study differ, or another remark; may be empty

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "does not hold"


class Comparison(NamedTuple):
    """A statement about the differences between two methods, which results confirm or contradict."""

    source: str
    first: str
    second: str
    says: str
    why: str = ""  # the likely reason if results contradict the statement
    never: int = 0  # the sign that no clear difference, ``first`` minus ``second``, may have; 0: both signs may occur
    always: int = 0  # the sign that the difference must clearly have at every point; 0: not required
    some: int = 0  # the sign that the difference must clearly have at one point or more; 0: not required

    def claims(self, at: str, results: Results, measure: str, clear: float = CLEAR) -> Iterator[Claim]:
        """Yield the claim about a measure in the case ``at``, if any point has both methods."""
        differences = results.differences(self.first, self.second, measure)
        if not differences:
            return
        signs = {each.sign(clear) for each in differences.values()}
        holds = not (self.never and self.never in signs) and (not self.always or signs == {self.always})
        holds = holds and (not self.some or self.some in signs)
        measured = differences_in_words(differences, clear)
        yield Claim(self.source, f"{at}: {self.says}.", holds, measured, "" if holds else self.why)
