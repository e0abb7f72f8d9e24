"""``dpbayes budget``: privacy accounts and the ledger that keeps them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.base.errors import BudgetError, LedgerError, VerificationError, amounts_text
from dpbayes_cli.base.numeric import decimal_text, short_text
from dpbayes_cli.commands import budget_accounts, budget_trust, budget_upkeep
from dpbayes_cli.commands.accounts import (
    account_document,
    account_sentences,
    account_with_releases,
    head_of,
)
from dpbayes_cli.commands.options import PATH, ledger_options, open_ledger
from dpbayes_cli.commands.output import emit, emit_document, emit_json, emit_table, say, say_detail, verbosity

if TYPE_CHECKING:
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.state import Account, State


_DELTA = Decimal("1e-6")  # the delta at which amounts of rho, mu and Renyi divergence are stated as an epsilon too
_NO_DELTA = ("delta", "0")
_WITHOUT_MARGIN = Decimal(1) - Decimal("1e-10")  # an epsilon that was computed from a total is larger by a margin


@click.group("budget")
def command() -> None:
    """Open, show, check, amend and keep privacy budgets.

    An account holds the privacy budget of one population: the most that all releases about these people may cost
    together. Every release is charged to the account. Charges are never refunded, and budgets do not renew with time.
    The ledger is a file with all accounts. It is a chain of entries, each of which holds a hash of the previous entry.

    The ledger itself shows if single entries were edited. To detect that the whole chain was rewritten, sign it with a
    key (dpbayes budget key FILE). To detect that it was replaced by an older copy, anchor it (dpbayes budget anchor
    FILE).
    """


for _command in (*budget_accounts.COMMANDS, *budget_trust.COMMANDS, *budget_upkeep.COMMANDS):
    command.add_command(_command)


@command.command("show")
@click.argument("account", required=False)
@ledger_options
def show(account: str | None, ledger_place: str | None, as_json: bool) -> None:
    """Show the remaining and the total budget of ACCOUNT, or of all accounts, one line each.

    For a single account, and with -v for all, sentences say in which notion of privacy the account is kept, what is
    left, and how many more releases it pays for. -v prints more details.
    """
    from dpbayes_cli.ledger.limits import restatement

    ledger = open_ledger(ledger_place)
    state = ledger.state()
    if account or not as_json:
        ledger.storage.require()
    accounts = [_find_account(state, account)] if account else list(state.accounts.values())
    if as_json:
        listed = [account_with_releases(ledger.account(item.name)) for item in accounts]
        anchor_paths = [str(path) for path in ledger.anchors(state)]
        emit_json({"ledger": ledger.location, "head": head_of(state), "anchors": anchor_paths, "accounts": listed})
        return
    shown = [account_document(item) for item in accounts]
    rows = [
        [
            item.name,
            ", ".join(document["budget"]),
            "closed" if item.closed else _shortened(document["remaining"]),
            _shortened(document["budget"]),
            _shortened(_spent(document), up=True),
            str(item.neighbors),
            item.unit or "record",
            str(item.n_releases),
        ]
        for item, document in zip(accounts, shown, strict=True)
    ]
    columns = ["account", "measure", "remaining", "of", "spent", "neighbors", "unit", "releases"]
    n_shown = 5 if verbosity() > 0 else len(columns)  # sentences state the others
    emit_table(columns[:n_shown], [row[:n_shown] for row in rows], optional=("unit", "releases", "neighbors"))
    for item, document in zip(accounts, shown, strict=True):
        if item.closed:
            say(f"{item.name}: closed on {item.closed}; its releases can still be shown and verified")
            continue
        if item.exhausted:
            say(f"{item.name} counts as spent in full: {item.exhausted}; {restatement(item)}")
        if len(accounts) == 1 or verbosity() > 0:
            latest = ledger.last_release(item.name)
            say(account_sentences(item, None if latest is None else latest.guarantee))
        _explain_delta(item, document)
        exact = f"{amounts_text(document['remaining'])} is left, {amounts_text(_spent(document))} is spent"
        neighbors = f"{item.neighbors} neighbors, which differ in one {item.unit or 'record'}"
        releases = f"{item.n_releases} release{'s' * (item.n_releases != 1)}"
        say_detail(f"{item.name}: {releases}; {exact}; under {neighbors}")
        fitting = {name: amount for name, amount in document["allows_next"].items() if set(amount.values()) != {"0"}}
        allowed = ", ".join(f"{name} {amounts_text(amount, up=False)}" for name, amount in fitting.items())
        fits = f"a next release that costs at most one of these fits, whatever it releases: {allowed or 'none'}"
        say_detail(f"{item.name}: {fits}")
        if document["routes"]:
            say_detail(f"{item.name}: remaining by route of composition: {amounts_text(document['routes'])}")
        for analyst, limit in document["limits"].items():
            remaining = amounts_text(limit["remaining"])
            say_detail(
                f"{item.name}: analyst {analyst} may spend {amounts_text(limit['limit'])}, remaining {remaining}"
            )
    say_detail(f"ledger {ledger.location}, {state.mark.sequence} entries, head {state.head}")
    anchors = ledger.anchors(state)
    for anchor in anchors:
        say_detail(f"anchored at {anchor}, which agrees with the ledger")
    if not anchors:
        say_detail(
            "no anchor is configured: nothing would show that an older copy replaced the ledger; "
            "compare the head with the receipts that releases printed"
        )


@command.command("history")
@click.argument("account", required=False)
@ledger_options
def history(account: str | None, ledger_place: str | None, as_json: bool) -> None:
    """List the entries of ACCOUNT, or of all accounts, in order.

    A damaged ledger is refused (exit 6).
    """
    ledger = open_ledger(ledger_place)
    state, damage = _read_state(ledger)
    if damage:
        raise damage
    ledger.storage.require()
    if account:
        _find_account(state, account)
    rows = [entry.fields for entry in ledger.entries()] if state.last else []
    rows = [row for row in rows if account is None or row["account"] in (account, "")]
    if as_json:
        emit_json(rows)
        return
    emit_table(
        ["entry", "time", "user", "account", "what", "release", "amount", "why"],
        [
            [
                str(row["sequence"]),
                row["time"],
                row["user"],
                row["account"] if account is None else "",
                row["kind"],
                row.get("release_id", ""),
                _amount(row, state),
                row.get("purpose") or row.get("reason") or "",
            ]
            for row in rows
        ],
        optional=("user",),
    )


@command.command("verify")
@click.option(
    "--receipt",
    "receipts",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="A bundle, or the output of release --json; the ledger must hold its charge. May be repeated.",
)
@ledger_options
def verify(receipts: tuple[Path, ...], ledger_place: str | None, as_json: bool) -> None:
    """Check the ledger; exit 7 if anything is wrong.

    The check covers the chain of entries, their order, the totals, the stored draws and the anchor. Single entries that
    were edited, deleted or reordered are always detected. A chain that was rewritten as a whole is detected only with a
    key (dpbayes budget key), an anchor or a receipt. A ledger that was cut short, or replaced by an older copy, is
    detected only with an anchor or a receipt. A receipt is a bundle, or the printed result of a release: each states
    an entry of the ledger.
    """
    ledger = open_ledger(ledger_place)
    findings, state = ledger.findings()
    findings += budget_trust.receipt_findings(receipts, state)
    if as_json:
        emit_json({"ledger": ledger.location, "ok": not findings, "head": head_of(state), "findings": findings})
    if findings:
        raise VerificationError(f"the ledger {ledger.location!r} does not verify", findings=findings)
    if not as_json:
        emit(f"{state.mark.sequence} entries verified, head {state.head}")
    proved = ["no single entry was edited, deleted or reordered"]
    if not state.key:
        proved.append("only a key would show that all entries were rewritten")
    witnesses = ", ".join(str(path) for path in [*ledger.anchors(state), *receipts])
    shortened = "only a receipt or an anchor would show that the ledger was cut short"
    proved.append(f"the ledger agrees with {witnesses}" if witnesses else shortened)
    say("; ".join([*proved, *["dpbayes verify BUNDLE also checks the files of a release"] * bool(receipts)]))


@command.command("export")
@ledger_options
def export(ledger_place: str | None, as_json: bool) -> None:
    """Print all entries of the ledger as JSON lines or, with --json, as one document.

    The stored draws are left out. A damaged ledger is printed as it is, and the exit code is 6.
    """
    ledger = open_ledger(ledger_place)
    state, damage = _read_state(ledger)
    ledger.storage.require()
    entries = [
        {"sequence": entry.sequence, "body": entry.body, "hash": entry.hash}
        for entry in (ledger.entries() if state.last else [])
    ]
    if as_json:
        emit_json({"ledger": ledger.location, "head": head_of(state), "entries": entries})
    else:
        for entry in entries:
            emit_document(json.dumps(entry))
    if damage:
        raise damage


def _spent(document: dict[str, Any]) -> dict[str, str]:
    """Return what is spent; a delta of 0 is left out if the spent epsilon may hold only at the account's delta."""
    spent: dict[str, str] = document["spent"]
    return {name: amount for name, amount in spent.items() if not (document["routes"] and (name, amount) == _NO_DELTA)}


