from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.mechanisms.gaussian import Gaussian
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import plan_of

MODEL = DirichletCategorical(("a", "b", "c"), (1.0, 1.0, 1.0))
DROP = RecordPolicy(Neighbors.REPLACE_ONE)


def test_rho_sets_the_scale() -> None:
    plan = plan_of(Gaussian(), MODEL, DROP, rho=Decimal("0.02"))
    assert plan.parameters["sigma"] ** 2 == pytest.approx(2 / (2 * 0.02))  # squared L2 sensitivity 2, not L1
    assert plan.guarantee.rho == Decimal("0.02")


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-6"), ("1", "1e-9"), ("5", "0.001")])
def test_epsilon_and_delta_are_kept(epsilon: str, delta: str) -> None:
    plan = plan_of(Gaussian(), MODEL, DROP, epsilon=Decimal(epsilon), delta=Decimal(delta))
    stated = plan.guarantee.epsilon_at(Decimal(delta))
    assert Decimal(epsilon) * Decimal("0.999") <= stated <= Decimal(epsilon)


@pytest.mark.parametrize(
    "asked",
    [{}, {"epsilon": Decimal(1)}, {"delta": Decimal("1e-6")}, {"rho": Decimal(1), "epsilon": Decimal(1)},
     {"rho": Decimal(0)}],
)  # fmt: skip
def test_a_cost_stated_in_two_notions_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        plan_of(Gaussian(), MODEL, DROP, **asked)
