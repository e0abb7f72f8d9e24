"""One population, one account: which sources hold the same data, and which account has paid for them.

What the ledger records of a source is a text. Two names of one file are found out by the file system as long as both
lead to it: symbolic links, hard links, mounts. A copy, a view or another name of a server is not found out.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Set
from typing import TYPE_CHECKING

from dpbayes_cli.errors import BudgetError
from dpbayes_cli.numeric import decimal_text
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.ledger.state import Account, State

_TABLE = re.compile(r"postgresql://(?:[^@/]*@)?(?P<host>[^/]*?)(?::(?P<port>[0-9]+))?/(?P<table>.*)", re.DOTALL)
_NEXT_PATH = re.compile(re.escape(os.pathsep) + r"(?=/)")
_DESCRIPTORS = ("/dev/fd/", "/proc/")
"""Their names say nothing about the data."""


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
    new = data_names(source) - account.sources
    for other in state.accounts.values():
        if other.name == account.name:
            continue
        shared = _shared(new, other.sources)
        if shared - _shared(shared, account.sources):
            raise BudgetError(
                f"the account {other.name!r} has paid for these data, and {account.name!r} has not: the same people "
                "would be promised two budgets; nothing was charged",
                hint=f"pay from that account: --dataset {other.name}; only if the people are others: "
                f"{_account_command(state, account)} --separate-population --reason TEXT",
            )


def _account_command(state: State, account: Account) -> str:
    """Return the command that opens or changes an account, as far as it is known."""
    if account.name in state.accounts:
        return f"dpbayes budget amend {account.name}"
    opening = f"dpbayes budget open {account.name} --epsilon {decimal_text(account.budget.total['epsilon'])}"
    if account.neighbors is not Neighbors.REPLACE_ONE:
        opening += f" --neighbors {account.neighbors}"
    return opening if account.unit is None else f"{opening} --unit {shlex.quote(account.unit)}"


def _shared(names: Set[str], recorded: Set[str]) -> set[str]:
    """Return the names of data that are recorded, by these names or others."""
    if not names or not recorded:
        return set()
    files = {_identity(name) for name in recorded}
    return {name for name in names if name in recorded or _identity(name) in files}


def _identity(name: str) -> object:
    """Return what is behind a name: the file that it leads to now, else the name itself."""
    if name.startswith("/"):
        try:
            status = os.stat(name)  # noqa: PTH116 - for many names, and a Path for each takes longer than this
        except (OSError, ValueError):
            return name
        return status.st_dev, status.st_ino
    return name
