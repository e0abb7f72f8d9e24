"""Independent draws of a table's counts: against brute force, calibrated, and never an exception."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import dpbayes_cli.inference.tables.infer_tables as tables_module
from dpbayes_cli.core.noisy_observation import NoisyTable, NoisyTables, RecordCount
from dpbayes_cli.experiments.calibration_measures import ranks_among
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.tables import table_draws
from dpbayes_cli.inference.tables.table_draws import TableDraws, draw_table
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.conftest import often
from tests.inference.table_cells import (
    GAUSSIAN,
    LAPLACE,
    NETWORK,
    Array,
    assert_joint_law,
    draw_network,
    enumerate_table,
    largest_z,
    tiny_tables,
)
from tests.statistical import assert_uniform

Kind = Literal["known", "at-most", "unbounded"]
FALSE_FAIL = 1e-6


def tall_tables() -> list[NoisyTable]:
    """Return 3x2 tables of at most 5 records: known and bounded totals, with margins and without."""
    observed = np.array([[2.0, -1.0], [1.0, 1.4], [0.0, 3.0]])
    concentration, rows = np.array([[0.5, 2.0], [1.0, 1.0], [3.0, 0.7]]), np.array([1.0, 2.5, 0.6])
    tables = []
    for total, noise in ((RecordCount("known", 5), LAPLACE), (RecordCount("at-most", 5), GAUSSIAN)):
        for margin in ((None, None), (np.array([1.0, 3.0, 1.0]), np.array([0.8, np.inf, 3.0]))):
            tables.append(NoisyTable(concentration, rows, observed, noise, total, *margin))
    return tables


TINY = [*tiny_tables(), *tall_tables()]

EXACT = [enumerate_table(table) for table in TINY]


def test_the_counts_have_the_enumerated_law() -> None:
    """About 350 means within 6.5 standard errors; squares of counts have heavy tails: false-fail about 1e-6."""
    rng, drawn = np.random.default_rng(5), []
    for table in TINY:
        draws = draw_table(table, 4000, rng)
        assert draws is not None
        assert draws.step == 1
        drawn.append(draws.counts.reshape(-1, *table.observed.shape))
    assert largest_z(drawn, EXACT) < 6.5
    assert_joint_law(drawn, EXACT)


def wide(
    n_rows: int, n_values: int, n: int, noise: NoiseLaw, kind: Kind, concentration: float, seed: int
) -> NoisyTable:
    """Return a table of about equal rows whose noise is wide enough for a lattice."""
    rng = np.random.default_rng(seed)
    a, b = np.full((n_rows, n_values), concentration), np.full(n_rows, concentration * n_values)
    counts = rng.multinomial(n, rng.dirichlet(np.full(a.size, 4.0))).reshape(a.shape)
    return NoisyTable(a, b, (counts + noise.simulate(rng, counts.shape)).astype(float), noise, RecordCount(kind, n))


def exact_draws(table: NoisyTable, n_draws: int, monkeypatch: pytest.MonkeyPatch) -> TableDraws:
    """Return draws of exact integers, whatever the noise."""
    with monkeypatch.context() as forced:
        forced.setattr(table_draws, "_STEPS_PER_NOISE_SD", 1e12)
        forced.setattr(table_draws, "_MAX_ELEMENTS", 1 << 40)
        draws = draw_table(table, n_draws, np.random.default_rng(7))
    assert draws is not None
    assert draws.step == 1
    return draws


def distances(coarse: TableDraws, exact: TableDraws, table: NoisyTable) -> tuple[float, float, float]:
    """Return the root mean square over cells of how far means, sds and quantiles of theta differ, in sds."""
    rng, layout = np.random.default_rng(3), TableLayout([table])
    left, right = (draw_rows(draws.counts, layout, rng) for draws in (coarse, exact))
    sd = right.std(axis=0)
    levels = [0.05, 0.5, 0.95]
    off = np.quantile(left, levels, axis=0) - np.quantile(right, levels, axis=0)
    each = ((left.mean(axis=0) - right.mean(axis=0)) / sd, left.std(axis=0) / sd - 1.0, off / sd)
    mean, spread, quantiles = (float(np.sqrt(np.mean(x**2))) for x in each)
    return mean, spread, quantiles


LATTICES = [
    wide(2, 3, 4000, DiscreteGaussian(60.0), "known", 1.0, 1),
    wide(2, 3, 4000, DiscreteLaplace(60.0), "at-most", 1.0, 2),
    wide(2, 4, 6000, DiscreteLaplace(50.0), "unbounded", 0.5, 3),
    wide(1, 4, 6000, DiscreteGaussian(90.0), "known", 3.0, 4),
]


@pytest.mark.parametrize("table", often(LATTICES, 2), ids=lambda table: table.total.kind)
def test_a_lattice_is_as_good_as_exact_integers_where_rows_are_many_steps_long(
    table: NoisyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means within 1 % of an sd plus the error of 40,000 draws of each (0.7 %); quantiles within three times that."""
    coarse = draw_table(table, 40_000, np.random.default_rng(6))
    assert coarse is not None
    assert coarse.step > 1
    mean, spread, quantiles = distances(coarse, exact_draws(table, 40_000, monkeypatch), table)
    assert mean < 0.01 + 0.02
    assert spread < 0.01 + 0.02
    assert quantiles < 0.01 + 0.05


