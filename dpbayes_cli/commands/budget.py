"""``dpbayes budget``: the account book of privacy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpbayes_cli.commands import budget_limits, budget_trust, budget_upkeep
from dpbayes_cli.commands.accounts import (
    checked_reason,
    components,
    described,
    head_of,
    print_account,
    with_releases,
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

    One account stands for one population, has one neighbor relation and one total. Charges are never refunded, and
    budgets do not renew with time.

    The ledger finds out by itself whether entries were edited; whether its whole chain was rewritten, with a key:
    dpbayes budget key FILE. That an older copy was put in its place, only an anchor shows: dpbayes budget anchor FILE.
    """


for _command in (*budget_limits.COMMANDS, *budget_trust.COMMANDS, *budget_upkeep.COMMANDS):
    command.add_command(_command)


@command.command("open")
@click.argument("account")
@total_options
@click.option("--order", type=DecimalType(), metavar="L", help="The order (lambda) of an account of RDP.")
@click.option("--orders", metavar="L,L,...", help="With --delta: the Renyi orders among which delta is divided.")
@click.option("--basic", is_flag=True, help="With --delta: basic composition alone, no Renyi orders.")
@click.option("--gaussian", is_flag=True, help="With --delta: Gaussian DP alone, its largest total that keeps both.")
@click.option("--neighbors", default="replace-one", metavar="RELATION", help="replace-one [default] or add-remove.")
@click.option("--unit", metavar="COLUMN", help="The column that says whose a record is [each is a unit of its own].")
@click.option(
    "--separate-population",
    is_flag=True,
    help="Say that no other account of this ledger has paid for the people in its data; with --reason.",
)
@click.option("--reason", metavar="TEXT", help="Why its population is separate; kept in the history.")
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
    """Open ACCOUNT with a stated total, in one notion of privacy.

    \b
    dpbayes budget open clinic --epsilon 3                  pure epsilon
    dpbayes budget open clinic --epsilon 3 --delta 1e-6     (epsilon, delta)
    dpbayes budget open clinic --rho 0.5                    zCDP
    dpbayes budget open clinic --mu 0.6                     Gaussian DP
    dpbayes budget open clinic --rdp 0.5 --order 8          RDP at one order

    Data that one account has paid for are not charged to another, unless that is opened with --separate-population.
    Where ACCOUNT is open already and is the same, nothing is left to do.
    """
    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.privacy.neighbors import Neighbors
    from dpbayes_cli.spec.release_spec import check_name

    try:
        check_name(account)
        if neighbors not in {*Neighbors}:
            raise ValueError(f"--neighbors is {neighbors!r}: replace-one or add-remove")
        if unit is not None and unit != printable(unit):
            raise ValueError("--unit holds a control character")
        relation = Neighbors(neighbors)
    except ValueError as error:
        raise SpecError(str(error)) from None
    if separate_population != (reason is not None):
        raise click.UsageError("--separate-population and --reason go together")
    separate = None if reason is None else checked_reason(reason, needed=True)
    budget = stated_budget(**total)
    ledger = open_ledger(ledger_place)
    known, new = ledger.open_account(account, budget, relation, unit, separate)
    print_account(known, ledger, changed=new, as_json=as_json)


@command.command("show")
@click.argument("account", required=False)
@ledger_option
@output_options
def show(account: str | None, ledger_place: str | None, as_json: bool) -> None:
    """Show what ACCOUNT (or every account) may spend, has spent and has left."""
    ledger = open_ledger(ledger_place)
    state = ledger.state()
    accounts = [_known(state, account)] if account else list(state.accounts.values())
    if as_json:
        listed = [with_releases(ledger.account(item.name)) for item in accounts]
        anchors = [str(path) for path in ledger.anchors(state)]
        emit_json({"ledger": ledger.location, "head": head_of(state), "anchors": anchors, "accounts": listed})
        return
    shown = {item.name: described(item) for item in accounts}
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
        found = shown[item.name]
        if item.exhausted:
            say(f"{item.name} counts as spent in full: {item.exhausted}; dpbayes budget amend states its total anew")
        fit = {name: what for name, what in found["allows_next"].items() if set(what.values()) != {"0"}}
        allowed = ", ".join(f"{name} {components(what)}" for name, what in fit.items())
        say(f"{item.name} would let through next, at most one of: {allowed or 'nothing'}")
        if found["routes"]:
            say(f"{item.name} has left by route: {components(found['routes'])}")
        for analyst, limit in found["limits"].items():
            say(f"{item.name}: {analyst} may spend {components(limit['limit'])}, left {components(limit['remaining'])}")
    say(f"ledger {ledger.location}, {head_of(state)['sequence']} entries, head {head_of(state)['hash']}")
    for anchor in ledger.anchors(state):
        say(f"anchored at {anchor}, which agrees")
    if not ledger.anchors(state):
        say(
            "no anchor is configured: an older copy of the ledger put in its place would go unnoticed; "
            "compare the head with your receipts"
        )


