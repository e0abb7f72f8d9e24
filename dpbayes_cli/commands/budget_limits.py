"""``dpbayes budget amend``, ``limit`` and ``notify``: change an account."""

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
    help="State that no other account of this ledger has paid for the people in its data.",
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
    """Change the total of ACCOUNT, or state a separate population.

    The total cannot be less than what is spent.
    """
    from dpbayes_cli.ledger.limits import amendment_entry

    changes, why = _stated_totals(totals, needed=not separate_population), checked_reason(reason, needed=True)
    ledger = open_ledger(ledger_place)
    amended, changed = ledger.change(
        account, lambda each: amendment_entry(each, changes, why, separate_population=separate_population)
    )
    print_account(amended, ledger, changed=changed, as_json=as_json)


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
    """Limit what ANALYST may spend of ACCOUNT, or change the limit.

    A limit cannot be less than what the analyst has spent. Once an account has limits, each release must state who asks
    (release --analyst NAME), and must fit that analyst's limit and the account's total. Limits may add up to more than
    the total. Nothing checks that the name is true.
    """
    from dpbayes_cli.base.errors import SpecError
    from dpbayes_cli.ledger.limits import limit_entry
    from dpbayes_cli.spec.release_spec import check_name

    try:
        check_name(analyst)
    except ValueError as error:
        raise SpecError(str(error)) from None
    changes, why = _stated_totals(totals), checked_reason(reason, needed=False)
    ledger = open_ledger(ledger_place)
    amended, changed = ledger.change(account, lambda each: limit_entry(each, analyst, changes, why))
    print_account(amended, ledger, changed=changed, as_json=as_json)


@click.command("notify")
@click.argument("account")
@click.option("--at", "share", type=DecimalType(), metavar="SHARE", help="Share of the budget, above 0, at most 1.")
@click.option("--never", is_flag=True, help="Print no notice any more.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept in the history.")
@ledger_option
@output_options
def notify(
    account: str, share: Decimal | None, never: bool, reason: str, ledger_place: str | None, as_json: bool
) -> None:
    """Print a notice once a share of ACCOUNT is spent.

    Every charge from then on prints on stderr how much is spent.
    """
    from dpbayes_cli.ledger.limits import notice_entry

    if (share is None) != never:
        raise click.UsageError("state a share, such as --at 0.8, or --never")
    if share is not None and not 0 < share <= 1:
        raise click.UsageError("--at must be above 0 and at most 1")
    why = checked_reason(reason, needed=False)
    ledger = open_ledger(ledger_place)
    amended, changed = ledger.change(account, lambda each: notice_entry(each, share, why))
    print_account(amended, ledger, changed=changed, as_json=as_json)


COMMANDS = (amend, limit, notify)


def _stated_totals(totals: dict[str, Decimal | None], *, needed: bool = True) -> dict[str, Decimal]:
    """Return the totals that the options state, by component."""
    changes = {name: total for name, total in totals.items() if total is not None}
    if needed and not changes:
        raise click.UsageError("state the new total: --epsilon, --delta, --rho, --mu or --rdp")
    return changes
