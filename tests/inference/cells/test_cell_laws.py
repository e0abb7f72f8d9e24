"""The laws of noise in published tables, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.registry import noise_law_type
from dpbayes_cli.inference.cells.cell_laws import CELL_LAWS
from dpbayes_cli.spec.table_spec import TableNoise

SCALES = (0.3, 1.0, 2.5, 15.0, 40.0)


def definition(name: str, z: np.ndarray, scale: float) -> np.ndarray:
    """The probabilities or densities, from SciPy or from sums of the weights that define the law."""
    if name == "laplace":
        return np.asarray(stats.laplace.pdf(z, scale=scale))
    if name == "gaussian":
        return np.asarray(stats.norm.pdf(z, scale=scale))
    k = np.arange(-4000, 4001)
    weight = {"discrete-laplace": np.abs(k) / scale, "discrete-gaussian": (k / scale) ** 2 / 2}[name]
    mass = np.exp(-weight) / np.exp(-weight).sum()
    return np.asarray(mass[z.astype(int) + 4000])


@pytest.mark.parametrize("name", CELL_LAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_probabilities_are_those_of_the_definition(name: str, scale: float) -> None:
    law, z = CELL_LAWS[name], np.arange(-60.0, 61.0)
    expected = definition(name, z, scale)
    kept = expected > 1e-280
    np.testing.assert_allclose(np.exp(law.log_density(z, np.array(scale)))[kept], expected[kept], rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in CELL_LAWS if CELL_LAWS[name].is_discrete])
def test_probabilities_are_those_of_the_laws_of_releases(name: str) -> None:
    z = np.arange(-30, 31)
    for scale in SCALES:
        expected = noise_law_type(name).parse(scale, {}).log_pmf(z)
        np.testing.assert_allclose(CELL_LAWS[name].log_density(z.astype(float), np.array(scale)), expected, atol=1e-9)


@pytest.mark.parametrize("name", CELL_LAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_tails_are_sums_of_the_probabilities(name: str, scale: float) -> None:
    law, t = CELL_LAWS[name], np.arange(-25.0, 26.0)
    if law.is_discrete:
        k = np.arange(-2000.0, 2001.0)
        mass = np.exp(law.log_density(k, np.array(scale)))
        expected = np.array([mass[k >= each].sum() for each in t])
    else:
        expected = (stats.laplace if name == "laplace" else stats.norm).sf(t, scale=scale)
    tail = np.exp(law.log_upper_tail(t, np.array(scale)))
    kept = expected > 1e-12
    np.testing.assert_allclose(tail[kept], expected[kept], rtol=2e-3 if scale > 16 else 1e-8)
    np.testing.assert_allclose(np.exp(law.log_lower_tail(t, np.array(scale))), 1.0 - tail, atol=1e-3)


@pytest.mark.parametrize("name", CELL_LAWS)
def test_far_tails_stay_finite(name: str) -> None:
    law = CELL_LAWS[name]
    for scale in (1.0, 30.0):
        values = law.log_upper_tail(np.array([-1e5, 0.0, 50.0 * scale]), np.array(scale))
        assert np.isfinite(values).all()
        assert (np.diff(values) < 0).all()


@pytest.mark.parametrize("law", ["discrete-laplace", "laplace", "discrete-gaussian", "gaussian"])
@pytest.mark.parametrize("variance", [0.8, 8.0, 250.0])
def test_a_variance_states_the_scale_with_this_variance(law: str, variance: float) -> None:
    """A planted bug takes the variance for the scale."""
    scale = TableNoise(law=law, variance=variance).stated_scale  # type: ignore[arg-type]
    assert scale is not None
    if CELL_LAWS[law].is_discrete:
        z = np.arange(-2000.0, 2001.0)
        exact = float((np.exp(CELL_LAWS[law].log_density(z, np.array(scale))) * z**2).sum())
    else:
        exact = float((stats.laplace if law == "laplace" else stats.norm).var(scale=scale))
    assert exact == pytest.approx(variance, rel=1e-3)


def test_a_privacy_cost_states_the_scale() -> None:
    assert TableNoise(law="discrete-laplace", epsilon=0.5, sensitivity=3.0).stated_scale == 6.0
    assert TableNoise(law="laplace", epsilon=0.5).stated_scale == 2.0
    stated = TableNoise(law="discrete-gaussian", rho=0.1, sensitivity=2.0).stated_scale
    assert stated == pytest.approx(math.sqrt(4.0 / 0.2))
    assert TableNoise(law="gaussian", scale_column="b").stated_scale is None
