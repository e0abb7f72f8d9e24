"""The latent counts of several categories: enumeration, and draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import betainc, gammaln

from dpbayes_cli.core.noisy_observation import GroupedCounts, NoisyGroups
from dpbayes_cli.inference.groups.category_counts import CategoryCounts
from dpbayes_cli.inference.groups.category_law import CategoryLaw
from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.infer_categories import CategoryPrior
from dpbayes_cli.inference.groups.infer_groups import infer_groups
from dpbayes_cli.inference.groups.size_law import log_sizes
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.conftest import often

OBSERVED = np.array([[2, 3, 0], [-1, 5, 1], [4, 1, 6]])
NOISE = DiscreteLaplace(1.0)
MOST = 24
LAWS = [
    CategoryLaw(np.array([0.5, 1.0, 2.0]), 4.0, 1.5),
    CategoryLaw(np.array([30.0, 10.0, 20.0]), 8.0, 0.3),
    CategoryLaw(np.array([0.02, 0.05, 0.01]), 6.0, 5.0),
    CategoryLaw(np.array([1000.0, 500.0, 400.0]), 3.0, 2.0),
    CategoryLaw(np.array([2.0, 1.0, 3.0]), 5.0, 15.0),
    CategoryLaw(np.array([0.5, 0.1, 0.2]), 6.0, 500.0),
]
"""Laws whose kappa is larger and smaller than the shape."""


def enumerate_counts(law: CategoryLaw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the triples of counts, their probability and the noise for each group, and the group's posteriors."""
    counts = np.array(list(itertools.product(range(MOST + 1), repeat=3)))
    n, kappa = counts.sum(axis=1), law.kappa
    logs = (gammaln(law.a + counts) - gammaln(law.a) - gammaln(counts + 1.0)).sum(axis=1)
    logs += (
        gammaln(n + 1.0) + gammaln(kappa) - gammaln(kappa + n) + log_sizes(n, np.array(law.mean), np.array(law.shape))
    )
    joint = np.exp(logs + NOISE.log_pmf(OBSERVED[:, None] - counts).sum(axis=2))
    return counts, joint.sum(axis=1), joint / joint.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("law", often(LAWS, 3), ids=lambda law: f"{law.kappa:g}-{law.shape:g}")
def test_likelihood_moments_and_draws_agree_with_enumeration(law: CategoryLaw) -> None:
    """Means of 800 draws are within 5 standard errors of the truth: a false failure has a probability below 1e-5."""
    groups = CategoryCounts(OBSERVED, component_noise(NOISE, 1))
    counts, evidence, posterior = enumerate_counts(law)
    largest = NOISE.log_pmf(np.maximum(-OBSERVED, 0)).sum()
    assert groups.log_likelihood(law) == pytest.approx(np.log(evidence).sum() - largest, abs=1e-4)
    n = counts.sum(axis=1, keepdims=True)
    first = posterior @ ((law.a + counts) / (law.kappa + n))
    second = posterior @ ((law.a + counts) * (law.a + counts + 1.0) / (law.kappa + n) / (law.kappa + n + 1.0))
    moments = groups.moments(law)[:, :, :3]
    assert np.allclose(moments, [first, second], atol=1e-6)
    assert np.allclose(moments[0].sum(axis=1), 1.0, atol=1e-12)
    rng = np.random.default_rng(1)
    draws = np.array([groups.draw(law, rng) for _ in range(800)])
    error = np.sqrt((second - first**2) / len(draws))
    assert np.abs((draws.mean(axis=0) - first) / error).max() < 5.0


def test_three_groups_of_up_to_six_records_have_the_enumerated_posterior() -> None:
    """The total variation distance is below 1e-4, for hyperparameters on a grid and 26 bins of the first probability.

    Given the hyperparameters, both are the same mixture of Beta laws.
    """
    prior = CategoryPrior(np.ones(3), True, 1.0)
    groups = CategoryCounts(OBSERVED, component_noise(NOISE, 1))
    rest = itertools.product((-2.5, 0.5), (1.0, 1.6), (1.0,))
    points = np.array([(0.0, 0.5, -0.5, *each) for each in rest])
    laws = prior.laws(points)
    enumerated = [enumerate_counts(law) for law in laws]
    log_prior = prior.log_density(points)
    exact = log_prior + [np.log(evidence).sum() for _, evidence, _ in enumerated]
    ours = log_prior + [groups.log_likelihood(law) for law in laws]
    weights = [np.exp(each - np.logaddexp.reduce(each)) for each in (exact, ours)]
    places = np.linspace(0.02, 0.98, 25)
    distances = np.zeros((3, 26))
    for law, (counts, _, posterior), first, second in zip(laws, enumerated, *weights, strict=True):
        below = betainc(law.a[0] + counts[:, 0], law.a[1:].sum() + counts[:, 1:].sum(axis=1), places[:, None])
        bins = np.diff(posterior @ below.T, axis=1, prepend=0.0, append=1.0)
        distances += (first - second) * bins
    assert np.abs(distances).sum(axis=1).max() / 2.0 < 1e-4


@pytest.mark.slow
def test_categories_are_coherent() -> None:
    """Means add up to one, and summaries are those of the draws, to 5 standard errors."""
    rng = np.random.default_rng(2)
    theta = rng.dirichlet([1.0, 2.0, 3.0, 2.0], 40)
    counts = np.array([rng.multinomial(rng.poisson(15.0), row) for row in theta])
    observed = counts + NOISE.simulate(rng, counts.shape)
    posterior = infer_groups(NoisyGroups(GroupedCounts((1.0,) * 4), observed, NOISE), "partial", 500, rng)
    assert np.allclose(posterior.means.sum(axis=1), 1.0)
    draws = posterior.draw(1000, rng)
    assert np.abs((draws.mean(axis=0) - posterior.means) / posterior.sds).max() < 5.0 / 1000**0.5
    assert np.abs(draws.std(axis=0) / posterior.sds - 1.0).max() < 0.15
    levels = (draws[:, :, :, None] < posterior.quantiles).mean(axis=0)
    assert np.abs(levels - [0.05, 0.5, 0.95]).mean(axis=(0, 1)).max() < 0.015


@pytest.mark.slow
def test_summaries_are_averages_over_hyperparameters() -> None:
    """Of three groups, what they have in common is hardly known: it adds much to the standard deviation of each."""
    posterior = infer_groups(
        NoisyGroups(GroupedCounts((1.0,) * 3), OBSERVED, NOISE), "partial", 50, np.random.default_rng(3)
    )
    draws = posterior.draw(400, np.random.default_rng(4))
    assert np.abs(draws.std(axis=0) / posterior.sds - 1.0).mean() < 0.08
