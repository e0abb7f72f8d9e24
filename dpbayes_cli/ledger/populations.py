"""Refuse to charge two accounts for the same people: find the accounts that have paid for the same data."""

from __future__ import annotations

import shlex

from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.ledger.data_names import data_names, data_term, resolve_file
from dpbayes_cli.ledger.limits import SEPARATE_SCHEDULE
from dpbayes_cli.ledger.state import Account, State
from dpbayes_cli.privacy.neighbors import Neighbors

OPEN_SEPARATE = "only if the data are of other people: dpbayes schedule open FILE --separate-population --reason TEXT"
_MAX_CHARGES_COMPARED = 200
"""How many charges with the same inode number to compare: a file system may reuse the number of a removed file."""


def check_population(state: State, account: Account, source: str) -> None:
    """Raise ``BudgetError`` if only other accounts have paid for these data, and this one is not declared separate.

    If this account has paid for the data before, it may be charged again, because the overlap exists already.

    Privacy: if two accounts paid for the same people, their privacy costs would add up, but no total would bound the
        sum.
    Source: derived here: one account is one population.
    """
    if account.separate_population:
        return
    for name in sorted(data_names(source)):
        if _payer(state, name, account.name) is None and (other := _payer(state, name)):
            raise BudgetError(
                f"the account {other!r} has paid for these data, and {account.name!r} has not: the same people "
                "would have two budgets; nothing was charged",
                hint=_remedy(state, account, other),
            )


def has_paid(state: State, account: str, source: str) -> bool:
    """Return whether an account has paid for any file or table of a source."""
    return account in state.accounts and any(_payer(state, name, account) is not None for name in data_names(source))


def _payer(state: State, name: str, account: str | None = None) -> str | None:
    """Return an account that has paid for a file or table, or None; if ``account`` is given, look only for this one."""
    prefix = f"paid by {account} for " if account else ""
    if charges := state.find(prefix + data_term(name), last=1):
        return str(charges[0].fields["account"])
    identity = resolve_file(name)
    if not isinstance(identity, tuple):
        return None
    inode = identity[1]
    for charge in reversed(state.find(f"{prefix}inode:{inode}", last=_MAX_CHARGES_COMPARED)):
        fields = charge.fields
        if any(number == inode and resolve_file(known) == identity for known, number in fields["inodes"].items()):
            return str(fields["account"])
    return None


def _remedy(state: State, account: Account, payer: str) -> str:
    if account.budget.amounts:
        known = account.name in state.accounts
        command = f"dpbayes budget amend {account.name}" if known else opening_command(account)
        separate = f"only if the data are of other people: {command} --separate-population --reason TEXT"
        if not state.accounts[payer].budget.amounts:
            return f"that account admits the releases of its schedule alone; {separate}"
        return f"pay from that account: --dataset {payer}; {separate}"
    if account.name in state.accounts:
        return SEPARATE_SCHEDULE
    return OPEN_SEPARATE


def opening_command(account: Account, total: str | None = None) -> str:
    """Return the command that opens an account, with another first total if ``total`` states one."""
    amounts = account.budget.stated | ({} if total is None else {account.budget.amounts[0]: total})
    stated = " ".join(f"--{name} {value}" for name, value in amounts.items())
    opening = f"dpbayes budget open {account.name} {stated}"
    if account.neighbors is not Neighbors.REPLACE_ONE:
        opening += f" --neighbors {account.neighbors}"
    return opening if account.unit is None else f"{opening} --unit {shlex.quote(account.unit)}"
