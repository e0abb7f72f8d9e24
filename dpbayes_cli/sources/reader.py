"""The interface between sources and readers: blocks of records, the reader, and the contribution bound."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbayes_cli.core.columns import AnyColumn

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.sources.text_keys import TextKeys, Words

OUT_OF_BOUNDS = -1
"""The code of a number out of bounds, if such a number drops its record and is not imputed."""
MISSING = -2
"""The code of any other cell without a valid value, which a stand-in may replace."""
Monomial = tuple[int, ...]
"""A product of factors, given by their indices in ascending order; see ``factors_of``."""
EVERY_RECORD = -1
"""The number of the cell in which an engine counts every record, besides the cells of tables."""


class Records(Protocol):
    """A block of records; the column of privacy units is the last one."""

    @property
    def n_records(self) -> int:
        """The number of records, valid or not."""
        ...

    def codes(self, i: int) -> Integers:
        """Return the codes of a column's cells, ``MISSING`` or ``OUT_OF_BOUNDS`` if invalid, shape (n_records,)."""
        ...

    def numbers(self, i: int) -> Floats:
        """Return the numbers of a column, neither clamped nor rounded, NaN if invalid, shape (n_records,)."""
        ...

    def keys(self, i: int, keys: TextKeys) -> Words:
        """Return the keys of a column's texts, shape (n_records,); a missing text is empty."""
        ...


class Reader(Protocol):
    """A computation on the records, such as a count."""

    @property
    def columns(self) -> Sequence[AnyColumn]:
        """The columns to read; records with the same codes in these columns are interchangeable."""
        ...

    @property
    def records(self) -> int:
        """The number of records read so far, valid or not."""
        ...

    def read(self, blocks: Iterable[Records]) -> None:
        """Read all records, block by block."""
        ...


@dataclass(frozen=True)
class UnitBound:
    """The contribution bound of a privacy unit.

    Records without a unit and malformed records form one unit together.

    Attributes:
        column: the name of the column with the IDs of the privacy units.
        max_contributions: the largest number of records of a unit that are kept.
        key: the secret key of the keyed hash, new for every reading of the data.
    """

    column: str
    max_contributions: int
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
