"""How accounts and ledgers are shown, for people and for other programs, and the reasons of what changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands.output import emit, emit_json, printable, say_already_done

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.records import ReleaseRecord
    from dpbayes_cli.ledger.state import Account, State


def head_of(state: State) -> dict[str, Any]:
    """Return the end of a ledger's chain for other programs."""
    return {"sequence": state.mark.sequence, "hash": state.head}


def checked_reason(reason: str, *, needed: bool) -> str:
    """Return a reason that can be kept.

    Raises:
        click.UsageError: it says nothing although it must, or holds a control character.
    """
    if (needed and not reason.strip()) or reason != printable(reason):
        raise click.UsageError("--reason must say something, without control characters")
    return reason


def print_account(account: Account, ledger: Ledger, *, changed: bool, as_json: bool) -> None:
    """Print an account after a change, or after one that had been made before."""
    from dpbayes_cli.ledger.charging import unit_text

    if not changed:
        say_already_done()
    if as_json:
        emit_json({**with_releases(ledger.account(account.name)), "already_done": not changed})
        return
    found = described(account)
    emit(
        f"account {account.name}: {components(found['budget'])} under {account.neighbors} neighbors of "
        f"{unit_text(account.unit)}, "
        f"remaining {components(found['remaining'])}"
    )


def described(account: Account) -> dict[str, Any]:
    """Return an account for other programs; the names are stable."""
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


def with_releases(account: Account) -> dict[str, Any]:
    """Return an account with all its releases for other programs; the names are stable."""
    return {**described(account), "releases": [_release(release) for release in account.releases.values()]}


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
    """Return amounts by component in one line."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
