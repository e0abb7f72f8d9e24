"""R-hat and effective sample sizes: against known autocorrelation, and against numbers of ArviZ 0.23."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.inference.diagnostics import diagnose, rank_counts

ARVIZ = (1.0265639452889823, 235.3195162756432, 438.7742427849663)


def autoregressive(correlation: float, chains: int = 4, draws: int = 2000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.empty((chains, draws))
    x[:, 0] = rng.standard_normal(chains)
    innovation = np.sqrt(1 - correlation**2)
    for t in range(1, draws):
        x[:, t] = correlation * x[:, t - 1] + innovation * rng.standard_normal(chains)
    return x


def diagnosed(draws: np.ndarray) -> list[float]:
    """Return R-hat, bulk and tail effective sample size of one scalar, diagnosed together with two others."""
    return [float(values[1]) for values in diagnose(np.stack([0.0 * draws, draws, draws**2], axis=2))[:3]]


def test_diagnostics_are_those_of_arviz() -> None:
    """Computed once with arviz.rhat, arviz.ess(method="bulk") and arviz.ess(method="tail")."""
    assert diagnosed(autoregressive(0.7, chains=4, draws=300, seed=9)) == pytest.approx(ARVIZ, rel=1e-6)


def test_constants_and_equal_draws_are_no_reason_to_divide_by_zero() -> None:
    assert diagnosed(np.ones((4, 100))) == [1.0, 400.0, 400.0]
    stuck = np.ones((4, 100)) * np.arange(4)[:, None]
    assert diagnosed(stuck)[0] > 1e6


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
    """The ranks are 1, 3.5, 3.5 and 2, and each bin begins half a rank below a whole one."""
    assert rank_counts(np.array([[1.0, 3.0], [3.0, 2.0]]), 4).tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]
