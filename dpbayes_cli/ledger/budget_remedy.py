"""What a custodian can do if the budget of an account does not allow a release."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.budgets import GaussianBudget, PureBudget, order_of
from dpbayes_cli.ledger.charge_text import charge_text
from dpbayes_cli.ledger.populations import opening_command
from dpbayes_cli.ledger.state import Account
from dpbayes_cli.ledger.union_budget import TOTAL_WITH_DELTA, UnionBudget
from dpbayes_cli.privacy.guarantee import Guarantee


def budget_remedy(account: Account, guarantee: Guarantee, missing: Mapping[str, Decimal]) -> str:
    """Return a hint for a release that the budget of an account does not allow.

    Args:
        account: the account.
        guarantee: the guarantee of the release.
        missing: what the account lacks, by component.
    """
    if all(amount.is_finite() for amount in missing.values()):
        if account.opened:
            command = f"dpbayes budget amend {account.name} {account.budget.options('TOTAL', missing)} --reason TEXT"
            return f"ask for less, or raise the total: {command}{_gaussian_account(account, guarantee)}"
        return f"ask for less, or open the account with a larger total: {opening_command(account, 'TOTAL')}"
    if account.budget.kind == PureBudget.kind:
        opening = f"dpbayes budget open {account.name} {TOTAL_WITH_DELTA}"
        if account.opened:
            return (
                f"this account counts in pure epsilon, and {charge_text(guarantee)} has none: use a mechanism with a "
                "pure epsilon, without --delta, if the model has one (dpbayes mechanisms lists them); or give the "
                "account's total a delta, a small probability with which its epsilon may fail: "
                f"dpbayes budget amend {account.name} --delta 1e-6 --reason TEXT"
            )
        return f"{charge_text(guarantee)} has no pure epsilon, which a default account needs; open another: {opening}"
    orders = [order_of(lane) for lane in account.budget.lanes if lane.startswith("rdp(")]
    if guarantee.order_max.is_finite() and orders:
        needed = min(orders)
        factor = (needed - 1) / (guarantee.order_max - 1)
        return (
            f"the Renyi divergence is infinite at order {guarantee.order_max:.6g} and above, and this account needs a "
            f"finite one at order {needed:f}: take prior parameters that are more than {factor:.4g} times as large"
        )
    only = ""
    if account.budget.kind == GaussianBudget.kind:
        only = " (only a pure epsilon or a mu has one; state the cost of gaussian with --mu)"
    return f"{charge_text(guarantee)} has no finite cost in {account.budget.notion}, which this account uses{only}"


def _gaussian_account(account: Account, guarantee: Guarantee) -> str:
    """Return the end of a hint if an account with the same total, converted to Gaussian DP, pays for a release."""
    if not isinstance(account.budget, UnionBudget) or not guarantee.mu.is_finite():
        return ""
    gaussian = GaussianBudget.of_statement(account.budget.epsilon, account.budget.delta)
    if gaussian.shortfall(gaussian.nothing, guarantee):
        return ""
    total = f"--epsilon {decimal_text(account.budget.epsilon)} --delta {decimal_text(account.budget.delta)}"
    return (
        "; for data that no account has paid for yet, one with the same total that counts in Gaussian DP can pay: "
        f"dpbayes budget open NAME {total} --gaussian"
    )
