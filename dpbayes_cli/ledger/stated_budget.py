"""The budget that a user states by its amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from dpbayes_cli.ledger.budgets import (
    ApproximateBudget,
    Budget,
    ConcentratedBudget,
    GaussianBudget,
    PureBudget,
    RenyiBudget,
)
from dpbayes_cli.ledger.union_budget import UnionBudget


def stated_budget(
    amounts: Mapping[str, Decimal], orders: Sequence[Decimal] = (), *, basic: bool = False, gaussian: bool = False
) -> Budget:
    """Return the budget with a total in one notion of privacy.

    Args:
        amounts: ``epsilon``, ``epsilon`` and ``delta``, ``rho``, ``mu``, or ``rdp`` and ``order``.
        orders: with delta: the Renyi orders among which delta is divided.
        basic: with delta: whether to use basic composition only.
        gaussian: with delta: whether to convert the total to Gaussian differential privacy.

    Raises:
        ValueError: the amounts state no total, or more than one.
    """
    totals = dict(amounts)
    delta, order = totals.pop("delta", None), totals.pop("order", None)
    if len(totals) != 1:
        raise ValueError("state one total: --epsilon E [--delta D], --rho R, --mu M, or --rdp V --order L")
    ((name, total),) = totals.items()
    if (name == "rdp") != (order is not None):
        raise ValueError("--rdp and --order go together")
    if delta is not None and name != "epsilon":
        raise ValueError("--delta needs --epsilon")
    if (basic or orders or gaussian) and (delta is None or sum(map(bool, (basic, orders, gaussian))) > 1):
        raise ValueError("--orders, --basic and --gaussian exclude each other, and need --delta")
    if order is not None:
        return RenyiBudget(order, total)
    if name == "rho":
        return ConcentratedBudget(total)
    if name == "mu":
        return GaussianBudget(total)
    if name != "epsilon":
        raise ValueError(f"there is no total {name!r}; expected epsilon, rho, mu or rdp")
    if delta is None:
        return PureBudget(total)
    if gaussian:
        return GaussianBudget.of_statement(total, delta)
    if basic:
        return ApproximateBudget(total, delta)
    return UnionBudget.divide(total, delta, tuple(orders)) if orders else UnionBudget.divide(total, delta)
