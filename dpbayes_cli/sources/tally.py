"""Counts of codes, and sums of products of codes, added up over the blocks of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from dpbayes_cli.core.columns import AnyColumn, RecordPolicy, n_codes
from dpbayes_cli.core.second_moments import Factor, factors_of
from dpbayes_cli.core.statistic import CodeCounts, CountAt, ExactEvidence, Expression, ProductOf, Statistic
from dpbayes_cli.sources.code_sums import counts_of_codes, sums_of_products
from dpbayes_cli.sources.imputation import impute_code, with_stand_in
from dpbayes_cli.sources.reader import Records

Monomial = tuple[int, ...]
"""A product of factors, given by their indices in ascending order; see ``factors_of``."""


class Tally:
    """Counts or sums of one statistic, added up over the records of all files.

    Args:
        columns: one column of levels, or several columns whose products are summed.
        statistic: the statistic to evaluate.
        policy: states the stand-in for an invalid cell.

    Attributes:
        columns: the columns to read; for a histogram, the numeric column with the histogram's grid as its domain.
        sums: whether products of factors are summed; otherwise codes are counted.
        factors: the factors of the columns.
        monomials: the products of factors to sum.
    """

    def __init__(self, columns: Sequence[AnyColumn], statistic: Statistic, policy: RecordPolicy) -> None:
        self._statistic, self._policy = statistic, policy
        first = statistic.expressions[0]
        self._histogram = first.column if isinstance(first, CodeCounts) else None
        self.sums = isinstance(first, ProductOf)
        if not self.sums and len(columns) != 1:
            raise ValueError("counts of codes read one column")
        if self._histogram is not None and [column.role for column in columns] != [self._histogram.role]:
            raise ValueError("a histogram reads one numeric column")
        self.columns: Sequence[AnyColumn] = columns if self._histogram is None else (self._histogram,)
        self.factors = factors_of(columns) if self.sums else ()
        parts = {part for expression in statistic.expressions for part in _expansion(expression, self.factors)}
        self.monomials: list[Monomial] = sorted(parts - {()}) if self.sums else []
        self._counts: Counter[int | str | Monomial | None] = Counter()

    def read(self, blocks: Iterable[Records]) -> None:
        """Count the records; see ``Reader``."""
        stand_ins = [impute_code(column, self._policy) for column in self.columns]
        for records in blocks:
            codes = [with_stand_in(records.codes(i), stand_in) for i, stand_in in enumerate(stand_ins)]
            if self.sums:
                self.add([sums_of_products([factor.of_codes(codes) for factor in self.factors], self.monomials)])
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
        return sum(weight * self._counts[part] for part, weight in _expansion(expression, self.factors).items())


def _expansion(expression: Expression, factors: Sequence[Factor]) -> dict[Monomial, int]:
    """Return a product of factors, centered or not, as a sum of products of plain factors with integer weights."""
    if not isinstance(expression, ProductOf):
        return {}
    indices = {factor.role: i for i, factor in enumerate(factors)}
    terms: dict[Monomial, int] = {(): expression.weight}
    for role in expression.roles:
        index = indices[role]
        factor = factors[index]
        is_centered = expression.centered and factor.level is None
        grown: Counter[Monomial] = Counter()
        for monomial, weight in terms.items():
            grown[tuple(sorted((*monomial, index)))] += weight * (2 if is_centered else 1)
            if is_centered:
                grown[monomial] -= weight * factor.steps
        terms = dict(grown)
    return terms
