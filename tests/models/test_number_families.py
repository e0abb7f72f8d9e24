"""The law of a clamped or dropped number: moments and characteristic function against SciPy's laws and mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.core.record_law import RecordLaw
from dpbayes_cli.models.families.gamma_numbers import PoissonCounts
from dpbayes_cli.models.families.normal_numbers import interval_moments, interval_transform
from dpbayes_cli.models.families.normal_records import ConjugateNormalRecords
from dpbayes_cli.models.families.number_families import NumberLaw
from tests.conftest import often
from tests.models.number_laws import FAMILIES, code_masses


def law_of(name: str, outside: Outside, centered: bool) -> NumberLaw:
    """The law of a number on a grid that is so fine for continuous numbers that rounding does not matter."""
    family = FAMILIES[name]
    lower, upper, steps = (0.0, 5.0, 5) if family.lattice else (-1.5 if name == "normal-mean" else 0.0, 2.5, 1 << 15)
    return NumberLaw(family, NumericColumn("value", lower, upper, steps, family.lattice, outside), centered)


@pytest.mark.parametrize(("outside", "centered"), [("clamp", False), ("clamp", True), ("drop", True)])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_moments_of_a_record_are_those_of_its_law(name: str, outside: Outside, centered: bool) -> None:
    law = law_of(name, outside, centered)
    points, steps = law.draw_prior(7, np.random.default_rng(1)), law.column.steps
    masses = code_masses(law.family, law.column, law.parameters(points)[:, 0])
    codes = np.arange(steps + 1.0)
    parts = np.array([2.0 * codes - steps, np.full(steps + 1, steps)]) if centered else codes[None, :]
    mean = masses @ parts.T
    second = np.einsum("nc,ic,jc->nij", masses, parts, parts)
    found_mean, found_covariance = law.moments(points)
    unit = float(steps)
    np.testing.assert_allclose(found_mean / unit, mean / unit, atol=2e-9)
    expected = second - mean[:, :, None] * mean[:, None, :]
    np.testing.assert_allclose(found_covariance / unit**2, expected / unit**2, atol=2e-9)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_characteristic_function_has_the_moments_and_the_values_of_the_law(name: str, centered: bool) -> None:
    law = law_of(name, "clamp", centered)
    points, steps = law.draw_prior(7, np.random.default_rng(2)), law.column.steps
    mean, covariance = law.moments(points)
    h = 1e-4 / steps
    at = law.characteristic(points, np.array([[-h, 0.0, h]]))
    np.testing.assert_allclose(at[:, 1], 1.0, atol=1e-14)
    np.testing.assert_allclose((at[:, 2] - at[:, 0]) / (2j * h) / steps, mean[:, 0] / steps, atol=1e-7)
    square = (at[:, 0] - 2.0 * at[:, 1] + at[:, 2]).real / -(h**2) / steps**2
    np.testing.assert_allclose(square, (covariance[:, 0, 0] + mean[:, 0] ** 2) / steps**2, atol=1e-6)
    u = np.array([[0.3, 1.0, 4.0, 40.0]]) / steps
    contributions = 2.0 * np.arange(steps + 1) - steps if centered else np.arange(steps + 1.0)
    masses = code_masses(law.family, law.column, law.parameters(points)[:, 0])
    np.testing.assert_allclose(law.characteristic(points, u), masses @ np.exp(1j * u.T * contributions).T, atol=1e-6)
    tilted = law.characteristic(points, -1j * np.array([[1.0, -1.0]]) / steps)
    expected = masses @ np.exp(np.array([[1.0], [-1.0]]) / steps * contributions).T
    np.testing.assert_allclose(tilted, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean", "beta-geometric", "normal"])
def test_moments_of_counted_records_are_those_of_all_records_divided_by_the_counted_share(name: str) -> None:
    column = NumericColumn("value", 0.0, 3.0, 3, True, "drop")
    laws: list[RecordLaw]
    if name == "normal":
        column = NumericColumn("value", -1.0, 2.0, 1 << 14, outside="drop")
        laws = [ConjugateNormalRecords(column, True, inside, False, 0.2, 1.0, 2.0, 2.0) for inside in (False, True)]
    else:
        laws = [NumberLaw(FAMILIES[name], column, True, inside) for inside in (False, True)]
    points = laws[0].draw_prior(5, np.random.default_rng(1))
    (mean, covariance), (inside_mean, inside_covariance) = (law.moments(points) for law in laws)
    unit = float(column.steps) ** (2 if name == "normal" else 1)
    share = mean[:, -1] / unit
    second = covariance + mean[:, :, None] * mean[:, None, :]
    expected = second / share[:, None, None]
    np.testing.assert_allclose(inside_mean / unit, mean / share[:, None] / unit, rtol=1e-10, atol=1e-12)
    second_moments = inside_covariance + inside_mean[:, :, None] * inside_mean[:, None, :]
    np.testing.assert_allclose(second_moments / unit**2, expected / unit**2, rtol=1e-8, atol=1e-10)
    assert 0.0 < share.min() < 0.99


@pytest.mark.parametrize(
    ("mean", "sd"),
    often([
        (0.0, 0.01), (0.0, 100.0), (0.3, 0.6), (0.3, 0.1), (-0.95, 100.0), (-0.95, 0.4), (1.0, 3.0), (1.0, 0.01),
        (-1.3, 0.1), (-1.3, 0.6), (3.0, 0.4), (3.0, 3.0),
    ], 2, several=True),
)  # fmt: skip
def test_moments_inside_an_interval_are_those_of_mpmath(mean: float, sd: float) -> None:
    with mpmath.workdps(20):
        cuts = sorted({-1.0, 1.0, *(min(max(mean + k * sd, -1.0), 1.0) for k in (-8, -3, 0, 3, 8))})
        density = [float(mpmath.quad(lambda v, k=k: v**k * mpmath.npdf(v, mean, sd), cuts)) for k in range(5)]
    moments = interval_moments(np.array([mean]), np.array([sd]), 4)[:, 0]
    np.testing.assert_allclose(moments, density, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("mean", "sd"), often([(0.3, 0.5), (-1.4, 0.3), (4.0, 1.0), (0.0, 20.0), (0.9, 0.05)], 3, several=True)
)
def test_transforms_inside_an_interval_are_those_of_mpmath(mean: float, sd: float) -> None:
    frequencies = np.array([[0.0, 0.5, -3.0, 25.0, 2.0 - 1.5j, 30.0 + 2.0j]])
    transform = interval_transform(np.array([[mean]]), sd, frequencies, -1.0, 1.0)[0]
    with mpmath.workdps(20):
        cuts = sorted({-1.0, -0.5, 0.0, 0.5, 1.0, *(min(max(mean + k * sd, -1.0), 1.0) for k in (-6, -2, 0, 2, 6))})
        for u, value in zip(frequencies[0], transform, strict=True):
            exact = mpmath.quad(lambda x, u=u: mpmath.exp(1j * u * x) * mpmath.npdf(x, mean, sd), cuts)
            assert abs(complex(exact) - value) < 1e-12 * max(1.0, abs(complex(exact)))


def test_transforms_of_small_and_large_rates_together_are_sums_over_all_numbers() -> None:
    coordinates, upper = np.array([[-5.0], [3.0], [8.5]]), 9000.0
    frequencies = np.array([[1e-4, 3e-3, 0.02]])
    family, numbers = PoissonCounts(1.0, 1e-3), np.arange(upper + 1.0)
    masses = np.exp(family.log_pmf(coordinates, numbers))
    exact = masses @ np.exp(1j * frequencies.T * (numbers - upper / 2.0)).T
    assert np.abs(family.transform(coordinates, frequencies, 0.0, upper) - exact).max() < 1e-12