@pytest.mark.parametrize("rows", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["known", "at-most"])
def test_a_lattice_is_not_used_where_rows_may_be_nearly_empty(
    rows: int, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 125 to 250 records with noise of sd 1,400, so that zero is plausible: sds and quantiles stay right."""
    table = replace(wide(rows, rows, 1000, DiscreteLaplace(1000.0), kind, 1.0, 4), row_concentration=np.ones(rows))
    draws = draw_table(table, 4000, np.random.default_rng(6))
    if draws is None:
        return
    mean, spread, quantiles = distances(draws, exact_draws(table, 4000, monkeypatch), table)
    assert mean < 0.01 + 0.05
    assert spread < 0.01 + 0.05
    assert quantiles < 0.01 + 0.1


REGIMES: dict[str, tuple[RecordCount, NoiseLaw]] = {
    "noise far above the counts": (RecordCount("known", 60), DiscreteLaplace(60.0)),
    "noise far below the counts": (RecordCount("known", 3000), DiscreteGaussian(2.0)),
    "an unknown total, much noise": (RecordCount("at-most", 60), DiscreteGaussian(40.0)),
    "an unknown total, little noise": (RecordCount("at-most", 2000), DiscreteLaplace(3.0)),
    "a lattice": (RecordCount("known", 20_000), DiscreteLaplace(80.0)),
}

FIRST = [0, 3, 9]


def ranks(regime: str) -> Array:
    """Return the ranks of the first true cell of each table among independent draws, shape (trials, tables)."""
    (total, noise), trials = REGIMES[regime], 1500
    rng = np.random.default_rng(9)
    truths, draws = np.empty((trials, 3)), np.empty((trials, 39, 3))
    for trial in range(trials):
        theta, observation = draw_network(NETWORK, total, noise, rng, 0.7)
        truths[trial] = theta[FIRST]
        for k, table in enumerate(observation.tables):
            count_draws = draw_table(table, 39, rng)
            assert count_draws is not None
            draws[trial, :, k] = draw_rows(count_draws.counts, TableLayout([table]), rng)[:, 0]
    return np.asarray(ranks_among(truths, draws, rng))


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize("regime", REGIMES)
def test_posteriors_are_calibrated(regime: str) -> None:
    """False-fail 3e-6 a regime: one Kolmogorov-Smirnov test a table."""
    for column in ranks(regime).T:
        assert_uniform(column, FALSE_FAIL)


def odd_tables() -> dict[str, NoisyTable]:
    def table(observed: Array, total: RecordCount, noise: NoiseLaw = LAPLACE, **more: object) -> NoisyTable:
        shape = observed.shape
        return NoisyTable(np.ones(shape), np.ones(shape[0]), observed, noise, total, **more)  # type: ignore[arg-type]

    square = np.array([[3.0, 1.0], [2.0, 4.0]])
    rng = np.random.default_rng(2)
    return {
        "observed far beyond n": table(square * 1e6, RecordCount("known", 10)),
        "one cell far beyond n": table(np.array([[1e7, 0.0], [0.0, 0.0]]), RecordCount("at-most", 10)),
        "observed far below n": table(square, RecordCount("known", 10**6)),
        "a margin far from what was observed": table(
            square, RecordCount("known", 10), margin=np.array([1e6, -1e6]), margin_variance=np.full(2, 1e-3)
        ),
        "everything negative": table(square - 1e4, RecordCount("unbounded")),
        "no record": table(square, RecordCount("known", 0)),
        "at most none": table(square, RecordCount("at-most", 0)),
        "one row": table(square[:1], RecordCount("known", 5)),
        "one cell": table(square[:1, :1], RecordCount("unbounded")),
        "many rows": table(rng.normal(3, 5, (64, 3)), RecordCount("known", 300), GAUSSIAN),
        "very wide noise, unbounded": table(
            rng.normal(0, 1e6, (2, 3)), RecordCount("unbounded"), DiscreteGaussian(1e6)
        ),
        "strong priors under wide noise": replace(
            table(rng.normal(500, 1e3, (2, 16)), RecordCount("known", 20_000), DiscreteLaplace(1e3)),
            concentration=np.full((2, 16), 500.0),
        ),
        "weak priors": replace(table(square, RecordCount("known", 10)), concentration=np.full((2, 2), 1e-4)),
    }


@pytest.mark.parametrize("name", often(odd_tables(), 2))
def test_any_noisy_counts_give_possible_draws_and_a_finite_posterior(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a table has no independent draws, its posterior comes from chains."""
    table = odd_tables()[name]
    monkeypatch.setattr(tables_module, "_FIRST_SWEEPS", 50)
    monkeypatch.setattr(tables_module, "_MAX_SWEEPS", 20)
    posterior = infer(NoisyTables((table,)), "noise-aware", 100, np.random.default_rng(1))
    assert all(np.isfinite([m.mean, m.sd]).all() for m in posterior.marginals)
    draws = draw_table(table, 200, np.random.default_rng(1))
    if draws is None:
        return
    assert draws.counts.shape == (200, table.observed.size)
    assert np.all(np.isfinite(draws.counts))
    assert np.all(draws.counts >= 0)
    totals = draws.counts.sum(axis=1)
    slack = 0.5 * (draws.step - 1) * table.observed.size + 0.5 * draws.step * (draws.step > 1)
    if table.total.kind == "known":
        assert np.all(np.abs(totals - table.total.n) <= slack)
    if table.total.kind == "at-most":
        assert np.all(totals <= table.total.n + slack)
