"""Rounded Gaussian noise: its probabilities in the tails, and its guarantee against exact divergences."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy.conversions import gaussian_delta_above
from dpbayes_cli.privacy.laws.rounded_gaussian import RoundedGaussian
from tests.statistical import assert_uniform

EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize("scale", [0.001, 0.3, 0.9, 1.0, 1.7, 4.5, 63.0, 64.0, 1e4, 1e9, 1e15])
def test_log_probabilities_are_right_far_into_the_tails(scale: float) -> None:
    """Against mpmath, up to 1,000 scales, and on both sides of the switch between the two formulas."""
    switch = int(4.0 * scale**2)
    numbers = {0, 1, 2, 3, 17, switch, switch + 1} | {int(scale * k) for k in (0.5, 1, 5, 9, 20, 37, 100, 1000)}
    z = np.array(sorted(number for number in numbers if number <= 1000.0 * scale + 20.0))
    with mpmath.workdps(60):
        for number, stated in zip(z.tolist(), RoundedGaussian(scale).log_pmf(z).tolist(), strict=True):
            low, high = ((number + half) / (mpmath.sqrt(2) * mpmath.mpf(scale)) for half in (-0.5, 0.5))
            if low < 1e4:
                exact = mpmath.log((mpmath.erfc(low) - mpmath.erfc(high)) / 2)
                assert abs(stated - exact) <= 1e-14 * (1 + abs(exact)), number


@pytest.mark.parametrize("shift", [(1,), (2,), (5,), (1, 1), (4, 3), (5, 5), (1, 1, 1), (5, -2, 1)])
@pytest.mark.parametrize("scale", [0.4, 1.0, 2.5])
def test_no_tradeoff_is_better_than_that_of_mu(scale: float, shift: tuple[int, ...]) -> None:
    """The exact hockey-stick divergence, summed over all outcomes, is at most the delta of mu-GDP at every epsilon."""
    law = RoundedGaussian(scale)
    mu = float(law.privacy([shift]).mu)
    assert mu == pytest.approx(math.hypot(*shift) / scale, rel=1e-15)
    reach = law.radius(40.0) + 5
    z = np.arange(-reach, reach + 1)
    one, other = np.zeros(1), np.zeros(1)
    for step in shift:
        one = np.add.outer(one, law.log_pmf(z)).ravel()
        other = np.add.outer(other, law.log_pmf(z - step)).ravel()
    for epsilon in EPSILONS:
        delta = np.maximum(np.exp(one) - np.exp(epsilon + other), 0.0).sum()
        assert delta <= gaussian_delta_above(mu, epsilon) * (1.0 + 1e-9) + 1e-15


@settings(max_examples=100)
@given(
    squared=st.integers(1, 10**20),
    mu=st.decimals("1e-4", "40", allow_nan=False, places=12).filter(lambda mu: mu >= Decimal("1e-4")),
)
def test_calibration_never_exceeds_mu_and_wastes_nothing(squared: int, mu: Decimal) -> None:
    law = RoundedGaussian.calibrate(squared, mu * mu)
    assert squared <= Fraction(law.scale) ** 2 * Fraction(mu * mu)
    assert squared >= Fraction(math.nextafter(law.scale, 0.0)) ** 2 * Fraction(mu * mu) * (1 - Fraction(1, 10**15))


@settings(max_examples=100)
@given(shift=st.lists(st.integers(-9, 9), min_size=1, max_size=4).filter(any), scale=st.floats(0.5, 1e6))
def test_the_stated_mu_is_never_below_the_true_one(shift: list[int], scale: float) -> None:
    true = Fraction(sum(z * z for z in shift)) / Fraction(scale) ** 2
    stated = Fraction(RoundedGaussian(scale).privacy([shift]).mu) ** 2
    assert true <= stated <= true * (1 + Fraction(1, 10**28))


def test_too_much_noise_and_no_sensitivity_are_refused() -> None:
    with pytest.raises(SpecError, match="noise of scale"):
        RoundedGaussian.calibrate(10**10, Decimal("1e-21"))
    with pytest.raises(SpecError, match="no record changes"):
        RoundedGaussian.calibrate(0, Decimal(1))
    for scale in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive and finite"):
            RoundedGaussian(scale)


@pytest.mark.parametrize("scale", [1e5, 2.0**40, 2.0**41, 1e15])
def test_wide_noise_is_normal_and_never_overflows(scale: float) -> None:
    """False-fail rate 1e-9; each decision by floats, and each by decimals."""
    drawn = RoundedGaussian(scale).release([0] * 1000)
    assert all(type(number) is int for number in drawn)
    assert_uniform(ndtr(np.array(drawn) / scale))
    ends = RoundedGaussian(scale).release([2**63 - 1, -(2**63), 2**70])
    assert all(-(2**63) <= number < 2**63 for number in ends)
