"""The options that state the total of an account."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from dpbayes_cli.ledger.budgets import Budget


Command = TypeVar("Command", bound=Callable[..., Any])


class DecimalType(click.ParamType[Decimal]):
    """An exact decimal number."""

    name = "decimal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Return the decimal, parsed exactly; refuse any other text."""
        from dpbayes_cli.base.numeric import parse_decimal

        try:
            return value if isinstance(value, Decimal) else parse_decimal(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def total_options(function: Command) -> Command:
    """Add the options that state a total, one for each notion of privacy."""
    for flags, metavar, text in reversed(
        [
            (("--epsilon", "--eps"), "E", "The total epsilon."),
            (("--delta",), "D", "The total delta [none: pure epsilon]."),
            (("--rho",), "R", "The total rho, for zCDP."),
            (("--mu",), "M", "The total mu, for Gaussian differential privacy."),
            (("--rdp",), "V", "The total Renyi divergence, for RDP at one order; with --order."),
        ]
    ):
        function = click.option(*flags, type=DecimalType(), metavar=metavar, help=text)(function)
    return function


def stated_budget(
    *,
    epsilon: Decimal | None,
    delta: Decimal | None,
    rho: Decimal | None,
    mu: Decimal | None,
    rdp: Decimal | None,
    order: Decimal | None,
    orders: str | None,
    basic: bool,
    gaussian: bool,
) -> Budget:
    """Return the budget that the options state.

    Raises:
        click.UsageError: the flags state no total, or more than one.
    """
    from dpbayes_cli.ledger.budgets import (
        ApproximateBudget,
        ConcentratedBudget,
        GaussianBudget,
        PureBudget,
        RenyiBudget,
    )
    from dpbayes_cli.ledger.union_budget import UnionBudget

    if sum(total is not None for total in (epsilon, rho, mu, rdp)) != 1:
        raise click.UsageError("state one total: --epsilon E [--delta D], --rho R, --mu M, or --rdp V --order L")
    if (rdp is None) != (order is None):
        raise click.UsageError("give --rdp and --order together")
    if delta is not None and epsilon is None:
        raise click.UsageError("give --delta together with --epsilon")
    if (basic or orders or gaussian) and (delta is None or sum(map(bool, (basic, orders, gaussian))) > 1):
        raise click.UsageError("give at most one of --orders, --basic and --gaussian, together with --delta")
    if rho is not None:
        return ConcentratedBudget(rho)
    if mu is not None:
        return GaussianBudget(mu)
    if rdp is not None and order is not None:
        return RenyiBudget(order, rdp)
    if epsilon is None or delta is None:
        return PureBudget(epsilon or Decimal(0))
    if gaussian:
        return GaussianBudget.of_statement(epsilon, delta)
    if basic:
        return ApproximateBudget(epsilon, delta)
    return UnionBudget.divide(epsilon, delta, _orders(orders)) if orders else UnionBudget.divide(epsilon, delta)


def _orders(text: str) -> tuple[Decimal, ...]:
    from dpbayes_cli.base.numeric import parse_decimal

    try:
        return tuple(parse_decimal(item) for item in text.split(","))
    except ValueError:
        raise click.UsageError(f"{text!r} is not a list of orders separated by commas") from None
