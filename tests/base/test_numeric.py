"""Exact decimals, and log Gamma ratios against arbitrary precision."""

from __future__ import annotations

from decimal import Decimal, Inexact

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_cli.base.numeric import (
    cost_text,
    decimal_text,
    exact_difference,
    exact_sum,
    log_gamma_ratio,
    log_gamma_ratio_at,
    normalize,
    parse_decimal,
)

HUGE_AND_TINY = (Decimal("1e600"), Decimal("1e-600"))


@pytest.mark.parametrize(
    ("text", "value"), [("1", "1"), ("0.10", "0.1"), (".5", "0.5"), ("2.", "2"), ("1e-6", "0.000001"), ("1E3", "1000")]
)
def test_decimals_are_parsed_exactly(text: str, value: str) -> None:
    assert decimal_text(parse_decimal(text)) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "nan", "inf", "1_000", "\uff11", "1e", "e5", "1.2.3", "0x1", "1e4000", "9" * 41, "1 2"]
)
def test_parse_decimal_refuses_texts_that_no_budget_should_hold(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text differs by cause
        parse_decimal(text)


@given(st.lists(st.decimals(min_value=0, max_value=1000, places=12, allow_nan=False), max_size=30))
def test_sums_are_exact_and_do_not_depend_on_the_order(values: list[Decimal]) -> None:
    assert exact_sum(values) == exact_sum(reversed(values))
    assert int(exact_sum(values).scaleb(12)) == sum(int(value.scaleb(12)) for value in values)


def test_sums_and_differences_refuse_to_round() -> None:
    with pytest.raises(Inexact):
        exact_sum(HUGE_AND_TINY)
    with pytest.raises(Inexact):
        exact_difference(*HUGE_AND_TINY)


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (0.999999999893157, "1"),  # follows from a stated epsilon of 1 and a delta
        (0.2999999999768, "0.3"),
        (0.23670438063975277, "0.236705"),
        (0.123456789, "0.123456789"),
        (1e-12, "0.000000000001"),
        (1000.0, "1000"),
    ],
)
def test_a_cost_is_shown_as_it_was_stated_and_never_too_small(cost: float, text: str) -> None:
    assert cost_text(cost) == text
    assert float(text) >= cost


@given(st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False))
def test_decimal_text_reads_back_as_the_decimal(value: Decimal) -> None:
    text = decimal_text(value)
    assert Decimal(text) == value
    assert "E" not in text
    assert not ("." in text and text.endswith("0"))


def test_log_gamma_ratio_broadcasts_and_is_zero_for_no_shift() -> None:
    assert log_gamma_ratio([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0]).shape == (2, 2)
    assert not log_gamma_ratio([1.0, 50.0], 0.0).any()


def test_normalized_weights_add_up_to_one_even_where_exp_would_overflow() -> None:
    weights = normalize(np.array([1000.0, 1001.0, -np.inf]))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[2] == 0.0


@pytest.mark.parametrize("shift", [-0.99, -0.5, -1e-6, 1e-9, 1e-3, 0.5, 1.0, 9.0, 1e3, 1e6])
def test_log_gamma_ratio_agrees_with_arbitrary_precision(shift: float) -> None:
    points = [x for x in (1e-3, 0.3, 1.0, 1.5, 7.0, 15.9, 16.0, 100.0, 1e4, 1e8, 1e8 + 1) if x + shift > 1e-4]
    with mpmath.workdps(60):
        exact = [float(mpmath.loggamma(mpmath.mpf(x) + mpmath.mpf(shift)) - mpmath.loggamma(x)) for x in points]
    np.testing.assert_allclose(log_gamma_ratio(points, shift), exact, rtol=1e-12, atol=1e-13)
    assert [log_gamma_ratio_at(x, shift) for x in points] == pytest.approx(exact, rel=1e-12, abs=1e-13)
