"""One population, one account: which sources hold the same data, and which account has paid for them.

What the ledger records of a source is a text. Two names of one file are found out by the file system as long as both
lead to it: symbolic links, hard links, mounts. A copy, a view or another name of a server is not found out.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpbayes_cli.base.canonical import digest
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.ledger.state import Account, State

_TABLE = re.compile(r"postgresql://(?:[^@/]*@)?(?P<host>[^/]*?)(?::(?P<port>[0-9]+))?/(?P<table>.*)", re.DOTALL)
_NEXT_PATH = re.compile(re.escape(os.pathsep) + r"(?=/)")
_DESCRIPTORS = ("/dev/fd/", "/proc/")
"""Their names say nothing about the data."""
_LOOKED_AT = 200
"""Charges of a file's number that are looked at, the youngest: numbers are used again when their file is gone."""


def data_names(source: str) -> set[str]:
    """Return the names of the files or the table that a recorded source holds; none if it is a stream.

    A table is the same whoever reads it, so that the user is no part of its name.
    """
    if match := _TABLE.fullmatch(source):
        return {f"postgresql://{match['host'].lower()}:{match['port'] or 5432}/{match['table']}"}
    source = source.removeprefix("file://")
    if not source.startswith("/"):
        return {source} - {"-"}
    return {name for name in _NEXT_PATH.split(source) if not name.startswith(_DESCRIPTORS)}


def is_same_source(recorded: str, source: str) -> bool:
    """Return whether a source is the recorded one, by whatever names their files go now."""
    if recorded == source:
        return True
    names = data_names(source)
    return bool(names) and set(map(_identity, names)) == set(map(_identity, data_names(recorded)))


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


def file_numbers(source: str) -> dict[str, int]:
    """Return the number that the file system gives to each file of a source that is there now."""
    identities = {name: _identity(name) for name in sorted(data_names(source))}
    return {name: identity[1] for name, identity in identities.items() if isinstance(identity, tuple)}


def data_terms(account: str, source: str, numbers: Mapping[str, int]) -> list[str]:
    """Return the words by which a charge is found again from its data, or from the files that these were."""
    names = [_data_term(name) for name in sorted(data_names(source))]
    names += [f"inode:{number}" for number in sorted(set(numbers.values()))]
    return [*names, *(f"paid by {account} for {name}" for name in names)]


def _payers(state: State, name: str, account: str | None = None) -> list[str]:
    """Return which accounts have paid for the data of a name, under this name or one that leads to the same file now.

    Args:
        state: the ledger.
        name: of a file or a table.
        account: the only account to look at; None: all.
    """
    prefix = f"paid by {account} for " if account else ""
    if charges := state.find(prefix + _data_term(name), last=1):
        return [charges[0].fields["account"]]
    here = _identity(name)
    if not isinstance(here, tuple):
        return []
    for charge in reversed(state.find(f"{prefix}inode:{here[1]}", last=_LOOKED_AT)):
        fields = charge.fields
        if any(number == here[1] and _identity(known) == here for known, number in fields["inodes"].items()):
            return [fields["account"]]
    return []


def _data_term(name: str) -> str:
    """Return the word for a name, which may be no Unicode text."""
    return f"data:{digest('data name', name.encode('utf-8', 'surrogatepass'))}"


def _account_command(state: State, account: Account) -> str:
    """Return the command that opens or changes an account, as far as it is known."""
    if account.name in state.accounts:
        return f"dpbayes budget amend {account.name}"
    opening = f"dpbayes budget open {account.name} --epsilon {decimal_text(account.budget.total['epsilon'])}"
    if account.neighbors is not Neighbors.REPLACE_ONE:
        opening += f" --neighbors {account.neighbors}"
    return opening if account.unit is None else f"{opening} --unit {shlex.quote(account.unit)}"


def _identity(name: str) -> str | tuple[int, int]:
    """Return what is behind a name: the file that it leads to now, else the name itself."""
    if name.startswith("/"):
        try:
            status = os.stat(name)  # noqa: PTH116 - for many names, and a Path for each takes longer than this
        except (OSError, ValueError):
            return name
        return status.st_dev, status.st_ino
    return name
