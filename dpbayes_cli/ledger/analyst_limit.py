"""The limit of one analyst within an account."""

from __future__ import annotations

from dataclasses import dataclass

from dpbayes_cli.ledger.budgets import Budget, Lanes


@dataclass(frozen=True)
class AnalystLimit:
    """What one analyst may spend of an account, in the account's notion of privacy.

    Privacy: another filter beside the account's: what the analyst is charged together keeps the limit's promise, and
        the account's total holds whatever the limits are.
    Source: mechanisms, the ledger is a filter.

    Attributes:
        budget: the limit.
        charged: the sums of the prices of the analyst's releases, in the lanes of the budget.
    """

    budget: Budget
    charged: Lanes

    @property
    def spent(self) -> Lanes:
        """What was spent, by component."""
        return self.budget.spent(self.charged)

    @property
    def remaining(self) -> Lanes:
        """What is left, by component."""
        return self.budget.remaining(self.charged)
