"""Noise-aware inference for networks of tables: against brute force, calibrated, and sensitive to planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dpbayes_cli.base.numeric import log_gamma_ratio
from dpbayes_cli.core.noisy_observation import NoisyTable, NoisyTables, RecordCount
from dpbayes_cli.experiments.calibration_measures import ranks_among
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.inference.chains import Trace
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.posterior import Effort, Posterior
from dpbayes_cli.inference.solve import infer
from dpbayes_cli.inference.tables.table_block_moves import TableBlockMoves
from dpbayes_cli.inference.tables.table_chain import TableChain
from dpbayes_cli.inference.tables.table_layout import GammaRatios, TableLayout
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.table_cells import Array, draw_network, enumerate_table, theta_moments, tiny_tables
from tests.statistical import assert_uniform, chi_square_p_value, uniformity_p_value

FALSE_FAIL = 1e-6
SWEEPS, CHAINS = 40, 600
TINY = tiny_tables()
EXACT = [enumerate_table(table) for table in TINY]
NETWORK = [(1, 3), (2, 3), (4, 2)]


def final_counts(tables: list[NoisyTable], chains: int = CHAINS) -> list[Array]:
    """Return the counts of every table at the end of many chains: independent draws, shape (chains, rows, values)."""
    chain = TableChain(tables, chains, np.random.default_rng(5))
    for _ in range(SWEEPS):
        chain.sweep()
    ends = np.cumsum([table.observed.size for table in tables])[:-1]
    parts = np.split(chain.counts, ends, axis=1)
    return [part.reshape(-1, *table.observed.shape) for part, table in zip(parts, tables, strict=True)]


def cells_of(counts: Array) -> Array:
    return counts.reshape(len(counts), -1)


def squares_of(counts: Array) -> Array:
    return cells_of(counts) ** 2


def rows_of(counts: Array) -> Array:
    return np.column_stack([counts.sum(axis=2), counts.sum(axis=(1, 2))])


def largest_z(drawn_counts: list[Array]) -> float:
    """Return how many standard errors the worst mean of a count, its square, a row total or a total is off."""
    worst = 0.0
    for counts, (states, weights) in zip(drawn_counts, EXACT, strict=True):
        for of in (cells_of, squares_of, rows_of):
            values, exact = of(counts), of(states)
            mean = weights @ exact
            error = np.sqrt(np.maximum(weights @ exact**2 - mean**2, 1e-12) / len(counts))
            worst = max(worst, float(np.max(np.abs(values.mean(axis=0) - mean) / error)))
    return worst


@pytest.fixture(scope="module")
def drawn_counts() -> list[Array]:
    return final_counts(TINY)


def test_the_counts_have_the_enumerated_moments(drawn_counts: list[Array]) -> None:
    """About 250 means within 6.5 standard errors; squares of counts have heavy tails: false-fail about 1e-6."""
    assert largest_z(drawn_counts) < 6.5


def test_the_counts_have_the_enumerated_law(drawn_counts: list[Array]) -> None:
    """A chi-square test a table, 24 of them: false-fail 24e-9 or so."""
    for counts, (states, weights) in zip(drawn_counts, EXACT, strict=True):
        base = int(states.max()) + 2
        digits = base ** np.arange(states[0].size)
        inside = np.minimum(counts, base - 1).reshape(len(counts), -1) @ digits
        order = np.argsort(-weights)[:30]
        keys = states.reshape(len(states), -1) @ digits
        chosen = order[np.argsort(keys[order])]
        assert chi_square_p_value(inside, keys[chosen], weights[chosen]) > 1e-9


def no_row_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableLayout, "log_rows", lambda self, totals, rows: self._log_margin(totals, rows))


def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableLayout, "_log_margin", lambda self, totals, rows: np.zeros(np.shape(totals)))


def half_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TableLayout.log_noise
    monkeypatch.setattr(TableLayout, "log_noise", lambda self, counts, cells: 2.0 * whole(self, counts, cells))


def no_total_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TableLayout.log_total
    monkeypatch.setattr(
        TableLayout, "log_total", lambda self, totals: np.where(np.isfinite(whole(self, totals)), 0.0, -np.inf)
    )


def no_largest_total(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(self: TableLayout, totals: Array) -> Array:
        return -log_gamma_ratio(np.maximum(totals, 0.0) + 1.0, self._total_base - 1.0)

    monkeypatch.setattr(TableLayout, "log_total", unbounded)


def no_cell_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableLayout, "log_cells", TableLayout.log_noise)


def one_way_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, steps = TableBlockMoves._rate, [0]

    def other(self: TableBlockMoves, share: Array, totals: Array) -> Array:
        steps[0] += 1
        return whole(self, share, totals) * (1.0 if steps[0] % 2 else 30.0)  # not what was drawn from

    monkeypatch.setattr(TableBlockMoves, "_rate", other)


def even_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableLayout, "log_urns", lambda self, totals, rows: -0.3 * totals**2)


BUGS = [
    no_row_factor,
    no_margin,
    half_the_noise,
    no_total_factor,
    no_largest_total,
    no_cell_factor,
]


@pytest.mark.parametrize(
    "bug", [*BUGS[:3], *(pytest.param(bug, marks=pytest.mark.slow) for bug in BUGS[3:])], ids=lambda bug: bug.__name__
)
def test_a_planted_bug_is_caught(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert largest_z(final_counts(TINY, 250)) > 6.5


def after_moves(move: str) -> float:
    """Return ``largest_z`` after three moves of one kind, starting from exact draws of the posterior."""
    rng = np.random.default_rng(12)
    chain = TableChain(TINY, 1500, rng)
    drawn = [cells_of(states)[rng.choice(len(states), 1500, p=weights)] for states, weights in EXACT]
    chain.counts = np.concatenate(drawn, axis=1)
    for _ in range(3):
        order = np.argsort(chain.layout.row + rng.random(len(chain.layout.row)))
        rows = chain._pair_rows()
        if move == "exchange":
            chain.counts = chain._block_moves.exchange(chain.counts, *rows)
        elif move == "scale":
            chain.counts = chain._block_moves.scale(chain.counts)
        elif move == "single":
            chain._redraw_single_cells()
        elif move == "one":
            chain._redraw_one_across_rows(order, *rows)
        else:
            chain._redraw_across_rows(order, *rows)
    assert np.any(chain.counts != np.concatenate(drawn, axis=1))
    ends = np.cumsum([table.observed.size for table in TINY])[:-1]
    parts = np.split(chain.counts, ends, axis=1)
    return largest_z([part.reshape(-1, *t.observed.shape) for part, t in zip(parts, TINY, strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("move", ["exchange", "scale", "single", "one", "across"])
def test_every_move_alone_keeps_the_law(move: str) -> None:
    """False-fail about 1e-6 a move, as above."""
    assert after_moves(move) < 6.5


@pytest.mark.parametrize(("bug", "move"), [(even_exchange, "exchange"), (one_way_scaling, "scale")])
def test_a_wrong_acceptance_is_caught(
    bug: Callable[[pytest.MonkeyPatch], None], move: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    assert after_moves(move) > 6.5


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


REGIMES: dict[str, tuple[RecordCount, NoiseLaw]] = {
    "noise far above the counts": (RecordCount("known", 60), DiscreteLaplace(60.0)),
    "noise far below the counts": (RecordCount("known", 3000), DiscreteGaussian(2.0)),
    "an unknown total, much noise": (RecordCount("at-most", 60), DiscreteGaussian(40.0)),
    "an unknown total, little noise": (RecordCount("at-most", 2000), DiscreteLaplace(3.0)),
}


def ranks(total: RecordCount, noise: NoiseLaw, trials: int, assumed: NoiseLaw | None = None) -> Array:
    """Return the ranks of the first cell of each table among nearly independent draws, shape (trials, tables)."""
    rng = np.random.default_rng(8)
    drawn = [draw_network(NETWORK, total, noise, rng, 0.7) for _ in range(trials)]
    observations = [observation for _, observation in drawn]
    if assumed is not None:
        observations = [
            NoisyTables(tuple(replace(t, noise=assumed) for t in observation.tables)) for observation in observations
        ]
    first = [0, 3, 9]
    draws = draw_many(observations, "noise-aware", 39, rng)[:, :, first]
    return ranks_among(np.array([theta for theta, _ in drawn])[:, first], draws, rng)


@pytest.mark.slow
@pytest.mark.parametrize("regime", REGIMES)
def test_posteriors_are_calibrated(regime: str) -> None:
    """False-fail 3e-6 a regime: one Kolmogorov-Smirnov test a table."""
    for column in ranks(*REGIMES[regime], 120).T:
        assert_uniform(column, FALSE_FAIL)


@pytest.mark.slow
@pytest.mark.parametrize("regime", REGIMES)
def test_posteriors_are_calibrated_in_a_long_run(regime: str) -> None:
    for column in ranks(*REGIMES[regime], 3000).T:
        assert_uniform(column, FALSE_FAIL)


@pytest.mark.slow
def test_assuming_a_tenth_of_the_noise_is_caught_by_ranks() -> None:
    columns = ranks(RecordCount("known", 60), DiscreteLaplace(60.0), 200, DiscreteLaplace(6.0)).T
    assert min(map(uniformity_p_value, columns)) < FALSE_FAIL


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
def test_equal_generators_give_equal_posteriors() -> None:
    left, right = solve(small_network().tables), solve(small_network().tables)
    assert left.marginals == right.marginals
    np.testing.assert_array_equal(left.draws, right.draws)
    assert left.marginals != solve(small_network().tables, seed=3).marginals


@pytest.mark.slow
def test_a_table_does_not_depend_on_its_neighbors() -> None:
    """Means and sds are those of the table alone, within 6 standard errors at 400 effective draws: about 1e-7."""
    network = small_network().tables
    neighbors = draw_network(
        [(3, 5), (10, 2)], RecordCount("at-most", 10**6), DiscreteGaussian(900.0), np.random.default_rng(2)
    )[1]
    alone = solve((network[1],))
    among = solve((neighbors.tables[0], network[1], neighbors.tables[1]))
    for left, right in zip(alone.marginals, among.marginals[15:21], strict=True):
        assert abs(left.mean - right.mean) < 6 * left.sd * np.sqrt(2 / 400)
        assert left.sd == pytest.approx(right.sd, rel=6 / np.sqrt(400))


@pytest.mark.usefixtures("short")
def test_every_draw_belongs_to_a_chain_and_draws_are_reused_if_more_are_asked_for() -> None:
    few, many = solve(small_network().tables, 10), solve(small_network().tables, 6000)
    assert few.chains is not None
    for i, draw in enumerate(few.draws):
        assert np.array_equal(draw, few.chains[i % 4, i // 4])
    assert many.draws.shape == (6000, 17)
    assert "used repeatedly" in many.method
    assert len(np.unique(many.draws[:, 0])) == 6000


@pytest.mark.usefixtures("short")
def test_a_network_that_is_too_large_returns_fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_RETURNED_NUMBERS", 17 * 3000)
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_STORED_COUNTS", 17 * 8000)
    posterior = solve(small_network().tables, 6000)
    assert 200 <= len(posterior.draws) <= 4000
    assert "3000 samples are returned, the limit for 17 cells" in posterior.method


def test_chains_that_are_too_short_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes_cli.inference.tables.infer_tables._MAX_SWEEPS", 4)  # twelve for so few cells
    posterior = solve(small_network().tables)
    assert any("monitored parameters" in warning for warning in posterior.warnings)
    assert posterior.diagnostics["ess_bulk"] < 400


def test_known_totals_are_kept_from_the_start() -> None:
    tables = (*small_network().tables, replace(small_network().tables[1], total=RecordCount("at-most", 20)))
    chain = TableChain(tables, 3, np.random.default_rng(1))
    for _ in range(20):
        totals = chain.layout.per_table(chain.layout.row_totals(chain.counts))
        assert np.all(totals[:, :3] == 500)
        assert np.all(totals[:, 3] <= 20)
        assert np.all(chain.counts >= 0)
        assert np.all(chain.counts == np.floor(chain.counts))
        chain.sweep()


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


def test_tiny_concentrations_leave_proper_rows() -> None:
    table = NoisyTable(
        np.full((2, 3), 1e-4), np.ones(2), np.zeros((2, 3)), DiscreteLaplace(1.0), RecordCount("known", 5)
    )
    theta = draw_rows(np.zeros((50, 6)), TableLayout([table]), np.random.default_rng(1))
    assert np.all(np.isfinite(theta))
    np.testing.assert_allclose(theta.reshape(50, 2, 3).sum(axis=2), 1.0)


def test_gamma_ratios_are_right_within_the_table_and_beyond() -> None:
    base, shift = np.array([1.0, 1.0, 30.0, 5e4]), np.array([-0.5, 0.0, -29.0, 4e4])
    x = np.array([[0.0, 3.0, 7.0, 2.0], [1e3, 1e4, 5e4, 1e5], [1e8, 1e9, 1e7, 1e6]])
    for some in (np.array([0, 1, 2]), np.arange(4)):
        log_ratios = GammaRatios(base[some], shift[some])(x[:, some], np.arange(len(some)))
        np.testing.assert_allclose(
            log_ratios, log_gamma_ratio(x[:, some] + base[some], shift[some]), rtol=1e-10, atol=1e-10
        )


def test_a_trace_is_evenly_thinned() -> None:
    trace = Trace(8)
    for i in range(1, 101):
        trace.add(np.full((2, 3), float(i)))
    kept = trace.values()[0, :, 0]
    assert 4 <= len(kept) <= 8
    assert len(set(np.diff(kept))) == 1
    trace.clear()
    trace.add(np.zeros((2, 3)))
    assert trace.values().shape == (2, 1, 3)
