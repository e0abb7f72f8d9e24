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
from dpbayes_cli.privacy.laws import discrete_laplace
from dpbayes_cli.privacy.laws.discrete_gaussian import DiscreteGaussian
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from tests.statistical import FALSE_FAIL, assert_follows, assert_means, chi_square_p_value

DRAWS = 40_000


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


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_draws_follow_the_exact_pmf(scale: float) -> None:
    law = DiscreteLaplace(scale)
    draws = np.array(law.release([0] * DRAWS))
    assert_follows(draws, *law_on(law, law.radius(12)))


def test_simulated_noise_follows_the_same_pmf() -> None:
    law = DiscreteLaplace(3.0)
    assert_follows(law.simulate(np.random.default_rng(1), DRAWS), *law_on(law, law.radius(12)))


@pytest.mark.parametrize("factor", [0.5, 0.7, 1.3])
def test_noise_of_another_scale_is_caught(factor: float) -> None:
    """The chi-square test would reject halved noise, and noise that is 30 % off (false-pass far below 1e-9)."""
    claimed, drawn = DiscreteLaplace(4.0), DiscreteLaplace(4.0 * factor)
    p_value = chi_square_p_value(drawn.release([0] * DRAWS), *law_on(claimed, claimed.radius(12)))
    assert p_value < FALSE_FAIL


def test_components_are_noised_independently() -> None:
    law = DiscreteLaplace(2.0)
    pairs = np.array([law.release([100, -50, 7]) for _ in range(4000)]) - np.array([100, -50, 7])
    assert_means(pairs, 0.0)
    products = np.column_stack([pairs[:, 0] * pairs[:, 1], pairs[:, 0] * pairs[:, 2], pairs[:, 1] * pairs[:, 2]])
    assert_means(products, 0.0)
    assert not np.array_equal(pairs[:, 0], pairs[:, 1])


def test_one_draw_shared_by_all_components_is_caught() -> None:
    """The authors' code of Bernstein and Sheldon does this; the product test above must fail on it."""
    law = DiscreteLaplace(2.0)
    shared = np.array(law.release([0] * 4000))
    with pytest.raises(AssertionError, match="standard errors off"):
        assert_means(np.column_stack([shared * shared]), 0.0)


def test_two_releases_of_the_same_statistic_differ() -> None:
    law = DiscreteLaplace(1000.0)
    assert law.release([0] * 20) != law.release([0] * 20)


def test_every_output_of_one_neighbor_can_come_from_the_other() -> None:
    """Both neighbors reach the same outputs, with log ratio at most epsilon, and the worst ratio is attained."""
    law = DiscreteLaplace.calibrate(1, Decimal("0.5"))
    outputs = np.arange(-200, 200)
    ratio = law.log_pmf(outputs - 0) - law.log_pmf(outputs - 1)
    assert np.max(np.abs(ratio)) <= 0.5 + 1e-12
    assert np.max(np.abs(ratio)) >= 0.5 - 1e-9
    drawn_0, drawn_1 = set(law.release([0] * 5000)), set(law.release([1] * 5000))
    assert {-3, -2, -1, 0, 1, 2, 3, 4} <= drawn_0 & drawn_1


@settings(max_examples=60, deadline=None)
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

    monkeypatch.setattr(discrete_laplace, "opendp_measurement", lambda name, scale: Broken())
    with pytest.raises(DpbayesError, match="does not agree"):
        DiscreteLaplace.calibrate(1, Decimal("0.5"))


def test_a_statistic_without_sensitivity_is_refused() -> None:
    with pytest.raises(SpecError, match="sensitivity 0"):
        DiscreteLaplace.calibrate(0, Decimal(1))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        DiscreteLaplace(scale)


def test_the_radius_bounds_the_tails() -> None:
    law = DiscreteLaplace(3.7)
    radius = law.radius(20.0)
    log_ratio = law.log_pmf(np.array([0])) - law.log_pmf(np.array([radius - 1, radius]))
    assert log_ratio[0] < 20.0 <= log_ratio[1]


def test_a_law_survives_being_stored() -> None:
    law = DiscreteLaplace(0.1 + 0.2)
    assert parse_noise(law.serialize(), []) == law
    with pytest.raises(ValueError, match="unknown"):
        parse_noise({"law": "gumbel", "scale": 1.0}, [])


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


@pytest.mark.parametrize("scale", [0.7, 3.0, 25.0])
def test_gaussian_draws_follow_the_exact_pmf(scale: float) -> None:
    law = DiscreteGaussian(scale)
    assert_follows(np.array(law.release([0] * DRAWS)), *law_on(law, law.radius(10)))
    assert_follows(law.simulate(np.random.default_rng(1), DRAWS), *law_on(law, law.radius(10)))


def test_gaussian_noise_of_half_the_scale_is_caught() -> None:
    claimed = DiscreteGaussian(4.0)
    p_value = chi_square_p_value(DiscreteGaussian(2.0).release([0] * DRAWS), *law_on(claimed, claimed.radius(10)))
    assert p_value < FALSE_FAIL


def test_gaussian_components_are_noised_independently() -> None:
    law = DiscreteGaussian(3.0)
    pairs = np.array([law.release([100, -50]) for _ in range(4000)]) - np.array([100, -50])
    assert_means(np.column_stack([pairs, pairs[:, :1] * pairs[:, 1:]]), 0.0)


@pytest.mark.parametrize("rho", ["1e-9", "0.005", "0.1", "1", "12.5"])
@pytest.mark.parametrize("squared", [1, 2, 3])
def test_gaussian_calibration_spends_what_was_asked_and_not_more(squared: int, rho: str) -> None:
    law = DiscreteGaussian.calibrate(squared, Decimal(rho))
    spent = law.cost(squared)
    assert Fraction(Decimal(rho)) * (1 - Fraction(1, 10**9)) <= spent <= Fraction(Decimal(rho))
    assert float(spent) == pytest.approx(squared / (2 * law.scale**2), rel=1e-9)
    assert parse_noise(law.serialize(), []) == law


def test_a_shift_of_gaussian_noise_costs_its_renyi_divergence() -> None:
    """order shift^2 / (2 sigma^2), summed over the integers: the bound of zCDP is attained, and never exceeded."""
    law, order = DiscreteGaussian(2.5), 3.0
    z = np.arange(-60, 61)
    logs = order * law.log_pmf(z) + (1 - order) * law.log_pmf(z - 1)
    divergence = float(np.log(np.exp(logs).sum()) / (order - 1))
    assert divergence == pytest.approx(order / (2 * 2.5**2), rel=1e-9)


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)])
def test_no_statistic_is_too_large_to_be_released(law: DiscreteLaplace | DiscreteGaussian) -> None:
    """Noise of scale 3 is beyond 2^20 with probability below exp(-300000)."""
    large, small = law.release([1 << 70, -(1 << 70)])
    assert abs(large - (1 << 61)) < 1 << 20
    assert abs(small + (1 << 61)) < 1 << 20
