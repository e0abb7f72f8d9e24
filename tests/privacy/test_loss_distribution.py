"""The joint cost of releases that are fixed in advance, against exact sums, brute force and other bounds."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from dpbayes_cli.base.errors import BudgetError
from dpbayes_cli.base.numeric import Floats
from dpbayes_cli.privacy.composition import compose
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import (
    ApproximateDP,
    GaussianDP,
    NoisyShift,
    PureDP,
    Shifts,
)
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.loss_distribution import DominatingPair, dominating_pairs, joint_cost, loss_distribution
from tests.conftest import cpu_limit, often

DELTA = Decimal("1e-6")


def counted(scale: str, components: int) -> PureDP:
    """Return the cost of noise on counts, which change by 1."""
    return PureDP(Decimal(components) / Decimal(scale), ((NoisyShift(Decimal(scale), 1, components),),))


def exact_delta(epsilon: float, times: int, at: float) -> mpmath.mpf:
    """Return the delta of randomized response that is repeated, summed with 50 digits."""
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        total = mpmath.mpf(0)
        for heads in range(times + 1):
            loss = (2 * heads - times) * mpmath.mpf(epsilon)
            if loss > at:
                mass = mpmath.binomial(times, heads) * p**heads * (1 - p) ** (times - heads)
                total += mass * (1 - mpmath.exp(at - loss))
        return total


def brute_force(scale: float, shift: tuple[int, ...], *places: float) -> Floats:
    """Return the deltas of a shift of independent discrete Laplace noise, summed over all outcomes near zero."""
    z = np.arange(-24, 25) if len(shift) > 2 else np.arange(-60, 61)
    law = DiscreteLaplace(scale)
    here, there = np.ones(()), np.ones(())
    for change in shift:
        here = np.multiply.outer(here, np.exp(law.log_pmf(z)))
        there = np.multiply.outer(there, np.exp(law.log_pmf(z - change)))
    ratios = (there / here).ravel()
    order = np.argsort(ratios)
    n_lost = np.searchsorted(ratios[order], np.exp(np.negative(places)))  # the outcomes with larger losses
    mass, other = (np.append(0.0, np.cumsum(each.ravel()[order]))[n_lost] for each in (here, there))
    return np.asarray(np.maximum(0.0, mass - np.exp(places) * other))


@pytest.mark.parametrize(
    ("scale", "components", "times"), [("10", 1, 300), ("30", 5, 40), ("2", 2, 3), ("125", 1, 1825)]
)
def test_the_cost_of_counts_is_exact_from_above(scale: str, components: int, times: int) -> None:
    cost = joint_cost({counted(scale, components): times}, DELTA)
    assert exact_delta(1 / float(scale), components * times, float(cost.epsilon)) <= float(DELTA)
    below = float(cost.epsilon) * 0.999 - 1e-4
    assert below < 0 or exact_delta(1 / float(scale), components * times, below) > float(DELTA)


@pytest.mark.parametrize("shift", [(1, 0), (0, -1), (1, 1), (1, -1)])
def test_the_pairs_of_counts_dominate_every_change(shift: tuple[int, int]) -> None:
    """Two components change by at most 1 each. The delta of every change is at most that of the pairs."""
    ((pair, number),) = dominating_pairs(counted("2", 2))
    composed = loss_distribution(pair, 1e-3).self_compose(number)
    for at in (-0.7, -0.2, 0.0, 0.1, 0.4, 0.6, 0.9):
        assert brute_force(2.0, shift, at) <= composed.get_delta_for_epsilon(at) + 1e-9


def laplace_losses(change: int, p: Fraction) -> dict[int, Fraction]:
    """Return the probabilities of the privacy losses of discrete Laplace noise, in units of 1 / scale, exactly."""
    losses = {change - 2 * k: (1 - p) / (1 + p) * p**k for k in range(1, change)}
    return {**losses, change: 1 / (1 + p), -change: p**change / (1 + p)} if change else {0: Fraction(1)}


def exact_deltas(shift: tuple[int, ...], p: Fraction) -> list[Fraction]:
    """Return the deltas of a shift where epsilon is -sum(shift) / scale, .., sum(shift) / scale, exactly."""
    total = {0: Fraction(1)}
    for change in shift:
        sums: Counter[int] = Counter()
        for (x, px), (y, py) in itertools.product(total.items(), laplace_losses(change, p).items()):
            sums[x + y] += px * py  # type: ignore[assignment]  # counters add fractions, too
        total = dict(sums)  # type: ignore[arg-type]
    norm = sum(shift)
    return [sum((q * (1 - p ** (x - t)) for x, q in total.items() if x > t), Fraction(0)) for t in range(-norm, norm)]


@pytest.mark.parametrize("p", [Fraction(1, 20), Fraction(1, 2), Fraction(19, 20)], ids=str)
def test_unequal_changes_are_easier_to_tell_apart(p: Fraction) -> None:
    """The deltas of (a + 1, b - 1) and of (a, b) differ by a closed form, which is not negative."""
    for a, b in itertools.combinations_with_replacement(range(7, 0, -1), 2):
        unequal, equal = exact_deltas((a + 1, b - 1), p), exact_deltas((a, b), p)
        for t, larger, smaller in zip(range(-a - b, a + b), unequal, equal, strict=True):
            if (t - a - b) % 2 == 0:  # between these losses both are linear in exp(epsilon)
                stated = p ** ((a + b - t) // 2) * (1 - p**2) / (1 + p) ** 2 if abs(t) <= a - b else 0
                assert larger - smaller == stated
            assert larger >= smaller


@pytest.mark.parametrize("scale", often([0.7, 3.0], 2))
def test_the_pairs_of_a_shift_dominate_every_change_that_it_majorizes(scale: float) -> None:
    """Three components change by at most 3 each, and by at most 5 together."""
    guarantee = DiscreteLaplace(scale).privacy([(3, 2, 0)])
    composed = None
    for pair, count in dominating_pairs(guarantee):
        part = loss_distribution(pair, 1e-2).self_compose(count)
        composed = part if composed is None else composed.compose(part)
    assert composed is not None
    places = np.linspace(-5.2 / scale, 5.2 / scale, 41)
    priced = composed.get_delta_for_epsilon(places)
    exact = brute_force(scale, (3, 2), *places)
    assert (exact <= priced + 1e-9).all()
    assert (priced <= exact + 2e-3).all()
    for shift in itertools.combinations_with_replacement(range(4), 3):  # in another order, the deltas are the same
        if sum(shift) <= 5:
            assert (brute_force(scale, shift, *places) <= priced + 1e-6).all()


@pytest.mark.parametrize(("scale", "change", "times"), [(20.0, 3, 100), (3.0, 2, 1), (900.0, 40, 365), (2.0, 9, 12)])
def test_the_cost_of_large_changes_is_exact_from_above(scale: float, change: int, times: int) -> None:
    """The losses are multiples of 1 / scale, whose probabilities are convolved."""
    masses = np.array([float(q) for _, q in sorted(laplace_losses(change, Fraction(math.exp(-1 / scale))).items())])
    total = np.ones(1)
    for _ in range(times):
        total = np.convolve(total, masses)
    losses = (2.0 * np.arange(total.size) - change * times) / scale

    def exact(at: float) -> float:
        return float((-np.expm1(np.minimum(0.0, at - losses)) * total).sum())

    cost = joint_cost({DiscreteLaplace(scale).privacy([(change,)]): times}, DELTA)
    assert exact(float(cost.epsilon)) <= float(DELTA)
    assert exact(0.998 * float(cost.epsilon)) > float(DELTA)


def test_a_year_of_a_regression_costs_half_of_randomized_response() -> None:
    """Two features and a target with S grid steps: no sum changes by more than 4 S^2, and all together by 16 S^2."""
    squared = 1 << 28
    regression = DiscreteLaplace(320.0 * squared).privacy([(4 * squared,) * 4])
    cost, response = (joint_cost({each: 365}, DELTA) for each in (regression, PureDP(regression.epsilon)))
    assert regression.epsilon == pytest.approx(Decimal("0.05"))
    assert cost.epsilon < Decimal("0.5") * response.epsilon


def test_the_envelope_of_several_shifts_is_above_each_of_them() -> None:
    """Both shifts have norm 6; neither has the larger delta at every epsilon."""
    vectors = (4, 1, 1), (3, 3, 0)
    first, second = vectors
    assert brute_force(1.0, first, 1.0) > brute_force(1.0, second, 1.0)
    assert brute_force(1.0, first, 3.0) < brute_force(1.0, second, 3.0)
    guarantee = DiscreteLaplace(1.0).privacy(vectors)
    assert len(guarantee.shifts) == 2
    ((pair, number),) = dominating_pairs(guarantee)
    assert number == 1
    envelope, response = (loss_distribution(each, 1e-3) for each in (pair, DominatingPair(pair.epsilon)))
    places = np.linspace(-6.5, 6.5, 131)
    high, highest = (each.get_delta_for_epsilon(places) for each in (envelope, response))
    exact = np.max([brute_force(1.0, shift, *places) for shift in vectors], axis=0)
    assert (exact <= high + 1e-9).all()
    assert (high <= highest + 1e-8).all()
    assert (high <= exact + 1e-3).all()
    assert (high < 0.9 * highest)[(places > 1) & (places < 5)].all()


def test_equal_scales_change_by_different_amounts() -> None:
    shifts: Shifts = ((NoisyShift(Decimal(2), 1, 3), NoisyShift(Decimal(8), 2, 2), NoisyShift(Decimal(8), 1, 1)),)
    assert set(dominating_pairs(PureDP(Decimal("2.125"), shifts))) == {
        (DominatingPair(0.5), 3),
        (DominatingPair(0.25, change=2), 2),
        (DominatingPair(0.125), 1),
    }


@pytest.mark.parametrize(
    "guarantee",
    [
        PureDP(Decimal("0.1")), PureDP(Decimal("0.0777")), counted("300", 30), GaussianDP(Decimal("0.07")),
        ApproximateDP(Decimal("0.1"), Decimal("1e-9")), compose([PureDP(Decimal("0.05")), counted("40", 2)]),
    ],
    ids=lambda each: str(each.kind),
)  # fmt: skip
@pytest.mark.parametrize("times", often([40, 1, 365], 3))
def test_the_cost_is_never_above_other_rules_of_composition(guarantee: Guarantee, times: int) -> None:
    cost = joint_cost({guarantee: times}, DELTA)
    other = compose([guarantee] * times).epsilon_at(DELTA)
    assert cost.epsilon <= other * Decimal("1.001") + Decimal(repr(cost.interval)) + Decimal("1e-5")


def test_gaussian_noise_costs_what_its_trade_off_says() -> None:
    cost = joint_cost({GaussianDP(Decimal("0.05")): 100}, DELTA)
    exact = GaussianDP(Decimal("0.5")).epsilon_at(DELTA)
    assert exact <= cost.epsilon <= exact * Decimal("1.001")


def test_a_schedule_admits_more_than_an_account() -> None:
    """Naive Bayes of Adult: 30 components change by 1 at epsilon 0.1."""
    assert joint_cost({counted("300", 30): 1200}, DELTA).epsilon <= 3


def test_a_year_of_five_releases_a_night_is_priced() -> None:
    releases: dict[Guarantee, int] = {counted(str(100 + 7 * i), 1 + i): 365 for i in range(5)}
    with cpu_limit(60.0):
        assert joint_cost(releases, DELTA).epsilon < 10


def test_what_doubles_cannot_carry_is_refused() -> None:
    with pytest.raises(BudgetError, match="at least 1e-9"):
        joint_cost({PureDP(Decimal(1)): 1}, Decimal("1e-10"))


def test_no_adaptive_strategy_tells_more_than_the_cost() -> None:
    """An adversary chooses, after each result, which release comes next and whether the neighbors differ in it.

    The noise on a count that changes by 1 has the losses of randomized response, so that the best strategy can be
    computed exactly from the end.
    """
    epsilons = (0.5, 0.4, 0.25, 0.25, 0.1)
    delta = Decimal("0.01")
    cost = joint_cost(Counter(counted(str(1 / epsilon), 1) for epsilon in epsilons), delta)

    def best(left: tuple[float, ...], loss: float) -> float:
        if not left:
            return max(0.0, -math.expm1(float(cost.epsilon) - loss))
        values = []
        for i, epsilon in enumerate(left):
            rest, likelier = left[:i] + left[i + 1 :], 1.0 / (1.0 + math.exp(-epsilon))
            up, down = best(rest, loss + epsilon), best(rest, loss - epsilon)
            values += [likelier * up + (1.0 - likelier) * down, best(rest, loss)]
        return max(values)

    assert 0.9 * float(delta) < best(epsilons, 0.0) <= float(delta)


@pytest.mark.parametrize("seed", often(range(10), 5))
def test_the_cost_of_two_kinds_of_counts_is_exact_from_above(seed: int) -> None:
    """The delta at the cost is summed over all numbers of positive losses of both kinds."""
    rng = random.Random(seed)
    epsilons = [10 ** -rng.uniform(-0.3, 3.5) for _ in range(2)]
    numbers = [rng.choice([1, 2, 7, 50, 365, 2000]) for _ in range(2)]
    delta = Decimal(rng.choice(["1e-9", "1e-6", "1e-4"]))
    counts = [counted(repr(1 / epsilon), 1) for epsilon in epsilons]
    cost = joint_cost(dict(zip(counts, numbers, strict=True)), delta)
    masses = [binom.pmf(np.arange(n + 1), n, expit(e)) for n, e in zip(numbers, epsilons, strict=True)]
    losses = np.add.outer(*((2 * np.arange(n + 1) - n) * e for n, e in zip(numbers, epsilons, strict=True)))

    def exact(at: float) -> float:
        above = -np.expm1(np.minimum(0.0, at - losses))
        return float((np.multiply.outer(*masses) * above).sum())

    assert exact(float(cost.epsilon)) <= float(delta)
    assert exact(0.997 * float(cost.epsilon)) > 0.98 * float(delta) or cost.epsilon <= Decimal("1e-4")
