"""Tables in PostgreSQL or Spark, which evaluate the statistic themselves and return integers only."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from dpbayes_cli.base.cell_grammar import MAX_CELL_BYTES, POINT, NumberMarks
from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence, Statistic
from dpbayes_cli.sources.cell_blocks import CellBlock
from dpbayes_cli.sources.reader import UnitBound
from dpbayes_cli.sources.source import Source, check_boolean

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
        self._kind_of: Mapping[str, Kind | str] = {}

    def _header(self) -> list[str]:
        """Read the table's schema, which is public."""
        self._kind_of = self._kinds()
        return list(self._kind_of)

    def _check_type(self, name: str, column: AnyColumn | None) -> None:
        """See ``Source._check_type``."""
        _check_kind(self._kind_of[name], column)

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
        tally = self._tally(statistic, policy)
        tally.add(self._rows(tally.query(self._statements(tally.columns, self._unit))))
        return tally.statistics()

    def _count(self, unit: UnitBound | None) -> int:
        ((count,),) = self._rows(self._statements(() if unit else self._columns, unit).count_query())
        return int(count)

    def _statements(self, columns: Sequence[AnyColumn], unit: UnitBound | None) -> Statements:
        from dpbayes_cli.sources.expressions import Statements

        named = {f"text_{i}": name for i, (name, _) in enumerate(zip(self._names, columns, strict=False))}
        if unit is not None:
            named["owner"] = self._names[-1]
        are_marked = [self._marks != POINT and self._kind_of[name] == "text" for name in self._names]
        marks = {i: self._marks for i, column in enumerate(columns) if are_marked[i] and not isinstance(column, Column)}
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
