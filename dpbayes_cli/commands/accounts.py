"""Accounts and ledgers as text and as JSON, and the reasons that changes of them must state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import emit, emit_json, printable, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.records import ReleaseRecord
    from dpbayes_cli.ledger.state import Account, State


def head_of(state: State) -> dict[str, Any]:
    """Return the last entry of a ledger as a JSON object: its sequence number and hash."""
    return {"sequence": state.mark.sequence, "hash": state.head}


def checked_reason(reason: str, *, needed: bool) -> str:
    """Return a reason, if the ledger can keep it.

    Raises:
        click.UsageError: the reason is empty although one is needed, or holds a control character.
    """
    if (needed and not reason.strip()) or reason != printable(reason):
        raise click.UsageError("--reason must not be empty, and must not hold control characters")
    return reason


def print_account(account: Account, ledger: Ledger, *, changed: bool, as_json: bool) -> None:
    """Print an account after a change; ``changed`` is False if the change had been made before."""
    from dpbayes_cli.ledger.charging import unit_text

    if not changed:
        say_already_done()
    if as_json:
        emit_json({**account_with_releases(ledger.account(account.name)), "already_done": not changed})
        return
    document = account_document(account)
    emit(
        f"account {account.name}: {components(document['budget'])} under {account.neighbors} neighbors of "
        f"{unit_text(account.unit)}, "
        f"remaining {components(document['remaining'])}"
    )


def account_document(account: Account) -> dict[str, Any]:
    """Return an account as a JSON object; its keys are stable."""
    from dpbayes_cli.base.numeric import decimal_text
    from dpbayes_cli.ledger.allowance import allowances, remaining_by_route
    from dpbayes_cli.ledger.budgets import component_texts

    return {
        "account": account.name,
        "neighbors": str(account.neighbors),
        "unit": account.unit,
        "separate_population": account.separate_population,
        "opened": account.opened,
        "by_default": account.by_default,
        "kind": account.budget.kind,
        "budget": component_texts(account.budget.total),
        "spent": component_texts(account.spent),
        "remaining": component_texts(account.remaining),
        "allows_next": allowances(account),
        "limits": {
            analyst: {
                "limit": component_texts(limit.budget.total),
                "spent": component_texts(limit.spent),
                "remaining": component_texts(limit.remaining),
            }
            for analyst, limit in account.limits.items()
        },
        "notice": None if account.notice is None else decimal_text(account.notice),
        "routes": component_texts(dict(remaining_by_route(account))),
    }


def account_with_releases(account: Account) -> dict[str, Any]:
    """Return an account with all its releases as a JSON object; its keys are stable."""
    return {**account_document(account), "releases": [_release(release) for release in account.releases.values()]}


def _release(release: ReleaseRecord) -> dict[str, Any]:
    return {
        "release_id": release.release_id,
        "stage": release.stage,
        "guarantee": release.guarantee.serialize(),
        "time": release.time,
        "user": release.user,
        "version": release.version,
        "purpose": release.purpose,
        "analyst": release.analyst,
        "sequence": release.sequence,
    }


def components(values: dict[str, str]) -> str:
    """Return amounts by component as one line of text, as "epsilon 1, delta 0.000001"."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
