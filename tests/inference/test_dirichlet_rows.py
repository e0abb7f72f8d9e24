"""Draws of many rows of Dirichlet probabilities."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.core.noisy_observation import NoisyTable, RecordCount
from dpbayes_cli.inference.dirichlet_rows import draw_rows
from dpbayes_cli.inference.tables.table_layout import TableLayout
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace


def test_tiny_concentrations_leave_proper_rows() -> None:
    table = NoisyTable(
        np.full((2, 3), 1e-4), np.ones(2), np.zeros((2, 3)), DiscreteLaplace(1.0), RecordCount("known", 5)
    )
    theta = draw_rows(np.zeros((50, 6)), TableLayout([table]), np.random.default_rng(1))
    assert np.all(np.isfinite(theta))
    np.testing.assert_allclose(theta.reshape(50, 2, 3).sum(axis=2), 1.0)
