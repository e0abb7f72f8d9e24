"""``dpbayes budget``: privacy accounts and the ledger that keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands import budget_limits, budget_trust, budget_upkeep
from dpbayes_cli.commands.accounts import (
    account_document,
    account_with_releases,
    checked_reason,
    components,
    head_of,
    print_account,
)
from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import emit, emit_json, emit_table, output_options, printable, say
from dpbayes_cli.commands.totals import DecimalType, stated_budget, total_options

if TYPE_CHECKING:
    from dpbayes_cli.base.errors import LedgerError
    from dpbayes_cli.ledger.ledger import Ledger
    from dpbayes_cli.ledger.state import Account, State


@click.group("budget")
def command() -> None:
    """Open, show, check, amend and keep privacy budgets.

    An account is for one population, and has one neighbor relation and one total. Charges are never refunded, and
    budgets do not renew with time.

    The ledger detects edited entries by itself. To detect that the whole chain was rewritten, sign it with a key
    (dpbayes budget key FILE). To detect that it was replaced by an older copy, anchor it (dpbayes budget anchor FILE).
    """


for _command in (*budget_limits.COMMANDS, *budget_trust.COMMANDS, *budget_upkeep.COMMANDS):
    command.add_command(_command)


@command.command("open")
@click.argument("account")
@total_options
@click.option("--order", type=DecimalType(), metavar="L", help="With --rdp: the Renyi order of the account.")
@click.option("--orders", metavar="L,L,...", help="With --delta: the Renyi orders that share delta.")
@click.option("--basic", is_flag=True, help="With --delta: basic composition only, no Renyi orders.")
@click.option("--gaussian", is_flag=True, help="With --delta: Gaussian DP, largest mu within the total.")
@click.option("--neighbors", default="replace-one", metavar="RELATION", help="replace-one [default] or add-remove.")
@click.option("--unit", metavar="COLUMN", help="Column of the privacy unit's ID [each record is a unit].")
@click.option(
    "--separate-population",
    is_flag=True,
    help="State that no other account of this ledger has paid for the people in its data; with --reason.",
)
@click.option("--reason", metavar="TEXT", help="Why the population is separate; kept in the history.")
@ledger_option
@output_options
def open_(
    account: str,
    neighbors: str,
    unit: str | None,
    separate_population: bool,
    reason: str | None,
    ledger_place: str | None,
    as_json: bool,
    **total: Any,
) -> None:
    """Open ACCOUNT with a total budget, in one notion of privacy.

    \b
    dpbayes budget open clinic --epsilon 3                  pure epsilon
    dpbayes budget open clinic --epsilon 3 --delta 1e-6     (epsilon, delta)
    dpbayes budget open clinic --rho 0.5                    zCDP
    dpbayes budget open clinic --mu 0.6                     Gaussian DP
    dpbayes budget open clinic --rdp 0.5 --order 8          RDP at one order

    Data that one account has paid for are refused by all others, except by those opened with --separate-population.
    If ACCOUNT is open already with the same total, the command does nothing.
    """
    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.privacy.neighbors import Neighbors
    from dpbayes_cli.spec.release_spec import check_name

    try:
        check_name(account)
        if neighbors not in {*Neighbors}:
            raise ValueError(f"unknown neighbor relation {neighbors!r}; expected --neighbors replace-one or add-remove")
        if unit is not None and unit != printable(unit):
            raise ValueError("--unit must not hold a control character")
        relation = Neighbors(neighbors)
    except ValueError as error:
        raise SpecError(str(error)) from None
    if separate_population != (reason is not None):
        raise click.UsageError("--separate-population and --reason go together")
    separate = None if reason is None else checked_reason(reason, needed=True)
    budget = stated_budget(**total)
    ledger = open_ledger(ledger_place)
    opened, is_new = ledger.open_account(account, budget, relation, unit, separate)
    print_account(opened, ledger, changed=is_new, as_json=as_json)


@command.command("show")
@click.argument("account", required=False)
@ledger_option
@output_options
def show(account: str | None, ledger_place: str | None, as_json: bool) -> None:
    """Show the total, spent and remaining budget of accounts."""
    ledger = open_ledger(ledger_place)
    state = ledger.state()
    accounts = [_find_account(state, account)] if account else list(state.accounts.values())
    if as_json:
        listed = [account_with_releases(ledger.account(item.name)) for item in accounts]
        anchors = [str(path) for path in ledger.anchors(state)]
        emit_json({"ledger": ledger.location, "head": head_of(state), "anchors": anchors, "accounts": listed})
        return
    shown = {item.name: account_document(item) for item in accounts}
    emit_table(
        ["account", "neighbors", "unit", "budget", "spent", "remaining", "releases"],
        [
            [
                item.name,
                str(item.neighbors),
                item.unit or "record",
                components(shown[item.name]["budget"]),
                components(shown[item.name]["spent"]),
                components(shown[item.name]["remaining"]),
                str(item.n_releases),
            ]
            for item in accounts
        ],
    )
    for item in accounts:
        document = shown[item.name]
        if item.exhausted:
            say(f"{item.name} counts as spent in full: {item.exhausted}; to state its total: dpbayes budget amend")
        fitting = {name: amount for name, amount in document["allows_next"].items() if set(amount.values()) != {"0"}}
        allowed = ", ".join(f"{name} {components(amount)}" for name, amount in fitting.items())
        say(f"{item.name}: the next release may cost at most (one of these): {allowed or 'none'}")
        if document["routes"]:
            say(f"{item.name}: remaining by route of composition: {components(document['routes'])}")
        for analyst, limit in document["limits"].items():
            remaining = components(limit["remaining"])
            say(f"{item.name}: analyst {analyst} may spend {components(limit['limit'])}, remaining {remaining}")
    say(f"ledger {ledger.location}, {head_of(state)['sequence']} entries, head {head_of(state)['hash']}")
    for anchor in ledger.anchors(state):
        say(f"anchored at {anchor}, which agrees with the ledger")
    if not ledger.anchors(state):
        say(
            "no anchor is configured: nothing would show that an older copy replaced the ledger; "
            "compare the head with the receipts that releases printed"
        )


@command.command("history")
@click.argument("account", required=False)
@ledger_option
@output_options
def history(account: str | None, ledger_place: str | None, as_json: bool) -> None:
    """List every entry of ACCOUNT, or of all accounts, in order.

    A damaged ledger is refused (exit 6).
    """
    ledger = open_ledger(ledger_place)
    state, damage = _read_state(ledger)
    if damage:
        raise damage
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
                row["account"],
                row["kind"],
                row.get("release_id", ""),
                _amount(row),
                row.get("purpose") or row.get("reason") or "",
            ]
            for row in rows
        ],
    )


@command.command("verify")
@click.option(
    "--receipt",
    "receipts",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A bundle, or the output of release --json, whose entry must be in the ledger. May be repeated.",
)
@ledger_option
@output_options
def verify(receipts: tuple[Path, ...], ledger_place: str | None, as_json: bool) -> None:
    """Check the ledger; exit 7 if anything is wrong.

    This checks the chain, the protocol, the totals, the sealed payloads and the anchor. Single entries that were
    edited, deleted or reordered are always detected. A chain that was rewritten as a whole is detected only
    with a key (dpbayes budget key), an anchor or a receipt. A ledger that was cut short, or replaced by an older copy,
    is detected only with an anchor or a receipt: a bundle (it states the entry that charged it) or the printed result
    of a release (it states the entry that published it).
    """
    from dpbayes_cli.base.errors import VerificationError

    ledger = open_ledger(ledger_place)
    findings, state = ledger.findings()
    findings += budget_trust.receipt_findings(receipts, state)
    if as_json:
        emit_json({"ledger": ledger.location, "ok": not findings, "head": head_of(state), "findings": findings})
    if findings:
        raise VerificationError(f"the ledger {ledger.location!r} does not verify", findings=findings)
    if not as_json:
        emit(f"{head_of(state)['sequence']} entries verified, head {head_of(state)['hash']}")
    witnesses = [str(path) for path in [*ledger.anchors(state), *receipts]]
    say(
        "no single entry was edited, deleted or reordered; "
        + ("" if state.key else "only a key would show that all entries were rewritten; ")
        + (
            f"the ledger agrees with {', '.join(witnesses)}"
            if witnesses
            else "only a receipt or an anchor would show that the ledger was cut short"
        )
    )


@command.command("export")
@ledger_option
@output_options
def export(ledger_place: str | None, as_json: bool) -> None:
    """Print the whole chain as JSON lines, or as one JSON document.

    The sealed payloads are left out. A damaged ledger is printed as it is, and the exit code is 6.
    """
    ledger = open_ledger(ledger_place)
    state, damage = _read_state(ledger)
    entries = [
        {"sequence": entry.sequence, "body": entry.body, "hash": entry.hash}
        for entry in (ledger.entries() if state.last else [])
    ]
    if as_json:
        emit_json({"ledger": ledger.location, "head": head_of(state), "entries": entries})
    else:
        for entry in entries:
            emit(json.dumps(entry))
    if damage:
        raise damage


def _amount(row: dict[str, Any]) -> str:
    """Return what an entry charges or allows; for an anchor its path, for an adoption what anchors had seen."""
    if "guarantee" in row:
        from dpbayes_cli.ledger.charging import price_text
        from dpbayes_cli.privacy.composition import parse_guarantee

        return price_text(parse_guarantee(row["guarantee"]))
    if not row["account"]:
        seen = ", ".join(f"in place of another's entry {mark['sequence']}" for mark in row.get("seen", []))
        return str(row.get("path") or seen)
    amount = row.get("budget") or {}
    return components(
        {name: value for name, value in amount.items() if name in {"epsilon", "delta", "rho", "mu", "rdp", "order"}}
    )


def _read_state(ledger: Ledger) -> tuple[State, LedgerError | None]:
    """Return the state, damaged or not, and an error if it is damaged; print what is wrong with it."""
    from dpbayes_cli.base.errors import LedgerError

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
    from dpbayes_cli.base.errors import BudgetError

    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="to list the accounts: dpbayes budget show")
    return state.accounts[name]
