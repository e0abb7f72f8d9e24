"""Plans for groups: simulated widths against closed forms, assumptions, and what is not simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.spec.release_spec import build_spec
from dpbayes_cli.workflow.planning import SimulationEffort, plan_mechanism
from dpbayes_cli.workflow.simulated_groups import ExpectedGroups
from tests.conftest import Cli

KEYS = [f"g{k}" for k in range(60)]
FLAGS = "--model beta-bernoulli --column x --by g --groups keys.txt --eps 1 --records 1200 --trials 2"
FEW = SimulationEffort(trials=2)
LETTERS: dict[str, Any] = {"model": "dirichlet-categorical", "domain": {"categories": ["a", "b", "c", "d"]}}


def request(epsilon: float = 1.0, **other: Any) -> dict[str, Any]:
    by = {"column": "g", "values": KEYS}
    return {"model": "beta-bernoulli", "by": by, "privacy": {"epsilon": str(epsilon)}, **other}


def expected(document: dict[str, Any], n_records: int, effort: SimulationEffort = FEW) -> ExpectedGroups:
    groups = plan_mechanism(build_spec(document), n_records, effort).groups
    assert groups is not None
    return groups


def width_by_hand(a: float, b: float, size: int) -> float:
    """Return the median width over groups of a known law with exact counts of ``size`` records."""
    rng = np.random.default_rng(3)
    successes = rng.binomial(size, rng.beta(a, b, 20_000))
    low, high = (beta.ppf(level, a + successes, b + size - successes) for level in (0.05, 0.95))
    return float(np.median(high - low))


@pytest.mark.slow
@pytest.mark.parametrize("size", [20, 400])
def test_widths_without_privacy_are_those_of_exact_counts(size: int) -> None:
    groups = expected(request(), size * len(KEYS), SimulationEffort(trials=3))
    assert groups.nonprivate_width == pytest.approx(width_by_hand(12.0, 12.0, size), rel=0.12)
    assert (groups.mean, groups.trials) == (0.5, 3)
    assert groups.sd == pytest.approx(0.1)
    assert groups.unseen_width == pytest.approx(np.diff(beta.ppf([0.05, 0.95], 12.0, 12.0))[0])


@pytest.mark.slow
def test_less_epsilon_gives_wider_intervals_until_they_are_worthless() -> None:
    strong, weak = expected(request(20.0), 1200), expected(request(0.1), 1200)
    assert strong.width.median == pytest.approx(strong.nonprivate_width, rel=0.1)
    assert weak.width.median > strong.width.median
    assert weak.is_worthless
    assert not strong.is_worthless


def test_without_pooling_the_prior_is_that_of_each_group() -> None:
    groups = expected(request(inference={"pooling": "none"}), 1200)
    assert groups.unseen_width == pytest.approx(0.9)
    assert groups.nonprivate_width == pytest.approx(width_by_hand(1.0, 1.0, 20), rel=0.2)


@pytest.mark.slow
def test_the_parameter_may_be_any_category() -> None:
    prior = {"concentration": {"a": 1.0, "b": 1.0, "c": 7.0, "d": 1.0}}
    document = request(**LETTERS, prior=prior)
    groups = expected(document, 6000, SimulationEffort(trials=2, parameter="theta[c]"))
    assert groups.parameter == "theta[c]"
    assert groups.mean == pytest.approx(0.7)
    assert groups.nonprivate_width == pytest.approx(width_by_hand(0.7 * 24, 0.3 * 24, 100), rel=0.12)
    with pytest.raises(SpecError, match="no parameter 'mean'"):
        expected(document, 6000, SimulationEffort(trials=2, parameter="mean"))


@pytest.mark.slow
def test_widths_of_groups_of_numbers_without_privacy_are_those_of_exact_sums() -> None:
    """Means of normal numbers have a closed form, given their law over the groups."""
    domain = {"lower": 0.0, "upper": 80.0, "variance": 100.0}
    groups = expected(request(model="normal-mean", domain=domain), 50 * len(KEYS), SimulationEffort(trials=2))
    assert (groups.mean, groups.sd) == pytest.approx((40.0, 8.0))
    assert not groups.is_share
    sd = (50 / 100.0 + 1 / 8.0**2) ** -0.5
    assert groups.nonprivate_width == pytest.approx(2 * 1.645 * sd, rel=0.1)
    assert groups.nonprivate_width < groups.width.median < groups.unseen_width == pytest.approx(2 * 1.645 * 8, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["normal --lower 0 --upper 9 --target-width 2", "beta-bernoulli --target-width 0.3"])
def test_the_cost_of_a_width_of_groups_is_found(dpbayes: Cli, place: Path, asked: str) -> None:
    (place / "keys.txt").write_text("\n".join(KEYS) + "\n")
    flags = f"--model {asked} --column x --by g --groups keys.txt --records 6000 --trials 4".split()
    described = dpbayes("plan", *flags, "--json").json
    assert described["groups"]["width"]["median"] <= described["target"]["value"] * 1.1
    rest = [*flags[: flags.index("--target-width")], *flags[flags.index("--target-width") + 2 :]]
    compared = dpbayes("plan", *rest, "--eps", "1", "--delta", "1e-6", "--compare", "--json").json
    assert {each["mechanism"] for each in compared} == {"laplace", "gaussian"}


@pytest.mark.parametrize(
    ("document", "n_records", "reason"),
    [
        (
            request(model="gamma-poisson", domain={"upper": 5}),
            10**8,
            "A plan does not simulate groups of more than 100,000 records",
        ),
        (request(), 10**9, "A plan does not simulate groups of more than 1,000,000 records"),
    ],
    ids=["numbers", "many records"],
)
def test_what_is_not_simulated_has_a_reason(document: dict[str, Any], n_records: int, reason: str) -> None:
    planned = plan_mechanism(build_spec(document), n_records, FEW)
    assert planned.groups is None
    assert planned.not_simulated.startswith(reason)


def test_a_plan_says_what_to_expect_and_what_it_assumes(dpbayes: Cli, place: Path) -> None:
    (place / "keys.txt").write_text("\n".join(KEYS) + "\n")
    described = dpbayes("plan", *FLAGS.split(), "--json").json
    first, second = described["sentences"][:2]
    width = 100 * described["groups"]["width"]["median"]
    assert f"for theta of a group about {width:.0f} percentage points wide, where the whole range is 100" in first
    assert "2 simulated data sets of 60 groups with 20 records on average" in first
    assert "theta is assumed to average 50 %, with a standard deviation of 10 percentage points" in second
    assert first in " ".join(dpbayes("plan", *FLAGS.split()).out.split())
    assert "groups" not in dpbayes("plan", "--model", "beta-bernoulli", "--eps", "1", "--records", "10", "--json").json
