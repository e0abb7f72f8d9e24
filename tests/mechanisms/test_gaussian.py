from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.gaussian import Gaussian
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec
from tests.conftest import Cli
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
     {"rho": Decimal(0)}, {"mu": Decimal(1), "rho": Decimal(1)}, {"mu": Decimal(1), "epsilon": Decimal(1)},
     {"mu": Decimal(1), "delta": Decimal("1e-6")}, {"mu": Decimal(45)}],
)  # fmt: skip
def test_a_cost_stated_in_two_notions_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        plan_of(Gaussian(), MODEL, DROP, **asked)


@pytest.mark.parametrize("contributions", [1, 3])
@pytest.mark.parametrize("relation", list(Neighbors))
def test_mu_sets_the_scale_and_is_the_guarantee(relation: Neighbors, contributions: int) -> None:
    policy = RecordPolicy(relation, contributions=contributions)
    plan = plan_of(Gaussian(), MODEL, policy, mu=Decimal("0.6"))
    shift = (contributions, -contributions if relation is Neighbors.REPLACE_ONE else 0, 0)
    squared = sum(change**2 for change in shift)  # the squared L2 sensitivity of counts, not the L1 sensitivity
    assert plan.parameters["sigma"] ** 2 == pytest.approx(squared / 0.36, rel=1e-12)
    assert plan.final_step.noise.kind == "rounded-gaussian"
    assert plan.guarantee == GaussianDP(Decimal("0.6"))
    spent = plan.final_step.noise.privacy([shift]).mu
    assert Decimal("0.6") * (1 - Decimal("1e-15")) <= spent <= Decimal("0.6")
    by_rho = plan_of(Gaussian(), MODEL, policy, rho=Decimal("0.1"))
    by_epsilon = plan_of(Gaussian(), MODEL, policy, Decimal(1), delta=Decimal("1e-6"))
    assert by_rho.final_step.noise.kind == by_epsilon.final_step.noise.kind == "discrete-gaussian"


def test_weights_divide_the_square_of_mu() -> None:
    variables = {"a": {"values": ["x", "y"]}, "b": {"values": ["p", "q"], "parents": ["a"], "weight": "3"}}
    request = {"model": "bayes-net", "mechanism": "gaussian", "privacy": {"mu": "0.6"}}
    model = build_spec({**request, "domain": {"variables": variables}}).build_model()
    plan = plan_of(Gaussian(), model, DROP, mu=Decimal("0.6"))
    noise = require_type(plan.final_step.noise, PartNoise)
    assert [2.0 / law.scale**2 for law in noise.laws] == pytest.approx([0.09, 0.27], rel=1e-12)
    spent = noise.privacy([(1, -1, 1, -1, 0, 0), (1, -1, 0, 0, 1, -1)])
    assert Decimal("0.6") * (1 - Decimal("1e-15")) <= spent.mu <= Decimal("0.6")
    assert plan.guarantee.mu == Decimal("0.6")


def test_a_target_and_a_comparison_take_mu(dpbayes: Cli) -> None:
    asked = ("plan", "--model", "beta-bernoulli", "--mechanism", "gaussian", "--mu", "1", "--records", "500", "--json")
    planned = dpbayes(*asked, "--target-width", "0.12", "--trials", "20")
    assert planned.code == 0, planned.err
    assert planned.json["target"]["found"]["key"] == "mu"
    assert 0.0 < float(planned.json["target"]["found"]["value"]) < 1.0
    compared = dpbayes(*asked, "--compare", "--trials", "0").json
    (own,) = (each for each in compared if each["mechanism"] == "gaussian")
    assert own["parameters"]["mu"] == 1.0
    assert own["parameters"]["sigma"] == pytest.approx(2.0**0.5)
