"""Normal: the moments of a record against quadrature; the mean of numbers as recorded, of any law."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.columns import NumericColumn, Outside, RecordPolicy
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.models.families.normal_records import ConjugateNormalRecords, moments_at
from dpbayes_cli.models.normal import STEPS, Normal, NormalDomain, NormalPrior
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import Cli, seldom


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_moments_of_normal_records_are_those_of_quadrature(outside: Outside, counted: bool) -> None:
    column = NumericColumn("value", -2.0, 3.0, 1 << 14, outside=outside)
    law = ConjugateNormalRecords(column, counted, False, False, 0.3, 2.0, 3.0, 3.0)
    points = np.vstack([law.draw_prior(12, np.random.default_rng(3)), [[0.0, 4.0], [0.0, -5.0], [4.0, 0.0]]])
    first, second = law.moments(points)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    pieces = np.arange(40)[:, None]
    nodes = ((pieces + (nodes + 1.0) / 2.0) / 20.0 - 1.0).ravel()
    weights = np.tile(weights / 40.0, 40)
    for point, mean, covariance in zip(law.parameters(points), first, second, strict=True):
        low, high = np.clip(np.array([-1, 1]) * 40 * point[1] ** 0.5 + point[0], -2.0, 3.0)
        x = (low + high) / 2.0 + (high - low) / 2.0 * nodes
        mass = stats.norm.pdf(x, point[0], point[1] ** 0.5) * weights * (high - low) / 2.0
        if outside == "clamp":
            ends = stats.norm.cdf([-2.0, -3.0], [point[0], -point[0]], point[1] ** 0.5)
            x, mass = np.append(x, [-2.0, 3.0]), np.append(mass, ends)
        v = (x - 0.5) / 2.5
        parts = np.array([2.0 * v, v**2, np.ones_like(v)][: 3 if counted else 2])
        unit = float(column.steps) ** 2
        np.testing.assert_allclose(mean / unit, parts @ mass, atol=1e-10)
        expected = (parts * mass) @ parts.T - np.outer(parts @ mass, parts @ mass)
        np.testing.assert_allclose(covariance / unit**2, expected, atol=1e-10)


def test_moments_of_recorded_numbers_are_those_of_a_normal_law_without_bounds() -> None:
    column, wide = (NumericColumn("value", -end, end, 1 << 14) for end in (1.0, 64.0))
    mean, sd = np.array([-0.9, 0.2, 0.99]), np.array([0.3, 0.01, 1.0])
    first, second = moments_at(column, mean, sd, counted=True, inside=False, as_recorded=True)
    far, spread = moments_at(wide, mean, sd, counted=True, inside=False)
    unit = np.array([64.0, 64.0**2, 1.0])
    np.testing.assert_allclose(first, far * unit, rtol=1e-9)
    np.testing.assert_allclose(second, spread * np.outer(unit, unit), rtol=1e-6, atol=1e-4 * (1 << 28) ** 2 / 1e4)


def posterior_of_mean(visits: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return draws of the mean given a release of counts between 0 and 50."""
    domain = NormalDomain(lower=0.0, upper=50.0, out_of_bounds="recorded")
    model, noise = Normal.build(domain, NormalPrior()), DiscreteLaplace(4.0 * STEPS**2 / epsilon)
    v = np.minimum(visits, 50.0) / 25.0 - 1.0
    exact = np.rint(np.array([2.0 * v.sum(), (v**2).sum(), len(v)]) * STEPS**2).astype(np.int64)
    released = (exact + noise.simulate(rng, 3)).tolist()
    observation = model.observation(RecordPolicy(Neighbors.REPLACE_ONE), released, noise, len(v))
    return infer(observation, "noise-aware", 400, rng, Effort(summary_draws=400)).draws[:, 0]


def skewed(size: int, rng: np.random.Generator) -> Floats:
    """Draw counts of mean 1.6 and variance 11, as of visits to a doctor."""
    return rng.poisson(rng.gamma(0.27, 1.6 / 0.27, size)).astype(np.float64)


def test_the_mean_of_skewed_counts_as_recorded_is_that_of_the_central_limit_theorem() -> None:
    """Little noise and 4,000 records: Monte Carlo errors are .05 sd of the mean and 4 % of the sd."""
    rng = np.random.default_rng(4)
    visits = skewed(4000, rng)
    recorded = posterior_of_mean(visits, 100.0, rng)
    assert recorded.mean() == pytest.approx(visits.mean(), abs=0.01)
    assert recorded.std() == pytest.approx(visits.std() / len(visits) ** 0.5, rel=0.2)


@pytest.mark.calibration
@pytest.mark.parametrize(("n", "epsilon"), seldom([(485, 1.0), (300, 0.3), (2000, 3.0)], 3))
def test_intervals_of_the_mean_of_skewed_counts_hold(n: int, epsilon: float) -> None:
    """100 data sets; an interval that holds .9 of them fails with probability 1e-6 below .74."""
    rng, truth = np.random.default_rng(n), 1.6
    draws = [posterior_of_mean(skewed(n, rng), epsilon, rng) for _ in range(100)]
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.74


def test_recorded_numbers_are_released_alone_and_by_group_and_a_normal_law_of_groups_warns(
    dpbayes: Cli, place: Path
) -> None:
    rows = "\n".join(
        f"{ward},{int(k)}" for ward, k in zip("ab" * 400, skewed(800, np.random.default_rng(2)), strict=True)
    )
    (place / "visits.csv").write_text(f"ward,visits\n{rows}\n")
    asked = ("release", "visits.csv", "--model", "normal", "--column", "visits", "--lower", "0", "--upper", "50")
    told = dpbayes(*asked, "--out-of-bounds", "recorded", "--eps", "1", "--inference", "naive").exits(0).out
    assert "the mean of visits, with numbers beyond 0 to 50 counted at the bound, is about" in " ".join(told.split())
    (place / "wards.txt").write_text("a\nb\n")
    groups = ("--by", "ward", "--groups", "wards.txt", "--pooling", "none", "--eps", "1")
    told, clamped = (
        " ".join(dpbayes(*asked, *groups, "--out-of-bounds", outside).exits(0).out.split())
        for outside in ("recorded", "clamp")
    )
    assert "the mean of visits, with numbers beyond 0 to 50 counted at the bound, is about" in told
    assert "WARNING" not in told
    assert "the means are wrong: with --model normal --out-of-bounds recorded, no law is assumed" in clamped
