"""The samplers of Bernstein and Sheldon have the right posterior where they mix and their approximations hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.core.noisy_observation import NoisyCounts
from dpbayes_cli.core.record_law import ScalarLaw
from dpbayes_cli.experiments import peers
from dpbayes_cli.inference.counts.beta_mixture import beta_mixture
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.sums.one_parameter import grid_density
from dpbayes_cli.models.gamma_exponential import GammaExponential
from tests.benchmarks.test_paper_sampler import binomial_observation
from tests.inference.sum_cells import simulate


def thinned_distance(draws: Floats, probabilities: Callable[[Floats], Floats]) -> float:
    """Return the Kolmogorov-Smirnov distance of a chain's draws from a law."""
    return ks_distance(np.sort(probabilities(draws)))


def test_the_papers_binomial_sampler_is_right_where_it_mixes() -> None:
    """KS within 0.02 at epsilon 1 and n = 100; an effective sample of 8,000 exceeds that with probability below 1e-5.

    The seed is fixed. The sampler takes a count for normal, which is seen at n = 10 and not at 100.
    """
    observation = binomial_observation(1.0, 100)
    y = float(observation.observed[0] or 0) - 40.0
    mixture = beta_mixture(NoisyCounts((10.0, 10.0), (int(y), None), observation.noise, observation.total))
    draws = peers.bernstein_sheldon_binomial(y, 100, 10.0, 10.0, 1.0, 10_000, np.random.default_rng(1))
    assert thinned_distance(draws, lambda theta: np.array([mixture.cdf(float(t)) for t in theta])) < 0.02


@pytest.mark.slow
def test_the_papers_multinomial_sampler_is_right_where_noise_is_small() -> None:
    """With next to no noise the posterior is the conjugate one; bound as above."""
    y = np.array([20.0, 50.0, 30.0])
    draws = peers.bernstein_sheldon_multinomial(y, 100, np.full(3, 5.0), 0.02, 10_000, np.random.default_rng(2))
    for k in range(3):
        shape = 5.0 + y[k]
        assert thinned_distance(draws[:, k], lambda t, a=shape: stats.beta.cdf(t, a, 115.0 - a)) < 0.02  # type: ignore[misc]


def test_the_papers_exponential_sampler_is_right_where_it_mixes() -> None:
    """Against the exact likelihood of clamped times; bound as above."""
    model = GammaExponential(1.0, 8.0, 2.0)
    cell = simulate(model, True, 1000, "1", 1)
    law = cell.observation.law
    assert isinstance(law, ScalarLaw)
    exact = grid_density(cell.observation, law, cell.observed)
    y = float(cell.observed[0, 0]) / law.span
    draws = peers.bernstein_sheldon_exponential(y, 1000, 8.0, 2.0, 1.0, 1.0, "clamp", 10_000, np.random.default_rng(3))
    assert thinned_distance(draws, lambda theta: exact.cdf(np.log(theta)[None])[0]) < 0.02
