"""Beta-geometric: its posterior without noise, and the moments of a number of failures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.models.beta_geometric import BetaGeometric
from tests.models.number_laws import LEVELS, quantiles_without_noise

MODEL = BetaGeometric(200, 2.0, 3.0)


def test_without_noise_the_posterior_is_the_conjugate_one() -> None:
    exact = stats.beta(2.0 + 30, 3.0 + 70).ppf(LEVELS)
    np.testing.assert_allclose(quantiles_without_noise(MODEL, 70, 30), exact, rtol=1e-4)


def test_the_moments_are_those_of_failures_before_a_success() -> None:
    law = stats.geom(0.3, loc=-1)
    assert MODEL.predictive([0.3])["mean"] == pytest.approx(law.mean())
    assert MODEL.variance_at(law.mean()) == pytest.approx(law.var())
    assert MODEL.predictive([0.0])["mean"] < float("inf")
