"""The costs of discrete Laplace noise in every notion of privacy: against mpmath, enumeration, another accountant."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import reduce

import mpmath
import numpy as np
import pytest

from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.statistic import Statistic, Witness
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.privacy.composition import compose, parse_guarantee
from dpbayes_cli.privacy.conversions import gaussian_delta_above, gaussian_mu, laplace_rdp
from dpbayes_cli.privacy.kinds import NoisyShift, PureDP
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.laws.part_noise import PartNoise, noise_by_parts
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.plans import plan_of

ORDERS = tuple(Decimal(order) for order in ("1.1", "2", "8", "64", "1024"))


def series(shift: int, order: float, scale: float) -> mpmath.mpf:
    """The logarithm of the sum over all integers, of which the tails are geometric."""
    power, a = mpmath.mpf(order), 1 / mpmath.mpf(scale)
    p = mpmath.exp(-a)
    inner = mpmath.fsum(p ** ((1 - power) * shift + (2 * power - 1) * k) for k in range(1, shift))
    tails = (p ** ((1 - power) * shift) + p ** (power * shift)) / (1 - p)
    return mpmath.log((1 - p) / (1 + p) * (tails + inner)) / (power - 1)


def closed(shift: int, order: float, scale: float) -> mpmath.mpf:
    power, a = mpmath.mpf(order), 1 / mpmath.mpf(scale)
    one, other = mpmath.sinh(power * a), mpmath.sinh((power - 1) * a)
    total = one * mpmath.exp((power - 1) * shift * a) + other * mpmath.exp(-power * shift * a)
    return mpmath.log(total / (one + other)) / (power - 1)


def test_the_divergence_is_that_of_exact_arithmetic_and_its_decimal_is_never_below() -> None:
    """800 points over all orders, nine decades of scales and shifts up to a thousand scales."""
    rng = np.random.default_rng(1)
    with mpmath.workdps(60):
        for i in range(800):
            order, scale = 1.0 + 10.0 ** rng.uniform(-1, 3.01), 10.0 ** rng.uniform(-2, 7)
            shift = max(1, min(int(10.0 ** rng.uniform(0, 8)), int(700.0 * scale)))
            true = closed(shift, order, scale)
            if i < 80 and shift <= 100:
                assert abs(series(shift, order, scale) / true - 1) < 1e-25
            assert abs(laplace_rdp(shift, order, scale) / true - 1) < 1e-12
            if order <= 1024.0 and shift / scale < 500.0:
                one = PureDP(Decimal(1000), ((NoisyShift(Decimal(repr(scale)), shift, 1),),))
                assert mpmath.mpf(str(one.rdp(Decimal(repr(order))))) >= true


def test_stored_values_of_divergences() -> None:
    assert laplace_rdp(1, 2.0, 10.0) == pytest.approx(0.00995858439, rel=1e-8)
    assert laplace_rdp(1, 8.0, 30.0) == pytest.approx(0.00439870302, rel=1e-8)
    assert laplace_rdp(2, 32.0, 3.5) == pytest.approx(0.55334922964, rel=1e-10)
    adult = PureDP(Decimal(1), ((NoisyShift(Decimal(30), 1, 30),),))
    assert float(adult.rho) == pytest.approx(1 / 60, rel=1e-12)
    assert float(adult.rdp(Decimal(8))) == pytest.approx(0.13196, rel=1e-4)
    assert float(adult.former.rdp(Decimal(8))) == pytest.approx(0.95525, rel=1e-4)


def test_the_divergence_is_convex_in_the_shift() -> None:
    """So as many components as possible change by as much as possible in the worst shift."""
    for order in (1.1, 2.0, 30.0):
        for scale in (0.3, 2.0, 50.0):
            curve = np.array([laplace_rdp(s, order, scale) if s else 0.0 for s in range(200)])
            assert (np.diff(curve, 2) >= -1e-12 * curve[2:]).all()


@pytest.mark.parametrize(
    ("l1", "largest", "size", "worst"),
    [(4, 1, 6, (1, 1, 1, 1, 0, 0)), (9, 4, 6, (4, 4, 1, 0, 0, 0)), (3, 0, 2, (3, 0)), (4, 4, 2, (4, 0))],
)
def test_the_worst_shift_has_as_few_components_as_possible(l1: int, largest: int, size: int, worst: object) -> None:
    names = tuple(map(str, range(size)))
    assert Statistic(names, (), l1, Witness(None, None), 1, largest_change=largest).worst_shifts == (worst,)


def loss_of(shift: NoisyShift) -> dict[int, float]:
    """The law of the privacy loss of one component, in units of one scale: a loss of k / scale has probability [k]."""
    law, reach = DiscreteLaplace(float(shift.scale)), math.ceil(40 * float(shift.scale)) + shift.change
    z = np.arange(-reach, reach + 1)
    losses = np.abs(z - shift.change) - np.abs(z)
    return {int(k): float(np.exp(law.log_pmf(z[losses == k])).sum()) for k in np.unique(losses)}


def convolved(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    result: dict[int, float] = {}
    for k, p in one.items():
        for m, q in other.items():
            result[k + m] = result.get(k + m, 0.0) + p * q
    return result


@pytest.mark.parametrize(
    "shift", [((2.0, 1, 1),), ((2.0, 1, 2),), ((5.0, 3, 1),), ((6.0, 1, 6),), ((3.0, 2, 2), (3.0, 1, 3))]
)
def test_every_notion_covers_the_exact_trade_off(shift: tuple[tuple[float, int, int], ...]) -> None:
    """The exact delta at each epsilon, by enumeration of the privacy loss, is below the one of each notion."""
    shifts = tuple(NoisyShift(Decimal(repr(scale)), change, count) for scale, change, count in shift)
    epsilon = sum(each.components * each.change / float(each.scale) for each in shifts)
    cost = PureDP(Decimal(repr(epsilon)), (shifts,))
    assert parse_guarantee(cost.serialize()) == cost
    assert compose([cost]).former == compose([PureDP(cost.epsilon)])
    loss = reduce(convolved, [loss_of(each) for each in shifts for _ in range(each.components)])
    scale = float(shifts[0].scale)
    for share in range(12):
        at = share / 12 * epsilon
        exact = sum(p * -math.expm1(at - k / scale) for k, p in loss.items() if k / scale > at)
        assert exact <= gaussian_delta_above(float(cost.mu), at)
        assert exact <= float(cost.delta_at(Decimal(repr(at)))) * (1.0 + 1e-9)
    for order in ORDERS:
        terms = [math.log(p) + (float(order) - 1.0) * k / scale for k, p in loss.items()]
        divergence = float(np.logaddexp.reduce(terms)) / (float(order) - 1.0)
        assert divergence == pytest.approx(float(cost.rdp(order)), rel=1e-9)
        assert divergence <= float(order * cost.rho) * (1.0 + 1e-9)


def test_pure_guarantees_count_in_gaussian_accounts() -> None:
    for epsilon in (1e-6, 0.1, 1.0, 5.0, 30.0):
        mu = mpmath.mpf(gaussian_mu(epsilon))
        assert float(mpmath.ncdf(-mu / 2) * (1 + mpmath.exp(epsilon))) == pytest.approx(1.0, rel=1e-12)


def test_parts_add_up_their_own_scales() -> None:
    parts = PartNoise((DiscreteLaplace(2.0), DiscreteLaplace(8.0)), (1, 2))
    cost = parts.privacy([(1, 2, 2)])
    assert isinstance(cost, PureDP)
    assert cost.shifts == ((NoisyShift(Decimal("2.0"), 1, 1), NoisyShift(Decimal("8.0"), 2, 2)),)
    assert float(cost.rho) == pytest.approx(0.125 + 2 * 0.25**2 / 2)


@pytest.mark.parametrize("epsilon", ["1e-12", "3e-12", "700", "1000", "1.000000000070940586738288402557373046875"])
def test_each_epsilon_that_may_be_stated_has_a_cost(epsilon: str) -> None:
    """The smallest epsilon, the largest, and one of 40 digits that the noise spends exactly."""
    model, policy = BetaBernoulli("1", "0", 1.0, 1.0), RecordPolicy(Neighbors.REPLACE_ONE, "0")
    cost = plan_of(Laplace(), model, policy, Decimal(epsilon)).guarantee
    assert isinstance(cost, PureDP)
    assert cost.epsilon == Decimal(epsilon)
    assert float(cost.rho) == pytest.approx(float(epsilon) ** 2 / 2, rel=1e-9)
    assert float(cost.rdp(Decimal("1.1"))) <= 1.1 * float(cost.rho) * (1.0 + 1e-9)


def test_a_part_with_a_tiny_share_has_a_cost() -> None:
    """A share of epsilon may be smaller than the smallest epsilon of a release."""
    weights = [Fraction(1), Fraction(1, 1000)]
    noise = noise_by_parts(Decimal("1e-10"), [1, 1], weights, lambda _, share: DiscreteLaplace.calibrate(1, share))
    cost = noise.privacy([(1, 1)])
    assert isinstance(cost, PureDP)
    assert cost.at_most(Decimal("1e-10")).epsilon == Decimal("1e-10")
    with pytest.raises(ValueError, match="cannot cost less"):
        cost.at_most(Decimal("0.99e-10"))


def test_parts_of_equal_noise_are_stored_once() -> None:
    """A ledger holds two numbers of components for a network of a thousand tables with two weights."""
    parts = PartNoise((DiscreteLaplace(2.0), DiscreteLaplace(8.0)) * 500, (1, 2) * 500)
    cost = parts.privacy([(1, 1, 0) * 500])
    assert isinstance(cost, PureDP)
    assert cost.shifts == ((NoisyShift(Decimal("2.0"), 1, 500), NoisyShift(Decimal("8.0"), 1, 500)),)


@pytest.mark.parametrize("shift", [[], [["1e999", "1", "1"]], [["1e-999", "1", "1"]]])
def test_a_shift_without_a_cost_is_refused(shift: list[list[str]]) -> None:
    with pytest.raises(ValueError, match=r"positive|a shift must change"):
        parse_guarantee({"kind": "pure", "epsilon": "1", "shifts": [shift]})
