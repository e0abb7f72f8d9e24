"""How many records of one privacy unit count."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True)
class UnitBound:
    """Which column says whose a record is, and how many records of one unit count.

    Records whose unit is missing, and malformed ones, belong to one unit together.

    Attributes:
        column: the name of the column.
        max_contributions: how many records of a unit are kept.
        key: a secret, new for every reading of the data.
    """

    column: str
    max_contributions: int
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
