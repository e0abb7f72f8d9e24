"""Plans of the Renyi mechanisms for a coin."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.mechanisms.samplers.renyi_posterior import renyi_bound
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.conjugate import DirichletFamily
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import plan_of

COIN, FAMILY = BetaBernoulli("1", "0", 6.0, 12.0), DirichletFamily((6.0, 12.0), 100)
POLICY = RecordPolicy(Neighbors.REPLACE_ONE, "0")


def planned(name: str, **asked: Any) -> Plan:
    return plan_of(mechanism_type(name)(), COIN, POLICY, n_records=100, **asked)


def assert_reached_from_below(name: str, order: str, parameter: str, value: float) -> None:
    """Check the parameter at epsilon 0.1, and that 0.01 % more of it would cost more than epsilon."""
    plan = planned(name, epsilon=Decimal("0.1"), order=Decimal(order))
    assert plan.parameters[parameter] == pytest.approx(value, abs=1e-8)
    assert plan.guarantee.rdp(Decimal(order)) <= Decimal("0.1")
    more = {"r": plan.parameters["r"], "m": plan.parameters["m"]}
    more[parameter] *= 1.0001
    assert renyi_bound(FAMILY, float(order), **more) > Decimal("0.1")
