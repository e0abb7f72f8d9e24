"""Posteriors of networks of tables: from independent draws, from chains, and plugged in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dpbayes_cli.inference.tables.infer_tables as tables_module
from dpbayes_cli.core.noisy_observation import NoisyTable, NoisyTables, RecordCount
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.posterior import Effort, Posterior
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.tables.table_draws import draw_table
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.inference.table_cells import NETWORK, draw_network, theta_moments, tiny_tables

TINY = tiny_tables()


@pytest.mark.slow
def test_theta_has_the_enumerated_moments() -> None:
    """Means within 6 standard errors, sds within 20 %: at 600 effective draws, false-fail 1e-6."""
    posterior = infer(NoisyTables(tuple(TINY)), "chain", 500, np.random.default_rng(6), Effort(ess=600))
    assert posterior.draws.shape == (500, sum(table.observed.size for table in TINY))
    means, sds = (np.concatenate(each) for each in zip(*map(theta_moments, TINY), strict=True))
    marginals = posterior.marginals
    assert min(posterior.diagnostics["ess_bulk"], posterior.diagnostics["ess_tail"]) >= 600
    assert np.max(np.abs([m.mean for m in marginals] - means) / sds) < 6 / np.sqrt(600)
    assert np.max(np.abs([m.sd for m in marginals] / sds - 1.0)) < 0.2
    for m in marginals:
        assert m.sd**2 == pytest.approx(m.sd_data**2 + m.sd_noise**2)
        assert m.quantiles["q05"] < m.quantiles["q50"] < m.quantiles["q95"]
    rows = TableLayout(TINY).row_totals(posterior.draws)
    np.testing.assert_allclose(rows, 1.0)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chains short for tests that do not need converged ones."""
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._FIRST_SWEEPS", 150)
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_SWEEPS", 20)


def small_network() -> NoisyTables:
    return draw_network(NETWORK, RecordCount("known", 500), DiscreteLaplace(5.0), np.random.default_rng(1))[1]


def solve(tables: tuple[NoisyTable, ...], n_draws: int = 500, seed: int = 2) -> Posterior:
    return infer(NoisyTables(tables), "chain", n_draws, np.random.default_rng(seed))


@pytest.mark.usefixtures("short")
def test_every_draw_belongs_to_a_chain_and_draws_are_reused_if_more_are_asked_for() -> None:
    few, many = solve(small_network().tables, 10), solve(small_network().tables, 6000)
    assert few.chains is not None
    for i, draw in enumerate(few.draws):
        assert np.array_equal(draw, few.chains[i % 32, i // 32])
    assert many.draws.shape == (6000, 17)
    assert "used repeatedly" in many.method
    assert len(np.unique(many.draws[:, 0])) == 6000


@pytest.mark.usefixtures("short")
def test_a_network_that_is_too_large_returns_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_RETURNED_NUMBERS", 17 * 3000)
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_STORED_COUNTS", 17 * 8000)
    posterior = solve(small_network().tables, 6000)
    assert 200 <= len(posterior.draws) <= 4000
    assert "3000 samples are returned, because 17 cells allow no more" in posterior.method


def test_chains_that_are_too_short_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_SWEEPS", 4)  # twelve for so few cells
    posterior = solve(small_network().tables)
    assert any("effective draws, but" in warning for warning in posterior.warnings)
    assert posterior.diagnostics["ess_bulk"] < 400


def test_naive_posteriors_are_conjugate() -> None:
    table = NoisyTable(
        np.ones((2, 2)), np.ones(2), np.array([[5.0, -2.0], [7.0, 2.0]]), DiscreteLaplace(3.0), RecordCount("unbounded")
    )
    naive = infer(NoisyTables((table,)), "naive", 2000, np.random.default_rng(1))
    assert [m.mean for m in naive.marginals] == pytest.approx([6 / 7, 1 / 7, 8 / 11, 3 / 11])
    assert naive.marginals[0].sd == pytest.approx(np.sqrt(6 / 49 / 8))
    assert naive.marginals[0].quantiles["q50"] == pytest.approx(np.quantile(naive.draws[:, 0], 0.5), abs=0.03)
    known = NoisyTables((replace(table, total=RecordCount("known", 10)),))
    means = [m.mean for m in infer(known, "naive", 10, np.random.default_rng(1)).marginals]
    counts = np.array([[5.0, 0.0], [7.0, 2.0]]) - [[4 / 3, 0.0], [4 / 3, 4 / 3]]  # the nearest that add up to ten
    assert means == pytest.approx(((counts + 1) / (counts.sum(axis=1, keepdims=True) + 2)).ravel())


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_many_networks_at_once_have_the_posteriors_of_each() -> None:
    """Means within 6 standard errors of those of each alone, at 100 effective draws: false-fail about 1e-7."""
    rng = np.random.default_rng(3)
    observations = [draw_network(NETWORK, RecordCount("known", 300), DiscreteLaplace(9.0), rng)[1] for _ in range(2)]
    draws = draw_many(observations, "noise-aware", 400, rng)
    assert draws.shape == (2, 400, 17)
    for i, observation in enumerate(observations):
        alone = solve(observation.tables)
        for k, marginal in enumerate(alone.marginals):
            assert abs(draws[i, :, k].mean() - marginal.mean) < 6 * marginal.sd / np.sqrt(100)
    assert draw_many(observations, "naive", 7, rng).shape == (2, 7, 17)


def test_chains_are_run_for_those_tables_alone_that_have_no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means of all tables within 6 standard errors at 400 effective draws: false-fail about 1e-7."""
    _, observation = draw_network(NETWORK, RecordCount("known", 300), DiscreteLaplace(5.0), np.random.default_rng(1))
    whole = infer(observation, "noise-aware", 1000, np.random.default_rng(2))
    assert whole.diagnostics == {}
    monkeypatch.setattr(
        tables_module, "draw_table",
        lambda table, *rest: None if table is observation.tables[1] else draw_table(table, *rest),
    )  # fmt: skip
    mixed = infer(observation, "noise-aware", 1000, np.random.default_rng(3))
    assert "1 tables drawn by 32 Markov chains" in mixed.method
    assert not mixed.exact
    assert mixed.diagnostics["ess_bulk"] >= 400
    np.testing.assert_allclose(TableLayout(observation.tables).row_totals(mixed.draws), 1.0)
    for left, right in zip(whole.marginals, mixed.marginals, strict=True):
        assert abs(left.mean - right.mean) < 6 * left.sd * np.sqrt(1 / 400 + 1 / 1000)
