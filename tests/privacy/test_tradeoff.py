"""The curves of a guarantee: bounds on exact curves, and never above the stated guarantee."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise

import pytest
from scipy.stats import norm

from dpbayes_cli.privacy.composition import compose
from dpbayes_cli.privacy.conversions import gaussian_delta
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    PureDP,
    RenyiCurve,
    ZeroConcentrated,
)
from dpbayes_cli.privacy.tradeoff import Tradeoff

CURVE = RenyiCurve(((Decimal(2), Decimal("0.2")), (Decimal(4), Decimal("0.5"))), Decimal(5))
GUARANTEES = [
    PureDP(Decimal(1)), PureDP(Decimal("1e-6")), PureDP(Decimal(50)), ApproximateDP(Decimal("0.5"), Decimal("1e-6")),
    BoundedRange(Decimal(2), 20), ZeroConcentrated(Decimal("0.05")), GaussianDP(Decimal("0.7")), CURVE,
    compose([PureDP(Decimal(1)), ZeroConcentrated(Decimal("0.1"))]),
]  # fmt: skip


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda g: f"{g.kind}")
def test_delta_decreases_and_is_never_above_the_guarantee(guarantee: Guarantee) -> None:
    curve = Tradeoff(guarantee)
    x = curve.epsilons(50)
    y = [curve.delta(each) for each in x]
    assert all(0.0 <= delta <= 1.0 for delta in y)
    assert all(b <= a + 1e-12 for a, b in pairwise(y))
    for epsilon, delta in zip(x, y, strict=True):
        assert delta <= float(guarantee.delta_at(Decimal(repr(epsilon)))) * (1 + 1e-9)
    assert curve.delta(x[-1]) <= float(guarantee.delta) + 1.1e-12
    for delta in (1e-3, 1e-9):
        smallest = curve.epsilon(delta)
        if math.isfinite(smallest):
            assert smallest <= float(guarantee.epsilon_at(Decimal(repr(delta))))
    powers = [curve.power(level) for level in (0.0, 0.05, 0.5, 1.0)]
    assert all(power >= level for power, level in zip(powers, (0.0, 0.05, 0.5, 1.0), strict=True))
    assert powers == sorted(powers)


def test_pure_epsilon_is_randomized_response() -> None:
    """Its two answers have probabilities p and 1 - p: delta and power are exact."""
    epsilon = 1.0
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    curve = Tradeoff(PureDP(Decimal(1)))
    for smaller in (0.0, 0.3, 0.9):
        exact = p - math.exp(smaller) * (1 - p)
        assert curve.delta(smaller) == pytest.approx(exact, abs=1e-12)
    assert curve.delta(1.0) == 0.0
    assert curve.power(0.05) == pytest.approx(math.exp(epsilon) * 0.05, rel=1e-9)
    assert curve.power(1 - p) == pytest.approx(p, rel=1e-9)


def test_gaussian_dp_is_exact() -> None:
    mu = 0.7
    curve = Tradeoff(GaussianDP(Decimal("0.7")))
    for epsilon in (0.0, 0.5, 2.0):
        assert curve.delta(epsilon) == pytest.approx(gaussian_delta(mu, epsilon), rel=1e-9)
    exact = float(norm.cdf(norm.ppf(0.05) + mu))
    assert exact <= curve.power(0.05) <= exact + 2e-3


def test_the_renyi_curve_ends_below_lambda() -> None:
    assert [order for order, _ in Tradeoff(CURVE).renyi if order > 4] == []
    assert Tradeoff(CURVE).renyi[-1] == (4.0, 0.5)
