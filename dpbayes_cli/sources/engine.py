"""Sources that an engine elsewhere reads: it evaluates the statistic, and integers alone come back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpbayes_cli.base.errors import SourceError
from dpbayes_cli.core.columns import AnyColumn, Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.statistic import ExactEvidence, Statistic, released_values
from dpbayes_cli.sources.reader import Reader
from dpbayes_cli.sources.source import Source, check_boolean, column_index
from dpbayes_cli.sources.statements import Tally
from dpbayes_cli.sources.unit_bound import UnitBound

if TYPE_CHECKING:
    from dpbayes_cli.sources.cell_expressions import Dialect
    from dpbayes_cli.sources.expressions import Statements

Rows = list[tuple[Any, ...]]
Kind = Literal["text", "integer", "decimal", "double", "boolean"]
"""What a column's type is: as text a double has as many forms as there are engines, all others have one."""


class EngineSource(Source):
    """One table, read by an engine that evaluates statistics where the records are; see ``expressions``.

    No records leave the engine, so that what reads records, and not statistics of them, is refused.
    """

    dialect: Dialect
    """The engine's SQL."""

    def __init__(self, unit: UnitBound | None = None) -> None:
        super().__init__(unit)
        self._names: list[str] = []
        self._name_of_unit: str | None = None

    @property
    def is_stream(self) -> bool:
        """Whether the records can be read only once; an engine can read again."""
        return False

    @property
    def hands_over_records(self) -> bool:
        """Whether records can be read one by one: they stay where they are."""
        return False

    @property
    def record_unit(self) -> str:
        """What one record is."""
        return "row"

    def check(self, columns: Sequence[AnyColumn], names: Sequence[str | None]) -> None:
        """Resolve the columns by the table's schema, which is public; see ``Source.check``."""
        kinds = self._kinds()
        found = list(kinds)
        self._names = [found[column_index(found, name)] for name in names]
        for name, column in zip(self._names, columns, strict=True):
            _check_kind(kinds[name], column)
        if self._unit is not None:
            self._name_of_unit = found[column_index(found, self._unit.column)]
            _check_kind(kinds[self._name_of_unit], None)
        self._columns = tuple(columns)

    def count_records(self) -> int | None:
        """Count the rows."""
        return self._count(None)

    def count(self) -> int | None:
        """Count the units: the rows, where each is one."""
        return self._count(self._unit)

    def scan(self, reader: Reader) -> None:
        """Refuse, for nothing but statistics leaves the engine.

        Raises:
            SourceError: always.
        """
        raise SourceError(
            "this reads records one by one, and only statistics leave the engine that holds them",
            hint="embedded engine only: export the columns to Parquet files",
        )

    def statistics(self, statistic: Statistic, policy: RecordPolicy) -> ExactEvidence:
        """Evaluate a statistic exactly, by one query; see ``Source.statistics``."""
        if not self._columns:
            raise ValueError("check first")
        if statistic.tables:
            return self._tables(statistic, policy)
        tally = Tally(self._columns, statistic, policy)
        statements = self._statements(tally.columns, self._unit)
        if tally.monomials or all(isinstance(column, NumericColumn) for column in tally.columns):
            summed = tally.columns is self._columns
            query = statements.tally_query(policy, tally.monomials) if summed else statements.code_query(policy)
        else:
            query = statements.code_query(policy)
        tally.add(self._rows(query))
        return tally.evidence()

    def _tables(self, statistic: Statistic, policy: RecordPolicy) -> ExactEvidence:
        """Evaluate a statistic of contingency tables."""
        import numpy as np

        from dpbayes_cli.sources.expressions import EVERY_RECORD

        query = self._statements(self._columns, self._unit).keys_query(
            policy, statistic.tables, whole_records=statistic.whole_records
        )
        counts: dict[int | None, int] = dict(self._rows(query))
        flat = np.zeros(sum(table.size for table in statistic.tables), dtype=np.int64)
        for key, count in counts.items():
            if key is not None and key != EVERY_RECORD:
                flat[key] = count
        ends = np.cumsum([table.size for table in statistic.tables])[:-1]
        split = zip(np.split(flat, ends), statistic.tables, strict=True)
        tables = [cells.reshape(table.shape) for cells, table in split]
        return ExactEvidence(released_values(statistic, tables), int(counts.get(EVERY_RECORD, 0)))

    def _count(self, unit: UnitBound | None) -> int:
        ((count,),) = self._rows(self._statements(() if unit else self._columns, unit).count_query())
        return int(count)

    def _statements(self, columns: Sequence[AnyColumn], unit: UnitBound | None) -> Statements:
        """Return the queries over the table's texts."""
        from dpbayes_cli.sources.expressions import Statements

        named = {f"text_{i}": name for i, (name, _) in enumerate(zip(self._names, columns, strict=False))}
        if unit is not None:
            named["owner"] = str(self._name_of_unit)
        return Statements(self.dialect, self._relation(named), columns, unit)

    @abstractmethod
    def _kinds(self) -> Mapping[str, Kind | str]:
        """Return for each column what its type is: a kind, or the name of a type that is none.

        Raises:
            SourceError: there is no such table, or the engine cannot be asked.
        """

    @abstractmethod
    def _relation(self, named: Mapping[str, str]) -> str:
        """Return the query of one row a record: columns as texts that compare by their bytes, under new names."""

    @abstractmethod
    def _rows(self, query: str) -> Rows:
        """Run a query and return its few rows.

        Raises:
            SourceError: the engine fails; why is not said, for its reason might quote a cell.
        """


def _check_kind(kind: str, column: AnyColumn | None) -> None:
    """Refuse a type that has no one text form, or one that the declared domain cannot match.

    Args:
        kind: what the type is.
        column: the column's domain; None: it says whose a record is.

    Raises:
        SourceError: it is nested, binary, a date, or a double that is to be compared as text.
        SpecError: the column is boolean and the domain is not.
    """
    if kind == "boolean" and column is not None:
        check_boolean(column)
        return
    if kind not in {"text", "integer", "decimal", "double", "boolean"} or (kind == "boolean" and column is None):
        raise SourceError(f"a column of type {kind} cannot be read as text", hint="cast it to text in a view")
    exact = column is None or isinstance(column, Column) or (isinstance(column, NumericColumn) and column.integers)
    if kind == "double" and exact:
        raise SourceError(
            "a column of doubles has no one text form to compare",
            hint="cast it to integers or text in a view",
        )
