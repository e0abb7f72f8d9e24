"""Budgets as filters: exact, sound for adaptive choices, and closed to releases without a finite cost."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.ledger.budgets import (
    ApproximateBudget,
    Budget,
    ConcentratedBudget,
    GaussianBudget,
    Lanes,
    PureBudget,
    RenyiBudget,
    component_texts,
)
from dpbayes_cli.ledger.union_budget import UnionBudget, amended_budget, parse_budget, sums_with_delta
from dpbayes_cli.privacy.conversions import epsilon_of_rdp, round_up
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import ApproximateDP, BoundedRange, GaussianDP, PureDP, RenyiCurve, ZeroConcentrated

amounts = st.decimals(min_value=Decimal("1e-9"), max_value=3, places=9, allow_nan=False)
ONE, MICRO = Decimal(1), Decimal("1e-6")
CURVE = RenyiCurve(((Decimal(2), Decimal("0.1")), (Decimal(6), Decimal("0.4"))), Decimal(7))
BUDGETS: list[Budget] = [
    PureBudget(Decimal("2.50")), ApproximateBudget(ONE, Decimal("1e-9")), RenyiBudget(Decimal(8), Decimal("0.5")),
    ConcentratedBudget(Decimal("0.5")), GaussianBudget(Decimal("0.65")), UnionBudget.divide(Decimal(3), MICRO),
]  # fmt: skip


def charged(budget: Budget, *spent: Guarantee) -> Lanes:
    lanes = budget.nothing
    for guarantee in spent:
        lanes = budget.added(lanes, guarantee)
    return lanes


@given(st.lists(amounts, max_size=12), amounts)
def test_the_filter_allows_exactly_the_releases_that_fit(spent: list[Decimal], asked: Decimal) -> None:
    budget = PureBudget(Decimal(3))
    fits = not budget.shortfall(charged(budget, *map(PureDP, spent)), PureDP(asked))
    assert fits == (sum(spent, Decimal(0)) + asked <= 3)


def test_small_charges_add_up_exactly() -> None:
    budget, tenth = PureBudget(ONE), PureDP(Decimal("0.1"))
    lanes = charged(budget, *[tenth] * 10)
    assert component_texts(budget.remaining(lanes)) == {"epsilon": "0"}
    assert component_texts(budget.shortfall(lanes, PureDP(Decimal("1e-12")))) == {"epsilon": "0.000000000001"}
    for _ in range(10**3):
        lanes = budget.added(lanes, PureDP(Decimal("1e-9")))
    assert lanes["epsilon"] == ONE + Decimal("1e-6")
    draws = UnionBudget.divide(Decimal(3), MICRO)
    assert draws.spent(charged(draws, *[BoundedRange(Decimal("0.1"))] * 100))["epsilon"] < Decimal(
        "2.7"
    )  # less than the sum of 10


def test_both_components_of_an_approximate_budget_bind() -> None:
    budget = ApproximateBudget(Decimal(2), MICRO)
    one = ApproximateDP(ONE, Decimal("6e-7"))
    assert budget.shortfall(budget.nothing, one) == {}
    assert component_texts(budget.shortfall(charged(budget, one), one)) == {"delta": "0.0000002"}
    assert component_texts(budget.shortfall(charged(budget, one), PureDP(Decimal("1.5")))) == {"epsilon": "0.5"}


@pytest.mark.parametrize(
    ("budget", "guarantee"),
    [
        (PureBudget(ONE), ApproximateDP(Decimal("0.1"), MICRO)), (PureBudget(ONE), ZeroConcentrated(MICRO)),
        (PureBudget(ONE), CURVE), (ApproximateBudget(ONE, MICRO), GaussianDP(MICRO)),
        (RenyiBudget(Decimal(8), ONE), CURVE), (RenyiBudget(Decimal(2), ONE), ApproximateDP(Decimal("0.1"), MICRO)),
        (ConcentratedBudget(ONE), CURVE), (ConcentratedBudget(ONE), ApproximateDP(Decimal("0.1"), MICRO)),
        (GaussianBudget(ONE), ZeroConcentrated(MICRO)), (GaussianBudget(ONE), ApproximateDP(Decimal("0.1"), MICRO)),
        (UnionBudget.divide(ONE, MICRO, (Decimal(8), Decimal(16))), CURVE),
    ],
)  # fmt: skip
def test_a_release_without_a_finite_cost_in_the_budget_is_refused(budget: Budget, guarantee: Guarantee) -> None:
    missing = budget.shortfall(budget.nothing, guarantee)
    assert missing
    assert not all(amount.is_finite() for amount in missing.values())
    assert "inf" in component_texts(missing).values()


def test_renyi_curves_add_up_at_the_order_of_the_account() -> None:
    budget = RenyiBudget(Decimal(5), ONE)
    assert component_texts(budget.spent(charged(budget, CURVE, CURVE))) == {"rdp(5)": "0.8"}
    assert component_texts(budget.shortfall(charged(budget, CURVE, CURVE), CURVE)) == {"rdp(5)": "0.2"}
    rho = ConcentratedBudget(ONE)
    spent = charged(rho, PureDP(ONE), BoundedRange(ONE), GaussianDP(ONE), ZeroConcentrated(Decimal("0.1")))
    assert component_texts(rho.spent(spent)) == {"rho": "1.225"}  # 1/2 + 1/8 + 1/2 + 0.1


def test_squares_of_mu_add_up_and_keep_the_statement_that_they_were_opened_with() -> None:
    budget, third = GaussianBudget(Decimal("0.65")), GaussianDP(Decimal("0.375"))
    lanes = charged(budget, third, third, third)
    assert component_texts(budget.spent(lanes)) == {"mu_squared": "0.421875"}
    assert component_texts(budget.remaining(lanes)) == {"mu_squared": "0.000625"}
    assert budget.shortfall(lanes, GaussianDP(Decimal("0.025"))) == {}
    assert component_texts(budget.shortfall(lanes, GaussianDP(Decimal("0.026")))) == {"mu_squared": "0.000051"}
    opened = GaussianBudget.of_statement(Decimal(3), MICRO)
    assert GaussianDP(opened.mu).delta_at(Decimal(3)) <= MICRO
    assert GaussianDP(opened.mu * Decimal("1.0000001")).delta_at(Decimal(3)) > MICRO
    assert budget.amended({"mu": ONE}).total == {"mu_squared": ONE}


def bernoulli_divergence(p: float, q: float, order: float) -> float:
    """The larger Renyi divergence of two Bernoulli laws, over both directions."""

    def one(a: float, b: float) -> float:
        return math.log(a**order * b ** (1 - order) + (1 - a) ** order * (1 - b) ** (1 - order)) / (order - 1)

    return max(one(p, q), one(q, p))


def test_the_union_budget_refuses_what_the_best_order_at_full_delta_would_allow() -> None:
    """Two orders, one rare event: on every path one order fits at delta = 1e-6, yet the true delta is 1.994e-6."""
    orders, epsilon, delta = (8.0, 32.0), 3.0, 1e-6
    first, plus, minus = (6.38e-5, 3.69e-5), (0.499999, 0.0416947), (7.976e-6, 3.475e-7)
    p_plus, p_minus = first[0] * plus[0], (1 - first[0]) * minus[0]
    q_plus, q_minus = first[1] * plus[1], (1 - first[1]) * minus[1]
    true_delta = sum(max(0.0, p - math.exp(epsilon) * q) for p, q in ((p_plus, q_plus), (p_minus, q_minus)))
    assert true_delta == pytest.approx(1.994e-6, rel=1e-3)

    def curve(pair: tuple[float, float]) -> RenyiCurve:
        return RenyiCurve(tuple((Decimal(o), round_up(bernoulli_divergence(*pair, o))) for o in map(int, orders)))

    budget = UnionBudget.divide(Decimal(3), MICRO, (Decimal(8), Decimal(32)))
    after_first = charged(budget, curve(first))
    refused = 0
    for second in (plus, minus):
        sums = {o: bernoulli_divergence(*first, o) + bernoulli_divergence(*second, o) for o in orders}
        assert any(epsilon_of_rdp(o, value, delta) <= epsilon + 5e-3 for o, value in sums.items())  # the unsound rule
        refused += bool(budget.shortfall(after_first, curve(second)))
    assert refused >= 1


def test_the_parts_of_delta_never_exceed_delta() -> None:
    for delta in ("1e-6", "3e-7", "0.33"):
        budget = UnionBudget.divide(ONE, Decimal(delta))
        assert sum((part for _, part in budget.orders), budget.delta_approx) <= Decimal(delta)
    with pytest.raises(SpecError, match="add up to more"):
        UnionBudget(ONE, MICRO, ((Decimal(2), MICRO),), MICRO)


@pytest.mark.parametrize("order", ["1.5", "8", "256"])
def test_the_conversion_of_an_order_is_rounded_up(order: str) -> None:
    budget = UnionBudget.divide(ONE, MICRO, (Decimal(order),))
    lane, spent = budget.routes(charged(budget, ZeroConcentrated(Decimal("0.01"))))[1]
    exact = epsilon_of_rdp(float(order), float(order) * 0.01, float(budget.orders[0][1]))
    assert lane == f"rdp({order})"
    assert float(spent) == pytest.approx(exact, rel=1e-12)
    assert float(spent) >= exact * (1 - 1e-15)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.kind)
def test_a_budget_survives_being_stored(budget: Budget) -> None:
    assert parse_budget(budget.serialize()) == budget
    assert budget.spent(budget.nothing) == dict.fromkeys(budget.total, Decimal(0))
    assert budget.remaining(budget.nothing) == budget.total
    assert set(budget.nothing) == set(budget.lanes)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.kind)
def test_an_amendment_keeps_the_notion(budget: Budget) -> None:
    named = {RenyiBudget.kind: "rdp", GaussianBudget.kind: "mu"}
    name = named.get(budget.kind, next(iter(budget.total)))
    amended = budget.amended({name: Decimal("0.75")})
    assert amended.shape == budget.shape
    assert amended != budget
    with pytest.raises(SpecError, match="cannot be changed"):
        budget.amended({"nothing": ONE})


@pytest.mark.parametrize(
    "stored",
    [{}, {"kind": "pure"}, {"kind": "pure", "epsilon": "0"}, {"kind": "magic", "rho": "1"}, {"kind": "zcdp"},
     {"kind": "zcdp", "rho": "x"}, {"kind": "rdp", "order": "1", "rdp": "1"}, {"kind": "renyi", "epsilon": "1"},
     {"kind": "renyi", "epsilon": "1", "delta": "1e-6", "delta_approx": "0", "orders": {"2": "1e-3"}}],
)  # fmt: skip
def test_a_damaged_stored_budget_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_budget(stored)


@pytest.mark.parametrize(
    "build",
    [
        lambda: PureBudget(Decimal(0)), lambda: ApproximateBudget(ONE, Decimal(0)),
        lambda: ApproximateBudget(ONE, ONE), lambda: RenyiBudget(ONE, ONE), lambda: ConcentratedBudget(Decimal(0)),
        lambda: GaussianBudget(Decimal(0)), lambda: GaussianBudget.of_statement(ONE, Decimal(0)),
        lambda: UnionBudget.divide(ONE, MICRO, ()), lambda: UnionBudget.divide(ONE, MICRO, (Decimal(2), Decimal(2))),
    ],
)  # fmt: skip
def test_absurd_budgets_are_refused(build: Any) -> None:
    with pytest.raises(SpecError):
        build()


def test_a_release_with_its_own_delta_spends_its_own_part_of_delta() -> None:
    budget = UnionBudget.divide(Decimal(3), MICRO)
    fitting, larger = ApproximateDP(ONE, Decimal("1e-7")), ApproximateDP(ONE, Decimal("1.01e-7"))
    assert component_texts(budget.remaining(budget.nothing)) == {"epsilon": "3", "delta": "0.000001"}
    assert budget.shortfall(budget.nothing, fitting) == {}
    assert component_texts(budget.shortfall(budget.nothing, larger)) == {"delta": "0.000000001"}
    assert component_texts(budget.remaining(charged(budget, fitting))) == {"epsilon": "2", "delta": "0"}


def test_an_amendment_of_delta_changes_the_part_for_the_deltas_of_releases_alone() -> None:
    budget = UnionBudget.divide(Decimal(3), MICRO)
    lanes = charged(budget, ApproximateDP(ONE, Decimal("1e-7")))
    missing = budget.shortfall(lanes, ApproximateDP(ONE, Decimal("1e-7")))
    assert budget.options("TOTAL", missing) == "--delta TOTAL"
    raised = budget.amended({"delta": MICRO + missing["delta"]})
    assert raised.shape == budget.shape
    assert parse_budget(raised.serialize()) == raised
    assert raised.shortfall(lanes, ApproximateDP(ONE, Decimal("1e-7"))) == {}
    assert component_texts(raised.shortfall(lanes, ApproximateDP(ONE, Decimal("1.1e-7")))) == {"delta": "0.00000001"}
    assert raised.spent(lanes)["epsilon"] == ONE
    with pytest.raises(SpecError, match="the Renyi orders of this account have delta"):
        budget.amended({"delta": Decimal("1e-7")})


@given(st.lists(amounts, max_size=6))
def test_an_account_that_gets_a_delta_has_spent_at_least_what_its_releases_cost_under_it(spent: list[Decimal]) -> None:
    before = PureBudget(Decimal(3))
    budget = amended_budget(before, {"delta": MICRO})
    assert isinstance(budget, UnionBudget)
    releases = [PureDP(epsilon) for epsilon in spent]
    sums, least = sums_with_delta(charged(before, *releases), budget), charged(budget, *releases)
    assert sums["epsilon"] == least["epsilon"]
    assert [lane for lane in budget.lanes if sums[lane] < least[lane]] == []


def test_an_account_without_a_guarantee_has_none_with_a_delta() -> None:
    before = PureBudget(Decimal(3))
    budget = amended_budget(before, {"epsilon": Decimal(5), "delta": MICRO})
    assert isinstance(budget, UnionBudget)
    lost = sums_with_delta(charged(before, GaussianDP(Decimal("0.1"))), budget)
    assert budget.shortfall(lost, PureDP(MICRO))
    kept_delta = sums_with_delta(charged(before, ApproximateDP(ONE, Decimal("1e-3"))), budget)
    assert budget.shortfall(kept_delta, PureDP(MICRO))
