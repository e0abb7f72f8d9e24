"""Noise by parts: shares of a budget, OpenDP's own cost of each, and the law that a bundle stores."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.bundle.document import ReleaseDocument
from dpbayes_cli.bundle.files import payload_of
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.stored_noise import parse_noise
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.part_noise import PartNoise, noise_by_parts
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.measurements import OpenDPNoise
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec
from tests.conftest import Cli, often
from tests.plans import plan_of
from tests.statistical import assert_follows, assert_means

DROP = RecordPolicy(Neighbors.REPLACE_ONE)
SPENT: dict[str, dict[str, Any]] = {"laplace": {"epsilon": Decimal("0.7")}, "gaussian": {"rho": Decimal("0.03")}}
WEIGHTS = ["1", "1", "3", "2", "2"]


def network(weights: list[str], **changes: Any) -> DiscreteBayesNet:
    """A chain of variables of two and three values."""
    variables = {
        f"v{i}": {
            "values": ["a", "b", "c"][: 2 + i % 2], "weight": weight, "parents": [f"v{i - 1}"] if i else [],
            **changes,
        }
        for i, weight in enumerate(weights)
    }  # fmt: skip
    document = {"model": "bayes-net", "privacy": {"epsilon": "1"}, "domain": {"variables": variables}}
    return require_type(build_spec(document).build_model(), DiscreteBayesNet)


def planned(mechanism: str, weights: list[str], policy: RecordPolicy = DROP) -> tuple[PartNoise, Any]:
    plan = plan_of(mechanism_type(mechanism)(), network(weights), policy, **SPENT[mechanism])
    (step,) = plan.steps
    return require_type(step.noise, PartNoise), plan


@settings(max_examples=60)
@given(
    total=st.decimals("1e-9", "100", allow_nan=False, places=15).filter(lambda total: total > 0),
    weights=st.lists(st.fractions(Fraction(1, 1000), 1000, max_denominator=1009), min_size=1, max_size=12),
)
def test_shares_add_up_to_at_most_the_total_exactly(total: Decimal, weights: list[Fraction]) -> None:
    """In rationals, for all budgets and weights; little of the budget is lost."""
    shares: list[Fraction] = []

    def keep(i: int, share: Decimal) -> DiscreteLaplace:
        assert i == len(shares)
        shares.append(Fraction(share))
        return DiscreteLaplace(1.0)

    noise_by_parts(total, [1] * len(weights), weights, keep)
    exact = [Fraction(total) * weight / sum(weights) for weight in weights]
    assert all(share <= part for share, part in zip(shares, exact, strict=True))
    assert Fraction(total) * (1 - Fraction(1, 10**28)) <= sum(shares) <= Fraction(total)


@pytest.mark.parametrize("relation", list(Neighbors))
@pytest.mark.parametrize("mechanism", SPENT)
def test_opendp_costs_of_the_parts_add_up_to_what_is_charged(mechanism: str, relation: Neighbors) -> None:
    """A record moves every part at once: OpenDP's costs for the sensitivities of the parts must add up."""
    noise, plan = planned(mechanism, WEIGHTS, RecordPolicy(relation))
    spent = Fraction(next(iter(SPENT[mechanism].values())))
    parts = plan.steps[0].statistic.parts
    sensitivities = [part.sensitivity_l1 if mechanism == "laplace" else part.sensitivity_l2_squared for part in parts]
    proved = [require_type(law, OpenDPNoise).cost(d) for law, d in zip(noise.laws, sensitivities, strict=True)]
    assert spent * (1 - Fraction(1, 10**6)) < sum(proved) <= spent
    whole = sum(part.weight for part in parts)
    for cost, part in zip(proved, parts, strict=True):
        assert cost <= spent * part.weight / whole
    assert plan.steps[0].guarantee == plan.guarantee


def test_weights_set_the_ratio_of_scales() -> None:
    laplace, gaussian = planned("laplace", ["1", "3"])[0], planned("gaussian", ["1", "3"])[0]
    assert laplace.laws[0].scale / laplace.laws[1].scale == pytest.approx(3.0, rel=1e-12)
    assert gaussian.laws[0].scale / gaussian.laws[1].scale == pytest.approx(3.0**0.5, rel=1e-9)
    assert laplace.scales(8) == (laplace.laws[0].scale,) * 2 + (laplace.laws[1].scale,) * 6
    assert laplace.laws[1].scale == pytest.approx(2 / (0.7 * 0.75), rel=1e-12)


def test_equal_weights_are_one_law() -> None:
    plan = plan_of(mechanism_type("laplace")(), network(["2", "2", "2"]), DROP, Decimal(1))
    assert plan.steps[0].noise == DiscreteLaplace.calibrate(6, Decimal(1))


def test_a_share_too_small_to_be_noised_is_refused_before_a_charge() -> None:
    with pytest.raises(SpecError, match="noise of scale"):
        plan_of(mechanism_type("laplace")(), network(["0.001"] + ["1000"] * 9), DROP, Decimal("1e-9"))


