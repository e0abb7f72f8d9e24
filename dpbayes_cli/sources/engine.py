"""Tables in PostgreSQL or Spark, which evaluate the statistic themselves and return integers only."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy, n_codes
from dpbayes_cli.core.statistic import ExactEvidence, FoundGroups, Statistic, SumsByGroup
from dpbayes_cli.core.statistic_values import released_values
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.found_keys import KeyTally
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.source import Source, check_boolean, column_index
from dpbayes_cli.sources.tally import Tally

if TYPE_CHECKING:
    from dpbayes_cli.sources.cell_expressions import Dialect
    from dpbayes_cli.sources.expressions import Statements

Rows = list[tuple[Any, ...]]
Kind = Literal["text", "integer", "decimal", "double", "boolean"]
"""The kind of a column's type. All engines write a value of one kind as the same text, except doubles."""


class EngineSource(Source):
    """One table in an engine, which evaluates statistics itself; see ``expressions``.

    No record leaves the engine, so requests that read records one by one are refused.
    """

    dialect: Dialect
    """The engine's SQL dialect."""
    hands_over_records = False

    def __init__(self, unit: UnitBound | None = None, marks: NumberMarks = POINT) -> None:
        super().__init__(unit, marks)
        self._names: list[str] = []
        self._are_texts: list[bool] = []
        self._unit_name = ""

    def check(self, columns: Sequence[AnyColumn], names: Sequence[str | None]) -> None:
        """Resolve the columns by the table's schema, which is public; see ``Source.check``."""
        kinds = self._kinds()
        available = list(kinds)
        self._names = [available[column_index(available, name, others=names)] for name in names]
        for name, column in zip(self._names, columns, strict=True):
            _check_kind(kinds[name], column)
        self._are_texts = [kinds[name] == "text" for name in self._names]
        if self._unit is not None:
            self._unit_name = available[column_index(available, self._unit.column, by_position=False)]
            _check_kind(kinds[self._unit_name], None)
        self._columns = tuple(columns)

    def count_records(self) -> int | None:
        """Count the rows."""
        return self._count(None)

    def count(self) -> int | None:
        """Return the number of privacy units, or of rows if each row is a unit."""
        return self._count(self._unit)

    def _blocks(self) -> Generator[CellBlock]:
        """Refuse: only statistics leave the engine."""
        raise SourceError(
            "this request reads records one by one, but only statistics leave this engine",
            hint="export the columns to Parquet files and read these without --engine",
        )

    def statistics(self, statistic: Statistic, policy: RecordPolicy) -> ExactEvidence:
        """Evaluate a statistic exactly, by one query; see ``Source.statistics``."""
        if not self._columns:
            raise ValueError("check first")
        if statistic.tables:
            return self._tables(statistic, policy)
        if isinstance(statistic.expressions[0], SumsByGroup):
            return self._sums_by_group(statistic.expressions[0], policy)
        if isinstance(statistic.expressions[0], FoundGroups):
            key_tally = KeyTally(self._columns, policy)
            key_tally.add(self._rows(self._statements(self._columns, self._unit).found_query(policy)))
            return key_tally.statistics()
        tally = Tally(self._columns, statistic, policy)
        statements = self._statements(tally.columns, self._unit)
        query = (
            statements.tally_query(policy, tally.factors, tally.monomials)
            if tally.sums
            else statements.code_query(policy)
        )
        tally.add(self._rows(query))
        return tally.statistics()

    def _tables(self, statistic: Statistic, policy: RecordPolicy) -> ExactEvidence:
        import numpy as np

        from dpbayes_cli.sources.expressions import EVERY_RECORD

        statements = self._statements(self._columns, self._unit)
        query = statements.keys_query(policy, statistic.tables, whole_records=statistic.whole_records)
        counts: dict[int, int] = {key: count for key, count in self._rows(query) if key is not None}
        n_records = counts.pop(EVERY_RECORD, 0)
        flat = np.zeros(sum(table.size for table in statistic.tables), dtype=np.int64)
        flat[list(counts)] = list(counts.values())
        ends = np.cumsum([table.size for table in statistic.tables])[:-1]
        split = zip(np.split(flat, ends), statistic.tables, strict=True)
        tables = [cells.reshape(table.shape) for cells, table in split]
        return ExactEvidence(released_values(statistic, tables), int(n_records))

    def _sums_by_group(self, sums: SumsByGroup, policy: RecordPolicy) -> ExactEvidence:
        import numpy as np

        from dpbayes_cli.sources.expressions import EVERY_RECORD

        rows = self._rows(self._statements(self._columns, self._unit).group_query(policy, squares=sums.squares))
        totals = np.zeros((3, sums.n_groups), dtype=object)
        for key, *row in rows:
            if key != EVERY_RECORD:
                totals[: len(row), key] = list(map(int, row))
        values = sums.components(n_codes(self._columns[-1]) - 1, *totals)
        return ExactEvidence(tuple(values.ravel().tolist()), sum(int(row[1]) for row in rows))

    def _count(self, unit: UnitBound | None) -> int:
        ((count,),) = self._rows(self._statements(() if unit else self._columns, unit).count_query())
        return int(count)

    def _statements(self, columns: Sequence[AnyColumn], unit: UnitBound | None) -> Statements:
        from dpbayes_cli.sources.expressions import Statements

        named = {f"text_{i}": name for i, (name, _) in enumerate(zip(self._names, columns, strict=False))}
        if unit is not None:
            named["owner"] = self._unit_name
        pairs, marked = enumerate(zip(columns, self._are_texts, strict=False)), self._marks != POINT
        marks = {
            i: self._marks for i, (column, is_text) in pairs if is_text and marked and not isinstance(column, Column)
        }
        return Statements(self.dialect, self._relation(named), columns, unit, marks)

    @abstractmethod
    def _kinds(self) -> Mapping[str, Kind | str]:
        """Return the kind of each column's type, or the name of a type that has none of these kinds.

        Raises:
            SourceError: there is no such table, or the engine cannot be reached.
        """

    @abstractmethod
    def _relation(self, named: Mapping[str, str]) -> str:
        """Return a query of one row per record with cells as texts that compare by bytes.

        Args:
            named: the new name of each column, mapped to its name in the table.
        """

    @abstractmethod
    def _rows(self, query: str) -> Rows:
        """Run a query that has few rows, and return them.

        Raises:
            SourceError: the engine fails; the message does not give the engine's reason, which might quote a cell.
        """


