"""The noise: its law against mpmath, its draws against its law, and planted bugs that the tests must catch."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.base.errors import DpbayesError, SpecError
from dpbayes_cli.core.stored_noise import parse_noise
from dpbayes_cli.privacy import measurements
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.conftest import often
from tests.statistical import assert_means

LAWS = [DiscreteLaplace(3.0), DiscreteGaussian(3.0)]


def law_on(law: DiscreteLaplace | DiscreteGaussian, reach: int) -> tuple[np.ndarray, np.ndarray]:
    support = np.arange(-reach, reach + 1)
    return support, np.exp(law.log_pmf(support))


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 7.5, 1e4, 1e12])
def test_the_pmf_is_that_of_the_discrete_laplace_law(scale: float) -> None:
    law = DiscreteLaplace(scale)
    with mpmath.workdps(50):
        ratio = mpmath.e ** (-1 / mpmath.mpf(scale))
        for z in (0, 1, -1, 5, 1000):
            exact = mpmath.log((1 - ratio) / (1 + ratio)) - abs(z) / mpmath.mpf(scale)
            assert float(law.log_pmf(np.array([z]))[0]) == pytest.approx(float(exact), rel=1e-12)
        assert law.variance == pytest.approx(float(2 * ratio / (1 - ratio) ** 2), rel=1e-9)


@pytest.mark.parametrize("law", often(LAWS, 2))
def test_components_are_noised_independently(law: DiscreteLaplace | DiscreteGaussian) -> None:
    """Components of one release, and two releases of the same component."""
    noise = np.array([law.release([100, -50, 7]) for _ in range(1500)]) - np.array([100, -50, 7])
    assert_means(np.column_stack([noise, noise[:, :2] * noise[:, 1:], noise[:, 0] * noise[:, 2]]), 0.0)
    assert_means((noise[:-1] * noise[1:])[::2], 0.0)


@settings(max_examples=60)
@given(st.decimals(min_value=Decimal("1e-12"), max_value=1000, places=12, allow_nan=False), st.integers(1, 64))
def test_calibration_never_exceeds_its_target_and_wastes_nothing(epsilon: Decimal, sensitivity: int) -> None:
    law = DiscreteLaplace.calibrate(sensitivity, epsilon)
    reached = law.cost(sensitivity)
    assert reached <= Fraction(epsilon)
    assert reached >= Fraction(epsilon) * (1 - Fraction(1, 10**9))
    # The float scale alone determines the law: its exact privacy loss is sensitivity / scale.
    assert Fraction(sensitivity) / Fraction(law.scale) <= Fraction(epsilon)


def test_an_engine_that_disagrees_with_the_plan_stops_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def map(self, sensitivity: int) -> float:
            return 0.9  # claims less privacy loss than the plan spends, however large the scale

    monkeypatch.setattr(measurements, "opendp_measurement", lambda name, scale: Broken())
    with pytest.raises(DpbayesError, match="does not agree"):
        DiscreteLaplace.calibrate(1, Decimal("0.5"))


def test_a_statistic_without_sensitivity_is_refused() -> None:
    with pytest.raises(SpecError, match="sensitivity 0"):
        DiscreteLaplace.calibrate(0, Decimal(1))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        DiscreteLaplace(scale)


@pytest.mark.parametrize("scale", [0.2, 0.7, 1.9, 2.1, 30.0, 1e5])
def test_the_pmf_is_that_of_the_discrete_gaussian_law(scale: float) -> None:
    law = DiscreteGaussian(scale)
    with mpmath.workdps(40):
        total = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * mpmath.mpf(scale) ** 2))) if scale < 50 else None
        total = total or mpmath.sqrt(2 * mpmath.pi) * scale
        for z in (0, 1, -3, 40):
            exact = -(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(scale) ** 2) - mpmath.log(total)
            assert float(law.log_pmf(np.array([z]))[0]) == pytest.approx(float(exact), rel=1e-12)
    if scale < 50:
        support, mass = law_on(law, law.radius(60))
        assert law.variance == pytest.approx(float((support**2 * mass).sum()), rel=1e-12)


@pytest.mark.parametrize(("squared", "rho"), [(1, "12.5"), (2, "1e-9"), (3, "0.1")])
def test_gaussian_calibration_spends_what_was_asked_and_not_more(squared: int, rho: str) -> None:
    law = DiscreteGaussian.calibrate(squared, Decimal(rho))
    spent = law.cost(squared)
    assert Fraction(Decimal(rho)) * (1 - Fraction(1, 10**9)) <= spent <= Fraction(Decimal(rho))
    assert float(spent) == pytest.approx(squared / (2 * law.scale**2), rel=1e-9)
    assert parse_noise(law.serialize(), []) == law


@pytest.mark.parametrize("law", LAWS)
def test_no_statistic_is_too_large_to_be_released(law: DiscreteLaplace | DiscreteGaussian) -> None:
    """Noise of scale 3 is beyond 2^20 with probability below exp(-300000)."""
    large, small = law.release([1 << 70, -(1 << 70)])
    assert abs(large - (1 << 61)) < 1 << 20
    assert abs(small + (1 << 61)) < 1 << 20
