"""``dpbayes budget open``, ``amend``, ``limit``, ``notify`` and ``close``: open, change and close accounts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.base.numeric import parse_decimal
from dpbayes_cli.commands.accounts import print_account
from dpbayes_cli.commands.options import Command, DecimalType, ledger_options, open_ledger, reason_option
from dpbayes_cli.commands.output import printable

if TYPE_CHECKING:
    from dpbayes_cli.ledger.budgets import Budget

_SEPARATE = "State that no other account of this ledger has paid for the people in this account's data; needs --reason."


def total_options(what: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options that state a total; ``what`` is the first words of their help."""

    def decorate(function: Command) -> Command:
        for flags, metavar, text in (
            (("--rdp",), "V", "Renyi divergence, for RDP at one order"),
            (("--mu",), "M", "mu, for Gaussian differential privacy"),
            (("--rho",), "R", "rho, for zCDP"),
            (("--delta",), "D", "delta, e.g. 1e-6 [none: pure epsilon]"),
            (("--epsilon", "--eps"), "E", "epsilon"),
        ):
            function = click.option(*flags, type=DecimalType(), metavar=metavar, help=f"{what} {text}.")(function)
        return function

    return decorate


@click.command("open")
@click.argument("account")
@total_options("Total")
@click.option("--order", type=DecimalType(), metavar="L", help="With --rdp: the Renyi order of the account.")
@click.option("--orders", metavar="L,L,...", help="With --delta: the Renyi orders among which delta is divided.")
@click.option("--basic", is_flag=True, help="With --delta: basic composition only, without Renyi orders.")
@click.option("--gaussian", is_flag=True, help="With --delta: convert the total to Gaussian differential privacy.")
@click.option(
    "--neighbors",
    default="replace-one",
    metavar="RELATION",
    help="replace-one hides the values of a record; add-remove also hides whether the record exists [replace-one].",
)
@click.option("--unit", metavar="COLUMN", help="Column with the ID of the person [each record is one person].")
@click.option("--separate-population", is_flag=True, help=_SEPARATE)
@reason_option("Why the population is separate; kept in the history.")
@ledger_options
def open_(
    account: str,
    neighbors: str,
    unit: str | None,
    separate_population: bool,
    reason: str,
    ledger_place: str | None,
    as_json: bool,
    order: Decimal | None,
    orders: str | None,
    basic: bool,
    gaussian: bool,
    **totals: Decimal | None,
) -> None:
    """Open ACCOUNT with a total budget, in one notion of privacy.

    \b
    dpbayes budget open clinic --epsilon 3                  pure epsilon
    dpbayes budget open clinic --epsilon 3 --delta 1e-6     (epsilon, delta)
    dpbayes budget open clinic --rho 0.5                    zCDP
    dpbayes budget open clinic --mu 0.6                     Gaussian DP
    dpbayes budget open clinic --rdp 0.5 --order 8          RDP at one order

    The total bounds what all releases of the account together may reveal about one person: a smaller total protects
    more, and allows fewer or less precise releases. Pure epsilon is the strictest notion of privacy: releases spend the
    sum of their epsilons. The other notions are weaker, and let many releases together cost less.

    Data that one account has paid for are refused by all others, except by those opened with --separate-population.
    If ACCOUNT is open already with the same total, the command does nothing.
    """
    from dpbayes_cli.privacy.neighbors import Neighbors
    from dpbayes_cli.spec.account_name import check_name

    try:
        check_name(account)
        if neighbors not in {*Neighbors}:
            raise ValueError(f"unknown neighbor relation {neighbors!r}; expected --neighbors replace-one or add-remove")
        if unit is not None and unit != printable(unit):
            raise ValueError("--unit must not hold a control character")
    except ValueError as error:
        raise SpecError(str(error)) from None
    has_reason = click.get_current_context().get_parameter_source("reason") is not ParameterSource.DEFAULT
    if separate_population != has_reason or (has_reason and not reason.strip()):
        raise click.UsageError("--separate-population and --reason go together")
    budget = _budget(totals, order, orders, basic=basic, gaussian=gaussian)
    ledger = open_ledger(ledger_place)
    opened = ledger.open_account(account, budget, Neighbors(neighbors), unit, reason if separate_population else None)
    print_account(opened, ledger, as_json=as_json)