def _explain_delta(account: Account, document: dict[str, Any]) -> None:
    """Print, with ``-v``, at which delta the epsilons of an account hold, or which epsilon its amounts imply."""
    from dpbayes_cli.ledger.budgets import component_texts

    budget, delta = account.budget, decimal_text(_DELTA)
    for subject, amounts, up in (("the total", budget.total, False), ("what is spent", account.spent, True)):
        implied = budget.epsilon_at(amounts, _DELTA) if any(amounts.values()) else None
        if implied is not None:
            shown = short_text(implied * _WITHOUT_MARGIN, up=True)
            stated = amounts_text(component_texts(amounts), up=up)
            say_detail(f"{account.name}: {subject}, {stated}, is epsilon {shown} at delta {delta}")
    if document["routes"]:
        say_detail(f"{account.name}: the total and the spent epsilon hold at delta {document['budget']['delta']}")


def _shortened(amounts: dict[str, str], *, up: bool = False) -> str:
    """Return amounts without their names, at most six digits of each, rounded down or up."""
    return ", ".join(short_text(Decimal(amount), up=up) for amount in amounts.values())


def _amount(row: dict[str, Any], state: State) -> str:
    """Return what an entry of the history is about: a privacy cost, a total, the path of an anchor, or lost entries."""
    if "guarantee" in row:
        from dpbayes_cli.ledger.charge_text import charged_text
        from dpbayes_cli.privacy.composition import parse_guarantee

        return charged_text(parse_guarantee(row["guarantee"]), state.accounts[row["account"]].budget)
    if not row["account"]:
        seen = ", ".join(f"gave up entry {mark['sequence']} of another chain" for mark in row.get("seen", []))
        return str(row.get("path") or seen)
    shown = {"epsilon", "delta", "rho", "mu", "rdp", "order"}
    return amounts_text({name: value for name, value in (row.get("budget") or {}).items() if name in shown})


def _read_state(ledger: Ledger) -> tuple[State, LedgerError | None]:
    """Return the state of the ledger, and an error to raise if the ledger is damaged; print a line for each damage."""
    if not ledger.storage.exists:
        return ledger.state(compare=False), None
    findings, state = ledger.findings(compare=False)
    for reason in [*findings, *ledger.disputes(state)]:
        say(f"DO NOT TRUST THIS LEDGER: {reason}")
    if not findings:
        return state, None
    hint = "to print its entries: dpbayes budget export; to save those that verify: dpbayes budget recover --to FILE"
    return state, LedgerError(f"the ledger {ledger.location!r} does not verify", hint=hint)


def _find_account(state: State, name: str) -> Account:
    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="to list the accounts: dpbayes budget show")
    return state.accounts[name]
