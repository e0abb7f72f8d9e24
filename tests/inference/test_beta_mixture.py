"""The exact mixture, compared with quadrature of the likelihood and with full enumeration."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy import special, stats

from dpbayes_cli.base.numeric import log_gamma_ratio, normalize
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.inference.counts.beta_mixture import _rule, beta_mixture
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.conftest import cpu_limit, often
from tests.plugins.staircase import Staircase


def known(
    n: int, scale: float, observed: tuple[int | None, int | None], prior: tuple[float, float] = (1.0, 1.0)
) -> NoisyCounts:
    return NoisyCounts(prior, observed, DiscreteLaplace(scale), RecordCount("known", n))


def behind(law: NoiseLaw) -> NoisyCounts:
    return NoisyCounts((2.0, 1.0), (1200, None), law, RecordCount("known", 3000))


def enumerated(observation: NoisyCounts) -> tuple[np.ndarray, np.ndarray]:
    """Return all counts and their weights, without windows, panels or quadrature rules."""
    (a, b), n = observation.concentration, observation.total.n
    s = np.arange(n + 1)
    terms = log_gamma_ratio(s + 1, a - 1) + log_gamma_ratio(n - s + 1, b - 1)
    for observed, count in zip(observation.observed, (s, n - s), strict=True):
        if observed is not None:
            terms = terms + observation.noise.log_pmf(observed - count)
    return s, normalize(terms)


@pytest.mark.parametrize(
    "observation",
    often(
        [
            known(1000, 100.0, (300, None)), known(1000, 100.0, (1500, None), (0.5, 0.5)),
            known(1000, 2.0, (900, None), (1e6, 1e6)), known(200_000, 2000.0, (1000, None), (0.3, 1.0)),
            known(1_000_000, 200.0, (300_000, None), (2.0, 5.0)),
            known(1_000_000, 1000.0, (200_000, None), (1e5, 1e5)),
            known(1_000_000, 5e4, (-20_000, 999_000), (3.0, 0.2)), known(0, 1.0, (3, None), (2.0, 3.0)),
            behind(Staircase.of(5, Decimal("0.8"))),
            *(behind(RoundedGaussian(scale)) for scale in (0.7, 63.9, 900.0)),
        ],
        2,
    ),
)  # fmt: skip
def test_panels_and_windows_lose_nothing(observation: NoisyCounts) -> None:
    mixture = beta_mixture(observation)
    (a, b), n = observation.concentration, observation.total.n
    s, weights = enumerated(observation)
    assert mixture.mean == pytest.approx(float(weights @ ((a + s) / (a + b + n))), rel=1e-11)
    for probability in (0.001, 0.05, 0.5, 0.95):
        theta = mixture.quantile(probability)
        assert float(weights @ special.betainc(a + s, b + n - s, theta)) == pytest.approx(probability, abs=1e-10)


@pytest.mark.parametrize("exponent", [7, 8, 20])
def test_the_summation_rule_is_exact_for_polynomials_and_positive(exponent: int) -> None:
    size = 1 << exponent
    offsets, weights = _rule(size)
    assert len(set(offsets.tolist())) == len(offsets)
    assert weights.min() > 0
    x = np.arange(size) / (size - 1)
    for degree in range(16):
        assert weights @ (offsets / (size - 1)) ** degree == pytest.approx(float((x**degree).sum()), rel=1e-12)


def test_the_likelihood_in_closed_form_gives_the_same_posterior_at_a_hundred_million() -> None:
    """sum_s Binomial(s; n, theta) r^|y - s| is two tilted binomial tails: an oracle that shares no code."""
    n, scale, y = 10**8, 5000.0, 3 * 10**7
    with cpu_limit(30.0):  # measured 0.1 to 0.5 s
        mixture = beta_mixture(known(n, scale, (y, None)))
        mixture.posterior(4000, np.random.default_rng(1))
    r = np.exp(-1.0 / scale)
    sd = np.sqrt(sum(mixture.variances))
    theta = mixture.mean + sd * np.linspace(-14, 14, 40_001)
    log_down, log_up = np.log1p(theta * (1 / r - 1)), np.log1p(theta * (r - 1))
    lower = stats.binom.logcdf(y, n, theta / r / np.exp(log_down)) + n * log_down + y * np.log(r)
    upper = stats.binom.logsf(y, n, theta * r / np.exp(log_up)) + n * log_up - y * np.log(r)
    weight = normalize(np.logaddexp(lower, upper))
    assert mixture.mean == pytest.approx(float(weight @ theta), rel=1e-9)
    assert sd == pytest.approx(float(np.sqrt(weight @ (theta - mixture.mean) ** 2)), rel=1e-6)


def test_draws_and_density_follow_the_mixture() -> None:
    mixture = beta_mixture(known(30, 6.0, (12, None)))
    slope = (mixture.cdf(0.4 + 1e-5) - mixture.cdf(0.4 - 1e-5)) / 2e-5
    assert mixture.pdf(np.array([0.4]))[0] == pytest.approx(slope, rel=1e-6)
    draws = mixture.draw(20_000, np.random.default_rng(5))
    assert stats.kstest([mixture.cdf(theta) for theta in draws[:3000]], "uniform").pvalue > 1e-9
    assert draws.mean() == pytest.approx(mixture.mean, abs=6 * draws.std() / np.sqrt(len(draws)))


def test_both_categories_are_summarized_consistently() -> None:
    mixture = beta_mixture(known(50, 3.0, (20, None), (2.0, 5.0)))
    posterior = mixture.posterior(100, np.random.default_rng(0))
    success, failure = posterior.marginals
    assert success.mean + failure.mean == pytest.approx(1.0)
    assert failure.quantiles["q05"] == pytest.approx(1.0 - success.quantiles["q95"])
    assert success.sd**2 == pytest.approx(success.sd_data**2 + success.sd_noise**2)
    np.testing.assert_allclose(posterior.draws.sum(axis=1), 1.0)
