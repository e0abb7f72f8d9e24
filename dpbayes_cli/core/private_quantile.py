"""Private bounds: quantiles of a column of numbers, chosen on a public grid by the exponential mechanism.

One pass over the data reads an exact histogram of the valid numbers on a fine public grid of [low, high]. The bounds
are edges of a coarser grid, drawn one after the other. The drawn bounds are public, and the statistic of the numbers
between them is computed from the same histogram, in integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import accumulate
from typing import ClassVar

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, Outside, RecordPolicy
from dpbayes_cli.core.private_choice import Bounds, Chosen, PrivateChoice
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import CodeCounts, ExactEvidence, Statistic, Witness, for_units
from dpbayes_cli.core.statistic_values import evaluate_codes
from dpbayes_cli.privacy.grid import EXACT, GRID_SLACK, CellWeights, cell_weights
from dpbayes_cli.privacy.kinds import BoundedRange
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.neighbors import Neighbors

_HISTOGRAM_STEPS = 1 << 18
_MIN_SUBSTEPS = 16
_ROUND_DOWN = Context(prec=30, rounding=ROUND_FLOOR)

Histogram = Mapping[int, int]
"""For each code that occurs, the number of valid records with this code."""


@dataclass(frozen=True)
class BoundsGrid:
    """The public grid of the bounds, and the finer grid of the histogram.

    Attributes:
        low, high: the public range; numbers outside the range are clamped or dropped.
        cells: the requested number of cells. For whole numbers all cells except the last have the same whole width, and
            there may be fewer cells.
        whole: whether the data are whole numbers. If so, low is 0 and high is a whole number.
    """

    low: float
    high: float
    cells: int
    whole: bool = False

    @property
    def substeps(self) -> int:
        """The number of histogram steps in a cell."""
        return -(-int(self.high) // self.cells) if self.whole else max(_MIN_SUBSTEPS, _HISTOGRAM_STEPS // self.cells)

    @property
    def steps(self) -> int:
        """The number of histogram steps between low and high."""
        return int(self.high) if self.whole else self.cells * self.substeps

    @property
    def last(self) -> int:
        """The index of the last edge; the first edge has index 0."""
        return -(-self.steps // self.substeps)

    def edge(self, index: int) -> int:
        """Return the code of an edge."""
        return min(index * self.substeps, self.steps)

    def value(self, index: int) -> float:
        """Return the number at an edge."""
        code = self.edge(index)
        if self.whole:
            return float(code)
        return self.high if code == self.steps else self.low + (self.high - self.low) * (code / self.steps)

    def index(self, value: float) -> int:
        """Return the index of the edge that has this value.

        Raises:
            ValueError: there is no such edge.
        """
        nearest = round((value - self.low) / (self.high - self.low) * self.steps / self.substeps)
        for index in range(max(nearest - 1, 0), min(nearest + 1, self.last) + 1):
            if self.value(index) == value:
                return index
        raise ValueError(f"{value} is not an edge of the grid of private bounds")

    def column(self, role: str, outside: Outside) -> NumericColumn:
        """Return the column whose codes the histogram counts."""
        return NumericColumn(role, self.low, self.high, self.steps, integers=self.whole, outside=outside)

    def cumulative(self, histogram: Histogram) -> list[int]:
        """Return the number of valid records at or below each edge."""
        counts = [0] * (self.last + 1)
        for code, count in histogram.items():
            counts[-(-code // self.substeps)] += count
        return list(accumulate(counts))


@dataclass(frozen=True)
class PrivateBounds(PrivateChoice):
    """The law of two private bounds: first the upper bound is drawn, then the lower bound among the edges below it.

    Each bound is near a quantile q of the numbers. The utility of an edge x is u(x) = -|F(x) - q m|, where m is the
    number of valid numbers and F(x) is the number of them at or below x. An edge is drawn with probability proportional
    to exp(e u / (2 D)), by exact integer weights. Here e is epsilon divided by the number of drawn bounds, and D is the
    sensitivity of u.

    Privacy: if a valid record is replaced by a valid record, m stays and F(x) changes by at most 1. If a valid record
        becomes invalid or is removed, or the reverse, F(x) - q m changes by 1 - q if the number is at or below x, and
        by q otherwise. So one record changes F(x) - q m by at most D = 1 under replace-one, and by at most D = max(q, 1
        - q) under add-remove; the absolute value does not increase a change. If a unit has at most k records, D is k
        times as large. Hence the log ratio of the probabilities of an edge under two neighbors varies by at most e over
        the edges (bounded range). Integer weights add less than ``GRID_SLACK``, which is subtracted from e beforehand.
        The second choice depends on the data and on the first choice, which is public: epsilons and Renyi curves add up
        under such adaptive composition. Both directions count: if q m lies between F(x) at two edges, one record can
        raise one utility and lower the other, so their difference changes by up to 2 D.
    Source: Smith 2011 (private quantiles, as in Bernstein and Sheldon 2018, sec. 3.3); McSherry and Talwar 2007; Durfee
        and Rogers 2019 (bounded range).

    Attributes:
        lower, upper: the quantiles q of the two bounds; lower is None if the lower bound is fixed at ``grid.low``.
        epsilon: the epsilon of all drawn bounds together; each bound gets an equal part.
        outside: what happens to numbers beyond the bounds.
        contributions: the largest number k of records of a privacy unit.
    """

    key: ClassVar[str] = "bounds"
    grid: BoundsGrid
    lower: Fraction | None
    upper: Fraction
    epsilon: Decimal
    neighbors: Neighbors
    outside: Outside = "clamp"
    contributions: int = 1

    @property
    def parts(self) -> int:
        """The number of drawn bounds."""
        return 1 if self.lower is None else 2

    @property
    def guarantee(self) -> BoundedRange:
        """The guarantee of the bounds."""
        return BoundedRange(self.epsilon, self.parts)

    @property
    def least_records(self) -> int:
        """At least two records lie beyond each quantile."""
        tails = [1 - self.upper, *([] if self.lower is None else [self.lower])]
        return math.ceil(2 / min(tails))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the release assumes about the bounds."""
        return (
            "The bounds are quantiles of the data, which the first step of this release found privately. The range in "
            "which it searched for them was chosen without looking at the records.",
            "The posterior treats the bounds as fixed in advance: it makes no use of the small amount of information "
            "about the data that the bounds contain.",
        )

    def described(self) -> str:
        """Return a noun phrase that says what is chosen."""
        quantiles = [f"{float(q):g}" for q in (self.lower, self.upper) if q is not None]
        return f"private bounds near the quantile{'s' * (self.lower is not None)} {' and '.join(quantiles)} of the data"

    def extremes(self) -> Sequence[Chosen]:
        """Return the narrowest bounds at both ends of the grid."""
        lowest = {0} if self.lower is None else {0, self.grid.last - 1}
        return [self.values_at((lower, lower + 1)) for lower in lowest]

    def first_statistic(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> Statistic:
        """Return the histogram of the only column."""
        (column,) = columns
        return self.statistic(column.role, policy)

    def statistic(self, role: str, policy: RecordPolicy) -> Statistic:
        """Return the histogram of the numbers.

        Privacy: a record counts at no more than one code, so that replacing it changes the histogram by at most 2 in
            L1, and adding it by at most 1. The histogram itself never leaves the process.
        Source: derived here.
        """
        column = self.grid.column(role, self.outside)
        top, bottom = (column.cell(1.0),), (column.cell(0.0),)
        change, other = (1, None) if policy.neighbors is Neighbors.ADD_REMOVE else (2, bottom)
        histogram = Statistic(("histogram",), (CodeCounts(column),), change, Witness(top, other), change)
        return for_units(histogram, policy)

    def sensitivity(self, quantile: Fraction) -> Fraction:
        """Return the sensitivity D of the utility."""
        of_one_record = Fraction(1) if self.neighbors is Neighbors.REPLACE_ONE else max(quantile, 1 - quantile)
        return self.contributions * of_one_record

    def power(self, quantile: Fraction) -> Decimal:
        """Return how much one unit of the loss |b F - a m| lowers a log weight, rounded down, where q = a / b."""
        epsilon = _ROUND_DOWN.subtract(_ROUND_DOWN.divide(self.epsilon, Decimal(self.parts)), GRID_SLACK)
        units = 2 * self.sensitivity(quantile) * quantile.denominator
        return _ROUND_DOWN.divide(_ROUND_DOWN.multiply(epsilon, Decimal(units.denominator)), Decimal(units.numerator))

    def weights(self, quantile: Fraction, cumulative: list[int], first: int, last: int) -> CellWeights:
        """Return the integer weights of the edges first..last, given the exact cumulative counts at all edges."""
        power, losses = self.power(quantile), self._losses(quantile, cumulative, first, last)

        def exact(cell: int) -> Decimal:
            return EXACT.multiply(power, Decimal(-losses[cell]))

        return cell_weights(-float(power) * np.array(losses, dtype=np.float64), exact)

    def choose(self, histogram: Histogram) -> tuple[int, int]:
        """Draw the indices of the lower and the upper edge, with the operating system's randomness.

        Privacy: see the class; only the two edges are returned.
        Source: see the class.
        """
        return self._choose(histogram, lambda *edges: self.weights(*edges).draw(1)[0])

    def draw(self, evidence: ExactEvidence) -> Chosen:
        """Draw the bounds, with the operating system's randomness.

        Privacy: see the class; only the bounds are returned.
        Source: see the class.
        """
        return self.values_at(self.choose(evidence.histogram))

    def values_at(self, edges: tuple[int, int]) -> Bounds:
        """Return the numbers at the indices of two edges."""
        lower, upper = edges
        return self.grid.value(lower), self.grid.value(upper)

    def final_values(
        self, evidence: ExactEvidence, chosen: Chosen, columns: Sequence[AnyColumn], statistic: Statistic
    ) -> tuple[int, ...]:
        """Return the statistic of the numbers between the bounds, computed from the histogram."""
        lower, upper = (self.grid.index(require_type(bound, float)) for bound in chosen)
        column = require_type(columns[0], NumericColumn)
        return evaluate_codes(statistic, column, self.codes(evidence.histogram, lower, upper, column))

    def simulate(self, histogram: Histogram, rng: np.random.Generator) -> tuple[int, int]:
        """Draw bounds in floats, for simulations only."""

        def draw(quantile: Fraction, cumulative: list[int], first: int, last: int) -> int:
            losses = np.array(self._losses(quantile, cumulative, first, last), dtype=np.float64)
            return int(np.argmax(rng.gumbel(size=len(losses)) - float(self.power(quantile)) * losses))

        return self._choose(histogram, draw)

    def _choose(self, histogram: Histogram, draw: Callable[[Fraction, list[int], int, int], int]) -> tuple[int, int]:
        cumulative = self.grid.cumulative(histogram)
        upper = 1 + draw(self.upper, cumulative, 1, self.grid.last)
        return (0 if self.lower is None else draw(self.lower, cumulative, 0, upper - 1)), upper

    def _losses(self, quantile: Fraction, cumulative: list[int], first: int, last: int) -> list[int]:
        """Return |b F - a m|, where q = a / b, for the edges first..last, minus the smallest of these losses."""
        target = quantile.numerator * cumulative[-1]
        losses = [abs(quantile.denominator * count - target) for count in cumulative[first : last + 1]]
        least = min(losses)
        return [loss - least for loss in losses]

    def codes(self, histogram: Histogram, lower: int, upper: int, column: NumericColumn) -> dict[int, int]:
        """Return the histogram of the codes of a column whose bounds are the chosen edges.

        A number outside the edges is clamped or dropped; a number is then rounded to the nearest grid point of the
        column. The computation is in integers.

        Privacy: whatever the chosen edges, a record still counts at no more than one code in 0..steps, so that the
            column's statistic has the sensitivity that its docstring proves.
        Source: derived here.
        """
        start = self.grid.edge(lower)
        width = self.grid.edge(upper) - start
        counts: dict[int, int] = {}
        for code, count in histogram.items():
            inside = min(max(code - start, 0), width)
            if self.outside == "drop" and inside != code - start:
                continue
            nearest = (2 * inside * column.steps + width) // (2 * width)
            counts[nearest] = counts.get(nearest, 0) + count
        return counts
