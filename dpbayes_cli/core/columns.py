"""Columns with public domains: which cells are valid, their integer codes, and what stands in for an invalid cell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import float_text
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

Outside = Literal["clamp", "drop"]


@dataclass(frozen=True)
class RecordPolicy:
    """How neighbors are defined, and what replaces an invalid cell.

    Attributes:
        neighbors: the neighbor relation.
        impute: the public stand-in for an invalid cell; None if invalid records are dropped. A dropped record is a null
            record, which contributes zero and has likelihood one.
        contributions: the contribution bound, the number of records that a privacy unit may have; neighbors differ in
            the records of one unit. If the bound is above 1, a unit may have fewer records, and the number of its
            records is private.
    """

    neighbors: Neighbors
    impute: str | None = None
    contributions: int = 1

    @property
    def complete(self) -> bool:
        """Whether every unit has exactly one valid record, so that the record count is public under replace-one."""
        return self.impute is not None and self.contributions == 1


@dataclass(frozen=True)
class Column:
    """One column that a model reads, with its public domain.

    Attributes:
        role: what the column is to the model, for example ``outcome``.
        levels: the names of the levels, in the order of their codes.
        impute: the public level that stands in for an invalid cell of this column; None if the record policy decides.
        spellings: for each level, the texts that mean it besides its name; empty if there are none.
        is_key: whether the levels are the keys of groups; nothing stands in for a cell that holds no listed key.
        within: for each level, the text that the next column must hold for this code; empty if that does not matter.
            If it is stated, several levels may have the same name.
    """

    role: str
    levels: tuple[str, ...]
    impute: str | None = None
    spellings: tuple[tuple[str, ...], ...] = ()
    is_key: bool = False
    within: tuple[str, ...] = ()

    @property
    def finds_keys(self) -> bool:
        """Whether the keys of groups are not listed, but found in the data."""
        return self.is_key and not self.levels

    @property
    def texts(self) -> dict[str, int]:
        """The valid texts with the codes of their levels; every other text is invalid."""
        names = {level: code for code, level in enumerate(self.levels)}
        return names | {text: code for code, texts in enumerate(self.spellings) for text in texts}

    def described(self, code: int) -> str:
        """Return the valid texts of a level, as messages show them."""
        others = list(dict.fromkeys(text.lower() for text in self.spellings[code])) if self.spellings else []
        if not others:
            return repr(self.levels[code])
        return f"{', '.join(map(repr, [self.levels[code], *others[:-1]]))} or {others[-1]!r} (upper or lower case)"


@dataclass(frozen=True)
class LargerGroups:
    """The larger groups that contain groups, such as the states of counties.

    Attributes:
        column: the name of the column that holds their keys.
        keys: for each group the key of the larger group that contains it.
        pooled: whether the groups of a larger group have a mean, which is learned; otherwise groups are independent.
    """

    column: str
    keys: tuple[str, ...]
    pooled: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The different keys, in the order of their first groups."""
        return tuple(dict.fromkeys(self.keys))

    @property
    def index(self) -> tuple[int, ...]:
        """For each group the index of its larger group in ``names``."""
        places = {name: i for i, name in enumerate(self.names)}
        return tuple(places[key] for key in self.keys)


