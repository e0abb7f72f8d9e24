"""Statistics: exact sums over records of integer expressions of their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy
from dpbayes_cli.privacy.lazy_numpy import np
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.core.design import DesignMatrix
    from dpbayes_cli.core.encoded_records import EncodedRecords


@dataclass(frozen=True)
class CountAt:
    """The expression that is 1 for a record whose cell in the column ``role`` has the code ``level``, else 0."""

    role: str
    level: int


@dataclass(frozen=True)
class ProductOf:
    """The expression that is a product of factors for a valid record, and 0 for an invalid record; see ``Factor``.

    Attributes:
        roles: the roles of the factors; a role stands twice for a square. If empty, the product is 1 for each valid
            record.
        weight: an integer factor.
        centered: whether each number is 2 * code - steps, which is in -steps..steps, instead of the code.
    """

    roles: tuple[str, ...] = ()
    weight: int = 1
    centered: bool = False


@dataclass(frozen=True)
class CodeCounts:
    """The histogram of a column of numbers: for each code the number of valid records with this code."""

    column: NumericColumn


@dataclass(frozen=True)
class TableCounts:
    """The expressions that count the records of each cell of a contingency table; each cell is one component.

    A record is counted if its cells in all of the table's columns are valid.

    Attributes:
        roles: the roles of the table's columns, one for each axis.
        shape: the number of levels on each axis; components are in C order.
    """

    roles: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of components."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class SumsByGroup:
    """The expressions that sum up u = 2 * c - steps of each group, where c is the code of a number.

    A valid record adds u and ``steps`` to the components of its group, or with squares 2 * steps * u, u^2 and steps^2.

    Attributes:
        roles: the roles of the column of keys and of the column of numbers.
        n_groups: the number of groups.
        squares: whether the squares of the numbers are summed up, too.
    """

    roles: tuple[str, str]
    n_groups: int
    squares: bool = False

    def components(self, steps: int, counts: Integers, sums: Integers, squares: Integers) -> Integers:
        """Return the components, shape (n_groups, 2 or 3), given counts of records, and sums of codes and squares."""
        centered, valid = 2 * sums - steps * counts, steps * counts
        whole = 2 * steps * centered, 4 * (squares - steps * sums) + steps * valid, steps * valid
        return np.stack(whole if self.squares else (centered, valid), axis=1)


@dataclass(frozen=True)
class FoundGroups:
    """The expressions that count the records of each key in the data, or sum up their numbers.

    Each key with at least one valid record is a group. Its components are the numbers of its records in each category,
    or the two components of ``SumsByGroup``.

    Attributes:
        roles: the roles of the column of keys and of the column of values.
    """

    roles: tuple[str, str]


Expression = CountAt | ProductOf | CodeCounts | TableCounts | SumsByGroup | FoundGroups  # what an engine can evaluate


class Transform(Protocol):
    """An exact integer linear map of contingency tables to the components of a statistic."""

    def coefficients(self, tables: Sequence[Integers]) -> Integers:
        """Return the components of the statistic, given the tables of a data set."""
        ...


Cells = tuple[str, ...]


@dataclass(frozen=True)
class Witness:
    """Two records such that replacing one by the other changes a statistic by its sensitivity.

    Attributes:
        record: the cells of one record. None stands for an absent record (add-remove). Cells with an invalid text
            stand for the null record.
        neighbor: the cells of the other record, in the same form.
    """

    record: Cells | None
    neighbor: Cells | None


@dataclass(frozen=True)
class Part:
    """Consecutive components of a statistic, whose sensitivity is stated separately.

    Attributes:
        sensitivity_l1, sensitivity_l2_squared: the sensitivities of these components alone.
        weight: the part's share of the privacy cost, relative to the weights of other parts.
        largest_change: the largest change of one component; 0 if it is not known.
    """

    name: str
    size: int
    sensitivity_l1: int
    sensitivity_l2_squared: int
    weight: Fraction = Fraction(1)
    largest_change: int = 0


class GroupNames(Sequence[str]):
    """The names of the components of a statistic of groups, made when they are asked for: there may be millions."""

    def __init__(self, keys: Sequence[str], components: Sequence[str]) -> None:
        self._keys, self.components = keys, components

    def __len__(self) -> int:
        return len(self._keys) * len(self.components)

    def __getitem__(self, index: int) -> str:  # type: ignore[override] # no slices
        group, component = divmod(range(len(self))[index], len(self.components))
        return f"{self.components[component]}[{self._keys[group]}]"


@dataclass(frozen=True)
class Statistic:
    """A public integer statistic: a sum over records of integer expressions.

    Attributes:
        expressions: one integer expression for each component.
        sensitivity_l1: the largest L1 change between neighbors, in counts.
        witness: two records that attain ``sensitivity_l1``.
        sensitivity_l2_squared: the square of the largest L2 change, an integer.
        witness_l2: two records that attain ``sensitivity_l2_squared``; None if the records of ``witness`` attain it.
        parts: the parts that may get noise of different scales, in the order of the components; empty if all components
            get the same scale.
        whole_records: whether tables count a record only if all of its cells are valid.
        transform: the linear map from tables to released components; None if the counts are released.
        largest_change: the largest change of one component between neighbors; 0 if it is not known.
        shifts: changes of the components, one of which costs at least as much as any change between neighbors; empty if
            ``largest_change`` alone limits them.
    """

    names: Sequence[str]
    expressions: tuple[Expression, ...]
    sensitivity_l1: int
    witness: Witness
    sensitivity_l2_squared: int
    witness_l2: Witness | None = None
    parts: tuple[Part, ...] = ()
    whole_records: bool = False
    transform: Transform | None = None
    largest_change: int = 0
    shifts: tuple[tuple[int, ...], ...] = ()

    @property
    def worst_shifts(self) -> tuple[tuple[int, ...], ...]:
        """Changes of the components, one of which costs at least as much as any change between neighbors.

        Privacy: the cost of independent noise is a sum over the components of a function of their changes. In every
            notion of privacy, this function is convex, and 0 for no change. So the sum over changes with a known L1
            norm, none of which exceeds ``largest_change``, is largest if as many components as possible change by
            ``largest_change``: this shift majorizes all others. The changes of parts are bounded separately.
        Source: derived here.
        """
        changes = (change for part in self.parts or (self,) for change in _largest_changes(part, len(self.names)))
        return self.shifts or (tuple(changes),)

    @property
    def tables(self) -> tuple[TableCounts, ...]:
        """The contingency tables among the expressions."""
        return tuple(expression for expression in self.expressions if isinstance(expression, TableCounts))


@dataclass(frozen=True)
class ExactEvidence:
    """Exact values from the data, which a data source passes to the mechanism only.

    Attributes:
        values: the exact integer components, in the order of the statistic.
        n_records: the number of records read; public under replace-one, private under add-remove.
        histogram: the number of valid records with each code, if the statistic is a histogram.
        design: rows and targets, or codes of records, if a chain reads these; else None.
        keys: the keys that were found in the data, in the order of the values; empty if the keys are listed.
    """

    values: tuple[int, ...]
    n_records: int
    histogram: Mapping[int, int] = field(default_factory=dict)
    design: DesignMatrix | EncodedRecords | None = None
    keys: tuple[str, ...] = ()


def for_units(statistic: Statistic, policy: RecordPolicy) -> Statistic:
    """Return a statistic with its sensitivity to one privacy unit, which may have several records.

    Privacy: neighbors differ in the records of one unit, of which each data set has at most k. Add null records to the
        data set with fewer, and pair the records. Exchanging one pair changes the statistic by at most its sensitivity
        to one record, which covers null records (``can_be_null``). By the triangle inequality k pairs change it by at
        most k times as much, in L1 and in L2. This is attained by k copies of the witness. As costs are convex, a sum
        of k changes costs at most as much as k times one of them.
    Source: derived here.
    """
    k = policy.contributions
    if k == 1:
        return statistic
    return replace(
        statistic,
        sensitivity_l1=k * statistic.sensitivity_l1,
        sensitivity_l2_squared=k * k * statistic.sensitivity_l2_squared,
        largest_change=k * statistic.largest_change,
        shifts=tuple(tuple(k * change for change in shift) for shift in statistic.shifts),
        parts=tuple(
            replace(
                part,
                sensitivity_l1=k * part.sensitivity_l1,
                sensitivity_l2_squared=k * k * part.sensitivity_l2_squared,
                largest_change=k * part.largest_change,
            )
            for part in statistic.parts
        ),
    )


def _largest_changes(part: Statistic | Part, size: int) -> list[int]:
    size = part.size if isinstance(part, Part) else size
    largest = part.largest_change or part.sensitivity_l1
    full, rest = divmod(part.sensitivity_l1, max(largest, 1))
    return ([largest] * full + [rest] * (rest > 0) + [0] * size)[:size]


NO_STATISTIC = Statistic((), (), 0, Witness(None, None), 0)
"""The empty statistic, for a chain that reads records instead of a statistic."""


def can_be_null(policy: RecordPolicy, *columns: AnyColumn) -> bool:
    """Return whether some records may contribute nothing, so that the number of contributing records is private."""
    drops_numbers = any(isinstance(column, NumericColumn) and column.outside == "drop" for column in columns)
    return drops_numbers or not policy.complete or policy.neighbors is not Neighbors.REPLACE_ONE


def sum_statistic(column: NumericColumn, policy: RecordPolicy) -> Statistic:
    """Return the statistic of a column's sum, with the number of valid records if this number is private.

    If this number is private, the sum is over u = 2 * code - steps, and each valid record adds ``steps`` to the
    component that counts valid records. Releasing this component then costs nothing: the L1 sensitivity of both
    components is the L1 sensitivity of the sum.

    Privacy: if all records are complete, under replace-one, the sum of codes in 0..steps changes by at most steps.
        Otherwise a record contributes (u, steps) with |u| <= steps, or (0, 0). Two valid records then differ by at most
        2 * steps in L1 and in L2. A valid and a null record differ by at most 2 * steps in L1 and sqrt(2) * steps in
        L2. Two records at the two bounds attain the first limit, and a record at a bound and a null record the second.
    Source: derived here.
    """
    role, steps = column.role, column.steps
    upper, lower = (column.cell(1.0),), (column.cell(0.0),)
    if not can_be_null(policy, column):
        return Statistic(("sum",), (ProductOf((role,)),), steps, Witness(upper, lower), steps**2, largest_change=steps)
    expressions = (ProductOf((role,), centered=True), ProductOf((), steps))
    removed = policy.neighbors is Neighbors.ADD_REMOVE
    squared = 2 * steps**2 if removed else 4 * steps**2
    largest, witness = steps if removed else 2 * steps, Witness(upper, None if removed else lower)
    return Statistic(("sum", "valid"), expressions, 2 * steps, witness, squared, largest_change=largest)
