"""Statistics that are added up: sums of products of codes, counts of codes, and contingency tables.

A tally reads blocks of records, or takes the rows of its query from an engine that evaluates statistics itself. Counts
and sums add up, so neither the order nor the partitioning of the records matters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.second_moments import Factor, factors_of
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import CodeCounts, CountAt, ExactEvidence, Expression, ProductOf, Statistic
from dpbayes_cli.core.statistic_values import released_values
from dpbayes_cli.sources.code_readers import imputed_codes
from dpbayes_cli.sources.reader import EVERY_RECORD, Monomial, Records

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Integers
    from dpbayes_cli.sources.expressions import Statements

_MAX_COUNTED = 1 << 16
"""More codes than this are counted by sorting them."""
_HALF_BITS = 32


class Tally(ABC):
    """A statistic of the records of all files.

    Args:
        columns: the columns to read.
        policy: states the stand-in for an invalid cell.

    Attributes:
        columns: see above.
        records: the number of records, valid or not.
    """

    def __init__(self, columns: Sequence[AnyColumn], policy: RecordPolicy) -> None:
        self.columns, self.records, self._policy = columns, 0, policy

    @abstractmethod
    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""

    @abstractmethod
    def query(self, statements: Statements) -> str:
        """Return the query whose rows ``add`` takes."""

    @abstractmethod
    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the rows of the query."""

    @abstractmethod
    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic."""


class CodeTally(Tally):
    """Counts of the codes of one column: of its levels or, for a histogram, of a numeric column on the grid."""

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        first = statistic.expressions[0]
        self._histogram = isinstance(first, CodeCounts)
        role = first.column.role if isinstance(first, CodeCounts) else require_type(first, CountAt).role
        if [column.role for column in columns] != [role]:
            raise ValueError("codes are counted in one column")
        super().__init__([first.column] if isinstance(first, CodeCounts) else columns, policy)
        self._statistic = statistic
        self._counts: Counter[int | None] = Counter()

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        are_few = n_codes(self.columns[0]) <= _MAX_COUNTED
        for _, (codes,) in imputed_codes(blocks, self.columns, self._policy):
            places = np.maximum(codes, -1) + 1  # 0 for an invalid cell
            if are_few:
                counts = np.bincount(places)
                places = np.flatnonzero(counts)
                counts = counts[places]
            else:
                places, counts = np.unique(places, return_counts=True)
            pairs = zip(places.tolist(), counts.tolist(), strict=True)
            self.add((place - 1 if place else None, count) for place, count in pairs)

    def query(self, statements: Statements) -> str:
        """Return a query of rows (code or NULL, number of records)."""
        return statements.code_query(self._policy)

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the rows of the query."""
        for code, count in rows:
            self._counts[code] += count
            self.records += count

    def statistics(self) -> ExactEvidence:
        """Return the counts of levels, or the histogram."""
        if self._histogram:
            codes = {code: count for code, count in self._counts.items() if code is not None}
            return ExactEvidence((), self.records, codes)
        levels = (require_type(expression, CountAt).level for expression in self._statistic.expressions)
        return ExactEvidence(tuple(self._counts[level] for level in levels), self.records)


class SumTally(Tally):
    """Sums of products of factors (see ``factors_of``), over the records that are valid in all columns."""

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        super().__init__(columns, policy)
        self._factors = factors_of(columns)
        self._terms = [_expansion(expression, self._factors) for expression in statistic.expressions]
        self._monomials = sorted({part for terms in self._terms for part in terms} - {()})
        self._sums: Counter[Monomial] = Counter()

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        for _, codes in imputed_codes(blocks, self.columns, self._policy):
            self.add([_sums_of_products([factor.of_codes(codes) for factor in self._factors], self._monomials)])

    def query(self, statements: Statements) -> str:
        """Return a query of one row: the numbers of records and of valid records, and the sums of products."""
        return statements.sum_query(self._policy, self._factors, self._monomials)

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the rows of the query."""
        for records, *sums in rows:
            self.records += records
            for monomial, total in zip([(), *self._monomials], sums, strict=True):
                self._sums[monomial] += int(total or 0)

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic."""
        values = (sum(weight * self._sums[part] for part, weight in terms.items()) for terms in self._terms)
        return ExactEvidence(tuple(values), self.records)