@click.command("amend")
@click.argument("account")
@total_options("New total")
@click.option("--separate-population", is_flag=True, help=_SEPARATE)
@reason_option(required=True)
@ledger_options
def amend(
    account: str,
    separate_population: bool,
    reason: str,
    ledger_place: str | None,
    as_json: bool,
    **totals: Decimal | None,
) -> None:
    """Change the total of ACCOUNT, or state that its population is separate.

    The total cannot be less than what is spent.
    """
    from dpbayes_cli.ledger.limits import amendment_entry

    changes = _stated(totals, needed=not separate_population)
    ledger = open_ledger(ledger_place)
    amended = ledger.change(
        account, lambda each: amendment_entry(each, changes, reason, separate_population=separate_population)
    )
    print_account(amended, ledger, as_json=as_json)


@click.command("limit")
@click.argument("account")
@click.argument("analyst")
@total_options("Limit on")
@reason_option()
@ledger_options
def limit(
    account: str, analyst: str, reason: str, ledger_place: str | None, as_json: bool, **totals: Decimal | None
) -> None:
    """Limit what ANALYST may spend of ACCOUNT, or change the limit.

    A limit cannot be less than what the analyst has spent. Once an account has limits, each release must name an
    analyst (release --analyst NAME), and must fit that analyst's limit and the account's total. Limits may add up to
    more than the total. The tool does not check who runs a release: anyone can give any analyst's name.
    """
    from dpbayes_cli.ledger.limits import limit_entry
    from dpbayes_cli.spec.account_name import check_name

    try:
        check_name(analyst)
    except ValueError as error:
        raise SpecError(str(error)) from None
    changes = _stated(totals)
    ledger = open_ledger(ledger_place)
    changed = ledger.change(account, lambda each: limit_entry(each, analyst, changes, reason))
    print_account(changed, ledger, as_json=as_json)


@click.command("notify")
@click.argument("account")
@click.option("--at", "share", type=DecimalType(), metavar="SHARE", help="Share of the budget, above 0, at most 1.")
@click.option("--never", is_flag=True, help="Stop printing notices.")
@reason_option()
@ledger_options
def notify(
    account: str, share: Decimal | None, never: bool, reason: str, ledger_place: str | None, as_json: bool
) -> None:
    """Print a notice once a share of ACCOUNT is spent.

    From then on, every release that is charged to ACCOUNT prints on stderr how much of the total is spent.
    """
    from dpbayes_cli.ledger.limits import notice_entry

    if (share is None) != never:
        raise click.UsageError("state a share, such as --at 0.8, or --never")
    if share is not None and not 0 < share <= 1:
        raise click.UsageError("--at must be above 0 and at most 1")
    ledger = open_ledger(ledger_place)
    changed = ledger.change(account, lambda each: notice_entry(each, share, reason))
    print_account(changed, ledger, as_json=as_json)


@click.command("close")
@click.argument("account")
@reason_option("The reason; kept in the history.", required=True)
@ledger_options
def close(account: str, reason: str, ledger_place: str | None, as_json: bool) -> None:
    """Close ACCOUNT for good: nothing more can be charged to it.

    Its history stays, and its releases can still be finished, shown and verified. A closed account cannot be opened
    again, and the data that it has paid for stay refused by other accounts.
    """
    ledger = open_ledger(ledger_place)
    print_account(ledger.close_account(account, reason), ledger, as_json=as_json)


COMMANDS = (open_, amend, limit, notify, close)


def _stated(totals: dict[str, Decimal | None], *, needed: bool = True) -> dict[str, Decimal]:
    """Return the amounts that the options state, by component."""
    changes = {name: total for name, total in totals.items() if total is not None}
    if needed and not changes:
        raise click.UsageError("state an amount: --epsilon, --delta, --rho, --mu or --rdp")
    return changes


def _budget(
    totals: dict[str, Decimal | None], order: Decimal | None, orders: str | None, *, basic: bool, gaussian: bool
) -> Budget:
    """Return the budget that the options state; refuse options that state no total, or more than one."""
    from dpbayes_cli.ledger.union_budget import stated_budget

    stated = {**_stated(totals, needed=False), **({} if order is None else {"order": order})}
    try:
        return stated_budget(stated, _orders(orders) if orders else (), basic=basic, gaussian=gaussian)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _orders(text: str) -> tuple[Decimal, ...]:
    try:
        return tuple(parse_decimal(item) for item in text.split(","))
    except ValueError:
        raise click.UsageError(f"{text!r} is not a list of orders separated by commas") from None
