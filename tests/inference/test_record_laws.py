"""Moments and characteristic functions of what a record adds to a sum, against quadrature and SciPy."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.columns import NumericColumn, Outside
from dpbayes_cli.core.noisy_observation import RecordLaw
from dpbayes_cli.models.families.beta_numbers import GeometricNumbers
from dpbayes_cli.models.families.gamma_numbers import ExponentialTimes, PoissonCounts
from dpbayes_cli.models.families.normal_numbers import NormalNumbers, interval_moments, interval_transform
from dpbayes_cli.models.families.normal_records import NormalRecords
from dpbayes_cli.models.families.number_families import NumberFamily, NumberLaw
from dpbayes_cli.models.families.wishart_records import WishartRecords

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats


FAMILIES: dict[str, NumberFamily] = {
    "gamma-poisson": PoissonCounts(3.0, 1.5),
    "beta-geometric": GeometricNumbers(2.0, 3.0),
    "gamma-exponential": ExponentialTimes(3.0, 1.5),
    "normal-mean": NormalNumbers(0.4, 1.0, 0.7),
}


def cdf(family: NumberFamily, parameters: Floats, numbers: Floats) -> Floats:
    """Return P(X <= number), shape (n_parameters, n_numbers), by SciPy's laws."""
    theta = parameters[:, None]
    if isinstance(family, PoissonCounts):
        return np.asarray(stats.poisson.cdf(numbers, theta))
    if isinstance(family, GeometricNumbers):
        return np.asarray(stats.geom.cdf(numbers + 1.0, theta))
    if isinstance(family, ExponentialTimes):
        return np.asarray(stats.expon.cdf(numbers, scale=1.0 / theta))
    assert isinstance(family, NormalNumbers)
    return np.asarray(stats.norm.cdf(numbers, theta, family.variance**0.5))


def code_masses(family: NumberFamily, column: NumericColumn, parameters: Floats) -> Floats:
    """Return the probabilities of the codes 0..steps of a clamped or dropped number, shape (n_parameters, steps + 1).

    Those of a dropped number add up to less than one.
    """
    edges = np.asarray(column.lower + column.step * (np.arange(column.steps) + 0.5), dtype=np.float64)
    masses = np.diff(cdf(family, parameters, edges), axis=1, prepend=0.0, append=1.0)
    if column.outside == "drop":
        ends = cdf(family, parameters, np.array([column.lower, column.upper]))
        if not family.lattice:
            masses[:, 0] -= ends[:, 0]
        masses[:, -1] -= 1.0 - ends[:, 1]
    return masses


def column_of(name: str, outside: Outside = "clamp") -> NumericColumn:
    """Return few codes for integers, and so many for real numbers that rounding does not matter."""
    lattice = FAMILIES[name].lattice
    lower, upper = -1.5 if name == "normal-mean" else 0.0, 5.0 if lattice else 2.5
    return NumericColumn("value", lower, upper, 5 if lattice else 1 << 15, lattice, outside)


