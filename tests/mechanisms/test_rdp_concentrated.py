"""rdp-concentrated: the smallest factor on the prior, and the precision on convex losses."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.mechanisms.renyi import assert_reached_from_below
from tests.mechanisms.test_gibbs_posterior import planned, true_mu


@pytest.mark.parametrize(("order", "factor"), [("2", 0.526400871), ("15", 0.0578274525)])
def test_reference_factors_are_reached_from_below(order: str, factor: float) -> None:
    assert_reached_from_below("rdp-concentrated", order, "m", factor)


@pytest.mark.parametrize(("stated", "power"), [({}, 1.0), ({"likelihood_power": 0.5}, 0.5)])
def test_the_prior_of_a_convex_loss_is_made_more_precise(stated: dict[str, Any], power: float) -> None:
    plan = planned("rdp-concentrated", epsilon="0.1", order="4", **stated)
    assert plan.parameters["likelihood_power"] == power
    assert plan.parameters["tau"] == pytest.approx(power**2 * 2.0 * 2.0 * 4.0 / 0.1, rel=1e-9)
    assert plan.guarantee.rdp(Decimal(4)) <= Decimal("0.1")
    assert float(plan.guarantee.mu) == pytest.approx(true_mu(plan, "logistic-regression", 1000), rel=1e-7)
