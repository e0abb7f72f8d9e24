"""Regressions on cells, against a general optimizer and against records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

from dpbayes_cli.inference.estimands.cell_regression import FAMILIES, Family, fit_cells


def loss(coefficients: Any, design: Any, weights: Any, outcomes: Any, family: Family) -> float:
    linear = design @ coefficients
    cumulant = {"linear": linear**2 / 2, "poisson": np.exp(linear), "logistic": np.logaddexp(0.0, linear)}[family]
    return float((weights * (cumulant - outcomes * linear)).sum())


@pytest.mark.parametrize("family", FAMILIES)
def test_coefficients_maximize_the_weighted_likelihood(family: Family) -> None:
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(12), rng.normal(size=(12, 2))])
    weights = rng.dirichlet(np.full(12, 0.3), 4) * np.array([[1.0], [1.0], [500.0], [1e-3]])
    outcomes = rng.random((4, 12)) if family == "logistic" else rng.gamma(1.0, 3.0, (4, 12))
    fits = fit_cells(design, weights, weights * outcomes, family)
    assert fits.finite.all()
    for k in range(4):
        scaled = weights[k] / weights[k].sum()
        best = optimize.minimize(loss, np.zeros(3), (design, scaled, outcomes[k], family), method="BFGS", tol=1e-9)
        np.testing.assert_allclose(fits.coefficients[k], best.x, atol=1e-4)
        assert loss(fits.coefficients[k], design, scaled, outcomes[k], family) <= best.fun + 1e-12
        gradient = optimize.approx_fprime(fits.coefficients[k], loss, 1e-6, design, scaled, outcomes[k], family)
        assert np.abs(gradient).max() < 1e-5


def test_the_information_is_that_of_the_records() -> None:
    """For an intercept alone, it is n p (1 - p)."""
    fits = fit_cells(np.ones((1, 1)), np.array([[50.0]]), np.array([[10.0]]), "logistic")
    np.testing.assert_allclose(fits.coefficients, [[np.log(0.25)]])
    np.testing.assert_allclose(fits.information, [[[50.0 * 0.2 * 0.8]]])


def test_separated_outcomes_have_no_finite_coefficients() -> None:
    design = np.array([[1.0, 0.0], [1.0, 1.0]])
    fits = fit_cells(design, np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.0, 0.5], [0.1, 0.4]]), "logistic")
    assert fits.finite.tolist() == [False, True]
    assert fits.coefficients[0, 1] > 20.0
    np.testing.assert_allclose(fits.coefficients[1], [np.log(0.25), 2 * np.log(4.0)], rtol=1e-9)
