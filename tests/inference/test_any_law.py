"""Noise of which inference knows only the probabilities: staircase noise, in every kind of observation.

Results must not treat the noise as Laplace or Gaussian: each is compared with sums over the law itself.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from scipy.special import gammaln

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.inference.diagnostics import ks_distance
from dpbayes_cli.inference.sequences.noisy_poisson import MarginalTable, draw_counts, log_marginal
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.sum_cells import dense_posterior, models, simulate
from tests.inference.table_cells import tiny_tables
from tests.inference.test_one_parameter import Kind, total_variation
from tests.inference.test_record_laws import FAMILIES
from tests.inference.test_scale_mixture_gibbs import pooled
from tests.plugins.staircase import Staircase
from tests.statistical import assert_follows

LAWS = [Staircase.of(6, Decimal("1.5")), Staircase(40.0, 20, 20, Decimal("0.5"))]
COUNTS = np.arange(1200)


def log_weights(law: NoiseLaw, observed: int, rate: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(COUNTS * np.log(rate) - gammaln(COUNTS + 1.0) - rate + law.log_pmf(observed - COUNTS))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_poisson_counts_have_the_summed_marginal_law(law: NoiseLaw) -> None:
    observed, rates = np.array([-40, 0, 7, 60, 300]), np.array([1e-3, 0.7, 12.0, 80.0, 400.0])
    table = MarginalTable.of(law, observed)
    for rate in rates:
        summed = np.array([np.logaddexp.reduce(log_weights(law, y, float(rate))) for y in observed])
        np.testing.assert_allclose(log_marginal(law, observed, np.full(5, rate)), summed, atol=1e-8)
        near = summed > -50.0
        np.testing.assert_allclose(table.at(np.full((5, 1), rate))[near, 0], summed[near], atol=0.01)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize(("observed", "rate"), [(-30, 1.5), (5, 4.5), (40, 90.0), (300, 250.0)])
def test_poisson_counts_are_drawn_from_their_law(law: NoiseLaw, observed: int, rate: float) -> None:
    """10,000 draws at the suite's false-fail rate."""
    draws = draw_counts(law, np.full(10_000, observed), np.full(10_000, rate), np.random.default_rng(2))
    weights = log_weights(law, observed, rate)
    pmf = np.exp(weights - weights.max())
    assert_follows(draws.astype(int), COUNTS, pmf / pmf.sum())


def test_cells_of_tables_have_the_noise_of_their_own_table() -> None:
    first, second = tiny_tables()[:2]
    tables = [replace(first, noise=LAWS[0]), second]
    layout = TableLayout(tables)
    counts, cells = np.arange(2.0 * layout.observed.size).reshape(2, -1), np.arange(layout.observed.size)
    log_noise = layout.log_noise(counts, cells)
    sizes = [table.observed.size for table in tables]
    for table, part in zip(tables, np.split(cells, [sizes[0]]), strict=True):
        expected = table.noise.log_pmf(np.rint(layout.observed[part] - counts[:, part]).astype(int))
        away = log_noise[:, part] - expected
        np.testing.assert_allclose(away, away[0, 0], atol=1e-9)
        assert table.noise.decay is not None or abs(away[0, 0]) < 1e-12


@pytest.mark.parametrize("kind", ["known", "unbounded", pytest.param("at-most", marks=pytest.mark.slow)])
def test_posteriors_of_sums_are_those_of_enumeration(kind: Kind) -> None:
    outside: Outside = "drop" if kind == "unbounded" else "clamp"
    column = NumericColumn("value", 0.0, 3.0, 3, True, outside)
    for law in (Staircase.of(6, Decimal(1)), Staircase.of(6, Decimal(3))):
        assert total_variation(FAMILIES["gamma-poisson"], column, kind, 4, law, 0) < 0.01


@pytest.mark.slow
def test_chains_have_the_posterior_of_the_law_and_not_of_one_like_it() -> None:
    """KS <= 0.02 with 40,000 draws of 500 chains, about 20,000 effective ones; seeds are fixed."""
    cell = simulate(models()["gamma-exponential"], True, 1000, "0.01", 1)
    scale = cell.observation.noise.scale
    law = Staircase.of(round(3 * scale), Decimal(3))
    cell = replace(cell, observation=replace(cell.observation, noise=law))
    points, cumulative = dense_posterior(cell)
    drawn = pooled(cell.observation, cell.observed, chains=500)
    assert ks_distance(np.interp(drawn, points, cumulative[0])) <= 0.02