@pytest.mark.parametrize("law", often([RoundedGaussian, DiscreteLaplace, DiscreteGaussian], 3))
def test_every_part_is_noised_by_its_own_law(law: type[DiscreteLaplace | DiscreteGaussian | RoundedGaussian]) -> None:
    """False-fail rate 1e-9 for each assertion; a scale of another part would shift a variance by a factor of 4."""
    noise = PartNoise((law(1.5), law(6.0), law(3.0)), (1, 2, 1))
    released = np.array([noise.release([100, 200, 300, 400]) for _ in range(1000)]) - [100, 200, 300, 400]
    simulated = noise.simulate(np.random.default_rng(0), (1000, 4))
    support = np.arange(-40, 41)
    for drawn in (released, simulated):
        for k, own in enumerate((1.5, 6.0, 6.0, 3.0)):
            assert_follows(drawn[:, k], support, np.exp(law(own).log_pmf(support)))
        assert_means(drawn[:, :-1] * drawn[:, 1:], [0.0, 0.0, 0.0])  # independent, parts of one law, too
    assert noise.simulate(np.random.default_rng(0), 4).shape == (4,)


def test_densities_go_part_by_part() -> None:
    laws = (DiscreteLaplace(1.5), DiscreteLaplace(6.0))
    noise = PartNoise(laws, (1, 2))
    z = np.arange(12).reshape(4, 3)
    expected = np.concatenate([laws[0].log_pmf(z[:, :1]), laws[1].log_pmf(z[:, 1:])], axis=1)
    assert np.array_equal(noise.log_pmf(z), expected)
    u = z / 12
    expected = np.concatenate([laws[0].characteristic(u[:, :1]), laws[1].characteristic(u[:, 1:])], axis=1)
    assert np.array_equal(noise.characteristic(u), expected)
    assert (noise.scale, noise.variance, noise.radius(5.0)) == (6.0, laws[1].variance, laws[1].radius(5.0))


def test_a_statistic_of_another_length_is_refused() -> None:
    noise = PartNoise((DiscreteLaplace(1.0), DiscreteLaplace(2.0)), (1, 2))
    for length in (2, 4):
        with pytest.raises(ValueError, match="differ in their number of components"):
            noise.release([0] * length)
    with pytest.raises(ValueError, match="all of the same kind"):
        PartNoise((DiscreteLaplace(1.0), DiscreteGaussian(2.0)), (1, 2))
    with pytest.raises(ValueError, match="needs one law"):
        PartNoise((DiscreteLaplace(1.0),), (1, 2))


@pytest.mark.parametrize("weights", [["1", "1", "3", "2", "2"], ["3", "1", "1"], ["1", "2", "1"], ["5", "5", "1"]])
@pytest.mark.parametrize("mechanism", SPENT)
def test_a_law_read_back_is_the_same_for_every_component(mechanism: str, weights: list[str]) -> None:
    """Neighboring parts of equal weight have one scale, so that a stored law has fewer parts than the planned one."""
    noise, plan = planned(mechanism, weights)
    sizes = [part.size for part in plan.steps[0].statistic.parts]
    again = parse_noise(noise.serialize(), noise.scales(sum(sizes)))
    assert again.scales(sum(sizes)) == noise.scales(sum(sizes))
    components = range(sum(sizes))
    assert [again.at(i) for i in components] == [noise.at(i) for i in components]
    z = np.arange(sum(sizes))
    assert np.array_equal(again.log_pmf(z), noise.log_pmf(z))
    firsts = [first for first, _ in pairwise(accumulate(sizes, initial=0))]
    assert [again.at(i) for i in firsts] == list(noise.laws)
    with pytest.raises(ValueError, match="unknown noise law"):
        parse_noise({"law": "uniform", "scale": None}, [1.0, 2.0])


@pytest.mark.parametrize(("mechanism", "cost"), [("laplace", "epsilon"), ("gaussian", "rho"), ("gaussian", "mu")])
def test_a_bundle_with_weights_gives_the_same_law_back(mechanism: str, cost: str, place: Path, dpbayes: Cli) -> None:
    (place / "data.csv").write_text("a,b,c\n" + "x,p,1\ny,q,9\nx,q,\n" * 100, encoding="utf-8")
    spending = {"epsilon": "{epsilon: 2}", "rho": "{rho: 0.1}", "mu": "{mu: 0.5}"}[cost]
    (place / "s.yaml").write_text(
        f"model: bayes-net\ndata: data.csv\nmechanism: {mechanism}\nprivacy: {spending}\ndomain:\n  variables:\n"
        "    a: {values: [x, y]}\n    b: {values: [p, q], parents: [a]}\n    c: {cuts: [5], parents: [b], weight: 3}\n",
        encoding="utf-8",
    )
    assert dpbayes("budget", "open", "data", f"--{cost}", "9").code == 0
    released = dpbayes("release", "--spec", "s.yaml", "--out", "bundle", "--json")
    assert released.code == 0, released.err
    content = json.loads((place / "bundle" / "release.json").read_text())
    document = msgspec.convert(content, ReleaseDocument)
    assert content["noise"]["scale"] is None
    payload = payload_of(document)
    stated = [statistic["noise_scale"] for statistic in content["statistics"]]
    assert list(payload.noise.scales(len(stated))) == stated
    ratio = 3.0 if mechanism == "laplace" else 3.0**0.5
    assert stated[0] / stated[-1] == pytest.approx(ratio)
    assert stated[0] == stated[2]
    assert payload.described() == content["statistics"]
    assert dpbayes("infer", "bundle", "--json").code == 0
