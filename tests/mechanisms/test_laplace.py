"""Laplace: the scale of its noise, and noise in every release."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.registry import supports
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import plan_of
from tests.test_conformance import NOISY, Instance, label


@pytest.mark.parametrize(("neighbors", "scale"), [(Neighbors.REPLACE_ONE, 4.0), (Neighbors.ADD_REMOVE, 2.0)])
def test_the_scale_is_the_sensitivity_over_epsilon(neighbors: Neighbors, scale: float) -> None:
    plan = plan_of(Laplace(), BetaBernoulli("1", "0", 1.0, 1.0), RecordPolicy(neighbors), Decimal("0.5"))
    assert plan.final_step.noise == DiscreteLaplace(scale)
    assert (plan.guarantee.epsilon, plan.final_step.statistic.names) == (Decimal("0.5"), ("successes", "failures"))


@pytest.mark.parametrize("instance", [each for each in NOISY if supports(Laplace, each.kind)], ids=label)
def test_laplace_release_adds_noise(instance: Instance) -> None:
    """At epsilon 0.001 a component is released without noise with probability below 1e-3; ten in a row below 1e-30."""
    plan = plan_of(Laplace(), instance.build(), RecordPolicy(Neighbors.REPLACE_ONE), Decimal("0.001"))
    exact = tuple(100 for _ in plan.steps[0].statistic.names)
    assert any(Laplace().release(plan, ExactEvidence(exact, 1000)).values != exact for _ in range(10))
