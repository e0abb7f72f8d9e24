"""One population, one account: which account has paid for the data of a source; see ``data_names``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.data_names import data_names, data_term, resolve_file
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.ledger.state import Account, State

_LOOKED_AT = 200
"""Charges of a file's number that are looked at, the youngest: numbers are used again when their file is gone."""


def check_population(state: State, account: Account, source: str) -> None:
    """Refuse to charge an account for data that another one has paid for.

    An account that has paid for these data before goes on: what it shares with another was spent already.

    Privacy: what two accounts spend on the same people adds up, and no total would be compared with the sum.
    Source: architecture, the ledger: one account is one population.

    Raises:
        BudgetError: the account is not said to be a separate population.
    """
    if account.separate_population:
        return
    for name in sorted(data_names(source)):
        if _payers(state, name, account.name):
            continue
        others = _payers(state, name)
        if others:
            raise BudgetError(
                f"the account {others[0]!r} has paid for these data, and {account.name!r} has not: the same people "
                "would be promised two budgets; nothing was charged",
                hint=f"pay from that account: --dataset {others[0]}; only if the people are others: "
                f"{_account_command(state, account)} --separate-population --reason TEXT",
            )


def _payers(state: State, name: str, account: str | None = None) -> list[str]:
    """Return which accounts have paid for the data of a name, under this name or one that leads to the same file now.

    Args:
        state: the ledger.
        name: of a file or a table.
        account: the only account to look at; None: all.
    """
    prefix = f"paid by {account} for " if account else ""
    if charges := state.find(prefix + data_term(name), last=1):
        return [charges[0].fields["account"]]
    here = resolve_file(name)
    if not isinstance(here, tuple):
        return []
    for charge in reversed(state.find(f"{prefix}inode:{here[1]}", last=_LOOKED_AT)):
        fields = charge.fields
        if any(number == here[1] and resolve_file(known) == here for known, number in fields["inodes"].items()):
            return [fields["account"]]
    return []


def _account_command(state: State, account: Account) -> str:
    """Return the command that opens or changes an account, as far as it is known."""
    if account.name in state.accounts:
        return f"dpbayes budget amend {account.name}"
    opening = f"dpbayes budget open {account.name} --epsilon {decimal_text(account.budget.total['epsilon'])}"
    if account.neighbors is not Neighbors.REPLACE_ONE:
        opening += f" --neighbors {account.neighbors}"
    return opening if account.unit is None else f"{opening} --unit {shlex.quote(account.unit)}"
