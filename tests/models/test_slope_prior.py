"""The default prior of slopes: its coordinates have standard normal laws, and gradients are those of differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.models.families.slope_prior import HIDDEN_VARIANCE, slope_prior
from tests.statistical import assert_uniform

FALSE_FAIL = 1e-6


@pytest.mark.parametrize("d", [1, 6, 30])
def test_normal_coordinates_give_normal_slopes_with_a_lognormal_scale(d: int) -> None:
    """With s drawn given b: log s is normal, |b|^2 / s^2 is chi-square, and they are independent; 20,000 draws."""
    prior, rng, n = slope_prior(d), np.random.default_rng(1), 20_000
    slopes = prior.slopes(rng.standard_normal((n, d)), rng.standard_normal((n, int(d > HIDDEN_VARIANCE))))
    scale = prior.draw_scales(slopes, rng)
    of_scale = stats.norm.cdf(np.log(scale))
    of_length = stats.chi2(d).cdf((slopes**2).sum(axis=1) / scale**2)
    for ranks in (of_scale, of_length, (of_scale + of_length) % 1.0, (of_scale - of_length) % 1.0):
        assert_uniform(ranks, FALSE_FAIL / 12.0)


@pytest.mark.parametrize("length", [1e-6, 0.3, 3.0, 40.0])
@pytest.mark.parametrize("d", [2, 6])
def test_the_gradient_by_coordinates_is_that_of_differences(d: int, length: float) -> None:
    rng, prior = np.random.default_rng(2), slope_prior(d)
    y, gradient = rng.standard_normal((2, 1, d))
    y *= length / np.linalg.norm(y)
    c = rng.standard_normal((1, int(d > HIDDEN_VARIANCE)))
    point, size = np.hstack([y, c]), np.abs(prior.slopes(y, c)).max()
    of_point = np.hstack(prior.pull_back(y, c, gradient / size))[0]
    for k in range(point.shape[1]):
        step = 1e-6 * (length if k < d else 1.0) * np.eye(point.shape[1])[k : k + 1]
        ends = [prior.slopes(at[:, :d], at[:, d:]) @ gradient[0] / size for at in (point + step, point - step)]
        difference = (ends[0] - ends[1])[0] / (2.0 * step[0, k])
        assert of_point[k] == pytest.approx(difference, rel=1e-5, abs=1e-6 / length)
