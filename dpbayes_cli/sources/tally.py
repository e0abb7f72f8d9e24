"""Counts of codes, and sums of products of codes, added up over the blocks of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from dpbayes_cli.core.columns import AnyColumn, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.statistic import CodeCounts, CountAt, ExactEvidence, Expression, ProductOf, Statistic
from dpbayes_cli.sources.code_sums import counts_of_codes, sums_of_products
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Records

Monomial = tuple[int, ...]
"""A product of codes, given by the column indices of its factors in ascending order."""


class Tally:
    """Counts or sums of one statistic, added up over the records of all files.

    Args:
        columns: one column of levels, or one or more numeric columns.
        statistic: the statistic to evaluate.
        policy: states the stand-in for an invalid cell.

    Attributes:
        columns: the columns to read; for a histogram, the numeric column with the histogram's grid as its domain.
        sums: whether products of codes are summed; otherwise codes are counted.
        monomials: the products of codes to sum.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        self._statistic, self._policy = statistic, policy
        self._numbers = [column for column in columns if isinstance(column, NumericColumn)]
        first = statistic.expressions[0]
        self._histogram = first.column if isinstance(first, CodeCounts) else None
        if (self._numbers and len(self._numbers) < len(columns)) or (not self._numbers and len(columns) != 1):
            raise ValueError("a statistic reads one column of levels, or numeric columns")
        if self._histogram is not None and [column.role for column in columns] != [self._histogram.role]:
            raise ValueError("a histogram reads one numeric column")
        self.columns: Sequence[AnyColumn] = columns if self._histogram is None else (self._histogram,)
        self.sums = bool(self._numbers) and self._histogram is None
        parts = {part for expression in statistic.expressions for part in _expansion(expression, self._numbers)}
        self.monomials: list[Monomial] = sorted(parts - {()}) if self.sums else []
        self._counts: Counter[int | str | Monomial | None] = Counter()

    def read(self, blocks: Iterable[Records]) -> None:
        """Count the records; see ``Reader``."""
        stand_ins = [impute_code(column, self._policy) for column in self.columns]
        for records in blocks:
            codes = [with_stand_in(records.codes(i), stand_in) for i, stand_in in enumerate(stand_ins)]
            if self.sums:
                self.add([sums_of_products(codes, self.monomials)])
            else:
                self.add(counts_of_codes(codes[0], n_codes(self.columns[0])))

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the rows of one query: (code or NULL, count), or (number of records, number of valid records, sums)."""
        if not self.sums:
            for code, count in rows:
                self._counts[code] += count
            return
        for records, valid, *sums in rows:
            self._counts.update({"records": records, (): valid})
            self._counts.update({m: int(total or 0) for m, total in zip(self.monomials, sums, strict=True)})

    @property
    def records(self) -> int:
        """The number of records, valid or not."""
        return self._counts["records"] if self.sums else self._counts.total()

    def statistics(self) -> ExactEvidence:
        """Return the components of the statistic, or its histogram."""
        if self._histogram is not None:
            codes = {code: count for code, count in self._counts.items() if isinstance(code, int)}
            return ExactEvidence((), self.records, codes)
        return ExactEvidence(tuple(map(self._value, self._statistic.expressions)), self.records)

    def _value(self, expression: Expression) -> int:
        if isinstance(expression, CountAt):
            if expression.role != self.columns[0].role:
                raise ValueError("the statistic reads a column whose codes were not counted")
            return self._counts[expression.level]
        return sum(weight * self._counts[part] for part, weight in _expansion(expression, self._numbers).items())


def _expansion(expression: Expression, columns: Sequence[NumericColumn]) -> dict[Monomial, int]:
    """Return a product of codes, centered or not, as a sum of products of plain codes with integer weights."""
    if not isinstance(expression, ProductOf):
        return {}
    indices = {column.role: i for i, column in enumerate(columns)}
    terms: dict[Monomial, int] = {(): expression.weight}
    for role in expression.roles:
        index = indices[role]
        grown: Counter[Monomial] = Counter()
        for monomial, weight in terms.items():
            grown[tuple(sorted((*monomial, index)))] += weight * (2 if expression.centered else 1)
            if expression.centered:
                grown[monomial] -= weight * columns[index].steps
        terms = dict(grown)
    return terms
