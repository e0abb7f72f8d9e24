"""Analysts who choose each release after the earlier outputs never exceed the total of an (epsilon, delta) account.

A strategy is a tree: each output leads to the next release, which the account admits or refuses. Every release has few
outputs, so that the probabilities of all paths under both neighbors are computed, and with them the smallest delta for
which the strategy is (epsilon, delta)-DP. The strategies are random, and most releases are as costly as the account
allows. To see that such strategies find mistakes, they are also tried on a filter that is known to be wrong.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pytest

from dpbayes_cli.ledger.budgets import Lanes
from dpbayes_cli.ledger.union_budget import UnionBudget
from dpbayes_cli.privacy.conversions import round_up
from dpbayes_cli.privacy.guarantee import Guarantee
from dpbayes_cli.privacy.kinds import ApproximateDP, NoisyShift, PureDP, RenyiCurve

DEPTH = 4
ACCOUNTS = [
    UnionBudget.divide(Decimal(3), Decimal("1e-6"), (Decimal(8),)),
    UnionBudget.divide(Decimal(3), Decimal("1e-6"), (Decimal(8), Decimal(32))),
    UnionBudget.divide(Decimal(1), Decimal("1e-3"), (Decimal(2), Decimal(6), Decimal(24))),
    UnionBudget.divide(Decimal(3), Decimal("1e-6")),
]
Law = list[tuple[float, float]]
"""The probabilities of each output under the two neighbors."""


@dataclass(frozen=True)
class Release:
    """A mechanism with few outputs, and the guarantee that it is charged with."""

    law: Law
    guarantee: Guarantee


def randomized_response(epsilon: float) -> Release:
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    return Release([(likely, 1.0 - likely), (1.0 - likely, likely)], PureDP(round_up(epsilon)))


def discrete_laplace(scale: float, shift: int, components: int) -> Release:
    """Two-sided geometric noise on components that all move by a shift.

    Outputs beyond both ends of the shift have the same likelihood ratio, so each tail is one output; so are all outputs
    of several components with equal likelihood ratios.
    """
    tail, ratio = 1.0 / (1.0 + math.exp(-1.0 / scale)), math.exp(-1.0 / scale)
    middle = [(1.0 - ratio) / (1.0 + ratio) * ratio**k for k in range(shift + 1)]
    one = [(tail, tail * ratio**shift), *((middle[k], middle[shift - k]) for k in range(1, shift))]
    one.append((tail * ratio**shift, tail))
    law = {0: (1.0, 1.0)}
    for _ in range(components):
        law = added(law, {2 * i - shift: pair for i, pair in enumerate(one)})
    cost = PureDP(round_up(components * shift / scale), ((NoisyShift(Decimal(repr(scale)), shift, components),),))
    return Release(list(law.values()), cost)


def added(
    first: dict[int, tuple[float, float]], second: dict[int, tuple[float, float]]
) -> dict[int, tuple[float, float]]:
    law: dict[int, tuple[float, float]] = {}
    for i, (p, q) in first.items():
        for j, (r, s) in second.items():
            so_far = law.get(i + j, (0.0, 0.0))
            law[i + j] = (so_far[0] + p * r, so_far[1] + q * s)
    return law


def told_with_probability(epsilon: float, delta: float) -> Release:
    """The worst (epsilon, delta) mechanism: it tells the data with probability delta."""
    pure = [((1.0 - delta) * p, (1.0 - delta) * q) for p, q in randomized_response(epsilon).law]
    return Release([(delta, 0.0), (0.0, delta), *pure], ApproximateDP(round_up(epsilon), round_up(delta)))


def rare_event(probability: float, loss: float, orders: tuple[float, ...]) -> Release:
    """An event that is exp(loss) times as likely under one neighbor; it is charged with its Renyi curve."""
    p, q = probability, probability * math.exp(-loss)
    other = math.log1p(-p) - math.log1p(-q)

    def divergence(order: float) -> float:
        """The larger divergence of both directions; the sums minus 1 are added up, so that few digits cancel."""
        m = order - 1.0
        terms = [(p * math.expm1(m * loss), (1.0 - p) * math.expm1(m * other))]
        terms += [(q * math.expm1(-m * loss), (1.0 - q) * math.expm1(-m * other))]
        return max(math.log1p(sum(pair) + 1e-12 * sum(map(abs, pair))) for pair in terms) / m

    finite = [order for order in orders if order * loss < 600.0]
    points = tuple((Decimal(repr(order)), round_up(divergence(order))) for order in finite)
    return Release([(p, q), (1.0 - p, 1.0 - q)], RenyiCurve(points))


class Strategy:
    """A random strategy against an account, and the probabilities of its paths."""

    def __init__(self, budget: UnionBudget, rng: random.Random) -> None:
        self.budget, self.rng = budget, rng
        self.epsilon, self.delta = float(budget.epsilon), float(budget.delta)
        self.orders = tuple(float(order) for order, _ in budget.orders)
        self.paths: Law = []
        self.walk(budget.nothing, 1.0, 1.0, DEPTH)

    def walk(self, charged: Lanes, p: float, q: float, depth: int) -> None:
        release = self.choose(charged, p, q) if depth and max(p, q) > 1e-3 * self.delta else None
        if release is None:
            self.paths.append((p, q))
            return
        assert not self.budget.shortfall(charged, release.guarantee)
        charged = self.budget.added(charged, release.guarantee)
        turned = self.rng.random() < 0.2
        for a, b in release.law:
            self.walk(charged, p * (b if turned else a), q * (a if turned else b), depth - 1)

    def choose(self, charged: Lanes, p: float, q: float) -> Release | None:
        """Return a release of a random kind, mostly as costly as the account allows; None if none fits."""
        rng, order = self.rng, self.rng.choice(self.orders)
        if charged == self.budget.nothing and rng.random() < 0.7:  # a signal that decides which order is used up
            signal = rare_event(min(0.5, self.delta * 10 ** rng.uniform(0.0, 3.0)), rng.uniform(0.2, 3.0), self.orders)
            return None if self.budget.shortfall(charged, signal.guarantee) else signal
        lost = math.log(p / q) if p > 0.0 < q else 0.0
        loss = abs(self.epsilon - lost) + math.log(order / (order - 1.0)) if rng.random() < 0.7 else rng.uniform(0.1, 5)
        shift, components, share = rng.randint(1, 3), rng.randint(1, 3), rng.uniform(0.0, 0.01)
        kinds: list[Callable[[float], Release]] = [
            lambda size: rare_event(size / (1.0 + size), loss, self.orders),
            randomized_response,
            lambda size: discrete_laplace(shift * components / size, shift, components),
            lambda size: told_with_probability(size, share * self.delta),
        ]
        make = rng.choices(kinds, (6, 2, 2, 1))[0]
        low, high = math.log(1e-8), math.log(4.0)
        if self.budget.shortfall(charged, make(math.exp(low)).guarantee):
            return None
        for _ in range(14):
            middle = (low + high) / 2.0
            fits = not self.budget.shortfall(charged, make(math.exp(middle)).guarantee)
            low, high = (middle, high) if fits else (low, middle)
        return make(math.exp(low) * (1.0 if rng.random() < 0.6 else rng.random()))

    @property
    def exact_delta(self) -> float:
        """The smallest delta for which the strategy is (epsilon, delta)-DP."""
        grown = math.exp(self.epsilon)
        return max(
            math.fsum(max(0.0, p - grown * q) for p, q in self.paths),
            math.fsum(max(0.0, q - grown * p) for p, q in self.paths),
        )

    @property
    def used(self) -> float:
        """The exact delta as a share of the account's."""
        return self.exact_delta / self.delta


@pytest.mark.slow
@pytest.mark.parametrize("number", [200, 3000])
def test_adaptive_strategies_never_exceed_the_account(number: int) -> None:
    used = [Strategy(ACCOUNTS[seed % len(ACCOUNTS)], random.Random(seed)).used for seed in range(number)]
    assert max(used) <= 1.0
    assert max(used[0 :: len(ACCOUNTS)]) > 0.85, "strategies use up the nine tenths of delta that one order has"


class WrongBudget(UnionBudget):
    """The best order at the full delta."""

    def __post_init__(self) -> None:
        """Accept parts that add up to more than delta."""


@pytest.mark.slow
def test_adaptive_strategies_find_the_wrong_filter() -> None:
    right = ACCOUNTS[1]
    orders = tuple((order, right.delta) for order, _ in right.orders)
    wrong = WrongBudget(right.epsilon, right.delta, orders, Decimal(0))
    assert max(Strategy(wrong, random.Random(seed)).used for seed in range(200)) > 1.5
