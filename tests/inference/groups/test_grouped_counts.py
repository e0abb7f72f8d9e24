"""Posteriors of groups from noisy counts: enumeration, special cases, and what the summaries promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit

from dpbayes_cli.base.numeric import normalize
from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.binary import BinaryPrior, infer_binary
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.count_tables import beta_cdf_tables
from dpbayes_cli.inference.groups.hyperparameters import find_mode, sample_density
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.noisy_pairs import noisy_pairs
from dpbayes_cli.inference.groups.pair_draws import draw_probabilities
from dpbayes_cli.inference.groups.pair_summary import summarize_pairs
from dpbayes_cli.inference.groups.rate_cells import distribution_functions
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.groups.group_cells import enumerate_groups, simulate_groups
from tests.statistical import assert_uniform

OBSERVED = np.array([[2, 3], [-1, 5], [4, 1]])
THRESHOLDS = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
NOISES: tuple[NoiseLaw, ...] = (DiscreteLaplace(1.0), DiscreteGaussian(1.5))


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_groups_given_hyperparameters_agree_with_enumeration(noise: NoiseLaw) -> None:
    """Distribution functions to 1e-6."""
    points = np.array([[0.3, -2.0, 1.5, 0.7], [-1.5, 1.0, 1.0, -1.0], [0.0, -5.0, 1.2, 3.0]])
    _, means, sizes, cdfs = enumerate_groups(OBSERVED, noise, points, THRESHOLDS, 60)
    pairs = noisy_pairs(OBSERVED, (component_noise(noise, 1),) * 2)
    prior = BinaryPrior(1.0, 1.0, True)
    s, f = pairs.successes.nodes, pairs.failures.nodes
    for i, point in enumerate(points):
        law = prior.law(point[None, :])
        table, _ = pairs.grid.tables(law)
        below = beta_cdf_tables(THRESHOLDS, float(law.a[0]), float(law.b[0]), s, f)
        cdf = (pairs.sums(below * table) / pairs.sums(table))[:, pairs.pair_of].T
        assert np.abs(cdf - cdfs[i]).max() < 1e-6
        summary = summarize_pairs(pairs, law, expit(point[:1]))
        assert np.allclose(summary.means[pairs.pair_of], means[i], atol=1e-6)
        assert np.allclose(summary.sizes[pairs.pair_of, 0], sizes[i], rtol=1e-5)
        assert summary.monte_carlo < 1e-6


def test_three_groups_of_up_to_six_records_have_the_enumerated_posterior() -> None:
    """The total variation distance is below 1e-4, jointly for hyperparameters on a grid and 26 bins of theta."""
    noise, thresholds = NOISES[0], np.linspace(0.02, 0.98, 25)
    axes = [-1.5, 1.0], [-3.0, 0.5], [0.5, 2.0], [-0.5, 1.0]
    points = np.array(list(itertools.product(*axes)))
    logs, _, _, cdfs = enumerate_groups(OBSERVED, noise, points, thresholds, 40)
    pairs, prior = noisy_pairs(OBSERVED, (component_noise(noise, 1),) * 2), BinaryPrior(1.0, 1.0, True)
    law = prior.law(points)
    s, f = pairs.successes.nodes, pairs.failures.nodes
    conditional = []
    for i in range(len(points)):
        table, _ = pairs.grid.tables(law.part(slice(i, i + 1)))
        below = beta_cdf_tables(thresholds, float(law.a[i]), float(law.b[i]), s, f)
        conditional.append((pairs.sums(below * table) / pairs.sums(table))[:, pairs.pair_of].T)
    weights = [normalize(logs), normalize(prior.log_density(points) + pairs.log_likelihood(law))]
    exact, ours = (
        w[:, None, None] * np.diff(np.array(each), axis=2, prepend=0.0, append=1.0)
        for w, each in zip(weights, (cdfs, conditional), strict=True)
    )
    assert (np.abs(exact - ours).sum(axis=(0, 2)) / 2.0).max() < 1e-4
    reported, _ = distribution_functions(pairs, law, logit(thresholds), expit(points[:, 0]))
    assert np.abs(reported[:, pairs.pair_of].T - np.mean(cdfs, axis=0)).max() < 4e-3


@pytest.mark.parametrize("may_be_empty", [True, False])
def test_distribution_functions_of_small_groups_are_those_of_tables(may_be_empty: bool) -> None:
    pairs = noisy_pairs(OBSERVED, (component_noise(NOISES[0], 1),) * 2, may_be_empty=may_be_empty)
    law = BinaryPrior(1.0, 1.0, True).law(np.array([[0.3, 1.0, 0.1, 0.7]]))
    below = beta_cdf_tables(THRESHOLDS, float(law.a[0]), float(law.b[0]), pairs.successes.nodes, pairs.failures.nodes)
    table, _ = pairs.grid.tables(law)
    cdf, above = distribution_functions(pairs, law, logit(THRESHOLDS), THRESHOLDS[3:4])
    np.testing.assert_allclose(cdf, pairs.sums(below * table) / pairs.sums(table), atol=4e-3)
    np.testing.assert_allclose(above, 1.0 - cdf[3], atol=1e-6)


@pytest.mark.slow
def test_hyperparameters_and_groups_agree_with_enumeration() -> None:
    """Three groups: all weights are computed by enumeration, for the points that the sampler chose."""
    rng, noise = np.random.default_rng(5), NOISES[0]
    groups = infer_binary(OBSERVED, (component_noise(noise, 1),) * 2, BinaryPrior(1.0, 1.0, True), rng)
    points = groups.hyperparameters.points
    logs, means, _, cdfs = enumerate_groups(OBSERVED, noise, points[::10], THRESHOLDS, 40)
    law = groups.prior.law(points[::10])
    computed = groups.prior.log_density(points[::10]) + groups.blocks.log_likelihood(law)
    weights = groups.hyperparameters.weights[::10]
    is_exact = (weights > 1e-6) & (points[::10, 3] < 8.0)  # larger log shapes count as 8
    assert np.ptp((computed - logs)[is_exact]) < 1e-4
    summary = groups.summarize(rng)
    mean = weights @ means / weights.sum()
    assert np.abs(summary.means - mean).max() < 0.15 * summary.sds.min()
    assert summary.monte_carlo < 0.06
    cdf = np.tensordot(weights, cdfs, 1) / weights.sum()
    for g in range(len(OBSERVED)):
        levels = np.interp(logit(summary.quantiles[g]), logit(THRESHOLDS), cdf[g])
        assert np.abs(levels - [0.05, 0.5, 0.95])[1] < 0.08


def test_noise_is_not_taken_for_differences_between_groups() -> None:
    """The rates hardly differ, with a standard deviation of .05; that of noisy shares is .2."""
    simulated = simulate_groups(200, 30.0, 4.0, np.random.default_rng(16), phi=np.array([0.3, 0.7]), kappa=80.0)
    low, high = np.quantile(
        infer_groups(simulated.observation, "partial", 500, np.random.default_rng(1)).draws[:, 1], [0.001, 0.999]
    )
    assert low < 0.0509 < high < 0.13


@pytest.mark.slow
def test_summaries_agree_with_draws() -> None:
    rng = np.random.default_rng(6)
    simulated = simulate_groups(40, 20.0, 2.0, rng, phi=np.array([0.2, 0.8]), kappa=20.0)
    posterior = infer_groups(simulated.observation, "partial", 500, rng)
    draws = posterior.draw(1500, rng)
    error = draws.std(axis=0) / np.sqrt(1500)
    assert np.abs((draws.mean(axis=0) - posterior.means) / error).max() < 6.0
    assert np.allclose(draws.std(axis=0), posterior.sds, rtol=0.2)
    below = (draws[:, :, :, None] <= posterior.quantiles).mean(axis=0)
    assert np.abs(below - [0.05, 0.5, 0.95]).max() < 0.06
    assert np.abs((below - [0.05, 0.5, 0.95]).mean(axis=(0, 1))).max() < 0.01
    phi = posterior.draws[:, 0]
    assert abs(posterior.new_group.mean() - phi.mean()) < 0.05
    assert posterior.draws.shape == (500, 3)
    assert ((posterior.above > 0) & (posterior.above < 1)).all()


def test_reported_quantiles_are_those_of_draws_if_little_is_known_of_the_hyperparameters() -> None:
    """Averaged over very different hyperparameters, the posterior is no Beta law: most of its mass may be near zero."""
    rng = np.random.default_rng(14)
    observed = np.array([[3, 9], [-14, 2], [20, 40], [-5, -6], [1, 30]] * 3)
    pairs = noisy_pairs(observed, (component_noise(DiscreteLaplace(10.0), 1),) * 2)
    points = np.column_stack(
        [rng.normal(-2.5, 1.5, 512), rng.logistic(0.0, 1.0, 512), rng.normal([2.0, 0.5], 0.5, (512, 2))]
    )
    law = BinaryPrior(1.0, 1.0, True).law(points)
    quantiles = summarize_pairs(pairs, law, expit(points[:, 0])).quantiles[pairs.pair_of]
    draws = np.stack([draw_probabilities(pairs, law.part(slice(i, i + 1)), rng) for i in range(512)])
    below = (draws[:, :, None] <= quantiles).reshape(512, 3, 5, 3).mean(axis=(0, 1))
    assert np.abs(below - [0.05, 0.5, 0.95]).max() < 0.04  # as 1,536 draws given 512 hyperparameters tell


def test_draws_given_hyperparameters_follow_the_exact_law() -> None:
    noise, rng = NOISES[0], np.random.default_rng(7)
    pairs = noisy_pairs(OBSERVED, (component_noise(noise, 1),) * 2)
    law = BinaryPrior(1.0, 1.0, True).law(np.array([[0.3, -2.0, 1.5, 0.7]]))
    draws = np.stack([draw_probabilities(pairs, law, rng) for _ in range(500)])
    grid = np.linspace(0.001, 0.999, 120)
    _, _, _, cdfs = enumerate_groups(OBSERVED, noise, np.array([[0.3, -2.0, 1.5, 0.7]]), grid, 60)
    for g in range(len(OBSERVED)):
        assert_uniform(np.interp(draws[:, g], grid, cdfs[0, g]))


def test_without_pooling_each_group_has_the_stated_prior() -> None:
    """Without noise, the posterior is the conjugate one."""
    rng = np.random.default_rng(8)
    simulated = simulate_groups(100, 20.0, 0.02, rng, kappa=4.0)
    posterior = infer_groups(simulated.observation, "none", 300, rng)
    counts = simulated.observation.observed
    mean = (1.0 + counts[:, 0]) / (2.0 + counts.sum(axis=1))
    assert np.allclose(posterior.means[:, 0], mean, atol=1e-6)
    assert np.allclose(posterior.sds[:, 0] ** 2, mean * (1 - mean) / (3.0 + counts.sum(axis=1)), rtol=1e-4)
    assert np.allclose(posterior.sizes[:, 0], counts.sum(axis=1), atol=1e-3)
    assert posterior.draws[:, 0].mean() == pytest.approx(float(mean.mean()), abs=0.02)
    assert posterior.new_group.std() == pytest.approx(12**-0.5, rel=0.1)


@pytest.mark.parametrize("observed", [[[0, 0]], [[-3, -4], [-5, 0]], [[40, 0], [0, 0]], [[0, 0]] * 50])
@pytest.mark.parametrize("pooling", ["partial", "none"])
def test_extreme_observations_have_finite_posteriors(observed: list[list[int]], pooling: str) -> None:
    rng = np.random.default_rng(9)
    observation = NoisyGroups(GroupedCounts((1.0, 1.0)), np.array(observed), DiscreteLaplace(1.0))
    posterior = infer_groups(observation, "partial" if pooling == "partial" else "none", 100, rng)
    fields = (posterior.means, posterior.sds, posterior.quantiles, posterior.sizes, posterior.above, posterior.draws)
    assert all(np.isfinite(each).all() for each in (*fields, posterior.new_group, posterior.draw(3, rng)))
    assert (np.diff(posterior.quantiles, axis=2) >= 0).all()
    assert (posterior.sds > 0).all()


@pytest.mark.slow
def test_categories_have_calibrated_margins() -> None:
    rng = np.random.default_rng(10)
    simulated = simulate_groups(500, 30.0, 2.0, rng, n_categories=3, phi=np.array([0.2, 0.3, 0.5]), kappa=15.0)
    posterior = infer_groups(simulated.observation, "partial", 200, rng)
    inside = (posterior.quantiles[:, :, 0] <= simulated.theta) & (simulated.theta <= posterior.quantiles[:, :, 2])
    assert 0.85 < inside.mean() < 0.95
    assert np.allclose(posterior.means.sum(axis=1), 1.0)
    assert posterior.hyperparameters == ("mean 0", "mean 1", "mean 2", "sd 0", "sd 1", "sd 2", "records")
    assert np.abs(posterior.draws.mean(axis=0)[:3] - [0.2, 0.3, 0.5]).max() < 0.05
    assert np.allclose(posterior.draw(5, rng).sum(axis=2), 1.0)
    assert np.allclose(posterior.new_group.sum(axis=1), 1.0)


def test_weighted_draws_have_the_moments_of_the_density() -> None:
    rng = np.random.default_rng(11)
    sample = sample_density(lambda x: -((x[:, 0] - 1.0) ** 2) * 8.0 - np.abs(x[:, 1]), np.zeros((1, 2)), 256, 300, rng)
    assert sample.ess >= 300
    assert np.allclose(sample.weights @ sample.points, [1.0, 0.0], atol=0.1)
    assert sample.weights @ sample.points[:, 1] ** 2 == pytest.approx(2.0, rel=0.15)
    assert sample.resample(7, rng).shape == sample.thin(7, rng).shape == (7, 2)


def test_a_mode_at_the_bound_of_a_parameter_is_no_failure() -> None:
    """The density is exponential above the bound 0; 8,000 points have errors of about .01."""
    sample = sample_density(
        lambda x: np.where(x[:, 0] >= 0.0, -3.0 * x[:, 0] - 0.5 * x[:, 1] ** 2, -1e300),
        np.zeros((1, 2)),
        4000,
        300,
        np.random.default_rng(11),
    )
    np.testing.assert_allclose(sample.weights @ sample.points, [1.0 / 3.0, 0.0], atol=0.04)


def test_a_mode_beside_the_bound_of_a_parameter_is_found() -> None:
    """The first step from the start leads beyond the bound 0."""
    start = np.array([[0.05]])
    mode, precision = find_mode(lambda x: np.where(x[:, 0] >= 0.0, -2.0 * (x[:, 0] - 3.0) ** 2, -1e300), start)
    assert mode[0] == pytest.approx(3.0, abs=0.05)
    assert precision[0, 0] == pytest.approx(4.0)
