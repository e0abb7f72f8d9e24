"""The three Renyi mechanisms: calibration from below, the whole curve, refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.renyi_posterior import ConjugateSampler, renyi_bound
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.normal_mean import NormalMean
from dpbayes_cli.privacy.conjugate import DirichletFamily
from dpbayes_cli.privacy.kinds import RenyiCurve
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import plan_of

COIN = BetaBernoulli("1", "0", 6.0, 12.0)
POLICY = RecordPolicy(Neighbors.REPLACE_ONE, "0")


def planned(name: str, **asked: Any) -> Any:
    return plan_of(mechanism_type(name)(), COIN, POLICY, n_records=100, **asked)


@pytest.mark.parametrize(
    ("name", "order", "parameter", "value"),
    [
        ("rdp-diffuse", "2", "r", 0.718261997),
        ("rdp-concentrated", "2", "m", 0.526400871),
        ("rdp-diffuse", "15", "r", 0.227873409),
        ("rdp-concentrated", "15", "m", 0.0578274525),
    ],
)
def test_reference_parameters_are_reached_from_below(name: str, order: str, parameter: str, value: float) -> None:
    plan = planned(name, epsilon=Decimal("0.1"), order=Decimal(order))
    assert plan.parameters[parameter] == pytest.approx(value, abs=1e-8)
    assert plan.guarantee.rdp(Decimal(order)) <= Decimal("0.1")
    family = DirichletFamily((6.0, 12.0), 100)
    more = {"r": plan.parameters["r"], "m": plan.parameters["m"]}
    more[parameter] *= 1.0001
    assert renyi_bound(family, float(order), **more) > Decimal("0.1")


def test_rdp_direct_prices_the_true_posterior() -> None:
    plan = planned("rdp-direct")
    assert (plan.parameters["r"], plan.parameters["m"]) == (1.0, 1.0)
    assert float(plan.guarantee.rdp(Decimal(2))) == pytest.approx(0.191290227, abs=1e-9)
    assert plan.guarantee.order_max == pytest.approx(Decimal(7))
    assert not plan.guarantee.rdp(Decimal(7)).is_finite()
    with pytest.raises(SpecError, match=r"more than epsilon 0\.1"):
        planned("rdp-direct", epsilon=Decimal("0.1"))


def test_the_whole_curve_is_charged() -> None:
    plan = planned("rdp-diffuse", epsilon=Decimal("0.1"), order=Decimal("3.3"))
    curve, family = require_type(plan.guarantee, RenyiCurve), DirichletFamily((6.0, 12.0), 100)
    values = [value for _, value in curve.points]
    assert len(curve.points) > 15
    assert values == sorted(values)
    assert Decimal("3.3") in {order for order, _ in curve.points}
    for order, value in curve.points:
        assert float(value) >= family.divergence(float(order), plan.parameters["r"], 1.0)


def test_an_order_beyond_the_largest_is_refused_with_the_prior_that_would_do() -> None:
    with pytest.raises(SpecError, match="infinite at and above order 7") as refused:
        planned("rdp-direct", order=Decimal(8))
    assert "1.167 times" in refused.value.hint


def test_k_draws_cost_k_curves() -> None:
    one = planned("rdp-diffuse", epsilon=Decimal("0.1"))
    five = planned("rdp-diffuse", epsilon=Decimal("0.5"), draws=5)
    assert five.parameters["r"] == pytest.approx(one.parameters["r"])
    assert five.guarantee.rdp(Decimal(2)) <= Decimal("0.5")


def test_a_normal_mean_has_a_curve_at_every_order() -> None:
    model = NormalMean(-1.0, 1.0, 2.0, 0.0, 1.0)
    plan = plan_of(mechanism_type("rdp-direct")(), model, POLICY, n_records=50)
    variance = 1 / (1 + 50 / 2)
    assert float(plan.guarantee.rdp(Decimal(2))) == pytest.approx(2 * (2 / 2 * variance) ** 2 / (2 * variance))
    assert not plan.guarantee.order_max.is_finite()


def test_draws_are_of_the_tempered_posterior() -> None:
    plan = planned("rdp-diffuse", epsilon=Decimal("0.1"))
    sampler = require_type(plan.steps[0].law, ConjugateSampler)
    mean, sd = sampler.moments([95])
    r = plan.parameters["r"]
    a, b = 6 + r * 95, 12 + r * 5
    assert (mean, sd) == pytest.approx((a / (a + b), (a * b / (a + b + 1)) ** 0.5 / (a + b)))
    drawn = [point[0] for point in sampler.draw([95], 2000)]
    assert abs(sum(drawn) / 2000 - mean) < 6.2 * sd / 2000**0.5  # false-fail 1e-9
