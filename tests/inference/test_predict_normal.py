"""Predictive laws of a regression: quantiles against a root finder record by record, and coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from dpbayes_cli.inference.predictive.predict_normal import log_predictive_densities, predictive_intervals
from dpbayes_cli.models.linear_regression import LinearRegression
from tests.conftest import often

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

LEVELS = (1e-6, 0.05, 0.5, 0.95, 0.9999)


def drawn(n: int, spread: float, seed: int = 0) -> Floats:
    """Return draws whose centers spread by ``spread`` typical standard deviations, with very different variances."""
    rng = np.random.default_rng(seed)
    slopes = rng.standard_t(3, (n, 3)) * spread
    return np.column_stack([slopes, rng.gamma(1.0, 2.0, n) + 1e-3])


def predictive_probabilities(draws: Floats, features: Floats, targets: Floats) -> Floats:
    """Return the CDFs of the mixtures at the targets, which are uniform on [0, 1] for calibrated predictions."""
    centers = features @ draws[:, 1:-1].T + draws[:, 0]
    return np.asarray(stats.norm.cdf((targets[:, None] - centers) / np.sqrt(draws[:, -1])).mean(axis=1))


@pytest.mark.parametrize("spread", often([0.1, 0.0, 100.0, 1.0], 2))
def test_quantiles_are_those_of_the_mixture(spread: float) -> None:
    """Compare with Brent's method on the CDF, record by record, in predictive sds."""
    draws = drawn(307, spread)  # no level is a share of them: between two parts far apart a quantile is ill-defined
    features = np.random.default_rng(1).normal(size=(40, 2)) * 3.0
    mean, sd, quantiles = predictive_intervals(draws, features, LEVELS)
    scale = np.sqrt(draws[:, -1])
    for i, x in enumerate(features):
        centers = draws[:, 0] + draws[:, 1:-1] @ x
        assert mean[i] == pytest.approx(centers.mean(), abs=1e-9 * sd[i])
        assert sd[i] == pytest.approx(np.sqrt(centers.var() + draws[:, -1].mean()), rel=1e-9)
        for k, level in enumerate(LEVELS):
            ends = centers + stats.norm.ppf(level) * scale

            def excess(t: float, centers: Floats = centers, level: float = level) -> float:
                return float(stats.norm.cdf((t - centers) / scale).mean()) - level

            wanted = brentq(excess, ends.min() - 1e-9, ends.max() + 1e-9, xtol=1e-13 * sd[i], rtol=1e-14)
            assert quantiles[i, k] == pytest.approx(wanted, abs=1e-6 * sd[i])


def test_one_draw_is_a_normal_law() -> None:
    _, sd, quantiles = predictive_intervals(np.array([[1.0, 2.0, 4.0]]), np.array([[3.0]]), (0.05, 0.95))
    assert sd.tolist() == [2.0]
    np.testing.assert_allclose(quantiles[0], stats.norm.ppf([0.05, 0.95], 7.0, 2.0), rtol=1e-9)


def test_probabilities_and_densities_are_those_of_the_mixture() -> None:
    draws, features = drawn(200, 1.0), np.random.default_rng(1).normal(size=(30, 2))
    _, _, quantiles = predictive_intervals(draws, features, (0.2,))
    np.testing.assert_allclose(predictive_probabilities(draws, features, quantiles[:, 0]), 0.2, atol=1e-7)
    targets = np.linspace(-5.0, 5.0, 30)
    step = 1e-4
    above, below = (predictive_probabilities(draws, features, targets + s) for s in (step, -step))
    densities = np.exp(log_predictive_densities(draws, features, targets))
    np.testing.assert_allclose(densities, (above - below) / (2.0 * step), rtol=1e-3)


def test_a_record_without_a_feature_has_no_prediction() -> None:
    features = np.array([[1.0, np.nan], [1.0, 2.0]])
    for answer in predictive_intervals(drawn(50, 1.0), features, (0.05, 0.95)):
        assert np.isnan(answer[0]).all()
        assert np.isfinite(answer[1]).all()


def test_wrong_shapes_and_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="fit"):
        predictive_intervals(drawn(5, 1.0), np.zeros((3, 3)), (0.5,))
    with pytest.raises(ValueError, match="between 0 and 1"):
        predictive_intervals(drawn(5, 1.0), np.zeros((3, 2)), (0.0,))


def test_a_known_variance_is_added() -> None:
    model = LinearRegression((("y", 0.0, 1.0), ("a", 0.0, 2.0)), (0.5, 1.0), (0.2, 0.3), 1.0, 0.1, 0.2, 0.04)
    np.testing.assert_array_equal(model.complete_draws(np.array([[0.1, 0.2]])), [[0.1, 0.2, 0.04]])
