"""Normal mean: its posterior without noise under either prior, and priors that are not both."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.models.normal_mean import STEPS
from tests.conftest import often
from tests.models.number_laws import LEVELS, quantiles_without_noise
from tests.plans import model_of

DOMAIN = {"lower": -32.0, "upper": 32.0, "variance": 4.0}


@pytest.mark.parametrize(
    ("prior", "precision"), often([({"mean": 1.0, "variance": 0.5}, 2.0), ({}, 0.0)], 2, several=True)
)
def test_without_noise_the_posterior_is_the_conjugate_one(prior: dict[str, float], precision: float) -> None:
    """The default prior is uniform, and so wide here that its ends are not seen."""
    total = precision + 30 / 4.0
    exact = stats.norm((precision * 1.0 + 45.0 / 4.0) / total, total**-0.5).ppf(LEVELS)
    sum_code = (45 + 30 * 32) * STEPS // 64
    np.testing.assert_allclose(quantiles_without_noise(model_of("normal-mean", DOMAIN, prior), sum_code, 30), exact,
                               rtol=1e-4)  # fmt: skip


def test_a_uniform_and_a_normal_prior_are_not_stated_together() -> None:
    with pytest.raises(msgspec.ValidationError, match="but not both"):
        model_of("normal-mean", DOMAIN, {"margin": 0.1, "mean": 0.0})
