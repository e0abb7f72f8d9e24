"""Build the entries that open and change accounts, and the notices of how much of a budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.budgets import component_texts
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.ledger.union_budget import amended_budget

SEPARATE_SCHEDULE = (
    "for data of other people, write another schedule with an account of its own, and open it: "
    "dpbayes schedule open FILE --separate-population --reason TEXT"
)
_CIRCUMSTANCES = {"sequence", "time", "user", "version", "mac"}
"""The fields of an entry that differ if the same change is made again."""


def opening_entry(account: Account, separate: str | None = None) -> dict[str, Any]:
    """Return the entry that opens an account; ``separate`` is as in ``Ledger.open_account``."""
    fields = {
        "kind": "open",
        "account": account.name,
        "budget": account.budget.serialize(),
        "neighbors": str(account.neighbors),
        "by_default": account.by_default,
    }
    if account.unit is not None:
        fields["unit"] = account.unit
    if separate is not None:
        fields |= {"separate_population": True, "reason": separate}
    return fields


def amendment_entry(
    account: Account, changes: Mapping[str, Decimal], reason: str, *, separate_population: bool = False
) -> dict[str, Any]:
    """Return the entry that changes the totals of an account, or declares its population separate.

    Raises:
        BudgetError: the account has spent more than the new total, or every component of the total must be stated, or
            the account holds a schedule.
        SpecError: there is no such component.
    """
    needed = account.budget.amounts
    if separate_population and not needed:
        raise BudgetError(
            f"the account {account.name!r} holds a schedule, which cannot be changed: only the command that opened it "
            "could state that its population is separate",
            hint=SEPARATE_SCHEDULE,
        )
    if account.exhausted and not changes.keys() >= set(needed):
        raise BudgetError(
            f"the whole budget of account {account.name!r} counts as spent: its total must be set again",
            hint=f"give {' and '.join(f'--{name}' for name in sorted(needed))}: its total, less what was released "
            "after the backup",
        )
    budget = amended_budget(account.budget, changes) if changes else account.budget
    if budget.kind != account.budget.kind and (account.limit_budgets or account.charged_by):
        raise BudgetError(
            f"the account {account.name!r} has limits of analysts in {account.budget.notion}, so that its total cannot "
            "get a delta",
            hint="state a total without --delta",
        )
    if budget.excess(account.charged_in(budget)):
        raise BudgetError(
            f"the account {account.name!r} has already spent more than the new total",
            hint=f"to see what is spent: dpbayes budget show {account.name}",
            requested=component_texts(budget.total),
            remaining=component_texts(account.remaining),
        )
    fields = {"kind": "amend", "account": account.name, "budget": budget.serialize(), "reason": reason}
    return {**fields, "separate_population": True} if separate_population else fields


def limit_entry(account: Account, analyst: str, changes: Mapping[str, Decimal], reason: str) -> dict[str, Any]:
    """Return the entry that sets or changes an analyst's limit; components that are not stated stay as they are.

    A new limit takes the components that are not stated from the account's total.

    Raises:
        BudgetError: the analyst has already spent more than the new limit.
        SpecError: there is no such component.
    """
    current, charged = account.limit_budgets.get(analyst, account.budget), account.charged_to(analyst)
    budget = current.amended(changes)
    if budget.excess(charged):
        raise BudgetError(
            f"the analyst {analyst!r} has already spent more than the new limit",
            hint=f"to see what is spent: dpbayes budget show {account.name} -v",
            requested=component_texts(budget.total),
            remaining=component_texts(current.remaining(charged)),
        )
    fields = {"kind": "limit", "account": account.name, "analyst": analyst}
    return {**fields, "budget": budget.serialize(), "reason": reason}


def notice_entry(account: Account, share: Decimal | None, reason: str) -> dict[str, Any]:
    """Return the entry that makes releases print a notice once this share of the budget is spent; None: no notice."""
    stated = None if share is None else decimal_text(share)
    return {"kind": "notice", "account": account.name, "share": stated, "reason": reason}


def check_open(account: Account) -> None:
    """Raise ``BudgetError`` if an account is closed."""
    if account.closed:
        raise BudgetError(
            f"the account {account.name!r} was closed on {account.closed}: it can no longer be charged, changed or "
            "opened",
            hint="its releases can still be shown and verified; for data of other people, name another account",
        )


def restatement(account: Account) -> str:
    """Return how to state the total of an account again whose whole total counts as spent."""
    if not account.budget.amounts:
        return "its schedule has ended: nobody knows which releases were drawn, and none may be drawn twice"
    command = f"dpbayes budget amend {account.name} {account.budget.options('TOTAL')} --reason TEXT"
    return f"state its total, less what was released after the backup: {command}"


def describe_change(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind and analyst of an entry that changes an account, and its content without user and time.

    Checkpoints store both texts, so the digests of checkpoints depend on them.
    """
    content = {name: value for name, value in fields.items() if name not in _CIRCUMSTANCES}
    return f"{fields['kind']} {fields.get('analyst', '')}", canonical_json(content).decode("ascii")


def due_notices(account: Account, analyst: str | None) -> list[str]:
    """Return the notices to print after a charge: the spent share of the account's total and of the analyst's limit."""
    if account.notice is None:
        return []
    budgets = [(f"account {account.name!r}", account.budget, account.charged)]
    if analyst is not None and analyst in account.limits:
        limit = account.limits[analyst]
        budgets.append((f"the limit of analyst {analyst!r}", limit.budget, limit.charged))
    notices = []
    for name, budget, charged in budgets:
        spent = budget.spent(charged)
        share = max((spent[part] / total for part, total in budget.total.items() if total > 0), default=Decimal(0))
        if share >= account.notice:
            percent = (100 * min(share, Decimal(1))).quantize(Decimal(1), rounding=ROUND_FLOOR)
            notices.append(f"notice: {percent} % of {name} is spent")
    return notices
