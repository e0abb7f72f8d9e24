"""Priors of coefficients: densities, quantiles and draws belong to the same law."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from dpbayes_cli.core.coefficient_law import CoefficientLaw, LawName


@pytest.mark.parametrize("name", get_args(LawName))
def test_quantiles_and_gradients_are_those_of_the_density(name: LawName) -> None:
    law = CoefficientLaw((0.5, -1.0), (0.3, 2.0), name, 3.0)
    grid = np.linspace(-400.0, 400.0, 2_000_001)
    beta = np.stack([np.full(len(grid), 0.5), grid * 2.0 - 1.0], axis=1)
    density = np.exp(law.log_density(beta)[0])
    cumulated = np.cumsum(density) / density.sum()
    levels = np.array([0.05, 0.3, 0.5, 0.95])
    expected = np.interp(levels, cumulated, beta[:, 1])
    assert law.quantiles(levels)[1] == pytest.approx(expected, abs=0.03)  # the kink of a Laplace law is rounded
    step = np.array([0.0, 1e-6])
    middle = np.array([[0.7, 0.3]])
    slope = (law.log_density(middle + step)[0] - law.log_density(middle - step)[0]) / 2e-6
    assert law.log_density(middle)[1][0, 1] == pytest.approx(slope[0], abs=1e-6)


@pytest.mark.parametrize("name", get_args(LawName))
def test_draws_have_the_quantiles_of_the_law(name: LawName) -> None:
    """A share of 20,000 draws errs by 0.015, which is 5 standard errors for a level near 0.2."""
    law = CoefficientLaw((0.5, -1.0), (0.3, 2.0), name, 3.0)
    draws = law.draw(20_000, np.random.default_rng(1))
    for level in (0.1, 0.5, 0.8):
        assert (draws < law.quantiles(np.array([level]))[:, 0]).mean(axis=0) == pytest.approx(level, abs=0.015)


@pytest.mark.parametrize("name", get_args(LawName))
def test_the_law_of_an_intercept_refers_to_the_means_of_centered_columns(name: LawName) -> None:
    """A share of 20,000 draws errs by 0.015, which is 5 standard errors for a level near 0.2."""
    plain = CoefficientLaw((0.5, -1.0, 0.0), (0.3, 2.0, 1.0), name, 3.0)
    unknown = replace(plain, per_sd=(False, True, False), centered=(False, True, False))
    law = unknown.at(np.array([1.0, 0.7, 0.2]), np.array([1.0, 0.7, 0.1]))  # the variance is .21, and .04 is added
    plain = replace(plain, scales=(0.3, 4.0, 1.0))
    draws = law.draw(20_000, np.random.default_rng(1))
    centered = draws + np.outer(0.7 * draws[:, 1], [1.0, 0.0, 0.0])
    for level in (0.1, 0.5, 0.8):
        assert (centered < plain.quantiles(np.array([level]))[:, 0]).mean(axis=0) == pytest.approx(level, abs=0.015)
    densities, slopes = law.log_density(draws[:5])
    assert densities == pytest.approx(plain.log_density(centered[:5])[0])
    steps = 1e-6 * np.eye(3)
    expected = [(law.log_density(draws[:5] + e)[0] - law.log_density(draws[:5] - e)[0]) / 2e-6 for e in steps]
    assert slopes == pytest.approx(np.transpose(expected), abs=1e-5)
    assert np.isnan(unknown.quantiles(np.array([0.5]))[:, 0]).tolist() == [True, True, False]


def test_a_correlated_normal_law_has_its_covariance() -> None:
    law = CoefficientLaw((0.0, 0.0), (1.0, 2.0), correlations=((1.0, 0.5), (0.5, 1.0)))
    assert np.linalg.inv(law.precision) == pytest.approx(np.array([[1.0, 1.0], [1.0, 4.0]]))
    value, gradient = law.log_density(np.array([[1.0, 2.0]]))
    assert value == pytest.approx([-0.5 * np.array([1.0, 2.0]) @ law.precision @ [1.0, 2.0]])
    assert gradient[0] == pytest.approx(-law.precision @ [1.0, 2.0])


def test_a_scale_per_standard_deviation_is_larger_if_bounds_are_wide() -> None:
    law = CoefficientLaw((0.0, 0.0, 1.0), (5.0, 1.0, 1.25), per_sd=(False, False, True))
    assert np.isfinite(law.quantiles(np.array([0.05]))[:, 0]).tolist() == [True, True, False]
    rng = np.random.default_rng(1)
    narrow = np.stack([np.ones(500), rng.random(500) < 0.3, rng.uniform(-0.5, 0.8, 500)], axis=1)
    wide = narrow * [1.0, 1.0, 0.5]  # the same numbers between bounds that are twice as far apart
    scales = np.array([law.given(rows).scales for rows in (narrow, wide)])
    assert scales[:, 2] == pytest.approx([1.25 / np.hypot(each[:, 2].std(), 0.2) for each in (narrow, wide)])
    assert (scales[:, :2] == [5.0, 1.0]).all()


@pytest.mark.parametrize("name", get_args(LawName))
def test_a_law_that_depends_on_standard_deviations_tells_no_scales_before_they_are_known(name: LawName) -> None:
    law = CoefficientLaw((0.0, 0.0), (5.0, 1.5), name, per_sd=(False, True))
    rng, beta = np.random.default_rng(1), np.ones((1, 2))
    for ask in (lambda: law.precision, lambda: law.draw(1, rng), lambda: law.log_density(beta)):
        with pytest.raises(ValueError, match="not known"):
            ask()
    assert law.at(np.zeros(2), np.array([1.0, 0.21])).scales == pytest.approx((5.0, 3.0))


@pytest.mark.parametrize("name", get_args(LawName))
def test_the_normal_law_beside_another_has_its_covariance(name: LawName) -> None:
    law = CoefficientLaw((0.5, -1.0), (0.3, 2.0), name, 5.0)
    assert law.as_normal.is_normal
    assert law.as_normal.covariance == pytest.approx(law.covariance)


def test_a_wider_prior_is_stated_by_the_same_key() -> None:
    assert CoefficientLaw((0.0, 0.0), (4.5, 1.5), per_sd=(False, True)).wider == "effect=3"
    assert CoefficientLaw((0.0, 0.0), (2.5, 2.5)).wider == "spread=5"
    assert CoefficientLaw.common(2, 4.0).wider == "precision=1"
