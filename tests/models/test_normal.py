"""Normal: the moments of a record against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.models.families.normal_records import ConjugateNormalRecords


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_moments_of_normal_records_are_those_of_quadrature(outside: Outside, counted: bool) -> None:
    column = NumericColumn("value", -2.0, 3.0, 1 << 14, outside=outside)
    law = ConjugateNormalRecords(column, counted, False, 0.3, 2.0, 3.0, 3.0)
    points = np.vstack([law.draw_prior(12, np.random.default_rng(3)), [[0.0, 4.0], [0.0, -5.0], [4.0, 0.0]]])
    first, second = law.moments(points)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    pieces = np.arange(40)[:, None]
    nodes = ((pieces + (nodes + 1.0) / 2.0) / 20.0 - 1.0).ravel()
    weights = np.tile(weights / 40.0, 40)
    for point, mean, covariance in zip(law.parameters(points), first, second, strict=True):
        low, high = np.clip(np.array([-1, 1]) * 40 * point[1] ** 0.5 + point[0], -2.0, 3.0)
        x = (low + high) / 2.0 + (high - low) / 2.0 * nodes
        mass = stats.norm.pdf(x, point[0], point[1] ** 0.5) * weights * (high - low) / 2.0
        if outside == "clamp":
            ends = stats.norm.cdf([-2.0, -3.0], [point[0], -point[0]], point[1] ** 0.5)
            x, mass = np.append(x, [-2.0, 3.0]), np.append(mass, ends)
        v = (x - 0.5) / 2.5
        parts = np.array([2.0 * v, v**2, np.ones_like(v)][: 3 if counted else 2])
        unit = float(column.steps) ** 2
        np.testing.assert_allclose(mean / unit, parts @ mass, atol=1e-10)
        expected = (parts * mass) @ parts.T - np.outer(parts @ mass, parts @ mass)
        np.testing.assert_allclose(covariance / unit**2, expected, atol=1e-10)
