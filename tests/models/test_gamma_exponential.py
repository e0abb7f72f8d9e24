"""Gamma-exponential: its posterior without noise, and the moments of a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.models.gamma_exponential import STEPS, GammaExponential
from tests.models.number_laws import LEVELS, quantiles_without_noise

MODEL = GammaExponential(64.0, 2.0, 0.5)


def test_without_noise_the_posterior_is_the_conjugate_one() -> None:
    exact = stats.gamma(2.0 + 30, scale=1 / (0.5 + 20)).ppf(LEVELS)
    np.testing.assert_allclose(quantiles_without_noise(MODEL, 20 * STEPS // 64, 30), exact, rtol=1e-4)


def test_the_moments_are_those_of_an_exponential_time() -> None:
    law = stats.expon(scale=1 / 0.4)
    assert MODEL.predictive([0.4])["mean"] == pytest.approx(law.mean())
    assert MODEL.variance_at(law.mean()) == pytest.approx(law.var())