@dataclass(frozen=True)
class CutColumn:
    """One column of numbers that a model reads as levels: intervals between public cut points.

    Every number is valid; its code is the number of cut points at or below it.

    Attributes:
        role: what the column is to the model.
        cuts: the cut points, ascending.
        impute: the public number that stands in for an invalid cell of this column; None if the record policy decides.
    """

    role: str
    cuts: tuple[float, ...]
    impute: str | None = None

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the intervals, in the order of their codes."""
        ends = [float_text(cut) for cut in self.cuts]
        inner = (f"{low} to <{high}" for low, high in itertools.pairwise(ends))
        return (f"<{ends[0]}", *inner, f">={ends[-1]}")

    def code(self, number: float) -> int:
        """Return the code of a number, by the comparisons that every data engine makes."""
        return sum(cut <= number for cut in self.cuts)


def cell_of(column: Column | CutColumn, code: int) -> str:
    """Return a cell that has a given code."""
    if isinstance(column, Column):
        return column.levels[code]
    return repr(column.cuts[0] - max(1.0, abs(column.cuts[0]))) if code == 0 else repr(column.cuts[code - 1])


def has_stand_in(policy: RecordPolicy, column: AnyColumn) -> bool:
    """Return whether each unit has one record, and a public value replaces invalid cells of the column."""
    if isinstance(column, Column) and column.is_key:
        return False
    return policy.complete or (column.impute is not None and policy.contributions == 1)


_MIN_STEP = 1e-200
_MIN_RANGE = 1e-100
"""The smallest distance between two bounds: if bounds are closer, there may be no grid of floats between them, or the
square of their distance may underflow."""


def check_bounds(lower: float, upper: float) -> None:
    """Refuse public bounds that are too close for a grid of floats between them.

    Raises:
        ValueError: the lower bound is not below the upper one, or their distance is below 1e-12 of the larger absolute
            value, or below 1e-100.
    """
    if not lower < upper or upper - lower < max(1e-12 * max(abs(lower), abs(upper)), _MIN_RANGE):
        raise ValueError("the lower bound must be below the upper bound, by more than rounding error")


@dataclass(frozen=True)
class NumericColumn:
    """One column of numbers that a model reads, with public bounds and a public grid.

    A number inside the bounds is rounded to the nearest of ``steps`` + 1 grid points; its code is the index of that
    point, an integer in 0..steps. A number outside is clamped to the nearer bound, or makes the record invalid.

    Attributes:
        role: what the column is to the model, for example ``value``. If the model reads several columns, this is the
            column's name in the file.
        lower, upper: the public bounds, lower < upper.
        steps: the number of grid steps between the bounds.
        integers: whether only integers are valid.
        outside: what happens to a number outside the bounds.
        impute: the public number that stands in for an invalid cell of this column; None if the record policy decides.

    Raises:
        ValueError: the bounds are too close for a grid between them; see ``check_bounds``.
    """

    role: str
    lower: float
    upper: float
    steps: int
    integers: bool = False
    outside: Outside = "clamp"
    impute: str | None = None

    def __post_init__(self) -> None:
        if not _MIN_STEP <= self.step < math.inf:
            raise ValueError("the bounds leave no grid between them")

    @property
    def step(self) -> float:
        """The width of a grid step."""
        return (self.upper - self.lower) / self.steps

    def code(self, number: float) -> int | None:
        """Return the code of a number, None if it is out of bounds and dropped; every data engine computes it alike.

        Privacy: a code is in 0..steps whatever the rounding of floats; sensitivities rest on this range alone.
        Source: derived here.
        """
        clamped = min(max(number, self.lower), self.upper)
        if self.outside == "drop" and clamped != number:
            return None
        return min(max(math.floor((clamped - self.lower) / self.step + 0.5), 0), self.steps)

    def codes(self, numbers: Floats) -> tuple[Integers, Integers]:
        """Return the codes of the clamped numbers, and an integer mask that is 1 for valid numbers."""
        import numpy as np

        clamped = np.clip(numbers, self.lower, self.upper)
        codes = np.clip(np.floor((clamped - self.lower) / self.step + 0.5), 0, self.steps).astype(np.int64)
        valid = (
            np.ones(codes.shape, dtype=np.int64) if self.outside == "clamp" else (clamped == numbers).astype(np.int64)
        )
        return codes, valid

    def cell(self, share: float) -> str:
        """Return the number lower + share * (upper - lower) as a text; ``share`` is in [0, 1]."""
        number = self.lower + share * (self.upper - self.lower)
        return str(int(number)) if self.integers else repr(float(number))


AnyColumn = Column | CutColumn | NumericColumn


def n_codes(column: AnyColumn) -> int:
    """Return how many different codes the valid cells of a column can have."""
    return column.steps + 1 if isinstance(column, NumericColumn) else len(column.levels)


def require_complete_records(policy: RecordPolicy, columns: Sequence[AnyColumn], n_records: int | None) -> int:
    """Return the public record count, after checking that every record is complete in the model's columns.

    Raises:
        SpecError: records may be invalid, or the record count is private or not given.
    """
    if policy.neighbors is not Neighbors.REPLACE_ONE:
        reason = "posterior draws need a public number of records"
        raise SpecError(reason, where="privacy", hint="--neighbors replace-one")
    if policy.contributions > 1:
        raise SpecError(
            "posterior draws need a public number of records; it is private if a unit may have several records",
            where="privacy.unit.max_contributions",
            hint="set max_contributions: 1, or choose a mechanism that adds noise: laplace",
        )
    if not all(has_stand_in(policy, column) for column in columns):
        raise SpecError(
            "posterior draws need complete records, because the number of dropped records is private",
            where="on_invalid",
            hint="state a public stand-in for invalid values: --on-invalid impute:VALUE, or impute of each variable",
        )
    if any(isinstance(column, NumericColumn) and column.outside == "drop" for column in columns):
        raise SpecError(
            "posterior draws need complete records, because the number of records within bounds is private",
            where="domain.out_of_bounds",
            hint="out_of_bounds: clamp",
        )
    return require_record_count(n_records)


def require_record_count(n_records: int | None) -> int:
    """Return the public record count.

    Raises:
        SpecError: the record count was not given, or is below 1.
    """
    if n_records is None:
        raise SpecError("the number of records is needed and was not stated", where="records", hint="--records N")
    if n_records < 1:
        raise SpecError("the number of records must be at least 1", where="records")
    return n_records
