"""rdp-direct: the price of the posterior itself, and the orders at which it is infinite."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.models.normal_mean import NormalMean
from tests.mechanisms.renyi import POLICY, planned
from tests.mechanisms.test_gibbs_posterior import planned as planned_chain
from tests.plans import plan_of


def test_it_prices_the_true_posterior() -> None:
    plan = planned("rdp-direct")
    assert (plan.parameters["r"], plan.parameters["m"]) == (1.0, 1.0)
    assert float(plan.guarantee.rdp(Decimal(2))) == pytest.approx(0.191290227, abs=1e-9)
    assert plan.guarantee.order_max == pytest.approx(Decimal(7))
    assert not plan.guarantee.rdp(Decimal(7)).is_finite()
    with pytest.raises(SpecError, match=r"more than epsilon 0\.1"):
        planned("rdp-direct", epsilon=Decimal("0.1"))


def test_an_order_beyond_the_largest_is_refused_with_the_prior_that_would_do() -> None:
    with pytest.raises(SpecError, match="infinite at and above order 7") as refused:
        planned("rdp-direct", order=Decimal(8))
    assert "1.167 times" in refused.value.hint


def test_a_normal_mean_has_a_curve_at_every_order() -> None:
    model = NormalMean(-1.0, 1.0, 2.0, 0.0, 1.0)
    plan = plan_of(mechanism_type("rdp-direct")(), model, POLICY, n_records=50)
    variance = 1 / (1 + 50 / 2)
    assert float(plan.guarantee.rdp(Decimal(2))) == pytest.approx(2 * (2 / 2 * variance) ** 2 / (2 * variance))
    assert not plan.guarantee.order_max.is_finite()


def test_a_convex_loss_is_neither_tempered_nor_made_more_precise() -> None:
    direct = planned_chain("rdp-direct")
    assert (direct.parameters["likelihood_power"], direct.parameters["tau"]) == (1.0, 1.0)
    with pytest.raises(SpecError, match=r"more than epsilon 0\.1"):
        planned_chain("rdp-direct", epsilon="0.1", order="4")
