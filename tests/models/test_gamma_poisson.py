"""Gamma-Poisson: its posterior without noise, and the moments of a count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.models.gamma_poisson import GammaPoisson
from tests.models.number_laws import LEVELS, quantiles_without_noise
from tests.plans import model_of

MODEL = GammaPoisson(200, 2.0, 0.5)


def test_without_noise_the_posterior_is_the_conjugate_one() -> None:
    exact = stats.gamma(2.0 + 70, scale=1 / (0.5 + 30)).ppf(LEVELS)
    np.testing.assert_allclose(quantiles_without_noise(MODEL, 70, 30), exact, rtol=1e-4)


def test_moments_and_the_default_prior() -> None:
    assert (MODEL.predictive([2.5]), MODEL.variance_at(2.5)) == ({"mean": 2.5}, stats.poisson(2.5).var())
    default = model_of("gamma-poisson", {"upper": 8})
    assert default.shape / default.rate == pytest.approx(8.0), "the prior mean is the upper bound"
