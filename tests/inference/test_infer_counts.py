"""Exact draws of latent counts (two-count rejection, convolution) against brute force, and the chain against both."""

from __future__ import annotations

import itertools
from math import lgamma

import numpy as np
import pytest

from dpbayes_cli.base.numeric import log_gamma_ratio
from dpbayes_cli.core.noisy_observation import NoisyCounts, RecordCount
from dpbayes_cli.inference.counts import independent_draws
from dpbayes_cli.inference.counts.independent_draws import affordable_draws, draw_convolution, draw_two_counts
from dpbayes_cli.inference.counts.infer_counts import infer_counts
from dpbayes_cli.inference.posterior import Effort
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.conftest import often
from tests.statistical import assert_follows, assert_means

DRAWS = 60_000


def log_weight(counts: tuple[int, ...], observation: NoisyCounts) -> float:
    """Return log p(counts, observed) up to a constant, term by term from the definition."""
    m, concentration = sum(counts), observation.concentration
    value = lgamma(m + 1) - lgamma(sum(concentration) + m)
    for count, prior, observed in zip(counts, concentration, observation.observed, strict=True):
        value += lgamma(prior + count) - lgamma(count + 1)
        if observed is not None:
            value += float(observation.noise.log_pmf(np.array([observed - count]))[0])
    return value


def enumerate_posterior(observation: NoisyCounts, largest: int) -> dict[tuple[int, ...], float]:
    """Return the exact posterior of the counts by enumerating all of them, each at most ``largest``."""
    n = observation.total.n
    kept = []
    for counts in itertools.product(range(largest + 1), repeat=len(observation.concentration)):
        m = sum(counts)
        if (observation.total.kind == "known" and m != n) or (observation.total.kind == "at-most" and m > n):
            continue
        kept.append((counts, log_weight(counts, observation)))
    top = max(value for _, value in kept)
    total = sum(np.exp(value - top) for _, value in kept)
    return {counts: float(np.exp(value - top) / total) for counts, value in kept}


def mean_theta(posterior: dict[tuple[int, ...], float], observation: NoisyCounts) -> np.ndarray:
    """Return the posterior mean of theta from the posterior of the counts."""
    prior = np.array(observation.concentration)
    means = [p * (prior + counts) / (prior.sum() + sum(counts)) for counts, p in posterior.items()]
    return np.asarray(np.sum(means, axis=0))


def observation(
    kind: str, n: int, scale: float, observed: tuple[int, ...], prior: tuple[float, ...] | None = None
) -> NoisyCounts:
    total = RecordCount(kind, n)  # type: ignore[arg-type]
    return NoisyCounts(prior or (1.0,) * len(observed), observed, DiscreteLaplace(scale), total)


def assert_exact(counts: np.ndarray, exact: dict[tuple[int, ...], float], base: int) -> None:
    """Chi-square test of joint counts, each vector coded as one integer."""
    powers = base ** np.arange(counts.shape[1])
    codes = {int(np.dot(powers, cell)): probability for cell, probability in exact.items()}
    support = np.array(sorted(codes))
    assert_follows(counts @ powers, support, np.array([codes[int(code)] for code in support]))


