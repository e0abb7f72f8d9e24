"""The contribution bound of a privacy unit."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True)
class UnitBound:
    """The column of the privacy units, and the contribution bound.

    Records without a unit and malformed records form one unit together.

    Attributes:
        column: the name of the column of privacy units.
        max_contributions: the number of records of a unit that are kept at most.
        key: the secret key of the keyed hash, new for every reading of the data.
    """

    column: str
    max_contributions: int
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
