"""The factors of the posterior of tables: ratios of Gamma functions, small and large."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.base.numeric import log_gamma_ratio
from dpbayes_cli.inference.tables.table_layout import GammaRatios


def test_gamma_ratios_are_right_within_the_table_and_beyond() -> None:
    base, shift = np.array([1.0, 1.0, 30.0, 5e4]), np.array([-0.5, 0.0, -29.0, 4e4])
    x = np.array([[0.0, 3.0, 7.0, 2.0], [1e3, 1e4, 5e4, 1e5], [1e8, 1e9, 1e7, 1e6]])
    for some in (np.array([0, 1, 2]), np.arange(4)):
        log_ratios = GammaRatios(base[some], shift[some])(x[:, some], np.arange(len(some)))
        np.testing.assert_allclose(
            log_ratios, log_gamma_ratio(x[:, some] + base[some], shift[some]), rtol=1e-10, atol=1e-10
        )
