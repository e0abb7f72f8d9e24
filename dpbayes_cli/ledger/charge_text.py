"""What a release costs, as short text for messages."""

from __future__ import annotations

from decimal import Decimal

from dpbayes_cli.base.errors import amounts_text
from dpbayes_cli.base.numeric import decimal_text, short_text
from dpbayes_cli.ledger.budgets import Budget, component_texts
from dpbayes_cli.privacy.guarantee import Guarantee


def charge_text(guarantee: Guarantee, digits: int = 15) -> str:
    """Return a guarantee as short text, such as "epsilon 1" or "rho 0.5"."""
    delta = f", delta {decimal_text(guarantee.delta)}" if guarantee.delta else ""
    for name in ("epsilon", "mu", "rho"):
        value: Decimal = getattr(guarantee, name)  # one at a time: computing mu loads SciPy
        if value.is_finite():
            return f"{name} {short_text(value, up=True, digits=digits)}{delta}"
    below = f" below order {decimal_text(guarantee.order_max)}" if guarantee.order_max.is_finite() else ""
    return f"a Renyi curve{below}"


def charged_text(guarantee: Guarantee, budget: Budget) -> str:
    """Return a guarantee as short text, with its cost to an account that is kept in another notion of privacy."""
    text = charge_text(guarantee, 6)
    if budget.kind == "renyi" and not guarantee.epsilon.is_finite() and not guarantee.delta:
        delta = dict(budget.total)["delta"]
        epsilon = guarantee.statement(delta).epsilon
        stated = f" (alone: epsilon {short_text(epsilon, up=True, digits=6)} at delta {decimal_text(delta)})"
        return text + stated if epsilon.is_finite() else text
    if len(budget.amounts) != 1 or text.startswith(f"{budget.amounts[0]} "):
        return text
    costs = {name: cost for name, cost in budget.cost_of_each(guarantee, 1).items() if cost}
    return f"{text} ({amounts_text(component_texts(costs), up=True)})"