@pytest.mark.parametrize(("outside", "centered"), [("clamp", False), ("clamp", True), ("drop", True)])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_moments_of_a_record_are_those_of_its_law(name: str, outside: Outside, centered: bool) -> None:
    family = FAMILIES[name]
    column = column_of(name, outside)
    steps = column.steps
    points = family.draw_prior(7, np.random.default_rng(1))
    masses = code_masses(family, column, family.parameter(points))
    codes = np.arange(steps + 1.0)
    parts = np.array([2.0 * codes - steps, np.full(steps + 1, steps)]) if centered else codes[None, :]
    mean = masses @ parts.T
    second = np.einsum("nc,ic,jc->nij", masses, parts, parts)
    found_mean, found_covariance = NumberLaw(family, column, centered).moments(points[:, None])
    unit = float(steps)
    np.testing.assert_allclose(found_mean / unit, mean / unit, atol=2e-9)
    expected = second - mean[:, :, None] * mean[:, None, :]
    np.testing.assert_allclose(found_covariance / unit**2, expected / unit**2, atol=2e-9)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_characteristic_function_has_the_moments_and_the_values_of_the_law(name: str, centered: bool) -> None:
    family = FAMILIES[name]
    column = column_of(name)
    steps = column.steps
    law = NumberLaw(family, column, centered)
    points = family.draw_prior(7, np.random.default_rng(2))[:, None]
    mean, covariance = law.moments(points)
    h = 1e-4 / steps
    at = law.characteristic(points, np.array([[-h, 0.0, h]]))
    np.testing.assert_allclose(at[:, 1], 1.0, atol=1e-14)
    np.testing.assert_allclose((at[:, 2] - at[:, 0]) / (2j * h) / steps, mean[:, 0] / steps, atol=1e-7)
    square = (at[:, 0] - 2.0 * at[:, 1] + at[:, 2]).real / -(h**2) / steps**2
    np.testing.assert_allclose(square, (covariance[:, 0, 0] + mean[:, 0] ** 2) / steps**2, atol=1e-6)
    u = np.array([[0.3, 1.0, 4.0, 40.0]]) / steps
    contributions = 2.0 * np.arange(steps + 1) - steps if centered else np.arange(steps + 1.0)
    masses = code_masses(family, column, family.parameter(points[:, 0]))
    np.testing.assert_allclose(law.characteristic(points, u), masses @ np.exp(1j * u.T * contributions).T, atol=1e-6)
    tilted = law.characteristic(points, -1j * np.array([[1.0, -1.0]]) / steps)
    expected = masses @ np.exp(np.array([[1.0], [-1.0]]) / steps * contributions).T
    np.testing.assert_allclose(tilted, expected, rtol=1e-6)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_moments_of_normal_records_are_those_of_quadrature(outside: Outside, counted: bool) -> None:
    column = NumericColumn("value", -2.0, 3.0, 1 << 14, outside=outside)
    law = NormalRecords(0.3, 2.0, 3.0, 3.0, column, counted)
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


@pytest.mark.parametrize("name", ["gamma-exponential", "normal-mean", "beta-geometric", "normal"])
def test_moments_of_counted_records_are_those_of_all_records_divided_by_the_counted_share(name: str) -> None:
    column = NumericColumn("value", 0.0, 3.0, 3, True, "drop")
    laws: list[RecordLaw]
    if name == "normal":
        column = NumericColumn("value", -1.0, 2.0, 1 << 14, outside="drop")
        laws = [NormalRecords(0.2, 1.0, 2.0, 2.0, column, True, inside) for inside in (False, True)]
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


PLACES = [(m, s) for m in (0.0, 0.3, -0.95, 1.0, -1.3, 3.0) for s in (0.01, 0.1, 0.4, 0.6, 3.0, 100.0)]


@pytest.mark.parametrize(
    ("mean", "sd"),
    [place if i % 3 == 0 else pytest.param(*place, marks=pytest.mark.slow) for i, place in enumerate(PLACES)],
)
def test_moments_inside_an_interval_are_those_of_mpmath(mean: float, sd: float) -> None:
    with mpmath.workdps(40):
        cuts = sorted({-1.0, 1.0, *(min(max(mean + k * sd, -1.0), 1.0) for k in (-8, -3, 0, 3, 8))})
        density = [float(mpmath.quad(lambda v, k=k: v**k * mpmath.npdf(v, mean, sd), cuts)) for k in range(5)]
    moments = interval_moments(np.array([mean]), np.array([sd]), 4)[:, 0]
    np.testing.assert_allclose(moments, density, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(("mean", "sd"), [(0.3, 0.5), (-1.4, 0.3), (4.0, 1.0), (0.0, 20.0), (0.9, 0.05)])
def test_transforms_inside_an_interval_are_those_of_mpmath(mean: float, sd: float) -> None:
    frequencies = np.array([[0.0, 0.5, -3.0, 25.0, 2.0 - 1.5j, 30.0 + 2.0j]])
    transform = interval_transform(np.array([[mean]]), sd, frequencies, -1.0, 1.0)[0]
    with mpmath.workdps(30):
        cuts = sorted({-1.0, -0.5, 0.0, 0.5, 1.0, *(min(max(mean + k * sd, -1.0), 1.0) for k in (-6, -2, 0, 2, 6))})
        for u, value in zip(frequencies[0], transform, strict=True):
            exact = mpmath.quad(lambda x, u=u: mpmath.exp(1j * u * x) * mpmath.npdf(x, mean, sd), cuts)
            assert abs(complex(exact) - value) < 1e-12 * max(1.0, abs(complex(exact)))
