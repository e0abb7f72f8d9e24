"""Groups within larger groups: the density by quadrature, summaries by draws, and calibration.

Each test of uniformity fails without reason with probability 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit, logit
from scipy.stats import beta

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.binary import BinaryPrior
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.grouped_posterior import GroupedPosterior
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.nested import LocationGrid, log_nested_density
from dpbayes_cli.inference.groups.nested_counts import infer_nested_counts
from dpbayes_cli.inference.groups.nested_summary import summarize_nested
from dpbayes_cli.inference.groups.size_law import log_size_prior
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.groups.group_cells import Array, enumerate_groups
from tests.statistical import assert_uniform

NOISE, PRIOR = DiscreteLaplace(1.0), BinaryPrior(1.0, 1.0, True)


class Study:
    """A simulated release of 12 larger groups with 15 groups each, and what it hides."""

    def __init__(self, rng: np.random.Generator, phi: float, nu: float, kappa: float, categories: int = 2) -> None:
        self.phi, self.within = phi, 0.0
        self.between = float(np.sqrt(phi * (1.0 - phi) / (1.0 + nu)))
        self.within = self.between * float(np.sqrt(nu / (1.0 + kappa)))
        self.means = self._beta(rng, np.full(12, phi), nu)
        parents = np.repeat(np.arange(12), 15)
        self.theta = self._beta(rng, self.means[parents], kappa)
        sizes = rng.poisson(rng.gamma(1.5, 20.0 / 1.5, len(parents)))
        counts = rng.binomial(sizes, self.theta)
        columns = [counts, sizes - counts]
        if categories == 3:
            columns[1:] = [half := rng.binomial(sizes - counts, 0.5), sizes - counts - half]
        noise = DiscreteLaplace(2.0)
        observed = np.stack(columns, axis=1) + noise.simulate(rng, (len(parents), categories))
        outcome = GroupedCounts((1.0,) * categories)
        self.observation = NoisyGroups(outcome, observed, noise, parents=parents)

    @staticmethod
    def _beta(rng: np.random.Generator, mean: Array, precision: float) -> Array:
        drawn = rng.beta(np.maximum(mean * precision, 1e-12), np.maximum((1.0 - mean) * precision, 1e-12))
        return np.clip(drawn, 1e-300, 1.0)


def coverage(quantiles: Array, truths: Array) -> float:
    return float(((quantiles[:, 0] <= truths) & (truths <= quantiles[:, 2])).mean())


def larger_coverage(posterior: GroupedPosterior, study: Study) -> float:
    assert posterior.larger is not None
    return coverage(posterior.larger.quantiles[:, 0], study.means)


@pytest.mark.slow
def test_hyperparameters_and_larger_groups_agree_with_quadrature() -> None:
    observed, parents = np.array([[2, 3], [-1, 5], [4, 1], [6, 3]]), np.array([0, 1, 0, 1])
    law, sample = infer_nested_counts(
        observed, parents, (component_noise(NOISE, 1),) * 2, PRIOR, np.random.default_rng(1)
    )
    points = np.array([[-0.4, -2.0, -2.5, 2.0, 0.5], [0.1, -3.0, -1.5, 1.8, 0.2], [-1.0, 0.7, -4.0, 2.2, 1.0]])
    expected = []
    for phi, rho_larger, rho, mean, shape in points:
        nu, share = np.exp(-rho_larger), expit(phi)
        places = beta.ppf((np.arange(400) + 0.5) / 400, share * nu, (1.0 - share) * nu)
        logits = logit(np.clip(places, 1e-12, 1.0 - 1e-12))
        rows = np.column_stack([logits, *(np.full(len(logits), each) for each in (rho, mean, shape))])
        prior = (
            log_expit(logits)
            + log_expit(-logits)
            + log_expit(rho)
            + 3.0 * log_expit(-rho)
            + log_size_prior(mean, shape)
        )
        logs = np.zeros((2, len(logits)))
        for g, s in enumerate(parents):
            logs[s] += enumerate_groups(observed[[g]], NOISE, rows, np.array([]), 30)[0] - prior
        masses, shares = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True), expit(logits)
        weights, fine = sample.location_weights(np.array([phi, rho_larger, rho, mean, shape])), expit(law.grid.fine)
        assert fine @ weights == pytest.approx(masses @ shares, abs=2e-3)
        assert fine**2 @ weights == pytest.approx(masses @ shares**2, abs=2e-3)
        value = np.log(np.exp(logs).mean(axis=1)).sum() + log_size_prior(mean, shape)
        value += log_expit(phi) + log_expit(-phi)
        expected.append(value + sum(log_expit(each) + 3.0 * log_expit(-each) for each in (rho_larger, rho)))
    log_density = log_nested_density(law, points)
    assert np.allclose(log_density - log_density[0], np.array(expected) - expected[0], atol=4e-3)


def test_cells_of_the_grid_have_the_mass_of_the_law() -> None:
    grid = LocationGrid(np.arange(-20, 17), 0.2, np.cumsum(0.2 * 1.2 ** np.arange(30.0)))
    edges = expit(grid.edges[1:-1])
    for a, b in ((0.3, 2.0), (300.0, 900.0)):
        masses = np.exp(grid.log_masses(beta.cdf(edges, a, b), beta.sf(edges, a, b)))
        assert masses.sum() == pytest.approx(1.0, abs=1e-9)
        assert masses @ expit(grid.fine) == pytest.approx(a / (a + b), rel=0.01)


@pytest.mark.slow
def test_summaries_agree_with_joint_draws() -> None:
    """All tolerances are at least five standard errors of 60 joint draws: false-fail rates are below 1e-6."""
    rng = np.random.default_rng(2)
    study = Study(rng, 0.4, 10.0, 60.0)
    kept = study.observation.parents
    assert kept is not None
    few, parents = np.asarray(study.observation.observed)[kept < 4], kept[kept < 4]
    law, sample = infer_nested_counts(few, parents, (component_noise(study.observation.noise, 1),) * 2, PRIOR, rng)
    summary, larger = summarize_nested(law, sample, rng)
    means, theta = law.draw(sample, 60, rng)
    assert np.abs((theta.mean(axis=0) - summary.means) / summary.sds).max() < 0.8
    assert np.abs((theta[:, :, None] <= summary.quantiles).mean(axis=(0, 1)) - [0.05, 0.5, 0.95]).max() < 0.07
    assert np.abs((means.mean(axis=0) - larger.means[:, 0]) / larger.sds[:, 0]).max() < 0.8
    assert np.abs((means[:, :, None] <= larger.quantiles[:, 0]).mean(axis=(0, 1)) - [0.05, 0.5, 0.95]).max() < 0.2
    assert (theta.std(axis=0) / summary.sds).mean() == pytest.approx(1.0, abs=0.15)
    assert (means.std(axis=0) / larger.sds[:, 0]).mean() == pytest.approx(1.0, abs=0.35)


@pytest.mark.slow
def test_three_categories_have_larger_groups_too() -> None:
    """Coverage varies between data sets with what is learned of the spreads, by about 0.07, so four are averaged.

    An average outside the limits then has a probability below 1e-4.
    """
    covered = []
    for seed in (4, 11, 12, 13):
        rng = np.random.default_rng(seed)
        study = Study(rng, 0.4, 20.0, 40.0, categories=3)
        posterior = infer_groups(study.observation, "partial", 100, rng)
        assert posterior.means.shape == (180, 3)
        covered.append(coverage(posterior.quantiles[:, 0], study.theta))
    assert np.mean(covered) > 0.75
    assert larger_coverage(posterior, study) > 0.4
    assert posterior.draws.shape == (100, len(posterior.hyperparameters)) == (100, 10)
    assert posterior.new_group.sum(axis=1) == pytest.approx(1.0)
    draws = posterior.draw(3, rng)
    assert draws.sum(axis=2) == pytest.approx(1.0)
    assert np.abs(draws.mean(axis=(0, 1)) - posterior.means.mean(axis=0)).max() < 0.1


@pytest.mark.slow
def test_hyperparameters_from_their_prior_have_uniform_ranks() -> None:
    rng, ranks = np.random.default_rng(5), list[list[float]]()
    for _ in range(25):
        phi, rho_larger, rho = rng.random(), rng.beta(1.0, 3.0), rng.beta(1.0, 3.0)
        study = Study(rng, phi, 1.0 / rho_larger - 1.0, 1.0 / rho - 1.0)
        draws = infer_groups(study.observation, "partial", 199, rng).draws
        ranks.append([float((draws[:, k] < x).mean()) for k, x in enumerate((phi, study.within, study.between))])
    for each in np.array(ranks).T:
        assert_uniform(each, 1e-6)


@pytest.mark.slow
def test_intervals_cover_and_two_levels_beat_one() -> None:
    """Over 40 studies, the standard error of the coverage is below 0.006 for groups and 0.014 for larger groups."""
    rng = np.random.default_rng(3)
    groups, larger, errors = [], [], []
    for k in range(40):
        study = Study(rng, rng.uniform(0.1, 0.9), 10.0, 40.0)
        posterior = infer_groups(study.observation, "partial", 100, rng)
        groups.append(coverage(posterior.quantiles[:, 0], study.theta))
        larger.append(larger_coverage(posterior, study))
        if k < 8:
            one = infer_groups(
                NoisyGroups(study.observation.outcome, study.observation.observed, study.observation.noise),
                "partial",
                100,
                rng,
            )
            errors.append([((each.means[:, 0] - study.theta) ** 2).mean() for each in (posterior, one)])
    assert 0.87 < np.mean(groups) < 0.93, np.mean(groups)
    assert 0.87 < np.mean(larger) < 0.93, np.mean(larger)
    two_levels, one_level = np.sqrt(np.mean(errors, axis=0))
    assert two_levels < 0.97 * one_level
