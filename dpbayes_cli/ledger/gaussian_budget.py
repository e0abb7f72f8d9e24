"""A budget in Gaussian differential privacy: squares of mu add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, ClassVar

from dpbayes_cli.base.numeric import decimal_text
from dpbayes_cli.ledger.budgets import Budget, Lanes, check_components
from dpbayes_cli.privacy.guarantee import check_delta, check_epsilon, check_rho
from dpbayes_cli.privacy.noisy_descent import mu_of_statement

_EXACT = Context(prec=100)
_DOWN = Context(prec=12, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class GaussianBudget(Budget):
    """A total of mu-Gaussian differential privacy: sum of mu^2 <= mu^2, and no delta.

    Only releases with a GDP guarantee have a finite cost in it.

    Privacy: mu-GDP of everything together, hence (epsilon, delta)-DP at every point of the exact curve.
    Source: Smith and Thakurta 2022 (fully adaptive composition of Gaussian differential privacy is a filter).
    """

    kind: ClassVar[str] = "gdp"
    mu: Decimal

    def __post_init__(self) -> None:
        check_rho(self.mu)

    @classmethod
    def of_statement(cls, epsilon: Decimal, delta: Decimal) -> GaussianBudget:
        """Return the largest mu that implies (epsilon, delta)-DP, rounded down."""
        check_epsilon(epsilon)
        check_delta(delta)
        return cls(_DOWN.create_decimal(Decimal(mu_of_statement(float(epsilon), float(delta)) * (1.0 - 1e-12))))

    @property
    def lanes(self) -> tuple[str, ...]:
        """The squares of mu, and delta, which must stay zero."""
        return ("mu_squared", "delta")

    @property
    def total(self) -> Lanes:
        """The square of mu."""
        return {"mu_squared": _EXACT.multiply(self.mu, self.mu)}

    def spent(self, charged: Mapping[str, Decimal]) -> Lanes:
        """Return the sum of squares; a delta makes it infinite."""
        return {"mu_squared": charged["mu_squared"] if charged["delta"] == 0 else Decimal("Infinity")}

    def amended(self, changes: Mapping[str, Decimal]) -> Budget:
        """Return the budget with another mu."""
        check_components(changes, {"mu"}, "of Gaussian differential privacy")
        return GaussianBudget(changes["mu"])

    def serialize(self) -> dict[str, Any]:
        """Return the budget as the ledger stores it."""
        return {"kind": self.kind, "mu": decimal_text(self.mu)}
