"""Bounded contributions: of each privacy unit at most so many records are kept, chosen by a keyed hash.

The choice looks at the unit, at the codes of the record and at a secret key, never at the order of records, so that
every engine and every partitioning of the data keeps the same; a unit with too many records changes its own share and
nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpbayes_cli.duck import fetch
from dpbayes_cli.grammar import BLANKS, INTEGER, INTEGER_REPLACEMENT
from dpbayes_cli.sources.records import literal
from dpbayes_cli.sources.source import Cells, Reader
from dpbayes_cli.sources.statements import any_code_expression

if TYPE_CHECKING:
    import duckdb

    from dpbayes_cli.columns import AnyColumn


@dataclass(frozen=True)
class UnitBound:
    """Which column says whose a record is, and how many records of one unit count.

    Records whose unit is missing, and malformed ones, belong to one unit together.

    Attributes:
        column: the name of the column.
        most: how many records of a unit are kept.
        key: a secret, new for every reading of the data.
    """

    column: str
    most: int
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)


def unit_expression(text: str) -> str:
    """Return the expression of a record's unit: its text without blanks around it, integers in their normal form."""
    stripped = f"trim({text}, {literal(BLANKS)})"
    return f"coalesce(regexp_replace({stripped}, {literal(INTEGER)}, {literal(INTEGER_REPLACEMENT)}), '')"


class BoundedReader:
    """Hands a reader the records that are kept.

    Privacy: whether a record is kept is a function of the key and of the records of its own unit: a unit that changes
        changes at most ``most`` kept records, all of them its own. Among k of m equal ones it does not matter which;
        otherwise every k of a unit's records are chosen alike, as the hash is one of random numbers.
    Source: mechanisms, conventions (privacy units).
    """

    def __init__(self, reader: Reader, bound: UnitBound) -> None:
        self._reader, self._bound = reader, bound

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """What is read."""
        return self._reader.columns

    @property
    def records(self) -> int:
        """The number of records that were kept."""
        return self._reader.records

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Read the records that are kept; see ``Reader``."""
        names = [f"kept_{i}" for i in range(len(cells.texts))]
        self._reader.run(engine, Cells(self._relation(cells, names), names), abort)

    def _relation(self, cells: Cells, names: Sequence[str]) -> str:
        """Return the relation of the kept records' texts."""
        if cells.unit is None:
            raise TypeError("the source does not say whose a record is")
        texts = ", ".join(f"{text} AS {name}" for text, name in zip(cells.texts, names, strict=True))
        codes = (any_code_expression(name, column) for name, column in zip(names, self.columns, strict=True))
        # the number of codes is fixed, and the unit comes last: no two pairs of a unit and codes have one text
        item = "".join(f"coalesce(CAST({code} AS VARCHAR), '') || ',' || " for code in codes) + "unit"
        kept = ", ".join(names)
        ticket = f"sha256({literal(self._bound.key)} || ',' || twin || ',' || item)"
        rows = f"SELECT {texts}, {unit_expression(cells.unit)} AS unit FROM {cells.relation}"
        items = f"SELECT {kept}, unit, {item} AS item FROM ({rows})"
        twins = f"SELECT {kept}, unit, item, row_number() OVER (PARTITION BY item) AS twin FROM ({items})"
        ranked = f"SELECT {kept}, row_number() OVER (PARTITION BY unit ORDER BY {ticket}) AS place FROM ({twins})"
        return f"(SELECT {kept} FROM ({ranked}) WHERE place <= {self._bound.most})"


class UnitCounter:
    """Counts the units of all records, where their number is public."""

    columns: Sequence[AnyColumn] = ()

    def __init__(self) -> None:
        self.records = self.units = 0

    def run(self, engine: duckdb.DuckDBPyConnection, cells: Cells, abort: Callable[[], None]) -> None:
        """Count; see ``Reader``."""
        if cells.unit is None:
            raise TypeError("the source does not say whose a record is")
        query = f"SELECT count(*), count(DISTINCT {unit_expression(cells.unit)}) FROM {cells.relation}"
        ((self.records, self.units),) = fetch(engine, query, abort)