def short_text(cell: str, in_utf8: str, text: str) -> str:
    """Return an expression for a cell's text, NULL if the cell is too long.

    Args:
        cell: the expression of the stored cell; its length is checked first, because this is cheap.
        in_utf8: the expression of the cell in UTF-8, whose length all engines compare with the limit.
        text: the expression of the cell's text.
    """
    fits = f"octet_length({in_utf8}) <= {MAX_CELL_BYTES}"
    return f"CASE WHEN octet_length({cell}) <= {MAX_CELL_BYTES} THEN CASE WHEN {fits} THEN {text} END END"


@contextmanager
def replaced_errors(failure: SourceError, kind: type[Exception] = Exception) -> Iterator[None]:
    """Raise ``failure`` instead of an engine's errors, whose text might quote a cell."""
    try:
        yield
    except SourceError:
        raise
    except kind:
        raise failure from None


def _check_kind(kind: str, column: AnyColumn | None) -> None:
    """Refuse a type without a unique text form, or a type that the declared domain cannot match.

    Args:
        kind: the kind of the column's type, or the name of a type that has none of the kinds.
        column: the column's domain; None if the column holds the privacy units.

    Raises:
        SourceError: the column is nested, binary, a date, or a double that would be compared as text.
        SpecError: the column is boolean and the domain is not.
    """
    if kind == "boolean" and column is not None:
        check_boolean(column)
        return
    if kind not in {"text", "integer", "decimal", "double"}:
        raise SourceError(f"a column of type {kind} cannot be read as text", hint="cast it to text in a view")
    exact = column is None or isinstance(column, Column) or (isinstance(column, NumericColumn) and column.integers)
    if kind == "double" and exact:
        raise SourceError(
            "a column of doubles has no unique text form to compare",
            hint="cast it to integers or text in a view",
        )
