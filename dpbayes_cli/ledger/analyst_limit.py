"""The limit of one analyst within an account."""

from __future__ import annotations

from dataclasses import dataclass

from dpbayes_cli.ledger.budgets import Budget, Lanes


@dataclass(frozen=True)
class AnalystLimit:
    """The most that one analyst may spend of an account, in the account's notion of privacy.

    Privacy: a second filter beside the account's: all charges of the analyst together keep the guarantee of the
        limit, and the account's total holds whatever the limits are.
    Source: design notes, the ledger is a filter.

    Attributes:
        budget: the limit.
        charged: the sums of the privacy costs of the analyst's releases, in the lanes of the budget.
    """

    budget: Budget
    charged: Lanes

    @property
    def spent(self) -> Lanes:
        """The privacy cost so far, by component."""
        return self.budget.spent(self.charged)

    @property
    def remaining(self) -> Lanes:
        """The remaining budget, by component."""
        return self.budget.remaining(self.charged)
