"""R-hat and effective sample sizes: against known autocorrelation, and against numbers of ArviZ 0.23."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.inference.diagnostics import ess_bulk, ess_tail, has_converged, r_hat, rank_counts, ranks

ARVIZ = (1.0265639452889823, 235.3195162756432, 438.7742427849663)


def autoregressive(correlation: float, chains: int = 4, draws: int = 2000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.empty((chains, draws))
    x[:, 0] = rng.standard_normal(chains)
    innovation = np.sqrt(1 - correlation**2)
    for t in range(1, draws):
        x[:, t] = correlation * x[:, t - 1] + innovation * rng.standard_normal(chains)
    return x


def test_independent_draws_are_worth_their_number() -> None:
    draws = np.random.default_rng(1).standard_normal((4, 2000))
    assert r_hat(draws) == pytest.approx(1.0, abs=0.005)
    assert ess_bulk(draws) == pytest.approx(8000, rel=0.1)
    assert ess_tail(draws) == pytest.approx(8000, rel=0.15)


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_correlated_draws_are_worth_less_by_the_known_factor(correlation: float) -> None:
    draws = autoregressive(correlation, draws=20_000)
    assert ess_bulk(draws) == pytest.approx(80_000 * (1 - correlation) / (1 + correlation), rel=0.1)


def test_chains_in_different_places_are_caught() -> None:
    draws = np.random.default_rng(2).standard_normal((4, 500))
    draws[0] += 1.0
    assert not has_converged(r_hat(draws))


def test_chains_of_different_spread_are_caught_by_folding() -> None:
    draws = np.random.default_rng(3).standard_normal((4, 500))
    draws[0] *= 3.0
    assert not has_converged(r_hat(draws))


def test_drift_within_a_chain_is_caught_by_splitting() -> None:
    draws = np.random.default_rng(4).standard_normal((4, 500)) + np.linspace(0, 1.5, 500)
    assert not has_converged(r_hat(draws))


def test_diagnostics_are_those_of_arviz() -> None:
    """Computed once with arviz.rhat, arviz.ess(method="bulk") and arviz.ess(method="tail")."""
    draws = autoregressive(0.7, chains=4, draws=300, seed=9)
    assert (r_hat(draws), ess_bulk(draws), ess_tail(draws)) == pytest.approx(ARVIZ, rel=1e-6)


def test_a_constant_is_no_reason_to_divide_by_zero() -> None:
    assert r_hat(np.ones((4, 100))) == 1.0
    assert ess_bulk(np.ones((4, 100))) == 400


def test_ranks_of_mixed_chains_are_even_and_those_of_a_stray_one_are_not() -> None:
    """Bins expect 50 draws; counts lie within 5 standard deviations (of about 7). False-fail about 1e-4, seed fixed."""
    draws = np.random.default_rng(5).standard_normal((4, 1000))
    counts = rank_counts(draws, 20)
    assert counts.sum(axis=1).tolist() == [1000] * 4
    assert counts.sum(axis=0).tolist() == [200] * 20
    assert np.abs(counts - 50).max() < 35
    draws[0] += 10.0
    assert rank_counts(draws, 20)[0].tolist() == [0] * 15 + [200] * 5


def test_equal_draws_share_their_mean_rank() -> None:
    assert ranks(np.array([[1.0, 3.0], [3.0, 2.0]])).tolist() == [[1.0, 3.5], [3.5, 2.0]]
