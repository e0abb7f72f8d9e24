"""Entries that open and change accounts, and the limits of analysts; pure functions of an account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.budgets import Budget, component_texts

if TYPE_CHECKING:
    from dpbayes_cli.ledger.records import ReleaseRecord
    from dpbayes_cli.ledger.state import Account
    from dpbayes_cli.privacy.guarantee import Guarantee

_CIRCUMSTANCES = {"sequence", "time", "user", "version", "mac"}


def opening_entry(account: Account, separate: str | None = None) -> dict[str, Any]:
    """Return the entry that opens an account; ``separate`` is the reason why its population is separate, if it is."""
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
        BudgetError: more is spent already, or the whole total must be stated.
        SpecError: there is no such component.
    """
    needed = account.budget.amounts
    if account.exhausted and not changes.keys() >= set(needed):
        raise BudgetError(
            f"the whole budget of account {account.name!r} counts as spent: its total must be set again",
            hint=f"give {' and '.join(f'--{name}' for name in sorted(needed))}: the intended total minus what was "
            "released",
        )
    budget = account.budget.amended(changes) if changes else account.budget
    if budget.excess(account.charged):
        raise BudgetError(
            f"the account {account.name!r} has already spent more than the new total",
            hint=f"to see what is spent: dpbayes budget show {account.name}",
            requested=component_texts(budget.total),
            remaining=component_texts(account.remaining),
        )
    fields = {"kind": "amend", "account": account.name, "budget": budget.serialize(), "reason": reason}
    return {**fields, "separate_population": True} if separate_population else fields


def limit_entry(account: Account, analyst: str, changes: Mapping[str, Decimal], reason: str) -> dict[str, Any]:
    """Return the entry that sets or changes an analyst's limit; unstated components are the account's.

    Raises:
        BudgetError: the analyst has spent more already.
        SpecError: there is no such component.
    """
    known = account.limits.get(analyst)
    budget = (account.budget if known is None else known.budget).amended(changes)
    charged = account.charged_to(analyst)
    if budget.excess(charged):
        raise BudgetError(
            f"the analyst {analyst!r} has already spent more than the new limit",
            requested=component_texts(budget.total),
            remaining=component_texts((account.budget if known is None else known.budget).remaining(charged)),
        )
    entry = {"kind": "limit", "account": account.name, "analyst": analyst, "budget": budget.serialize()}
    return {**entry, "reason": reason}


def notice_entry(account: Account, share: Decimal | None, reason: str) -> dict[str, Any]:
    """Return the entry that sets the spent share of the budget from which releases print a notice; None: never."""
    return {
        "kind": "notice",
        "account": account.name,
        "share": None if share is None else decimal_text(share),
        "reason": reason,
    }


def describe_change(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the subject of an entry about an account, and its content without user and time.

    Checkpoints store both texts, and their digests depend on them.
    """
    content = {name: value for name, value in fields.items() if name not in _CIRCUMSTANCES}
    return f"{fields['kind']} {fields.get('analyst', '')}", canonical_json(content).decode("ascii")


def check_limit(
    account: Account, analyst: str | None, guarantee: Guarantee, latest: Callable[[], list[ReleaseRecord]]
) -> None:
    """Refuse a charge that does not fit the analyst's limit; the refusal lists the analyst's latest releases.

    Raises:
        BudgetError: the charge does not fit the limit, or the account has limits but none for this analyst.
    """
    if analyst is None and not account.limits:
        return
    if analyst is None:
        raise BudgetError(
            f"the account {account.name!r} has a limit for each analyst, and this release names no analyst",
            hint="name the analyst: --analyst NAME",
        )
    if analyst not in account.limits:
        raise BudgetError(
            f"the analyst {analyst!r} has no limit in the account {account.name!r}",
            hint=f"dpbayes budget limit {account.name} {analyst} --epsilon LIMIT --reason TEXT",
        )
    if analyst in account.exhausted_limits:
        raise BudgetError(
            f"the limit of analyst {analyst!r} in account {account.name!r} counts as spent: later entries were lost; "
            "nothing was charged",
            hint=f"set it again: dpbayes budget limit {account.name} {analyst} --epsilon LIMIT --reason TEXT",
        )
    limit = account.limits[analyst]
    missing = limit.budget.shortfall(limit.charged, guarantee)
    if missing:
        raise BudgetError(
            f"the limit of analyst {analyst!r} in account {account.name!r} does not allow this release; nothing was "
            "charged",
            requested=component_texts(limit.budget.requested(limit.charged, guarantee)),
            remaining=component_texts(limit.remaining),
            missing=component_texts(missing),
            spent_by=[
                (release.release_id, f"asked on {release.time}") for release in latest() if release.analyst == analyst
            ],
            hint=f"ask for less, or raise the limit: dpbayes budget limit {account.name} {analyst} --epsilon LIMIT "
            "--reason TEXT",
        )


def due_notices(account: Account, analyst: str | None) -> list[str]:
    """Return the notices to print after a charge: the spent share of the account, and of the analyst's limit."""
    if account.notice is None:
        return []
    budgets = [(f"account {account.name!r}", account.budget, account.charged)]
    if analyst is not None and analyst in account.limits:
        limit = account.limits[analyst]
        budgets.append((f"the limit of analyst {analyst!r}", limit.budget, limit.charged))
    notices = []
    for name, budget, charged in budgets:
        share = spent_share(budget, charged)
        if share >= account.notice:
            percent = (100 * min(share, Decimal(1))).quantize(Decimal(1), rounding=ROUND_FLOOR)
            notices.append(f"notice: {percent} % of {name} is spent")
    return notices


def spent_share(budget: Budget, charged: Mapping[str, Decimal]) -> Decimal:
    """Return the largest spent share over the components of a budget, at least 0."""
    spent = budget.spent(charged)
    return max((spent[name] / total for name, total in budget.total.items() if total > 0), default=Decimal(0))
