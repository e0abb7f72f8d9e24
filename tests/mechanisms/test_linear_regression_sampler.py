"""Draws of regression lines: the range by brute force, the largest log ratio by exhaustion, the draws' law."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import evaluate
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.mechanisms.samplers.linear_regression_sampler import (
    MAX_POINTS,
    LinearRegressionSampler,
    LineCover,
    count_points,
    lattice_ball,
)
from dpbayes_cli.models.linear_regression import LinearRegression
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import SAMPLE_DATA, Cli, often
from tests.exact_laws import weights_of
from tests.plans import plan_arguments, plan_of
from tests.statistical import FALSE_FAIL, assert_follows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE, "1")


def model(features: int, variance: float | None = 0.3) -> LinearRegression:
    bounds = (("y", 0.0, 4.0), *((name, -1.0, 3.0) for name in "abcdefghij"[:features]))
    return LinearRegression(bounds, (2.5, *[1.0] * features), (0.6,) * (features + 1), 1.0, 0.1, 0.2, variance)


def request(epsilon: str = "1", n: int = 4, **more: Any) -> dict[str, Any]:
    return plan_arguments(COMPLETE, Decimal(epsilon), n_records=n, **more)


def sampler_of(features: int, asked: dict[str, Any], resolution: int | None = None) -> LinearRegressionSampler:
    law = require_type(plan_of(Ops(), model(features), **asked).steps[0].law, LinearRegressionSampler)
    return law if resolution is None else replace(law, cover=replace(law.cover, resolution=resolution))


def values_of(features: int, records: Floats) -> tuple[int, ...]:
    """The statistic of records in the units of the file, the target first."""
    subject = model(features)
    return evaluate(subject.statistic(COMPLETE), subject.columns, np.array(records, dtype=float))


@pytest.mark.parametrize(("dimension", "radius"), [(1, 4), (2, 5), (3, 4), (4, 2)])
def test_the_lattice_is_the_ball(dimension: int, radius: int) -> None:
    cube = itertools.product(range(-radius, radius + 1), repeat=dimension)
    expected = [k for k in cube if sum(map(abs, k)) <= radius]
    assert list(map(tuple, lattice_ball(dimension, radius).tolist())) == expected
    assert count_points(dimension, radius) == len(expected)


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0, 1), (-1, Fraction(1, 2)), (Fraction(-1, 4), Fraction(1, 3))])
@pytest.mark.parametrize("features", [1, 2])
def test_the_range_is_never_exceeded_and_attained(features: int, low: Any, high: Any) -> None:
    """All pairs of records at the corners and middles of the box, over all lines of a small lattice, exactly."""
    cover, variance = LineCover(features, 4, Fraction(low), Fraction(high)), Fraction(3, 10)
    lines = np.array(cover.points().tolist(), dtype=object) * cover.step
    lines[:, 0] = lines[:, 0] + cover.middle
    spots = [Fraction(-1), Fraction(0), Fraction(1)]
    log_likelihoods = []
    for y, *x in itertools.product(spots, repeat=features + 1):
        height = lines[:, 0] + sum(lines[:, j + 1] * x[j] for j in range(features))
        assert low <= min(height) <= max(height) <= high
        log_likelihoods.append(-((height - y) ** 2) / (2 * variance))
    unit = math.lcm(*(value.denominator for each in log_likelihoods for value in each))
    whole = [np.array([int(value * unit) for value in each], dtype=object) for each in log_likelihoods]
    widest = max(max(a - b) - min(a - b) for a, b in itertools.combinations(whole, 2))
    assert Fraction(widest, unit) == cover.spread(variance)
    assert Fraction(max(max(a) - min(a) for a in whole), unit) <= cover.spread(variance) / 2  # a record against none


@pytest.mark.parametrize("power_applies_to", ["likelihood", "joint"])
@pytest.mark.parametrize("epsilon", often(["20", "1"], 2))
@pytest.mark.parametrize(("features", "support"), [(1, None), (1, (1.0, 3.5)), (2, None)])
def test_no_pair_of_neighbors_exceeds_the_charge(
    features: int, support: Any, epsilon: str, power_applies_to: Any
) -> None:
    """All data sets of two records at corners, on a small lattice, from the integers that the draws use.

    Logarithms of exact fractions err by less than 1e-14, and the charge leaves more than that.
    """
    asked = request(epsilon, 2, support=support, power_applies_to=power_applies_to)
    charged = float(plan_of(Ops(), model(features), **asked).guarantee.epsilon)
    sampler = sampler_of(features, asked, 3)
    corners = list(itertools.product((0.0, 4.0), *[(-1.0, 3.0)] * features))
    laws, worst = {}, 0.0
    for data in itertools.combinations_with_replacement(corners, 2):
        weights = weights_of(sampler.weights(values_of(features, np.array(data))))
        laws[data] = [Fraction(weight, sum(weights)) for weight in weights]
    for one, other in itertools.permutations(laws, 2):
        if set(one) & set(other):
            worst = max(worst, *(float(a / b) for a, b in zip(laws[one], laws[other], strict=True)))
    assert math.log(worst) <= charged + 1e-14
    if epsilon != "20":  # a range of epsilon is at least half of it one way
        assert math.log(worst) >= 0.3 * charged


def test_squares_are_those_of_the_residuals() -> None:
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.random(50) * 4.0, rng.random((50, 2)) * 4.0 - 1.0])
    columns = [require_type(column, NumericColumn) for column in model(2).columns]
    rounded = np.column_stack([c.lower + c.codes(records[:, i])[0] * c.step for i, c in enumerate(columns)])
    sampler = sampler_of(2, request(n=50, support=(0.5, 3.0)), 5)
    squares, unit = sampler.squares(values_of(2, records))
    design = np.column_stack([np.ones(50), rounded[:, 1:]])
    residuals = rounded[:, :1] - design @ sampler.coefficients().T
    np.testing.assert_allclose(np.array(squares, dtype=float) / unit, (residuals**2).sum(axis=0) / 4.0, rtol=1e-10)


def test_draws_follow_the_tempered_posterior() -> None:
    """Draws of the slope against an independent density on the lattice (chi-square, false-fail 1e-9)."""
    rng = np.random.default_rng(1)
    records = np.column_stack([rng.random(60) * 4.0, rng.random(60) * 4.0 - 1.0])
    records[:, 0] = np.clip(1.0 + 0.8 * records[:, 1] + rng.normal(0.0, 0.5, 60), 0.0, 4.0)
    sampler = sampler_of(1, request("300", 60), 24)
    drawn = np.array(sampler.draw(values_of(1, records), 20_000))
    lines, power = sampler.coefficients(), float(sampler.likelihood_power)
    residuals = records[:, :1] - lines[:, 0] - records[:, 1:] * lines[:, 1]
    level = lines[:, 0] + lines[:, 1] * 1.0 - 2.5
    logs = -power * (residuals**2).sum(axis=0) / 0.6
    logs -= (level**2 + 0.1 * 0.36 * lines[:, 1] ** 2) / 0.6
    masses = np.exp(logs - logs.max())
    masses /= masses.sum()
    slopes, place = np.unique(np.round(lines[:, 1] * 24.0), return_inverse=True)
    assert_follows(np.round(drawn[:, 1] * 24.0), slopes, np.bincount(place, masses), FALSE_FAIL)
    mean, sd = sampler.moments(values_of(1, records))
    assert mean == pytest.approx(float(masses @ lines[:, 0]), abs=1e-3)
    assert abs(drawn[:, 0].mean() - mean) < 7.0 * sd / math.sqrt(20_000)
    assert sampler.is_possible(drawn[0])
    assert not sampler.is_possible(drawn[0] + 1e-6)


def test_the_posterior_without_privacy_is_the_conjugate_one() -> None:
    rng = np.random.default_rng(2)
    records = np.column_stack([rng.random(80) * 4.0, rng.random((80, 2)) * 4.0 - 1.0])
    design = np.column_stack([np.ones(80), records[:, 1:]])
    level = np.array([1.0, 1.0, 1.0])
    precision = design.T @ design + np.outer(level, level) + np.diag([0.0, 0.036, 0.036])
    sd = math.sqrt(0.3 * np.linalg.inv(precision)[0, 0])
    assert sampler_of(2, request(n=80)).nonprivate_sd(values_of(2, records)) == pytest.approx(sd, rel=1e-3)


def test_the_grid_has_as_many_points_as_can_be_enumerated() -> None:
    for features in (1, 2, 4):
        cover = sampler_of(features, request()).cover
        assert count_points(features + 1, cover.resolution) <= MAX_POINTS
    with pytest.raises(SpecError, match="too many"):
        plan_of(Ops(), model(9), **request())


@pytest.mark.parametrize("support", [(-1.0, 2.0), (1.0, 5.0), (3.0, 1.0)])
def test_a_support_beyond_the_target_is_refused(support: tuple[float, float]) -> None:
    with pytest.raises(SpecError, match="target's bounds"):
        plan_of(Ops(), model(1), **request(support=support))


def test_the_variance_must_be_known() -> None:
    with pytest.raises(SpecError) as refused:
        plan_of(Ops(), model(1, None), **request())
    assert refused.value.where == "domain.variance"


def test_a_variance_too_small_for_exact_draws_is_refused() -> None:
    with pytest.raises(SpecError, match="the variance is too small") as refused:
        plan_of(Ops(), model(1, 1e-12), **request())
    assert refused.value.where == "domain.variance"


@pytest.mark.slow
def test_lines_of_abalone_are_drawn_and_planned(dpbayes: Cli, place: Path) -> None:
    """At epsilon 3 the law of a prediction at length 0.5 is about 0.7 rings wide; least squares say 9.6: nine sds."""
    Path("spec.yaml").write_text(
        f"model: linear-regression\ndata: {SAMPLE_DATA / 'abalone.csv.gz'}\nmechanism: ops\nprivacy: {{epsilon: 3}}\n"
        "on_invalid: impute:1\ndomain:\n  target: {column: rings, lower: 0, upper: 30}\n"
        "  features: {length: {lower: 0, upper: 1}}\n  variance: 7\n"
    )
    planned = dpbayes("plan", "--spec", "spec.yaml", "--records", "4177", "--trials", "2", "--json").json
    assert planned["expected"]["inflation"] > 1.0
    done = dpbayes("release", "--spec", "spec.yaml", "--out", "out", "--json").json
    means = {name: summary["mean"] for name, summary in done["posterior"].items()}
    assert list(means) == ["beta[intercept]", "beta[length]"]
    assert abs(means["beta[intercept]"] + 0.5 * means["beta[length]"] - 9.6) < 6.5
    assert dpbayes("report", "out").code == 0
    assert stats.norm.sf(9.0) < FALSE_FAIL
