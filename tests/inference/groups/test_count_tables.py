"""The joint law of latent counts, its interpolation, and its sums over the noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, betabinom, nbinom

from dpbayes_cli.inference.groups.component_noise import component_noise
from dpbayes_cli.inference.groups.count_axis import interpolation, spaced_counts
from dpbayes_cli.inference.groups.count_tables import CountGrid, CountLaw, beta_cdf_tables
from dpbayes_cli.inference.groups.group_blocks import group_blocks
from dpbayes_cli.inference.groups.noisy_pairs import noisy_pairs
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw

LAWS = ((4.0, 16.0, 20.0, 1.5), (0.3, 0.5, 8.0, 0.4), (40.0, 90.0, 60.0, 40.0))
NOISES: tuple[NoiseLaw, ...] = (
    DiscreteLaplace(0.7),
    DiscreteLaplace(2.0),
    DiscreteLaplace(20.0),
    DiscreteGaussian(3.0),
)


def law_of(a: float, b: float, mean: float, shape: float) -> CountLaw:
    return CountLaw(*(np.array([value]) for value in (a, b, mean, shape)))


@pytest.mark.parametrize("values", LAWS)
def test_tables_are_the_product_of_size_law_and_beta_binomial(values: tuple[float, float, float, float]) -> None:
    a, b, mean, shape = values
    counts = np.arange(30)
    tables, logs = CountGrid(counts, counts).tables(law_of(*values))
    n = counts[:, None] + counts
    exact = nbinom.pmf(n, shape, shape / (shape + mean)) * betabinom.pmf(counts[:, None], n, a, b)
    assert np.allclose(tables[0] * np.exp(logs[0]), exact, rtol=1e-9, atol=1e-300)


def test_beta_cdf_tables_are_beta_cdfs() -> None:
    s, f = np.array([0, 1, 2, 9, 40, 300]), np.array([0, 3, 17, 500])
    for theta in (1e-4, 0.2, 0.97):
        table = beta_cdf_tables(np.array([theta]), 0.3, 1.7, s, f)[0]
        assert np.allclose(table, beta.cdf(theta, 0.3 + s[:, None], 1.7 + f), atol=1e-10)


def test_narrow_normal_densities_are_interpolated() -> None:
    nodes = spaced_counts(0, 5000, 0.16)
    basis, counts = interpolation(nodes), np.arange(int(nodes[-1]) + 1)
    for center in (0, 3, 17, 100, 1003, 4000):

        def density(s: np.ndarray, center: int = center) -> np.ndarray:
            return np.exp(-((s - center) ** 2) / (2.0 * max(center, 1)))

        assert np.abs(basis @ density(nodes) - density(counts)).max() < 5e-5


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("values", LAWS)
def test_sums_over_the_noise_agree_with_full_sums(noise: NoiseLaw, values: tuple[float, float, float, float]) -> None:
    """Each row of weights is divided by its largest probability."""
    rng = np.random.default_rng(3)
    a, b, mean, shape = values
    n = rng.poisson(rng.gamma(shape, mean / shape, 50))
    s = rng.binomial(n, rng.beta(a, b, 50))
    observed = np.stack([s, n - s], axis=1) + noise.simulate(rng, (50, 2))
    pairs = noisy_pairs(observed, (component_noise(noise, 1),) * 2)
    law = law_of(*values)
    tables, logs = pairs.grid.tables(law)
    counts = [np.arange(axis.nodes[-1] + 1) for axis in (pairs.successes, pairs.failures)]
    full, full_logs = CountGrid(*counts).tables(law)
    kernels = [np.exp(noise.log_pmf(observed[:, [i]] - counts[i])) for i in range(2)]
    exact = np.einsum("us,sf,uf->u", kernels[0], full[0], kernels[1]) * np.exp(full_logs - logs)
    sums = pairs.sums(tables)[0][pairs.pair_of]
    largest = [kernel.max(axis=1) for kernel in kernels]
    assert np.allclose(sums, exact / largest[0] / largest[1], rtol=1e-4)


def test_blocks_of_large_groups_have_the_likelihood_of_one_table() -> None:
    rng = np.random.default_rng(4)
    n = rng.poisson(rng.gamma(2.0, 1000.0, 30))
    s = rng.binomial(n, rng.beta(4.0, 6.0, 30))
    observed = np.stack([s, n - s], axis=1) + DiscreteLaplace(5.0).simulate(rng, (30, 2))
    noises = (component_noise(DiscreteLaplace(5.0), 1),) * 2
    law = CountLaw(np.array([4.0, 2.0]), np.array([6.0, 5.0]), np.array([2000.0, 1500.0]), np.array([2.0, 1.0]))
    blocks = group_blocks(observed, noises)
    assert len(blocks.pairs) > 2
    assert np.allclose(blocks.log_likelihood(law), noisy_pairs(observed, noises).log_likelihood(law), atol=1e-3)
    by_pair = []
    for members, pairs in zip(blocks.members, blocks.pairs, strict=True):
        by_pair.append(observed[members[np.unique(pairs.pair_of, return_index=True)[1]]].astype(np.float64))
    assert (blocks.gather(by_pair) == observed).all()


def test_the_noise_of_a_sum_is_a_convolution() -> None:
    law = DiscreteLaplace(2.0)
    noise = component_noise(law, 3)
    z = np.arange(-400, 401)
    mass = np.exp(law.log_pmf(z))
    exact = np.convolve(np.convolve(mass, mass), mass)[800:1601]
    assert np.allclose(noise.log_pmf(z[380:421]), np.log(exact)[380:421], atol=1e-9)
    far = noise.log_pmf(np.array([-400, 120]))
    assert np.allclose(far, np.log(exact)[[0, 520]], rtol=0.05)
    assert noise.variance == pytest.approx(3 * law.variance)
    assert noise.log_pmf(np.array([0]))[0] - noise.log_pmf(np.array([noise.reach]))[0] >= 20.0


@pytest.mark.parametrize("scale", [0.01, 0.02, 0.05])
def test_the_noise_of_a_sum_may_be_tiny(scale: float) -> None:
    noise = component_noise(DiscreteLaplace(scale), 3)
    none, one, two = noise.log_pmf(np.array([0, 1, 2]))
    assert none == pytest.approx(0.0, abs=1e-6)
    assert two < one < -15.0
    assert noise.reach >= 0
