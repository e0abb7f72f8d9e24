"""Groups that belong to parents: the likelihood by quadrature, summaries by draws, and calibration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import beta

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.nested import ParentGrid, infer_nested
from dpbayes_cli.inference.groups.size_law import log_size_prior
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.groups.group_cells import Array, enumerate_groups
from tests.statistical import assert_uniform

NOISE = DiscreteLaplace(1.0)


def simulate_nested(
    n_parents: int, per_parent: int, rng: np.random.Generator, scale: float = 2.0
) -> tuple[NoisyGroups, Array, Array, float]:
    """Return a release, the groups' probabilities, the parents' means, and phi."""
    phi, nu, kappa = rng.random(), 20.0, 40.0
    means = rng.beta(phi * nu, (1.0 - phi) * nu, n_parents)
    parents = np.repeat(np.arange(n_parents), per_parent)
    theta = rng.beta(np.maximum(means[parents] * kappa, 1e-9), np.maximum((1.0 - means[parents]) * kappa, 1e-9))
    sizes = rng.poisson(rng.gamma(1.5, 20.0 / 1.5, len(parents)))
    successes = rng.binomial(sizes, theta)
    noise = DiscreteLaplace(scale)
    observed = np.stack([successes, sizes - successes], axis=1) + noise.simulate(rng, (len(parents), 2))
    return NoisyGroups(GroupedCounts((1.0, 1.0)), observed, noise, parents), theta, means, phi


def inside(posterior: GroupedPosterior, theta: Array) -> float:
    return float(((posterior.quantiles[:, 0, 0] <= theta) & (theta <= posterior.quantiles[:, 0, 2])).mean())


def test_cells_of_the_grid_have_the_mass_of_the_beta_law() -> None:
    grid = ParentGrid(np.linspace(-5.0, 4.0, 31))
    for a, b in ((0.3, 2.0), (300.0, 900.0)):
        masses = np.exp(grid.log_masses(a, b))
        assert masses.sum() == pytest.approx(1.0, abs=1e-9)
        assert masses @ expit(grid.fine) == pytest.approx(a / (a + b), rel=0.02)


def test_the_density_of_hyperparameters_agrees_with_quadrature() -> None:
    observed = np.array([[2, 3], [-1, 5], [4, 1], [6, 3]])
    parents = np.array([0, 1, 0, 1])
    groups = infer_nested(observed, parents, (component_noise(NOISE, 1),) * 2, (1.0, 1.0), np.random.default_rng(1))
    points = np.array([[-0.4, -2.0, -2.5, 2.0, 0.5], [0.1, -3.0, -1.5, 1.8, 0.2], [-1.0, -2.5, -4.0, 2.2, 1.0]])
    expected = []
    logits = np.linspace(-9.0, 9.0, 601)
    for phi, rho_parent, rho, mean, shape in points:
        rows = np.column_stack([logits, *(np.full(len(logits), each) for each in (rho, mean, shape))])
        likelihood = np.ones((2, len(logits)))
        prior = log_expit(logits) + log_expit(-logits) + log_expit(rho) + log_expit(-rho) + log_size_prior(mean, shape)
        for g, s in enumerate(parents):
            likelihood[s] *= np.exp(enumerate_groups(observed[[g]], NOISE, rows, np.array([]), 30)[0] - prior)
        nu = np.exp(-rho_parent)
        density = beta.pdf(expit(logits), expit(phi) * nu, expit(-phi) * nu) * expit(logits) * expit(-logits)
        value = np.log((likelihood * density).sum(axis=1) * (logits[1] - logits[0])).sum()
        value += sum(log_expit(each) + log_expit(-each) for each in (phi, rho_parent, rho)) + log_size_prior(
            mean, shape
        )
        expected.append(value)
    found = groups.log_density(points)
    assert np.allclose(found - found[0], np.array(expected) - expected[0], atol=2e-3)


def test_summaries_of_nested_groups_agree_with_draws() -> None:
    rng = np.random.default_rng(2)
    observation, theta, means, _ = simulate_nested(8, 8, rng)
    posterior = infer_groups(observation, "partial", 300, rng)
    draws = posterior.draw(150, rng)[:, :, 0]
    assert np.abs((draws.mean(axis=0) - posterior.means[:, 0]) / posterior.sds[:, 0]).max() < 0.4
    levels = (draws[:, :, None] <= posterior.quantiles[:, 0]).mean(axis=(0, 1))
    assert np.abs(levels - [0.05, 0.5, 0.95]).max() < 0.05
    assert posterior.parents is not None
    assert np.abs((posterior.parents.means[:, 0] - means) / posterior.parents.sds[:, 0]).max() < 5.0
    assert (np.diff(posterior.parents.quantiles, axis=2) > 0).all()
    assert posterior.draws.shape == (300, len(posterior.hyperparameters))
    assert posterior.new_group.shape == (300, 1)
    assert inside(posterior, theta) > 0.7


@pytest.mark.slow
def test_nested_groups_are_calibrated() -> None:
    """Coverage of groups and parents; ranks of phi."""
    rng, ranks, groups, parents = np.random.default_rng(3), [], [], []
    for _ in range(40):
        observation, theta, means, phi = simulate_nested(12, 6, rng)
        posterior = infer_groups(observation, "partial", 199, rng)
        ranks.append(float((posterior.draws[:, 0] < phi).mean()))
        groups.append(inside(posterior, theta))
        assert posterior.parents is not None
        low, _, high = posterior.parents.quantiles[:, 0].T
        parents.append(float(((low <= means) & (means <= high)).mean()))
    assert_uniform(ranks, 1e-6)
    assert 0.86 < np.mean(groups) < 0.95
    assert 0.84 < np.mean(parents) < 0.96
