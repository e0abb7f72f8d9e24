"""Accounts and ledgers as text and as JSON."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING, Any

from dpbayes_cli.base.errors import amounts_text
from dpbayes_cli.base.numeric import decimal_text, short_text
from dpbayes_cli.commands.output import emit_result, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.budgets import Lanes
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.state import Account, State
    from dpbayes_cli.privacy.guarantee import Guarantee

_UP, _DOWN = (Context(prec=15, rounding=rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))


def head_of(state: State) -> dict[str, Any]:
    """Return the last entry of a ledger as a JSON object: its sequence number and hash."""
    return {"sequence": state.mark.sequence, "hash": state.head}


def print_account(change: tuple[Account, bool], ledger: Ledger, *, as_json: bool) -> None:
    """Print an account after a change; the second part of ``change`` is False if an earlier run has made the change."""
    from dpbayes_cli.ledger.charging import unit_text

    account, changed = change
    if not changed:
        say_already_done()
    document = account_document(account)
    remaining = amounts_text(document["remaining"], up=False)
    left = f"closed on {account.closed}" if account.closed else f"remaining {remaining}"
    emit_result(
        {**account_with_releases(ledger.account(account.name)), "already_done": not changed},
        f"account {account.name}: {amounts_text(document['budget'], up=False)} under {account.neighbors} neighbors of "
        f"{unit_text(account.unit)}, {left}",
        as_json=as_json,
    )


def account_document(account: Account) -> dict[str, Any]:
    """Return an account as a JSON object; its keys are stable. Amounts have at most 15 digits."""
    from dpbayes_cli.ledger.admitted_releases import allowances, remaining_by_route
    from dpbayes_cli.ledger.budgets import component_texts

    def amounts(exact: Lanes, context: Context = _DOWN) -> dict[str, str]:
        return component_texts({name: context.create_decimal(amount) for name, amount in exact.items()})

    return {
        "account": account.name,
        "neighbors": str(account.neighbors),
        "unit": account.unit,
        "separate_population": account.separate_population,
        "opened": account.opened,
        "by_default": account.by_default,
        "closed": account.closed or None,
        "kind": account.budget.kind,
        "budget": amounts(account.budget.total),
        "spent": amounts(account.spent, _UP),
        "remaining": amounts(account.remaining),
        "allows_next": allowances(account),
        "limits": {
            analyst: {
                "limit": amounts(limit.budget.total),
                "spent": amounts(limit.spent, _UP),
                "remaining": amounts(limit.remaining),
            }
            for analyst, limit in account.limits.items()
        },
        "notice": None if account.notice is None else decimal_text(account.notice),
        "routes": component_texts(dict(remaining_by_route(account))),
    }


def account_sentences(account: Account, last: Guarantee | None) -> str:
    """Return the notion of privacy in which an open account is kept, what is left, and how often it pays for more.

    ``last`` is the guarantee of the last release; it is None if nothing was released.
    """
    from dpbayes_cli.ledger.admitted_releases import admitted_releases

    if not account.budget.amounts:
        return (
            f"{account.name} holds a schedule, whose whole total was charged when it was opened; its releases: dpbayes "
            "schedule show FILE"
        )
    left = f"{account.name} is kept in {account.budget.notion}: {_left(account)}."
    if last is None:
        return left
    times = 0 if account.exhausted else admitted_releases(account.budget, last, account.charged)
    releases = "1 more release" if times == 1 else f"{times:,} more releases" if times else "no more release"
    differs = account.budget.kind == "renyi" and not last.epsilon.is_finite()
    why = (
        " Alone, such a release has the epsilon that it states. The account adds releases up in a way that makes the "
        "first of them cost more, and many together less."
    )
    return f"{left} It pays for {releases} like the last one.{why * differs}"


def _left(account: Account) -> str:
    """Return what is left of each total, such as "2.4 of epsilon 3 is left at delta 0.000001"."""
    total, remaining = dict(account.budget.total), account.remaining
    delta = total.pop("delta") if account.budget.kind == "renyi" else None  # its epsilon holds at this delta
    parts = [f"{short_text(remaining[name])} of {name} {short_text(amount)}" for name, amount in total.items()]
    at = "" if delta is None else f" at delta {decimal_text(delta)}"
    return f"{' and '.join(parts)} {'is' if len(parts) == 1 else 'are'} left{at}"


def account_with_releases(account: Account) -> dict[str, Any]:
    """Return an account with all its releases as a JSON object; its keys are stable."""
    names = ("release_id", "stage", "guarantee", "time", "user", "version", "purpose", "analyst", "sequence")
    releases = [
        {name: getattr(release, name) for name in names} | {"guarantee": release.guarantee.serialize()}
        for release in account.releases.values()
    ]
    return {**account_document(account), "releases": releases}
