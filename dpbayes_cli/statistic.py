"""What a record contributes: columns with public domains, integer expressions of them, and their exact sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats


@dataclass(frozen=True)
class RecordPolicy:
    """How neighbours are defined and what an invalid record counts as.

    Attributes:
        neighbors: the neighbour relation.
        impute: the public value that stands for an invalid cell, or None when invalid records are dropped
            (a dropped record is the null record: it contributes zero and has likelihood one).
    """

    neighbors: Neighbors
    impute: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every record is valid, so that under replace-one the number of valid records is public."""
        return self.impute is not None


@dataclass(frozen=True)
class Column:
    """One column that a model reads, with its public domain.

    Attributes:
        role: what the column is to the model, e.g. ``outcome``.
        levels: the texts that are valid, in the order of their codes; everything else is invalid.
    """

    role: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class CountAt:
    """The expression that is 1 for a record whose column has the given level, else 0.

    Attributes:
        role: the column's role.
        level: the code of the level.
    """

    role: str
    level: int


@dataclass(frozen=True)
class NumericColumn:
    """One column of numbers that a model reads, with public bounds and a public grid.

    A valid number is clamped to the bounds and rounded to the nearest of ``steps`` + 1 grid points; its code is the
    index of that point, an integer in 0..steps.

    Attributes:
        role: what the column is to the model, e.g. ``value``.
        lower, upper: the public bounds, lower < upper.
        steps: the number of grid steps between them.
        integers: whether only integers are valid.
    """

    role: str
    lower: float
    upper: float
    steps: int
    integers: bool = False

    @property
    def step(self) -> float:
        """The width of a grid step."""
        return (self.upper - self.lower) / self.steps

    def code(self, number: float) -> int:
        """Return the code of a number; the engines compute the same in the same IEEE operations."""
        clamped = min(max(number, self.lower), self.upper)
        return math.floor((clamped - self.lower) / self.step + 0.5)

    def total_code(self, numbers: Floats) -> int:
        """Return the sum of the codes of many numbers."""
        import numpy as np

        clamped = np.clip(numbers, self.lower, self.upper)
        return int(np.floor((clamped - self.lower) / self.step + 0.5).astype(np.int64).sum())


AnyColumn = Column | NumericColumn


@dataclass(frozen=True)
class SumOf:
    """The expression that is the code of a record's number, 0 for an invalid record.

    Attributes:
        role: the column's role.
    """

    role: str


@dataclass(frozen=True)
class ValidAt:
    """The expression that is 1 for a record whose number is valid, else 0.

    Attributes:
        role: the column's role.
    """

    role: str


Expression = CountAt | SumOf | ValidAt  # the expressions that an engine can evaluate


@dataclass(frozen=True)
class Witness:
    """A pair of neighbouring records that attains a sensitivity.

    Attributes:
        record: the cell of one record; None is the absent record (add-remove); an invalid text is the null record.
        neighbor: the cell of the other, in the same form.
    """

    record: str | None
    neighbor: str | None


@dataclass(frozen=True)
class Statistic:
    """A public integer statistic: a sum over records of integer expressions.

    Attributes:
        names: the names of its components.
        expressions: one integer expression a component.
        sensitivity_l1: the largest L1 change between neighbours, in counts.
        witness: two records that attain it, and the L2 sensitivity too.
        sensitivity_l2_squared: the square of the largest L2 change, an integer.
    """

    names: tuple[str, ...]
    expressions: tuple[Expression, ...]
    sensitivity_l1: int
    witness: Witness
    sensitivity_l2_squared: int


@dataclass(frozen=True)
class Statistics:
    """The exact evidence: what a source hands to a mechanism and nobody else ever sees.

    Attributes:
        values: the exact integer components, in the order of the statistic.
        n_records: the number of records read; public under replace-one, private under add-remove.
    """

    values: tuple[int, ...]
    n_records: int


def sum_statistic(column: NumericColumn, policy: RecordPolicy) -> Statistic:
    """Return the sum of the codes of one column of numbers, and the number of valid ones where it is private.

    Privacy: the code of a record is an integer in 0..steps. replace-one, complete: the sum moves by at most steps, from
        the lower to the upper bound. replace-one, dropped records: a record at the upper bound against an invalid one
        moves (sum, valid) by (steps, 1), two valid ones move the sum alone. add-remove: so does its absence.
    Source: mechanisms, integer statistics on a public grid.
    """
    total, valid, steps = SumOf(column.role), ValidAt(column.role), column.steps
    lower, upper = (str(int(end)) if column.integers else repr(end) for end in (column.lower, column.upper))
    if policy.neighbors is Neighbors.REPLACE_ONE and policy.complete:
        return Statistic(("sum",), (total,), steps, Witness(upper, lower), steps**2)
    absent = None if policy.neighbors is Neighbors.ADD_REMOVE else "invalid"
    return Statistic(("sum", "valid"), (total, valid), steps + 1, Witness(upper, absent), steps**2 + 1)
