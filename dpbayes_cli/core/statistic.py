"""Statistics: exact sums over records of integer expressions of their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.core.design import DesignMatrix
    from dpbayes_cli.core.encoded_records import EncodedRecords


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
class ProductOf:
    """The expression that is the product of codes of numbers in a valid record, 0 for an invalid record.

    Attributes:
        roles: the roles of the factors, a role twice for a square; empty: 1 for each valid record.
        weight: an integer factor.
        centered: whether a factor is 2 code - steps, in -steps..steps, instead of the code.
    """

    roles: tuple[str, ...] = ()
    weight: int = 1
    centered: bool = False


@dataclass(frozen=True)
class CodeCounts:
    """The histogram: for each code the number of valid records with it.

    Attributes:
        column: the column of numbers, on the grid of the histogram.
    """

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


Expression = CountAt | ProductOf | CodeCounts | TableCounts  # what an engine can evaluate


class Transform(Protocol):
    """An exact integer linear map of contingency tables to the components of a statistic."""

    def coefficients(self, tables: Sequence[Integers]) -> Integers:
        """Return the components of the statistic from the tables of one data set."""
        ...


Cells = tuple[str, ...]


@dataclass(frozen=True)
class Witness:
    """A pair of neighboring records that attains a sensitivity.

    Attributes:
        record: the cells of one record; None: the record is absent (add-remove); an invalid text: the null record.
        neighbor: the cells of the other record, in the same form.
    """

    record: Cells | None
    neighbor: Cells | None


@dataclass(frozen=True)
class Part:
    """Consecutive components of a statistic with their own sensitivity.

    Attributes:
        name: the name of the part.
        size: the number of components.
        sensitivity_l1, sensitivity_l2_squared: the largest changes of these components alone.
        weight: the part's share of the budget, relative to other parts.
    """

    name: str
    size: int
    sensitivity_l1: int
    sensitivity_l2_squared: int
    weight: Fraction = Fraction(1)


@dataclass(frozen=True)
class Statistic:
    """A public integer statistic: a sum over records of integer expressions.

    Attributes:
        names: the names of the components.
        expressions: one integer expression for each component.
        sensitivity_l1: the largest L1 change between neighbors, in counts.
        witness: two records that attain ``sensitivity_l1``.
        sensitivity_l2_squared: the square of the largest L2 change, an integer.
        witness_l2: two records that attain ``sensitivity_l2_squared``; None: those of ``witness``.
        parts: the parts that may get noise of different scales, in the order of the components; empty: one part.
        whole_records: whether a table counts only records all of whose cells are valid.
        transform: the linear map of the tables that is released; None: the counts are released.
    """

    names: tuple[str, ...]
    expressions: tuple[Expression, ...]
    sensitivity_l1: int
    witness: Witness
    sensitivity_l2_squared: int
    witness_l2: Witness | None = None
    parts: tuple[Part, ...] = ()
    whole_records: bool = False
    transform: Transform | None = None

    @property
    def tables(self) -> tuple[TableCounts, ...]:
        """The contingency tables among the expressions."""
        return tuple(expression for expression in self.expressions if isinstance(expression, TableCounts))


@dataclass(frozen=True)
class ExactEvidence:
    """Exact values from the data, which a source passes to a mechanism and to nothing else.

    Attributes:
        values: the exact integer components, in the order of the statistic.
        n_records: the number of records read; public under replace-one, private under add-remove.
        histogram: the number of valid records with each code, if the statistic is a histogram.
        design: rows and targets, or codes of records, if a chain reads these.
    """

    values: tuple[int, ...]
    n_records: int
    histogram: Mapping[int, int] = field(default_factory=dict)
    design: DesignMatrix | EncodedRecords | None = None


def for_units(statistic: Statistic, policy: RecordPolicy) -> Statistic:
    """Return a statistic with its sensitivity to one privacy unit, which may have several records.

    Privacy: neighbors differ in the records of one unit, at most k on either side. Pair these, with null records on
        the shorter side. Each pair moves the statistic by at most its sensitivity to one record, the null record
        included (``can_be_null``); norms add up: k times in L1 and L2. Attained by k times the witness.
    Source: design notes, conventions (privacy units).
    """
    k = policy.contributions
    if k == 1:
        return statistic
    return replace(
        statistic,
        sensitivity_l1=k * statistic.sensitivity_l1,
        sensitivity_l2_squared=k * k * statistic.sensitivity_l2_squared,
        parts=tuple(
            replace(
                part,
                sensitivity_l1=k * part.sensitivity_l1,
                sensitivity_l2_squared=k * k * part.sensitivity_l2_squared,
            )
            for part in statistic.parts
        ),
    )


NO_STATISTIC = Statistic((), (), 0, Witness(None, None), 0)
"""The empty statistic of a chain that reads records instead; it has no sensitivity."""


def evaluate(statistic: Statistic, columns: Sequence[NumericColumn], numbers: Floats) -> tuple[int, ...]:
    """Evaluate a statistic of numbers without an engine: for simulations, and as a reference.

    Args:
        statistic: products of codes.
        columns: the columns of the statistic's roles.
        numbers: shape (n_records, n_columns).
    """
    import numpy as np

    coded = [column.codes(numbers[:, i]) for i, column in enumerate(columns)]
    valid = np.prod([mask for _, mask in coded], axis=0)
    codes = {column.role: codes for column, (codes, _) in zip(columns, coded, strict=True)}
    steps = {column.role: column.steps for column in columns}
    values = []
    for expression in statistic.expressions:
        if not isinstance(expression, ProductOf):
            raise TypeError("a statistic of numbers is made of products")
        terms = valid
        for role in expression.roles:
            terms = terms * (2 * codes[role] - steps[role] if expression.centered else codes[role])
        values.append(expression.weight * int(terms.sum()))
    return tuple(values)


def evaluate_codes(statistic: Statistic, column: NumericColumn, codes: Mapping[int, int]) -> tuple[int, ...]:
    """Evaluate a statistic of one column of numbers from the number of valid records of each code, exactly."""
    values = []
    for expression in statistic.expressions:
        if not isinstance(expression, ProductOf) or any(role != column.role for role in expression.roles):
            raise TypeError("a statistic of one column of numbers is made of its powers")
        power, scale, shift = len(expression.roles), 1, 0
        if expression.centered:
            scale, shift = 2, column.steps
        values.append(expression.weight * sum(count * (scale * code - shift) ** power for code, count in codes.items()))
    return tuple(values)


def can_be_null(policy: RecordPolicy, *columns: NumericColumn) -> bool:
    """Return whether a record may contribute nothing, so that the number of contributing records is private."""
    drops_numbers = any(column.outside == "drop" for column in columns)
    return drops_numbers or not policy.complete or policy.neighbors is not Neighbors.REPLACE_ONE


def count_cells(statistic: Statistic, roles: Sequence[str], codes: Integers) -> tuple[int, ...]:
    """Evaluate a statistic of tables without an engine: for simulations, and as a reference.

    Args:
        statistic: contingency tables, possibly transformed.
        roles: the role of each column.
        codes: -1 for an invalid cell, shape (n_records, n_roles).
    """
    import numpy as np

    index = {role: i for i, role in enumerate(roles)}
    whole = (codes >= 0).all(axis=1)
    tables = []
    for table in statistic.tables:
        table_codes = codes[:, [index[role] for role in table.roles]]
        valid = whole if statistic.whole_records else (table_codes >= 0).all(axis=1)
        cells = np.ravel_multi_index(tuple(table_codes[valid].T), table.shape)
        tables.append(np.bincount(cells, minlength=table.size).reshape(table.shape))
    return released_values(statistic, tables)


def released_values(statistic: Statistic, tables: Sequence[Integers]) -> tuple[int, ...]:
    """Return the components of a statistic from its contingency tables."""
    if statistic.transform is not None:
        return tuple(statistic.transform.coefficients(tables).tolist())
    return tuple(int(count) for table in tables for count in table.ravel())


def sum_statistic(column: NumericColumn, policy: RecordPolicy) -> Statistic:
    """Return the sum of the codes of one column of numbers and, if it is private, the number of valid records.

    If that number is private, codes are centered (u = 2 code - steps), and each valid record adds ``steps`` to its
    count. Then releasing the number of valid records costs nothing more: the largest L1 change is that of the sum
    alone.

    Privacy: complete records under replace-one: the sum of codes in 0..steps moves by at most steps. Otherwise a record
        contributes (u, steps), |u| <= steps, or (0, 0): two valid records differ by at most 2 steps in L1 and L2, a
        valid and a null record by 2 steps in L1 and sqrt(2) steps in L2. Attained by records at the two bounds, and by
        one at a bound and a null record.
    Source: design notes, integer statistics on a public grid.
    """
    role, steps = column.role, column.steps
    upper, lower = (column.cell(1.0),), (column.cell(0.0),)
    if not can_be_null(policy, column):
        return Statistic(("sum",), (ProductOf((role,)),), steps, Witness(upper, lower), steps**2)
    expressions = (ProductOf((role,), centered=True), ProductOf((), steps))
    removed = policy.neighbors is Neighbors.ADD_REMOVE
    squared = 2 * steps**2 if removed else 4 * steps**2
    return Statistic(("sum", "valid"), expressions, 2 * steps, Witness(upper, None if removed else lower), squared)


def second_moments(columns: Sequence[NumericColumn], policy: RecordPolicy) -> Statistic:
    """Return the sums, squares and products of D columns with S grid steps each, and the number of valid records.

    With u the vector (S, 2 code_1 - S, .., 2 code_D - S), a record contributes the diagonal of the matrix u u' and the
    entries above it, multiplied by 2. The corner, S^2 for each valid record, is left out if the record count is public.

    Privacy: L1, in units of S^2: for two records a, b of [-1, 1]^(D+1) whose first coordinates are 1 the change is the
        entrywise norm of a a' - b b' = [(a+b)(a-b)' + (a-b)(a+b)'] / 2, at most |a+b|_1 |a-b|_1; the two norms add up
        to at most 2 (D+1), so that their product is at most (D+1)^2. Attained by a record at the upper bounds and one
        at the lower bound of one column and the middles of the others. A record against none: (sum of |a|)^2 <=
        (D+1)^2: the record count costs nothing.
        L2, squared: 2 |aa' - bb'|_F^2 - sum (a_i^2 - b_i^2)^2 is convex in every coordinate (its second derivative is
        8 s + 12 b_i^2 - 4 a_i^2 with s >= 1), hence largest at bounds, where it is 4 (D+1)^2 - 4 (a'b)^2 and a'b is an
        integer of the parity of D+1. A record against none: at most (D+1)(2D+1), attained at the upper bounds.
    Source: design notes, integer statistics on a public grid.
    """
    size, scale = len(columns) + 1, columns[0].steps
    roles = [column.role for column in columns]
    names, expressions = [], []
    for i, first in enumerate(roles):
        names.append(f"sum[{first}]")
        expressions.append(ProductOf((first,), 2 * scale, centered=True))
        for second in roles[i:]:
            names.append(f"product[{first},{second}]")
            expressions.append(ProductOf((first, second), 1 if first == second else 2, centered=True))
    if can_be_null(policy, *columns):
        names.append("valid")
        expressions.append(ProductOf((), scale**2))
    top = tuple(column.cell(1.0) for column in columns)
    one = scale**4
    if policy.neighbors is Neighbors.ADD_REMOVE:
        norm = size * (2 * size - 1)
        return Statistic(tuple(names), tuple(expressions), size**2 * scale**2, Witness(top, None), norm * one)
    down = tuple(column.cell(0.5 if i else 0.0) for i, column in enumerate(columns))
    half = tuple(column.cell(0.0 if i < size // 2 else 1.0) for i, column in enumerate(columns))
    norm = 4 * (size**2 - size % 2)
    return Statistic(
        tuple(names), tuple(expressions), size**2 * scale**2, Witness(top, down), norm * one, Witness(top, half)
    )
