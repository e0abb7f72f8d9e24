"""Poisson counts behind noise, against sums over all counts."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from dpbayes_cli.inference.sequences import noisy_poisson
from dpbayes_cli.inference.sequences.noisy_poisson import (
    MarginalTable,
    draw_counts,
    gaussian_mode,
    laplace_mode,
    log_marginal,
)
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from tests.conftest import often
from tests.plugins.staircase import Staircase
from tests.statistical import assert_follows

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers
    from dpbayes_cli.privacy.noise import NoiseLaw

LAWS: list[NoiseLaw] = [
    DiscreteLaplace(0.5), DiscreteLaplace(2.0), DiscreteLaplace(50.0), DiscreteGaussian(1.5), DiscreteGaussian(30.0),
    RoundedGaussian(1.5), RoundedGaussian(4.0), RoundedGaussian(80.0), Staircase.of(6, Decimal("1.5")),
]  # fmt: skip
OBSERVED = np.array([-150, -3, 0, 1, 2, 5, 20, 100, 400, 1000])
RATES = np.array([1e-6, 0.01, 0.5, 3.0, 24.0, 90.0, 430.0, 950.0, 1400.0])
COUNTS = np.arange(5000)


def log_weights(law: NoiseLaw, observed: Integers, rates: Floats) -> Floats:
    """Return the log of Poisson times noise, up to the constant of the noise, shape (n_observed, n_rates, n_counts)."""
    away = observed[:, None, None] - COUNTS
    noise = law.log_pmf(away)
    if law.decay is not None and law.decay.exact:
        noise = -law.decay.linear * np.abs(away) - law.decay.quadratic * away**2.0
    return np.asarray(COUNTS * np.log(rates)[:, None] - gammaln(COUNTS + 1.0) - rates[:, None] + noise)


def summed(law: NoiseLaw, rates: Floats) -> Floats:
    """Return the logs of the sums over all counts, shape (n_observed, n_rates)."""
    return np.asarray(logsumexp(log_weights(law, OBSERVED, rates), axis=2))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_marginal_law_is_the_sum_over_all_counts(law: NoiseLaw) -> None:
    np.testing.assert_allclose(log_marginal(law, OBSERVED[:, None], RATES), summed(law, RATES), atol=1e-3)


@pytest.mark.parametrize("law", often(LAWS, 5), ids=str)
def test_the_table_is_the_marginal_law_where_it_matters(law: NoiseLaw) -> None:
    """Wherever log p is within 50 of its maximum; less likely rates do not matter."""
    rates = np.geomspace(0.01, 1500.0, 97)
    truth = summed(law, rates)
    near = truth > truth.max(axis=1, keepdims=True) - 50.0
    log_p = MarginalTable.of(law, OBSERVED).at(np.tile(rates, (len(OBSERVED), 1)))
    np.testing.assert_allclose(log_p[near], truth[near], atol=0.01)
    assert near.sum() > 100


@pytest.mark.parametrize(
    ("law", "off"),
    often([
        (DiscreteLaplace(0.2), 2e-3), (DiscreteLaplace(0.5), 2e-3), (DiscreteLaplace(1.0), 5e-4),
        (DiscreteGaussian(0.5), 2e-3), (DiscreteGaussian(1.0), 2e-3), (DiscreteGaussian(3.0), 5e-4),
        (RoundedGaussian(1.0), 2e-3), (RoundedGaussian(3.0), 5e-4),
    ], 3, several=True),
    ids=str,
)  # fmt: skip
def test_little_noise_is_tabulated_as_finely_as_it_says(law: NoiseLaw, off: float) -> None:
    """With little noise, log p is most curved at small rates."""
    observed = np.arange(12)
    table, rates = MarginalTable.of(law, observed), np.geomspace(1e-5, 40.0, 3000)
    log_p = table.at(np.tile(rates, (len(observed), 1)))
    truth = log_marginal(law, observed[:, None], rates)
    likely = truth > truth.max(axis=1, keepdims=True) - 12.0
    worst = np.abs(log_p - truth)[likely].max()
    assert worst <= off
    assert worst >= off / 200.0, "the claim is not a vain one"


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_slopes_are_difference_quotients(law: NoiseLaw) -> None:
    table = MarginalTable.of(law, OBSERVED)
    for rate in (0.3, 3.3, 41.0, 555.0, 3000.0):
        step = 1e-5 * rate
        value, slope = table.with_slope(np.full((len(OBSERVED), 1), rate))
        ahead, behind = (table.at(np.full((len(OBSERVED), 1), rate + s)) for s in (step, -step))
        np.testing.assert_allclose(slope, (ahead - behind) / (2.0 * step), rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(value, table.at(np.full((len(OBSERVED), 1), rate)))


def test_extrapolation_beyond_the_table_is_continuous_and_finite() -> None:
    table = MarginalTable.of(DiscreteLaplace(3.0), OBSERVED)
    far = table.at(np.full((len(OBSERVED), 1), 1e9))[:, 0]
    np.testing.assert_allclose(far, OBSERVED / 3.0 - 1e9 * -np.expm1(-1.0 / 3.0), rtol=1e-9)
    for law in LAWS:
        grid = np.geomspace(1e-12, 1e12, 60)[None, :].repeat(len(OBSERVED), 0)
        assert np.isfinite(MarginalTable.of(law, OBSERVED).at(grid)).all()


@pytest.mark.parametrize("law", often(LAWS, 2), ids=str)
@pytest.mark.parametrize(
    ("observed", "rate"), [(-3, 1.5), (-6, 15.0), (0, 2.0), (2, 0.6), (5, 4.5), (40, 60.0), (40, 20.0), (300, 250.0)]
)
def test_counts_are_drawn_from_their_law(law: NoiseLaw, observed: int, rate: float) -> None:
    """20,000 draws; false-fail 1e-9 each."""
    draws = draw_counts(law, np.full(20_000, observed), np.full(20_000, rate), np.random.default_rng(7))
    weights = log_weights(law, np.array([observed]), np.array([rate]))[0, 0]
    pmf = np.exp(weights - weights.max())
    assert_follows(draws.astype(int), COUNTS, pmf / pmf.sum())
    if law.decay is not None:
        mode_of = laplace_mode if law.decay.exponential else gaussian_mode
        mode = mode_of(law.scale, np.array([float(observed)]), np.array([rate]))
        assert weights[int(mode[0])] == pytest.approx(weights.max(), abs=1e-9)


def test_drawing_counts_needs_few_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hat far above the target anywhere would need many proposals there."""
    tried: list[int] = []

    def counted(x: Floats) -> Floats:
        tried.append(np.size(x))
        return np.asarray(gammaln(x))

    monkeypatch.setattr(noisy_poisson, "gammaln", counted)
    grid = np.array(np.meshgrid(np.arange(-60, 400, 7), np.geomspace(1e-9, 1e5, 40))).reshape(2, -1)
    for law in LAWS[:5]:  # only these have a hat of their own
        tried.clear()
        draw_counts(law, grid[0].astype(int), grid[1], np.random.default_rng(1))
        assert sum(tried) < 8 * grid.shape[1]
        assert len(tried) < 60