@command.command("history")
@click.argument("account", required=False)
@ledger_option
@output_options
def history(account: str | None, ledger_place: str | None, as_json: bool) -> None:
    """List every entry of ACCOUNT (or of all accounts) in order; of a damaged ledger, none (exit 6)."""
    ledger = open_ledger(ledger_place)
    verified, damaged = _looked_at(ledger)
    if damaged:
        raise damaged
    if account:
        _known(verified, account)
    rows = [entry.fields for entry in ledger.entries()] if verified.last else []
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
    help="A bundle, or what release --json printed: its entry must be in the ledger. May be repeated.",
)
@ledger_option
@output_options
def verify(receipts: tuple[Path, ...], ledger_place: str | None, as_json: bool) -> None:
    """Check the chain, the protocol, the totals, the sealed payloads and the anchor; exit 7 if anything is wrong.

    Edits, deletions and reordering show; a chain that was rewritten as a whole, with new hashes, shows only with a key
    (dpbayes budget key), an anchor or a receipt. That the ledger was cut short, or is an older copy, shows only against
    what has seen more of it: an anchor, or with --receipt a bundle (which knows the entry that charged it) or the
    printed result of a release (which knows the entry that published it).
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
    seen = [str(path) for path in [*ledger.anchors(state), *receipts]]
    say(
        "edits, deletions and reordering would have shown"
        + ("; " if state.key else ", but not a chain that was rewritten as a whole, without a key; ")
        + (
            f"it holds what these have seen: {', '.join(seen)}"
            if seen
            else "a ledger cut short shows only against a receipt or an anchor"
        )
    )


@command.command("export")
@ledger_option
@output_options
def export(ledger_place: str | None, as_json: bool) -> None:
    """Print the whole chain: JSON lines, or with --json one document. The sealed payloads are not in it.

    A damaged ledger is printed as it is, and ends with exit 6.
    """
    ledger = open_ledger(ledger_place)
    state, damaged = _looked_at(ledger)
    entries = [
        {"sequence": entry.sequence, "body": entry.body, "hash": entry.hash}
        for entry in (ledger.entries() if state.last else [])
    ]
    if as_json:
        emit_json({"ledger": ledger.location, "head": head_of(state), "entries": entries})
    else:
        for entry in entries:
            emit(json.dumps(entry))
    if damaged:
        raise damaged


def _amount(row: dict[str, Any]) -> str:
    """Return what an entry charges or allows."""
    if "guarantee" in row:
        from dpbayes_cli.ledger.charging import price_text
        from dpbayes_cli.privacy.composition import parse_guarantee

        return price_text(parse_guarantee(row["guarantee"]))
    if not row["account"]:
        seen = ", ".join(f"for entry {mark['sequence']} of another" for mark in row.get("seen", []))
        return str(row.get("path") or seen)
    amount = row.get("budget") or {}
    return components(
        {name: value for name, value in amount.items() if name in {"epsilon", "delta", "rho", "mu", "rdp", "order"}}
    )


def _looked_at(ledger: Ledger) -> tuple[State, LedgerError | None]:
    """Return the state for a human to look at, and the error that its damage is; what an anchor disputes is said."""
    from dpbayes_cli.base.errors import LedgerError

    if not ledger.storage.exists:
        return ledger.state(compare=False), None
    findings, state = ledger.findings(compare=False)
    for reason in [*findings, *ledger.disputes(state)]:
        say(f"NOT TO BE TRUSTED: {reason}")
    if not findings:
        return state, None
    hint = "dpbayes budget export prints its entries as they are, dpbayes budget recover --to FILE saves what it can"
    return state, LedgerError(f"the ledger {ledger.location!r} does not verify", hint=hint)


def _known(state: State, name: str) -> Account:
    from dpbayes_cli.base.errors import BudgetError

    if name not in state.accounts:
        raise BudgetError(f"there is no account {name!r}", hint="dpbayes budget show lists the accounts")
    return state.accounts[name]
