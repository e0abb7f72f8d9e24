"""The noise: its law against mpmath, its draws against its law, and planted bugs that the tests must catch."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes_cli.errors import DpbayesError, SpecError
from dpbayes_cli.privacy import noise
from dpbayes_cli.privacy.noise import DiscreteLaplace, parse_noise
from tests.statistical import FALSE_FAIL, assert_follows, assert_means, chi_square_p_value

DRAWS = 40_000


def law_on(law: DiscreteLaplace, reach: int) -> tuple[np.ndarray, np.ndarray]:
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
    """Both neighbours reach the same outputs, with log ratio at most epsilon, and the worst ratio is attained."""
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
    reached = law.epsilon_of(sensitivity)
    assert reached <= Fraction(epsilon)
    assert reached >= Fraction(epsilon) * (1 - Fraction(1, 10**9))
    # The float scale alone determines the law: its exact privacy loss is sensitivity / scale.
    assert Fraction(sensitivity) / Fraction(law.scale) <= Fraction(epsilon)


def test_an_engine_that_disagrees_with_the_plan_stops_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def map(self, sensitivity: int) -> float:
            return 0.9  # claims less privacy loss than the plan spends, however large the scale

    monkeypatch.setattr(noise, "_opendp_laplace", lambda scale: Broken())
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
    assert parse_noise(law.serialize()) == law
    with pytest.raises(ValueError, match="unknown"):
        parse_noise({"law": "gumbel", "scale": 1.0})
