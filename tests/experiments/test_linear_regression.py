"""A study of linear regression: the range of the likelihood, draws in a ball, noise-aware inference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.linear_regression import LinearRegressions, document, rows_of, scaled_coefficients
from dpbayes_cli.experiments.study import build_study, read_study
from dpbayes_cli.experiments.truncated_draws import MASS, ball_radius, draw_in_ball, likelihood_range
from tests.conftest import ROOT
from tests.experiments.studies import LINEAR

CONFIG = ROOT / "configs" / "experiments" / "linear-regression.yaml"


def study_of(place: Path, **changes: Any) -> LinearRegressions:
    return require_type(build_study({**LINEAR, **changes}, place), LinearRegressions)


def ratio(w: Any, record: tuple[Any, float], other: tuple[Any, float], sd: float) -> float:
    """The log likelihood ratio of two records."""
    return float((other[1] - other[0] @ w) ** 2 - (record[1] - record[0] @ w) ** 2) / (2.0 * sd**2)


@pytest.mark.parametrize("radius", [0.3, 1.0, 2.5])
def test_no_two_records_exceed_the_range_and_two_attain_it(radius: float) -> None:
    rng, sd = np.random.default_rng(5), 0.7
    allowed = likelihood_range(radius, sd)

    def within(n: int, size: float) -> Any:
        drawn = rng.normal(size=(n, 3))
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * size * rng.random((n, 1)) ** (1.0 / 6.0)

    points = within(300, radius)
    for first, second in zip(within(200, 1.0), within(200, 1.0), strict=True):
        pair = [(first, float(rng.choice([-1.0, 1.0]))), (second, float(rng.choice([-1.0, 1.0])))]
        ratios = [ratio(w, pair[0], pair[1], sd) for w in points]
        assert max(ratios) - min(ratios) <= allowed
    x = np.array([1.0, 0.0, 0.0])
    if radius <= 1.0:
        other, ends = -x, (radius * x, -radius * x)
    else:
        other = np.array([-1.0 / radius, math.sqrt(1.0 - 1.0 / radius**2), 0.0])
        ends = (-radius * other, -radius * x)
    high, low = (ratio(w, (x, 1.0), (other, 1.0), sd) for w in ends)
    assert high - low == pytest.approx(allowed)


def test_the_ball_holds_its_share_of_the_prior() -> None:
    """A share of 200,000 draws within 5 standard errors, false fail 6e-7."""
    drawn = np.random.default_rng(6).normal(size=(200_000, 5)) * math.sqrt(0.3)
    share = float((np.square(drawn).sum(axis=1) <= ball_radius(0.3, 5) ** 2).mean())
    assert abs(share - MASS) <= 5.0 * math.sqrt(MASS * (1.0 - MASS) / 200_000)


def test_rows_have_norm_one_at_most(records: Path) -> None:
    study = study_of(records)
    case = study.cases["two"]
    assert [column.role for column in case.columns] == ["y", "a", "b"]
    rows = rows_of(case, np.array([[5.0, 0.0, 1.0], [0.0, 4.0, -1.0], [3.0, 2.0, 0.0]]))
    np.testing.assert_allclose(rows * math.sqrt(3.0), [[1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [1.0, 0.0, 0.0]])
    trial = study.trials_of(study.grid()[-1])[0]
    assert (len(trial.y), len(trial.test_y)) == (120, 280)
    assert np.abs(trial.y).max() <= 1.0


@pytest.mark.parametrize("center", [(0.2, -0.1), (1.5, 0.5), (6.0, -3.0)])
def test_draws_in_a_ball_have_the_moments_of_quadrature(center: tuple[float, float]) -> None:
    """A normal law inside, at the edge and far outside; 800 draws within 5 standard errors, false fail 6e-7 each."""
    precision = np.array([[3.0, 1.0], [1.0, 9.0]])
    n, radius = 800, 1.0
    drawn = draw_in_ball(np.tile(center, (n, 1)), np.tile(precision, (n, 1, 1)), radius, np.random.default_rng(7))
    assert np.square(drawn).sum(axis=1).max() <= radius**2
    line = np.linspace(-1.0, 1.0, 501)
    points = np.stack([part.ravel() for part in np.meshgrid(line, line)], axis=1)
    points = points[np.square(points).sum(axis=1) <= radius**2]
    away = points - np.array(center)
    log = -0.5 * ((away @ precision) * away).sum(axis=1)
    masses = np.exp(log - log.max())
    masses /= masses.sum()
    for power in ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2)):
        expected = float(masses @ np.prod(points ** np.array(power), axis=1))
        values = np.prod(drawn ** np.array(power), axis=1)
        assert abs(values.mean() - expected) <= 5.0 * values.std() / math.sqrt(n) + 1e-3


def test_coefficients_in_units_of_the_file_are_those_of_rows(records: Path) -> None:
    case = study_of(records).cases["two"]
    numbers = np.array([[5.0, 1.0, 0.5], [5.0, 3.0, -0.25]])
    slopes = np.array([[2.0, 1.5, -2.0]])
    (w,) = scaled_coefficients(case, slopes)
    expected = (2.0 + 1.5 * numbers[:, 1] - 2.0 * numbers[:, 2] - 5.0) / 5.0
    np.testing.assert_allclose(rows_of(case, numbers) @ w, expected)
    stated = document(case, "0.1")
    assert stated["domain"]["variance"] == 1.0
    slope_variance = stated["domain"]["variance"] / (stated["prior"]["slope_strength"] * 2.0**2)
    assert slope_variance == pytest.approx(0.1 / 3.0 * (5.0 / 2.0) ** 2), "v / d, scaled from rows to the file"


@pytest.mark.slow
@pytest.mark.calibration
def test_no_posterior_of_many_is_lost_on_its_way_from_the_prior() -> None:
    """Little noise and a wide prior: each of 50 predicts nearly as well as without privacy, where one was 14 times off.

    Less noise than spread of the data: the mean squared errors are 5.5, and 0.3 higher for the noise at most.
    """
    study = require_type(read_study(CONFIG), LinearRegressions)
    own = [point for point in study.grid() if (point.case, point["prior_variance"]) == ("abalone-weights", "10")]
    noisy, exact = (
        study.run(next(point for point in own if (point["method"], point["epsilon"]) == place)).trials["mse"]
        for place in (("noise-aware", "100"), ("non-private", None))
    )
    assert (noisy - exact < 1.0).all()
