"""rdp-diffuse: the largest power of the likelihood, the whole curve, draws, and convex losses."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.samplers.renyi_posterior import ConjugateSampler
from dpbayes_cli.privacy.kinds import RenyiCurve
from tests.mechanisms.renyi import FAMILY, assert_reached_from_below, planned
from tests.mechanisms.test_gibbs_posterior import planned as planned_chain
from tests.mechanisms.test_gibbs_posterior import true_mu


@pytest.mark.parametrize(("order", "power"), [("2", 0.718261997), ("15", 0.227873409)])
def test_reference_powers_are_reached_from_below(order: str, power: float) -> None:
    assert_reached_from_below("rdp-diffuse", order, "r", power)


def test_the_whole_curve_is_charged() -> None:
    plan = planned("rdp-diffuse", epsilon=Decimal("0.1"), order=Decimal("3.3"))
    curve = require_type(plan.guarantee, RenyiCurve)
    values = [value for _, value in curve.points]
    assert len(curve.points) > 15
    assert values == sorted(values)
    assert Decimal("3.3") in {order for order, _ in curve.points}
    for order, value in curve.points:
        assert float(value) >= FAMILY.divergence(float(order), plan.parameters["r"], 1.0)


def test_k_draws_cost_k_curves() -> None:
    one = planned("rdp-diffuse", epsilon=Decimal("0.1"))
    five = planned("rdp-diffuse", epsilon=Decimal("0.5"), draws=5)
    assert five.parameters["r"] == pytest.approx(one.parameters["r"])
    assert five.guarantee.rdp(Decimal(2)) <= Decimal("0.5")


def test_draws_are_of_the_tempered_posterior() -> None:
    plan = planned("rdp-diffuse", epsilon=Decimal("0.1"))
    sampler = require_type(plan.steps[0].law, ConjugateSampler)
    mean, sd = sampler.moments([95])
    r = plan.parameters["r"]
    a, b = 6 + r * 95, 12 + r * 5
    assert (mean, sd) == pytest.approx((a / (a + b), (a * b / (a + b + 1)) ** 0.5 / (a + b)))
    drawn = [point[0] for point in sampler.draw([95], 2000)]
    assert abs(sum(drawn) / 2000 - mean) < 6.2 * sd / 2000**0.5  # false-fail 1e-9


def test_a_convex_loss_is_tempered() -> None:
    plan = planned_chain("rdp-diffuse", epsilon="0.1", order="4")
    exact = math.sqrt(0.1 / (2.0 * 4.0)) / math.sqrt(2.0)
    assert plan.parameters["likelihood_power"] == pytest.approx(exact, rel=1e-9)
    assert plan.parameters["tau"] == 1.0
    assert plan.guarantee.rdp(Decimal(4)) <= Decimal("0.1")
    assert float(plan.guarantee.mu) == pytest.approx(true_mu(plan, "logistic-regression", 1000), rel=1e-7)


def test_a_long_step_that_costs_more_than_an_exact_draw_is_refused_by_the_papers_rules() -> None:
    fine = planned_chain("rdp-diffuse", epsilon="0.1")
    step_size = 1.999 / fine.parameters["smoothness"]
    with pytest.raises(SpecError, match="would cost more than epsilon"):
        planned_chain("rdp-diffuse", epsilon="0.1", step_size=step_size)
    assert float(planned_chain(mu="0.3", step_size=step_size).guarantee.mu) <= 0.3  # the chain's own cost allows it
