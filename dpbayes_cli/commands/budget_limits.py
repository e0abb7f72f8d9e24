"""``dpbayes budget amend``, ``limit`` and ``notify``: what of an account may change."""

from __future__ import annotations

from decimal import Decimal

import click

from dpbayes_cli.commands.accounts import checked_reason, print_account
from dpbayes_cli.commands.options import ledger_option, open_ledger
from dpbayes_cli.commands.output import output_options
from dpbayes_cli.commands.totals import DecimalType, total_options


@click.command("amend")
@click.argument("account")
@total_options
@click.option(
    "--separate-population",
    is_flag=True,
    help="Say that no other account of this ledger has paid for the people in its data.",
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def amend(
    account: str,
    separate_population: bool,
    reason: str,
    ledger_place: str | None,
    as_json: bool,
    **totals: Decimal | None,
) -> None:
    """Change the total of ACCOUNT, never below what is spent; or say that its population is one of its own."""
    from dpbayes_cli.ledger.limits import amendment_entry

    changes, why = _stated(totals, needed=not separate_population), checked_reason(reason, needed=True)
    ledger = open_ledger(ledger_place)
    known, changed = ledger.change(
        account, lambda each: amendment_entry(each, changes, why, separate_population=separate_population)
    )
    print_account(known, ledger, changed=changed, as_json=as_json)


@click.command("limit")
@click.argument("account")
@click.argument("analyst")
@total_options
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def limit(
    account: str, analyst: str, reason: str, ledger_place: str | None, as_json: bool, **totals: Decimal | None
) -> None:
    """Limit what ANALYST may spend of ACCOUNT, or change the limit, never below what they have spent.

    Once an account has limits, every release that it pays for says who asks (release --analyst NAME) and has to fit the
    limit and the account's total. Limits may add up to more than the total. The name is what the command says it is.
    """
    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.ledger.limits import limit_entry
    from dpbayes_cli.spec.release_spec import check_name

    try:
        check_name(analyst)
    except ValueError as error:
        raise SpecError(str(error)) from None
    changes, why = _stated(totals), checked_reason(reason, needed=False)
    ledger = open_ledger(ledger_place)
    known, changed = ledger.change(account, lambda each: limit_entry(each, analyst, changes, why))
    print_account(known, ledger, changed=changed, as_json=as_json)


@click.command("notify")
@click.argument("account")
@click.option("--at", "share", type=DecimalType(), metavar="SHARE", help="The share of the budget, from 0 to 1.")
@click.option("--never", is_flag=True, help="Say nothing any more.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def notify(
    account: str, share: Decimal | None, never: bool, reason: str, ledger_place: str | None, as_json: bool
) -> None:
    """Say on stderr how much of ACCOUNT is spent, with every charge from a share of it on."""
    from dpbayes_cli.ledger.limits import notice_entry

    if (share is None) != never:
        raise click.UsageError("state the share, --at 0.8, or --never")
    if share is not None and not 0 < share <= 1:
        raise click.UsageError("--at takes a share above 0, at most 1")
    why = checked_reason(reason, needed=False)
    ledger = open_ledger(ledger_place)
    known, changed = ledger.change(account, lambda each: notice_entry(each, share, why))
    print_account(known, ledger, changed=changed, as_json=as_json)


COMMANDS = (amend, limit, notify)


def _stated(totals: dict[str, Decimal | None], *, needed: bool = True) -> dict[str, Decimal]:
    """Return the totals that are stated.

    Raises:
        click.UsageError: none is, although one is needed.
    """
    changes = {name: total for name, total in totals.items() if total is not None}
    if needed and not changes:
        raise click.UsageError("state the new total: --epsilon, --delta, --rho, --mu or --rdp")
    return changes
