"""The number of equal releases that a budget admits is the number that the filter admits one by one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpbayes_cli.ledger.admitted_releases import admitted_releases
from dpbayes_cli.ledger.budgets import (
    ApproximateBudget,
    Budget,
    ConcentratedBudget,
    GaussianBudget,
    Lanes,
    PureBudget,
    RenyiBudget,
)
from dpbayes_cli.ledger.union_budget import UnionBudget
from dpbayes_cli.privacy.conversions import epsilon_of_rho
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import ApproximateDP, NoisyShift, PureDP, RenyiCurve, ZeroConcentrated

MICRO = Decimal("1e-6")
BUDGETS: list[Budget] = [
    PureBudget(Decimal(3)), ApproximateBudget(Decimal(3), MICRO), RenyiBudget(Decimal(8), Decimal("0.5")),
    ConcentratedBudget.of_statement(Decimal(3), MICRO), GaussianBudget.of_statement(Decimal(3), MICRO),
    UnionBudget.divide(Decimal(3), MICRO),
]  # fmt: skip
GUARANTEES: list[Guarantee] = [
    PureDP(Decimal("0.1")),
    PureDP(Decimal("0.3"), ((NoisyShift(Decimal(100), 1, 30),), (NoisyShift(Decimal(100), 5, 3),))),
    ApproximateDP(Decimal("0.1"), Decimal("2e-8")),
    ZeroConcentrated(Decimal("0.0117")),
    RenyiCurve(((Decimal(8), Decimal("0.05")),)),
]


def one_by_one(budget: Budget, guarantee: Guarantee, charged: Lanes) -> int:
    number = 0
    while not budget.shortfall(charged, guarantee):
        charged, number = budget.added(charged, guarantee), number + 1
    return number


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda guarantee: guarantee.kind)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.kind)
def test_as_many_fit_as_the_filter_admits(budget: Budget, guarantee: Guarantee) -> None:
    assert admitted_releases(budget, guarantee) == one_by_one(budget, guarantee, budget.nothing)
    spent = budget.added(budget.nothing, PureDP(Decimal("0.2")))
    assert admitted_releases(budget, guarantee, spent) == one_by_one(budget, guarantee, spent)


def test_the_sums_of_many_releases_are_those_of_single_charges() -> None:
    """1e-9 fits three billion times, which nobody adds up one by one; a release without a cost has no last number."""
    assert admitted_releases(PureBudget(Decimal(3)), PureDP(Decimal("1e-9"))) == 3 * 10**9
    assert admitted_releases(UnionBudget.divide(Decimal(3), MICRO), RenyiCurve(((Decimal(8), Decimal(0)),))) == 2**50


def test_the_cost_is_that_of_the_rule_which_limits_the_account() -> None:
    union, tenth = UnionBudget.divide(Decimal(3), MICRO), ApproximateDP(Decimal("0.1"), Decimal("1e-9"))
    assert union.cost_of_each(tenth, 1) == {"epsilon": Decimal("0.1"), "delta": Decimal("1e-9")}
    assert union.cost_of_each(tenth, 40) == {"rdp(12)": tenth.rdp(Decimal(12)), "delta": Decimal("1e-9")}
    assert ConcentratedBudget(Decimal(1)).cost_of_each(tenth, 1) == {"rho": Decimal("Infinity")}


def test_the_rho_of_a_statement_is_the_largest_that_implies_it() -> None:
    for epsilon, delta in ((3, 1e-6), (0.01, 1e-9), (20, 1e-3)):
        budget = ConcentratedBudget.of_statement(Decimal(str(epsilon)), Decimal(str(delta)))
        assert budget.epsilon_at(budget.total, Decimal(str(delta))) <= Decimal(str(epsilon))
        assert epsilon_of_rho(float(budget.rho) * (1 + 1e-9), delta) > epsilon