class TableTally(Tally):
    """Contingency tables of columns of levels, or of numbers that are cut into intervals."""

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        super().__init__(columns, policy)
        if any(isinstance(column, NumericColumn) for column in columns):
            raise ValueError("tables need columns of levels")
        self._statistic = statistic
        place = {column.role: i for i, column in enumerate(columns)}
        self._axes = [[place[role] for role in table.roles] for table in statistic.tables]
        ends = np.cumsum([table.size for table in statistic.tables])
        self._cells: Integers = np.zeros(ends[-1], dtype=np.int64)
        self._tables: list[Integers] = np.split(self._cells, ends[:-1])

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records; see ``Reader``."""
        for records, codes in imputed_codes(blocks, self.columns, self._policy):
            self.records += records.n_records
            invalid = [each < 0 for each in codes]
            if self._statistic.whole_records:
                invalid = [np.logical_or.reduce(invalid)] * len(codes)
            for table, axes, total in zip(self._statistic.tables, self._axes, self._tables, strict=True):
                cell = codes[axes[0]]
                for axis, size in zip(axes[1:], table.shape[1:], strict=True):
                    cell = cell * size + codes[axis]
                is_invalid = np.logical_or.reduce([invalid[axis] for axis in axes])
                counts = np.bincount(np.where(is_invalid, table.size, cell), minlength=table.size + 1)
                np.add(total, counts[:-1], out=total)

    def query(self, statements: Statements) -> str:
        """Return a query of rows (cell, number of records)."""
        return statements.cells_query(self._policy, self._statistic.tables, whole_records=self._statistic.whole_records)

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the rows of the query; the cells of all tables are numbered consecutively."""
        for cell, count in rows:
            if cell == EVERY_RECORD:
                self.records += int(count)
            elif cell is not None:
                self._cells[cell] += int(count)

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic."""
        pairs = zip(self._tables, self._statistic.tables, strict=True)
        tables = [cells.reshape(table.shape) for cells, table in pairs]
        return ExactEvidence(released_values(self._statistic, tables), self.records)


def _expansion(expression: Expression, factors: Sequence[Factor]) -> dict[Monomial, int]:
    """Return a product of factors, centered or not, as a sum of products of plain factors with integer weights."""
    product, indices = require_type(expression, ProductOf), {factor.role: i for i, factor in enumerate(factors)}
    terms: dict[Monomial, int] = {(): product.weight}
    for role in product.roles:
        index = indices[role]
        is_centered = product.centered and factors[index].level is None
        grown: Counter[Monomial] = Counter()
        for monomial, weight in terms.items():
            grown[tuple(sorted((*monomial, index)))] += weight * (2 if is_centered else 1)
            if is_centered:
                grown[monomial] -= weight * factors[index].steps
        terms = dict(grown)
    return terms


def _sums_of_products(codes: Sequence[Integers], products: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the number of records, that of valid ones, and exact sums of products of their codes.

    Args:
        codes: the codes of each column, negative if invalid; a record is valid if none is negative.
        products: the indices of the columns whose codes are multiplied.
    """
    n_records, valid = len(codes[0]), np.ones(len(codes[0]), dtype=bool)
    for each in codes:
        valid &= each >= 0
    if not valid.all():
        codes = [each[valid] for each in codes]
    return n_records, int(np.count_nonzero(valid)), *(_sum_of_product([codes[i] for i in each]) for each in products)


def _sum_of_product(factors: Sequence[Integers]) -> int:
    largest = math.prod(int(factor.max(initial=0)) for factor in factors)
    if largest >> 62:  # the product may be beyond 64 bits
        factors = [factor.astype(object) for factor in factors]
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    if largest * len(product) >> 62:
        return (int((product >> _HALF_BITS).sum()) << _HALF_BITS) + int((product & ((1 << _HALF_BITS) - 1)).sum())
    return int(product.sum())
