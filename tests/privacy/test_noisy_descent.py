"""The cost of noisy descent: against the exact law of one-dimensional chains, closed forms and high precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr, ndtri

from dpbayes_cli.core.losses import HuberLoss, LogisticLoss, Loss, ProbitLoss, QuantileLoss, SmoothHingeLoss
from dpbayes_cli.privacy.conversions import gaussian_delta
from dpbayes_cli.privacy.noisy_descent import (
    Curvature,
    certificate,
    contraction_gap,
    descent_mu,
    largest_likelihood_power,
    minami_corollary,
    minami_delta,
    minami_likelihood_power,
    mu_of_statement,
)
from tests.conftest import often
from tests.privacy.test_guarantee import exact_gaussian_delta

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

Records = Sequence[tuple[float, float]]
"""Pairs (x, y) with |x| <= 1."""

EPSILONS = (0.0, 0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
ROUNDING = 1e-10
"""Bound on the error of quadrature and of differences of probabilities."""
_ORDER = 8
_CELLS = 300


@dataclass(frozen=True)
class Law:
    """The law of a one-dimensional chain after some steps, propagated by quadrature between the kinks of its drift.

    Between kinks everything is smooth on the scale of the noise, so that eight Gauss nodes on every such piece leave
    an error far below 1e-10; the last step is integrated in closed form. ``start`` and ``scale`` plant bugs.
    """

    loss: Loss
    records: Records
    likelihood_power: float
    tau: float
    step_size: float
    n_steps: int
    reach: float
    start: float = 0.0
    scale: float = 1.0
    kinks: tuple[float, ...] = ()

    def moved(self, w: Floats) -> Floats:
        drift = self.tau * w
        for x, y in self.records:
            drift = drift + self.likelihood_power * x * self.loss.slope(x * w, np.asarray(y))
        return np.asarray(w - self.step_size * drift)

    @property
    def sd(self) -> float:
        return math.sqrt(2.0 * self.step_size) * self.scale

    @cached_property
    def nodes(self) -> tuple[Floats, Floats]:
        inner = [k for k in self.kinks if -self.reach < k < self.reach]
        edges = sorted({-self.reach, self.reach, *inner})
        at, weights = leggauss(_ORDER)
        points, sizes = [], []
        for low, high in pairwise(edges):
            cuts = np.linspace(low, high, 2 + int((high - low) / self.sd))
            half = np.diff(cuts)[:, None] / 2.0
            points.append((cuts[:-1, None] + half + half * at).ravel())
            sizes.append((half * weights).ravel())
        return np.concatenate(points), np.concatenate(sizes)

    def below(self, limits: Floats) -> Floats:
        """Return the probabilities of being at or below limits after the last step."""
        first = self.moved(np.asarray([self.start]))
        if self.n_steps == 1:
            return np.asarray(ndtr((limits - first) / self.sd))
        points, sizes = self.nodes
        moved = self.moved(points)
        scaled = 1.0 / (self.sd * math.sqrt(2.0 * math.pi))
        mass = sizes * scaled * np.exp(-0.5 * ((points - first) / self.sd) ** 2)
        kernel = sizes[:, None] * scaled * np.exp(-0.5 * ((points[:, None] - moved) / self.sd) ** 2)
        for _ in range(self.n_steps - 2):
            mass = kernel @ mass
        assert abs(mass.sum() - 1.0) < ROUNDING
        return np.asarray(ndtr((limits[:, None] - moved) / self.sd) @ mass)


@dataclass(frozen=True)
class Case:
    loss: Loss
    one: Records
    other: Records
    likelihood_power: float
    tau: float
    far: float
    n_steps: int
    kinks: tuple[float, ...] = ()

    @property
    def curvature(self) -> Curvature:
        """The bounds that the loss guarantees for rows of norm 1."""
        return Curvature(self.loss.slope_bound, self.loss.curvature_bound * len(self.one))

    @property
    def smoothness(self) -> float:
        return self.curvature.potential_smoothness(self.likelihood_power, self.tau)

    @property
    def step_size(self) -> float:
        return self.far * 2.0 / self.smoothness

    @property
    def mu(self) -> float:
        d = self.curvature.gradient_sensitivity(self.likelihood_power)
        return descent_mu(d, self.step_size, self.n_steps, self.tau, self.smoothness)

    def worst(self, *, longer: float = 1.0, quieter: float = 1.0, starts: tuple[float, float] = (0.0, 0.0)) -> float:
        """Return the most by which the true delta of the chain exceeds the charged curve, in both directions.

        Cells are events, so that the result is never above the true delta. ``longer``, ``quieter`` and ``starts``
        plant bugs: the step, the noise and the starts that run and are not accounted for.
        """
        laws = self.laws(longer=longer, quieter=quieter, starts=starts)
        p, q = (np.diff(law.below(self.limits(law)), prepend=0.0, append=1.0) for law in laws)
        deltas = [
            np.maximum(a - math.exp(eps) * b, 0.0).sum() - gaussian_delta(self.mu, eps)
            for eps in EPSILONS
            for a, b in ((p, q), (q, p))
        ]
        return float(max(deltas))

    def divergence(self, order: float) -> float:
        """Return the larger of the Renyi divergences of the cells, which is not above that of the chain."""
        p, q = (np.diff(law.below(self.limits(law))) for law in self.laws())
        seen = np.minimum(p, q) > 1e-11  # the rest is rounding
        p, q = p[seen], q[seen]
        return max(math.log(float((a**order * b ** (1.0 - order)).sum())) / (order - 1.0) for a, b in ((p, q), (q, p)))

    def laws(
        self, *, longer: float = 1.0, quieter: float = 1.0, starts: tuple[float, float] = (0.0, 0.0)
    ) -> tuple[Law, Law]:
        step_size = self.step_size * longer
        gap = max(min(contraction_gap(step_size, self.tau, self.smoothness), 1.0), 1.0 / self.n_steps)
        wide = math.sqrt(2.0 * step_size) * 9.0 / math.sqrt(gap)
        pull = self.likelihood_power * len(self.one) * self.loss.slope_bound * step_size / gap
        reach = wide + pull + max(map(abs, starts))
        one, other = (
            Law(self.loss, r, self.likelihood_power, self.tau, step_size, self.n_steps, reach, s, quieter, self.kinks)
            for r, s in ((self.one, starts[0]), (self.other, starts[1]))
        )
        return one, other

    def limits(self, law: Law) -> Floats:
        return np.linspace(-law.reach, law.reach, _CELLS)


HUBER = HuberLoss(1.0, 0.5)
QUANTILE = QuantileLoss(0.3, 0.5, 0.5)
HINGE = SmoothHingeLoss(0.5)
LOSSES: dict[str, tuple[Loss, tuple[float, float], tuple[float, float], tuple[float, ...]]] = {
    "logistic": (LogisticLoss(), (1.0, 0.0), (1.0, 1.0), ()),
    "probit": (ProbitLoss(), (1.0, 0.0), (1.0, 1.0), ()),
    "huber": (HUBER, (1.0, 1.0), (1.0, -1.0), (-1.5, -0.5, 0.5, 1.5)),
    "quantile": (QUANTILE, (1.0, 1.0), (1.0, -1.0), (-1.25, -0.75, 0.75, 1.25)),
    "hinge": (HINGE, (1.0, 0.0), (1.0, 1.0), (-1.0, -0.5, 0.5, 1.0)),
}
"""By name: a loss, two records whose gradients are far apart, and where the slope of either kinks in w."""
SETTINGS = (
    # n, tau, likelihood power, far (h as a share of 2 / M), T
    (1, 1.0, 1.0, 0.5, 1),
    (1, 4.0, 1.0, 0.5, 3),
    (1, 1.0, 0.5, 0.9, 8),
    (2, 0.5, 1.0, 0.97, 5),
    (3, 2.0, 0.3, 0.25, 12),
    (4, 0.2, 0.5, 0.999, 4),
    (8, 1.0, 1.0, 0.5, 30),
)


def case(name: str, n: int, tau: float, power: float, far: float, n_steps: int) -> Case:
    loss, one, other, kinks = LOSSES[name]
    rest = [one, other] * n
    return Case(loss, (one, *rest[: n - 1]), (other, *rest[: n - 1]), power, tau, far, n_steps, kinks)


TIGHT = Case(HuberLoss(1.0, 0.05), ((1.0, 1.0),), ((1.0, -1.0),), 1.0, 40.0, 0.05, 2)
"""Targets at 1 and -1, no residual ever below the threshold: constant gradients, and a Hessian tau. The cost is exact.
"""


@pytest.mark.parametrize(("name", "setting"), often(product(LOSSES, SETTINGS), 3, several=True))
def test_no_chain_exceeds_its_curve(name: str, setting: tuple[int, float, float, float, int]) -> None:
    chain = case(name, *setting)
    assert chain.worst() <= ROUNDING
    for order in (1.5, 2.0, 8.0):
        assert chain.divergence(order) <= order * chain.mu**2 / 2.0 + 1e-7


@pytest.mark.parametrize("name", LOSSES)
def test_a_record_that_is_dropped_is_a_neighbor_too(name: str) -> None:
    chain = case(name, 1, 1.0, 1.0, 0.5, 4)
    empty = Case(chain.loss, chain.one, ((0.0, 0.0),), 1.0, 1.0, 0.5, 4, chain.kinks)
    assert empty.worst() <= ROUNDING


@pytest.mark.parametrize("name", LOSSES)
def test_the_map_contracts_as_claimed(name: str) -> None:
    """Planted bug: a missing factor in M, or in the curvature of a loss, claims a contraction that does not hold."""
    for setting in SETTINGS:
        chain = case(name, *setting)
        claimed = 1.0 - contraction_gap(chain.step_size, chain.tau, chain.smoothness)
        w = np.linspace(-6.0, 6.0, 4001)
        for law in chain.laws():
            assert np.max(np.abs(np.diff(law.moved(w)) / np.diff(w))) <= claimed * (1.0 + 1e-9)


def test_where_gradients_are_constant_the_cost_is_exact() -> None:
    """For a quadratic potential the two laws are normal, exactly mu apart."""
    assert TIGHT.worst() <= ROUNDING
    one, other = TIGHT.laws()
    at = np.asarray([0.0])
    apart = float(ndtri(one.below(at)[0]) - ndtri(other.below(at)[0]))
    assert abs(apart) == pytest.approx(TIGHT.mu, rel=1e-6)
    assert TIGHT.mu > 0.5


@pytest.mark.parametrize(
    "bug",
    [{"longer": 2.0}, {"quieter": math.sqrt(0.5)}, {"starts": (0.01, -0.01)}],
    ids=["twice the step", "half the noise's variance", "a start that knows the data"],
)
def test_a_chain_that_differs_from_the_one_accounted_is_caught(bug: dict[str, float]) -> None:
    assert TIGHT.worst(**bug) > 1e-3  # type: ignore[arg-type]


@pytest.mark.parametrize("curvature", [3.0, 40.0])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 100, 10_000])
@pytest.mark.parametrize("far", [0.01, 0.5, 0.6, 0.999])
def test_the_quadratic_case_attains_the_cost(curvature: float, n_steps: int, far: float) -> None:
    """Constant gradients D apart, Hessian (1 - c) / h: means and variances are geometric series."""
    d, tau = 0.7, 2.5
    step_size = far * 2.0 / (curvature + tau)
    gap = contraction_gap(step_size, tau, curvature + tau)
    apart = variance = mpmath.mpf(0)
    with mpmath.workdps(40):
        c = 1 - mpmath.mpf(gap)
        apart = step_size * d * (1 - c**n_steps) / (1 - c)
        variance = 2 * mpmath.mpf(step_size) * (1 - c ** (2 * n_steps)) / (1 - c * c)
        exact = float(apart / mpmath.sqrt(variance))
    charged = descent_mu(d, step_size, n_steps, tau, curvature + tau)
    assert exact <= charged <= exact * (1.0 + 1e-6)


def test_a_long_chain_with_a_short_step_costs_no_more_than_an_exact_draw() -> None:
    for far in (0.001, 0.1, 0.5):
        step_size = far * 2.0 / 103.0
        assert descent_mu(1.0, step_size, 10**6, 1.5, 100.0) <= 1.0 / math.sqrt(1.5)
    assert descent_mu(1.0, 1.999 / 100.0, 10**6, 1.5, 100.0) > 1.0 / math.sqrt(1.5)


@pytest.mark.parametrize(
    ("step_size", "n_steps", "tau", "smoothness"),
    [(0.02, 1, 1.0, 100.0), (0.03, 5, 1.0, 100.0), (0.0, 5, 1.0, 100.0), (0.01, 0, 1.0, 100.0), (0.01, 5, 0.0, 100.0)],
)
def test_a_map_that_does_not_contract_is_refused(step_size: float, n_steps: int, tau: float, smoothness: float) -> None:
    with pytest.raises(ValueError, match="does not contract"):
        descent_mu(1.0, step_size, n_steps, tau, smoothness)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 0.01, 0.1, 1.0, 8.0, 50.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6, 1e-3, 0.2])
def test_the_mu_of_a_statement_is_that_of_high_precision_and_never_above(epsilon: float, delta: float) -> None:
    mu = mu_of_statement(epsilon, delta)
    with mpmath.workdps(60):
        assert exact_gaussian_delta(mu, epsilon) <= delta
        assert exact_gaussian_delta(mu * (1.0 + 1e-9 + 1e-13 / mu), epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-3)])
@pytest.mark.parametrize(("slope", "tau"), [(1.0, 1.0), (2.5, 40.0)])
def test_the_likelihood_power_of_theorem_7_solves_it(epsilon: float, delta: float, slope: float, tau: float) -> None:
    power = minami_likelihood_power(epsilon, delta, slope, tau)
    assert minami_delta(epsilon, power, slope, tau) == pytest.approx(delta, rel=1e-9)
    assert epsilon > 2.0 * (slope * power) ** 2 / tau
    away = epsilon - 2.0 * slope**2 * power**2 / tau
    assert math.exp(-tau / (8.0 * slope**2 * power**2) * away**2) == pytest.approx(delta, rel=1e-9)
    assert gaussian_delta(2.0 * power * slope / math.sqrt(tau), epsilon) <= delta


def test_corollary_8_follows_from_theorem_7_up_to_epsilon_one_and_is_false_beyond_nine() -> None:
    delta = 1e-5

    def confirmed(epsilon: float) -> bool:
        return minami_delta(epsilon, minami_corollary(epsilon, delta, 1.0, 1.0), 1.0, 1.0) <= delta

    def true(epsilon: float) -> bool:
        return gaussian_delta(2.0 * minami_corollary(epsilon, delta, 1.0, 1.0), epsilon) <= delta

    assert [confirmed(e) for e in (0.1, 0.5, 1.0, 1.005, 1.02, 2.0)] == [True, True, True, True, False, False]
    assert [true(e) for e in (0.1, 1.0, 5.0, 8.5, 9.5, 12.0)] == [True, True, True, True, False, False]


def test_the_largest_likelihood_power_is_the_lower_end_of_its_bisection() -> None:
    assert largest_likelihood_power(lambda power: power, 2.0, 1.0) == 1.0
    largest = largest_likelihood_power(lambda power: 3.0 * power, 1.0, 1.0)
    assert 3.0 * largest <= 1.0
    assert 3.0 * math.nextafter(largest, 1.0) > 1.0 - 1e-15
    assert largest_likelihood_power(lambda power: math.inf, 1.0, 1.0) == 0.0


@pytest.mark.parametrize(("width", "tau", "smoothness", "gamma"), [(2, 0.01, 1.0, 0.01), (7, 2.0, 300.0, 0.1)])
def test_the_certificate_is_that_of_dalalyan(width: int, tau: float, smoothness: float, gamma: float) -> None:
    """Dalalyan's corollary as stated: a time, and a step size that follows from it."""
    stated_size, n_steps = certificate(width, tau, smoothness, gamma)
    time = (4.0 * math.log(1.0 / gamma) + width * math.log(smoothness / tau)) / (2.0 * tau)
    step_size = gamma**2 / (width * smoothness**2 * time)
    assert stated_size == pytest.approx(step_size, rel=1e-12)
    assert n_steps == math.ceil(time / step_size * (1.0 - 1e-12))
    assert stated_size * n_steps >= time * (1.0 - 1e-12)


@pytest.mark.parametrize(("width", "gamma"), [(1, 0.01), (2, 0.5), (2, 0.0)])
def test_the_certificate_is_refused_outside_the_proposition(width: int, gamma: float) -> None:
    with pytest.raises(ValueError, match="Proposition 13"):
        certificate(width, 1.0, 2.0, gamma)