SMALL_PLANES = [
    observation("at-most", 10, 2.0, (4, 5)), observation("at-most", 10, 200.0, (-120, 300), (2.0, 0.5)),
    observation("at-most", 14, 1.0, (20, -3), (0.2, 0.2)), observation("unbounded", 0, 1.0, (3, 2), (1.0, 4.0)),
]  # fmt: skip


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("case", SMALL_PLANES)
def test_rejection_draws_follow_the_enumerated_posterior(
    case: NoisyCounts, coarse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From single cells, which are never rejected, and from blocks of them."""
    if coarse:
        monkeypatch.setattr(independent_draws, "_MAX_SINGLE_COUNTS", 0)
    counts = draw_two_counts(case, DRAWS, np.random.default_rng(12))
    assert counts is not None
    assert_exact(counts, enumerate_posterior(case, case.total.n or 60), 100)


SMALL_TOTALS = [
    observation("known", 12, 2.0, (4, 5, 2)), observation("known", 9, 30.0, (40, -20, 3), (3.0, 0.3, 1.0)),
    observation("known", 7, 1.5, (1, 2, 2, 1), (1.0, 2.0, 0.5, 1.0)),
    observation("at-most", 12, 3.0, (5, -3, 9), (1.0, 2.0, 0.5)),
    observation("at-most", 8, 1.0, (0, 0, 9, 2), (0.1, 0.1, 0.1, 0.1)), observation("unbounded", 0, 0.7, (2, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", often(SMALL_TOTALS, 2))
def test_convolution_draws_follow_the_enumerated_posterior(case: NoisyCounts) -> None:
    counts = draw_convolution(case, DRAWS, np.random.default_rng(21))
    assert counts is not None
    assert_exact(counts, enumerate_posterior(case, case.total.n or 40), 50)


@pytest.mark.parametrize(
    "case",
    [
        observation("at-most", 1000, 20.0, (300, 640)),
        observation("at-most", 5000, 400.0, (900, 2890), (10.0, 10.0)),
        observation("at-most", 3000, 20.0, (1500, 300), (30.0, 30.0)),
        observation("unbounded", 0, 50.0, (900, 0), (0.5, 0.5)),
    ],
)
def test_rejection_and_convolution_agree_if_enumeration_is_too_large(case: NoisyCounts) -> None:
    """Two exact samplers that share no code: means of the counts, their squares and their product."""

    def moments(counts: np.ndarray) -> np.ndarray:
        x = counts / 1000.0
        return np.column_stack([x, x**2, x[:, 0] * x[:, 1]])

    left = draw_two_counts(case, 40_000, np.random.default_rng(31))
    right = draw_convolution(case, 40_000, np.random.default_rng(32))
    assert left is not None
    assert right is not None
    assert_means(moments(left) - moments(right), 0.0)


@pytest.mark.slow
def test_a_strong_prior_far_from_the_data_needs_many_tilts_and_gets_them() -> None:
    """Dirichlet(1000, 1000) against counts 9000 and 1000 at scale 500: the totals spread far beyond one tilt."""
    case = observation("at-most", 10**5, 500.0, (9000, 1000), (1e3, 1e3))
    counts = draw_convolution(case, 4000, np.random.default_rng(41))
    assert counts is not None
    cells = np.arange(0, 30_000, 7)
    factors = [log_gamma_ratio(cells + 1.0, 999.0) + case.noise.log_pmf(observed - cells) for observed in (9000, 1000)]
    total = -log_gamma_ratio(np.arange(0, 60_000, 7) + 1.0, 1999.0)
    top = factors[0][1000] + factors[1][700] + total[1700]
    mass, first = 0.0, 0.0
    for i, c in enumerate(cells):
        row = np.exp(factors[0][i] + factors[1] + total[i : i + len(cells)] - top)
        mass += row.sum()
        first += c * row.sum()
    assert_means(counts[:, 0], first / mass)


@pytest.mark.slow
def test_expensive_observations_are_left_to_the_chain() -> None:
    wide = observation("known", 10**6, 2000.0, (300_000, 200_000, 490_000))
    assert affordable_draws(wide, 4000) < 4000
    posterior = infer(wide, "noise-aware", 1000, np.random.default_rng(1))
    assert not posterior.exact
    assert posterior.warnings == ()
    assert min(posterior.diagnostics["ess_bulk"], posterior.diagnostics["ess_tail"]) >= 400
    assert posterior.marginals[0].mean == pytest.approx(0.3033, abs=0.0005)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        observation("known", 12, 2.0, (4, 5, 2), (1.0, 2.0, 0.5)),
        observation("at-most", 12, 3.0, (5, -3, 9), (1.0, 2.0, 0.5)),
        observation("unbounded", 0, 0.7, (2, 0, 1)),
        observation("at-most", 15, 2.0, (4, 9)),
    ],
)
def test_the_chain_has_the_enumerated_posterior(case: NoisyCounts) -> None:
    """Means of theta within 6 standard errors by the chain's own effective sample size (false-fail about 1e-8)."""
    posterior = infer_counts(case, "chain", 2000, np.random.default_rng(51), Effort())
    expected = mean_theta(enumerate_posterior(case, case.total.n or 40), case)
    for marginal, exact in zip(posterior.marginals, expected, strict=True):
        error = marginal.sd / np.sqrt(posterior.diagnostics["ess_bulk"])
        assert abs(marginal.mean - exact) < 6 * error
    assert posterior.warnings == ()


def test_every_prefix_of_the_draws_mixes_all_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is cut short says so."""
    monkeypatch.setattr("dpbayes_cli.inference.chains._MAX_LENGTHS", 1)
    case, rng = observation("known", 12, 2.0, (4, 5, 2)), np.random.default_rng(3)
    posterior = infer_counts(case, "chain", 100, rng, Effort(ess=9000))
    assert "9,000 are required" in posterior.warnings[0]
    assert posterior.chains is not None
    n_chains, _, categories = posterior.chains.shape
    assert (n_chains, categories) == (32, 3)
    assert posterior.draws.shape == (100, 3)
    for i, draw in enumerate(posterior.draws):
        assert np.array_equal(draw, posterior.chains[i % 32, i // 32])
    assert infer(case, "noise-aware", 10, rng).chains is None


@pytest.mark.slow
def test_a_thousand_categories() -> None:
    observed = tuple(int(x) for x in np.random.default_rng(1).integers(-3, 30, 1000))
    posterior = infer(observation("at-most", 20_000, 2.0, observed), "noise-aware", 1000, np.random.default_rng(2))
    means = np.array([marginal.mean for marginal in posterior.marginals])
    assert means.sum() == pytest.approx(1.0)
    assert np.corrcoef(means, observed)[0, 1] > 0.97
