"""Renyi divergences of conjugate posteriors: reference values, brute force over neighbors, draws, the public grid."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.privacy import coordinate
from dpbayes_cli.privacy.conjugate import ConjugateFamily, DirichletFamily
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.real_conjugate import BetaFailuresFamily, GammaRateFamily, GammaShapeFamily, NormalFamily
from tests.conftest import often
from tests.statistical import FALSE_FAIL, uniformity_p_value

PAPER = DirichletFamily((6.0, 12.0), 100)


def test_the_reference_divergences() -> None:
    assert PAPER.divergence(2.0, 1.0, 1.0) == pytest.approx(0.191290227, abs=1e-9)
    assert DirichletFamily((2.0, 3.0, 4.0), 6).divergence(2.0, 1.0, 1.0) == pytest.approx(0.980829253, abs=1e-9)


def dirichlet_divergence(order: float, p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """By the definition with log-partitions, in 40 digits; infinite where the mixture is not normalizable."""
    mixed = [order * a + (1 - order) * b for a, b in zip(p, q, strict=True)]
    if min(mixed) <= 0:
        return math.inf
    with mpmath.workdps(40):

        def partition(shape: Any) -> Any:
            return sum(mpmath.loggamma(x) for x in shape) - mpmath.loggamma(mpmath.fsum(shape))

        return float((partition(mixed) - order * partition(p)) / (order - 1) + partition(q))


@pytest.mark.parametrize("r", [0.3, 1.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
@pytest.mark.parametrize(
    ("prior", "n"),
    [((6.0, 12.0), 1), ((6.0, 12.0), 8), ((0.7, 2.0), 5), ((2.0, 3.0, 4.0), 6), ((1.0, 1.0, 5.0), 4),
     ((3.0, 0.95, 2.0, 1.5), 4)],
)  # fmt: skip
def test_the_supremum_is_that_of_brute_force_over_all_neighbors(
    prior: tuple[float, ...], n: int, order: float, r: float
) -> None:
    k = len(prior)
    data = [c for c in itertools.product(range(n), repeat=k) if sum(c) == n - 1]
    worst = 0.0
    for shared in data:
        for i, j in itertools.permutations(range(k), 2):
            p = tuple(a + r * (c + (x == i)) for x, (a, c) in enumerate(zip(prior, shared, strict=True)))
            q = tuple(a + r * (c + (x == j)) for x, (a, c) in enumerate(zip(prior, shared, strict=True)))
            worst = max(worst, dirichlet_divergence(order, p, q))
    family = DirichletFamily(prior, n)
    assert family.divergence(order, r, 1.0) == pytest.approx(worst, rel=1e-10)
    assert (order >= family.order_max(r, 1.0)) == math.isinf(worst)


@pytest.mark.parametrize(("r", "m"), [(1.0, 1.0), (0.3, 1.0), (1.0, 0.4)])
@pytest.mark.parametrize("order", often([3.5, 1.1], 2))
@pytest.mark.parametrize(
    ("prior", "successes", "bound", "n"),
    [((6.0, 12.0), 1, 3, 1), ((1.0, 1.0), 1, 2, 4), ((0.3, 9.0), 1, 4, 3), ((50.0, 2.0), 3, 2, 3),
     ((2.0, 40.0), 1, 7, 2)],
)  # fmt: skip
def test_the_supremum_over_failures_is_that_of_brute_force_over_all_neighbors(
    prior: tuple[float, float], successes: int, bound: int, n: int, order: float, r: float, m: float
) -> None:
    """All pairs of data sets of n numbers in 0..bound that differ in one; in 40 digits, by the definition."""
    (alpha, beta), worst = prior, 0.0
    first = alpha / m + r * successes * n
    for others, x, y in itertools.product(range((n - 1) * bound + 1), range(bound + 1), range(bound + 1)):
        p, q = ((first, beta / m + r * (others + number)) for number in (x, y))
        worst = max(worst, dirichlet_divergence(order, p, q))
    family = BetaFailuresFamily(alpha, beta, successes, bound, n)
    divergence = family.divergence(order, r, m)
    assert (order >= family.order_max(r, m)) == math.isinf(worst) == math.isinf(divergence)
    assert divergence == pytest.approx(worst, rel=1e-10)
    assert divergence >= worst * (1 - 1e-15)


def test_the_rounding_error_of_many_records_is_added() -> None:
    """The small term of the total is subtracted rounded down: up to 10^9 records, in 40 digits."""
    for n, order in itertools.product((10, 10**5, 10**9), (1.01, 2.0, 20.0)):
        exact = max(
            dirichlet_divergence(order, (1.0 + n, p), (1.0 + n, q)) for p, q in ((500.0, 520.0), (520.0, 500.0))
        )
        divergence = BetaFailuresFamily(1.0, 500.0, 1, 20.0, n).divergence(order, 1.0, 1.0)
        assert exact <= divergence <= exact * (1 + 1e-8)


def test_the_order_at_which_a_divergence_becomes_infinite() -> None:
    for family, expected in (
        (PAPER, 7.0), (GammaShapeFamily(3.0, 1.0, 2.0, 10), 2.5), (GammaRateFamily(3.0, 5.0, 2.0, 10), 3.5),
        (BetaFailuresFamily(1.0, 5.0, 1.0, 2.0, 10), 3.5),
    ):  # fmt: skip
        assert family.order_max(1.0, 1.0) == expected
        assert math.isinf(family.divergence(expected, 1.0, 1.0))
        assert math.isfinite(family.divergence(expected - 1e-4, 1.0, 1.0))
        assert math.isinf(family.divergence(expected * (1 - 1e-9), 1.0, 1.0)), "floats hold nothing of it there"
    assert math.isinf(NormalFamily(0.0, 1.0, 1.0, -1.0, 1.0, 5).order_max(1.0, 1.0))


@pytest.mark.parametrize(("r", "m"), often([(0.4, 0.3), (1.0, 1.0)], 2, several=True))
def test_draws_follow_the_posterior(r: float, m: float) -> None:
    n, size = 50, 3000
    cases: list[tuple[ConjugateFamily, tuple[float, ...], Any]] = [
        (
            DirichletFamily((2.0, 3.0), n),
            (20.0, 30.0),
            stats.beta(2.0 / m + r * 20, 3.0 / m + r * 30),
        ),
        (
            DirichletFamily((2.0, 3.0, 0.8), n),
            (20.0, 25.0, 5.0),
            stats.beta(2.0 / m + r * 20, 3.8 / m + r * 30),
        ),
        (GammaShapeFamily(3.0, 2.0, 4.0, n), (90.0,), stats.gamma(3.0 / m + r * 90, scale=1 / (2.0 / m + r * n))),
        (GammaRateFamily(3.0, 2.0, 4.0, n), (90.0,), stats.gamma(3.0 / m + r * n, scale=1 / (2.0 / m + r * 90))),
        (BetaFailuresFamily(3.0, 2.0, 2.0, 4.0, n), (90.0,), stats.beta(3.0 / m + r * 2 * n, 2.0 / m + r * 90)),
    ]
    variance = 1 / (1 / (m * 2.0) + r * n / 1.5)
    normal = stats.norm(variance * (0.5 / (m * 2.0) + r * 30.0 / 1.5), math.sqrt(variance))
    cases.append((NormalFamily(0.5, 2.0, 1.5, -2.0, 2.0, n), (30.0,), normal))
    for family, sums, law in cases:
        exact = tuple(map(Fraction, sums))
        drawn = np.array(family.draw(exact, r, m, size))
        assert uniformity_p_value(law.cdf(drawn[:, 0])) >= FALSE_FAIL
        mean, sd = family.moments(exact, r, m)
        assert (mean, sd) == pytest.approx((law.mean(), law.std()))
    last = np.array(cases[1][0].draw(tuple(map(Fraction, cases[1][1])), r, m, size))[:, 2]
    assert uniformity_p_value(stats.beta(0.8 / m + r * 5, 5.0 / m + r * 45).cdf(last)) >= FALSE_FAIL


def log_partition_error(law: Any, exact: Any, spacing: float, low: float, high: float) -> float:
    """The relative error of the sum over the lattice, ends included, against the closed form, in 60 digits."""
    with mpmath.workdps(60):
        first, last = math.floor(low / spacing), math.ceil(high / spacing)
        h = mpmath.mpf(spacing)
        with localcontext(EXACT):
            logs = [law.exact(Decimal(mpmath.nstr(h * i, 55))) for i in range(first, last + 1)]
        total = mpmath.fsum(h * mpmath.exp(mpmath.mpf(str(log))) for log in logs)
        return float(abs(total / exact - 1))


def test_the_grid_carries_the_log_partition_function_to_its_slack() -> None:
    """The error of the trapezoidal rule and of the ends of the grid is far below the 1e-16 charged for it."""
    logits = DirichletFamily((2.0, 2.0), 26).lattice(1.0, 1.0)
    failures = BetaFailuresFamily(1.0, 6.0, 1.0, 5.0, 4).lattice(1.0, 1.0)
    rates = GammaShapeFamily(2.0, 1.0, 7.0, 4).lattice(1.0, 1.0)
    cases: list[tuple[coordinate.Lattice, float, coordinate.CoordinateLaw, Any]] = []
    with mpmath.workdps(60):  # at order 2 a mixture of failures reaches a second shape of 6 - 5
        for lattice, reach, a, b in ((logits, None, 2, 28), (failures, 50.0, 5, 1), (failures, None, 5, 26)):
            logit = coordinate.LogitBeta(Decimal(a), Decimal(b))
            cases.append((lattice, reach or lattice.high, logit, mpmath.beta(a, b)))
        for k in (2, 30):
            gamma = coordinate.LogGamma(Decimal(k), Decimal(5))
            cases.append((rates, rates.high, gamma, mpmath.gamma(k) / mpmath.mpf(5) ** k))
    for lattice, reach, law, exact in cases:
        low = lattice.low if lattice is rates else -reach
        assert log_partition_error(law, exact, lattice.spacing, low, reach) < 1e-18


def test_a_prior_too_weak_for_a_public_grid_is_refused_before_anything_is_drawn() -> None:
    DirichletFamily((0.05, 1.0), 1000).lattice(1.0, 1.0).check()
    for family in (DirichletFamily((1e-6, 1.0), 100), DirichletFamily((2.0, 2.0), 10**9)):
        with pytest.raises(SpecError, match="too narrow, or the prior too weak"):
            family.lattice(1.0, 1.0).check()


def test_large_numbers_of_records_can_be_drawn_for() -> None:
    family, counts = DirichletFamily((2.0, 3.0), 10**6), (Fraction(333_333), Fraction(666_667))
    family.lattice(1.0, 1.0).check()
    ((theta, _),) = family.draw(counts, 1.0, 1.0, 1)
    mean, sd = family.moments(counts, 1.0, 1.0)
    assert abs(theta - mean) < 7 * sd
