"""Multivariate normal: the moments of a record against cubature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpbayes_cli.core.columns import NumericColumn
from dpbayes_cli.inference.posterior import interval_ends
from dpbayes_cli.models.families.wishart_records import WishartRecords


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_moments_of_normal_vectors_are_those_of_an_exact_cubature(size: int, counted: bool) -> None:
    """Gauss-Hermite with 5 nodes a dimension is exact for products of four coordinates."""
    columns = tuple(NumericColumn(f"c{i}", -3.0, 4.0 + i, 1 << 14) for i in range(size))
    law = WishartRecords((0.1, -0.2, 0.3)[:size], (0.2, 0.3, 0.1)[:size], 2.0, size + 4.0, columns, counted)
    points = law.draw_prior(6, np.random.default_rng(4))
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    standard = np.array(list(itertools.product(nodes, repeat=size)))
    mass = np.prod(list(itertools.product(weights / weights.sum(), repeat=size)), axis=1)
    first, second = law.moments(points)
    half, middle = law.half_and_middle
    reported = law.parameters(points)
    for i in range(len(points)):
        mean = (reported[i, :size] - middle) / half
        covariance = np.zeros((size, size))
        rows, cells = np.triu_indices(size)
        covariance[rows, cells] = covariance[cells, rows] = reported[i, size:] / half[rows] / half[cells]
        x = mean + standard @ np.linalg.cholesky(covariance).T
        parts = []
        for a in range(size):
            parts.append(2.0 * x[:, a])
            parts += [(1.0 if a == b else 2.0) * x[:, a] * x[:, b] for b in range(a, size)]
        rows_ = np.array([*parts, np.ones(len(x))] if counted else parts)
        unit = float(1 << 14) ** 2
        np.testing.assert_allclose(first[i] / unit, rows_ @ mass, rtol=1e-10)
        expected = (rows_ * mass) @ rows_.T - np.outer(rows_ @ mass, rows_ @ mass)
        np.testing.assert_allclose(second[i] / unit**2, expected, rtol=1e-9, atol=1e-12)


def test_intervals_begin_at_0_only_where_this_is_allowed_and_shorter() -> None:
    share = (np.arange(10_000) + 0.5) / 10_000
    hidden, visible = -np.log1p(-share), 5.0 + share
    draws, allowed = np.stack([hidden, visible, hidden], axis=1), np.array([True, True, False])
    low, high = interval_ends(draws, 0.9, allowed)
    central = np.quantile(draws, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(low, [0.0, *central[0, 1:]])
    np.testing.assert_allclose(high, [np.quantile(hidden, 0.9), *central[1, 1:]])
