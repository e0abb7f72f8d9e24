"""The factors of the posterior of tables: ratios of Gamma functions, and noise of any law."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dpbayes_cli.base.numeric import log_gamma_ratio
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.tables.table_layout import GammaRatios, TableLayout
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from dpbayes_cli.privacy.noise import NoiseLaw
from tests.inference.table_cells import tiny_tables
from tests.plugins.staircase import Staircase


def test_gamma_ratios_are_right_within_the_table_and_beyond() -> None:
    base, shift = np.array([1.0, 1.0, 30.0, 5e4]), np.array([-0.5, 0.0, -29.0, 4e4])
    x = np.array([[0.0, 3.0, 7.0, 2.0], [1e3, 1e4, 5e4, 1e5], [1e8, 1e9, 1e7, 1e6]])
    for some in (np.array([0, 1, 2]), np.arange(4)):
        log_ratios = GammaRatios(base[some], shift[some])(x[:, some], np.arange(len(some)))
        np.testing.assert_allclose(
            log_ratios, log_gamma_ratio(x[:, some] + base[some], shift[some]), rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize("law", [Staircase.of(6, Decimal("1.5")), *map(RoundedGaussian, (0.6, 5.0, 70.0))], ids=str)
def test_cells_have_the_noise_of_their_own_table(law: NoiseLaw) -> None:
    first, second = tiny_tables()[:2]
    tables = [replace(first, noise=law, observed=np.rint(first.observed)), second]
    layout = TableLayout(tables)
    counts, cells = np.arange(2.0 * layout.observed.size).reshape(2, -1), np.arange(layout.observed.size)
    counts *= np.ceil(law.scale / 5.0)
    log_noise = layout.log_noise(counts, cells)
    sizes = [table.observed.size for table in tables]
    for table, part in zip(tables, np.split(cells, [sizes[0]]), strict=True):
        expected = table.noise.log_pmf(np.rint(layout.observed[part] - counts[:, part]).astype(int))
        away = log_noise[:, part] - expected
        np.testing.assert_allclose(away, away[0, 0], atol=1e-9)
        assert table.noise.decay is not None or abs(away[0, 0]) < 1e-12


def test_tiny_concentrations_leave_proper_rows() -> None:
    table = replace(tiny_tables()[0], concentration=np.full((2, 2), 1e-4))
    theta = draw_rows(np.zeros((50, 4)), TableLayout([table]), np.random.default_rng(1))
    np.testing.assert_allclose(theta.reshape(50, 2, 2).sum(axis=2), 1.0)
