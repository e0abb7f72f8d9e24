from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.errors import SpecError
from dpbayes_cli.ledger.budgets import Budget, added, parse_budget, texts
from dpbayes_cli.privacy.guarantee import ApproximateDP, PureDP, compose

amounts = st.decimals(min_value=Decimal("1e-9"), max_value=3, places=9, allow_nan=False)


@given(st.lists(amounts, max_size=12), amounts)
def test_the_filter_lets_through_exactly_what_fits(spent: list[Decimal], asked: Decimal) -> None:
    budget = Budget(Decimal(3))
    charged = compose(PureDP(epsilon) for epsilon in spent)
    fits = not budget.shortfall(charged, PureDP(asked))
    assert fits == (sum(spent, Decimal(0)) + asked <= 3)


def test_a_budget_can_be_spent_to_the_last_digit_and_not_beyond() -> None:
    budget, tenth = Budget(Decimal(1)), PureDP(Decimal("0.1"))
    charged = compose([tenth] * 9)
    assert budget.shortfall(charged, tenth) == {}
    charged = added(charged, tenth)
    assert texts(budget.remaining(charged)) == {"epsilon": "0"}
    assert texts(budget.shortfall(charged, PureDP(Decimal("1e-12")))) == {"epsilon": "0.000000000001"}


def test_a_pure_budget_has_no_delta_to_spend() -> None:
    missing = Budget(Decimal(3)).shortfall(compose([]), ApproximateDP(Decimal(1), Decimal("1e-6")))
    assert texts(missing) == {"delta": "0.000001"}


def test_both_components_of_an_approximate_budget_bind() -> None:
    budget = Budget(Decimal(2), Decimal("1e-6"))
    one = ApproximateDP(Decimal(1), Decimal("6e-7"))
    assert budget.shortfall(compose([]), one) == {}
    assert texts(budget.shortfall(compose([one]), one)) == {"delta": "0.0000002"}
    assert texts(budget.shortfall(compose([one]), PureDP(Decimal("1.5")))) == {"epsilon": "0.5"}


@pytest.mark.parametrize("budget", [Budget(Decimal("2.50")), Budget(Decimal(1), Decimal("1e-9"))])
def test_a_budget_survives_being_stored(budget: Budget) -> None:
    assert parse_budget(budget.serialize()) == budget


@pytest.mark.parametrize(
    "stored", [{}, {"kind": "pure"}, {"kind": "pure", "epsilon": "0"}, {"kind": "zcdp", "rho": "1"}]
)
def test_a_damaged_budget_is_not_believed(stored: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_budget(stored)


@pytest.mark.parametrize(("epsilon", "delta"), [("0", None), ("1", "0"), ("1", "1")])
def test_absurd_budgets_are_refused(epsilon: str, delta: str | None) -> None:
    with pytest.raises(SpecError):
        Budget(Decimal(epsilon), None if delta is None else Decimal(delta))
