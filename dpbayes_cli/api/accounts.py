"""Ledgers and their accounts in Python."""

from __future__ import annotations

import os
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbayes_cli.core.choice import as_texts

if TYPE_CHECKING:
    import pandas as pd

    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.state import Account


class Accounts:
    """A ledger and its accounts.

    >>> ledger = dpb.Ledger("ledger.sqlite")
    >>> ledger.open("clinic", epsilon="3")
    {'epsilon': Decimal('3')}
    >>> ledger.remaining("relapse")
    {'epsilon': Decimal('2.5')}

    Args:
        place: the ledger's file or PostgreSQL address; if None, the default ledger.
        anchor: the anchor file that the ledger must agree with; if None, ``$DPBAYES_ANCHOR``.
        key: the file of the key that signs entries; if None, ``$DPBAYES_LEDGER_KEY``.
    """

    def __init__(
        self, place: str | Path | None = None, *, anchor: str | Path | None = None, key: str | Path | None = None
    ) -> None:
        self._place = None if place is None else os.fspath(place)
        self._anchor = _file(anchor, "DPBAYES_ANCHOR")
        self._key = _file(key, "DPBAYES_LEDGER_KEY")

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger that charges releases."""
        from dpbayes_cli.ledger.key import read_key
        from dpbayes_cli.ledger.ledger import Ledger
        from dpbayes_cli.ledger.place import storage_at

        key = None if self._key is None else read_key(self._key)
        return Ledger(storage_at(self._place), stated_anchor=self._anchor, key=key)

    def open(
        self, account: str, *, neighbors: str = "replace-one", unit: str | None = None, **total: Any
    ) -> dict[str, Decimal]:
        """Open an account with a total in one notion of privacy; return the remaining budget by component.

        Args:
            account: the name of the account.
            neighbors: ``replace-one`` or ``add-remove``.
            unit: the column with the person's ID, if a person may have several records; otherwise None.
            total: one of: ``epsilon``; ``epsilon`` and ``delta``; ``rho``; ``mu``; ``rdp`` and ``order``.

        Raises:
            BudgetError: the account is already open with other terms.
            SpecError: the total has other keys than these.
        """
        from dpbayes_cli.base.numeric import parse_decimal
        from dpbayes_cli.ledger.union_budget import stated_budget
        from dpbayes_cli.privacy.neighbors import Neighbors

        amounts = {name: parse_decimal(as_texts(value)) for name, value in total.items() if value is not None}
        opened, _ = self.ledger.open_account(account, stated_budget(amounts), Neighbors(neighbors), unit)
        return opened.remaining

    def account(self, name: str) -> Account:
        """Return an account with all its releases.

        Raises:
            BudgetError: there is no such account.
        """
        return self.ledger.account(name)

    def remaining(self, name: str) -> dict[str, Decimal]:
        """Return the remaining budget of an account, by component.

        Raises:
            BudgetError: there is no such account.
        """
        return self.account(name).remaining

    def to_pandas(self) -> pd.DataFrame:
        """Return all entries of the ledger, one row each, in order."""
        import pandas as pd

        return pd.DataFrame([entry.fields for entry in self.ledger.entries()] if self.ledger.storage.exists else [])

    def verify(self) -> list[str]:
        """Return the faults that verification finds in the ledger; empty if there are none."""
        return list(self.ledger.findings()[0])


def _file(stated: str | Path | None, variable: str) -> Path | None:
    path = stated or os.environ.get(variable)
    return Path(path) if path else None
