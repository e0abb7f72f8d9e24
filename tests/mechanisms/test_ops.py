"""OPS: the largest log ratio by exhaustion, the exact curve by brute force, the draws against their laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.mechanisms.samplers.scalar_sampler import ScalarSampler, exact_curve
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover, SimplexSampler
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.beta_geometric import BetaGeometric
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.models.families.capabilities import OneParameterFamily
from dpbayes_cli.models.gamma_exponential import GammaExponential
from dpbayes_cli.models.gamma_poisson import GammaPoisson
from dpbayes_cli.models.normal_mean import NormalMean
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import often
from tests.exact_laws import probability, weights_of
from tests.mechanisms.log_ratios import worst
from tests.mechanisms.one_parameter import ONE_PARAMETER, sums
from tests.plans import plan_arguments, plan_of
from tests.statistical import FALSE_FAIL, assert_follows, uniformity_p_value

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

COIN = BetaBernoulli("1", "0", 1.0, 1.0)
SHARES = DirichletCategorical(("a", "b", "c"), (1.0, 1.0, 1.0))
COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE, "0")


def sampler_of(model: Any, **changes: Any) -> ScalarSampler:
    request = plan_arguments(COMPLETE, Decimal(1), n_records=4, **changes)
    return require_type(plan_of(Ops(), model, **request).steps[0].law, ScalarSampler)


@pytest.mark.parametrize("power_applies_to", ["likelihood", "joint"])
@pytest.mark.parametrize("epsilon", often(["20", "0.1", "1"], 3))
@pytest.mark.parametrize(("model", "support"), ONE_PARAMETER)
def test_no_pair_of_neighbors_exceeds_the_charge(
    model: OneParameterFamily, support: tuple[float, float] | None, epsilon: str, power_applies_to: Any
) -> None:
    """Exhaustively on 17 cells for n <= 3, in exact rationals, from the integers that the draws use."""
    _, _, steps = model.grid
    for n in (1, 3):
        request = plan_arguments(
            COMPLETE, Decimal(epsilon), n_records=n, support=support, power_applies_to=power_applies_to
        )
        plan = plan_of(Ops(), model, **request)
        sampler = replace(require_type(plan.steps[0].law, ScalarSampler), n_cells=17)
        totals = sums(model, n)
        laws = {}
        for total in totals:
            weights = weights_of(sampler.weights([total]))
            laws[total] = [Fraction(weight, sum(weights)) for weight in weights]
        pairs = [(a, b) for a in totals for b in totals if a != b and abs(a - b) <= steps]
        assert max(worst(laws, pairs)) <= plan.guarantee.epsilon


@pytest.mark.parametrize("epsilon", ["0.1", "1", "20"])
@pytest.mark.parametrize("k", [2, 3])
def test_no_pair_of_neighbors_exceeds_the_charge_on_the_lattice(k: int, epsilon: str) -> None:
    model = DirichletCategorical(tuple("abc"[:k]), (1.0, 2.0, 0.5)[:k])
    for n in (1, 3):
        plan = plan_of(Ops(), model, COMPLETE, Decimal(epsilon), n_records=n)
        law = require_type(plan.steps[0].law, SimplexSampler)
        sampler = replace(law, cover=SharesCover(k, 12, 2))
        spread = 2 * math.log(sampler.cover.most / 2)
        assert spread <= plan.parameters["range"] * (1 + 1e-9)  # a coarser lattice with a smaller range
        points = [p for p in itertools.product(range(2, 13), repeat=k) if sum(p) == 12]
        data = [c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n]
        laws = {}
        for counts in data:
            lattice = sampler.lattice(counts)
            laws[counts] = [probability(lattice, point) for point in points]
            assert sum(laws[counts]) == 1
        pairs = [(a, b) for a in data for b in data if sum(abs(x - y) for x, y in zip(a, b, strict=True)) == 2]
        assert max(worst(laws, pairs)) <= plan.guarantee.epsilon


@pytest.mark.parametrize(("model", "support"), ONE_PARAMETER)
def test_draws_follow_the_tempered_truncated_posterior(
    model: OneParameterFamily, support: tuple[float, float] | None
) -> None:
    """Against the analytic density, integrated numerically (Kolmogorov-Smirnov, false-fail 1e-9)."""
    n = 30
    plan = plan_of(Ops(), model, COMPLETE, Decimal(3), n_records=n, support=support)
    sampler = require_type(plan.steps[0].law, ScalarSampler)
    _, _, steps = model.grid
    values = [n * steps // 3]
    drawn = np.array(sampler.draw(values, 4000))[:, 0]
    grid = np.linspace(*sampler.support, 200_001)
    logs = sampler.log_density(grid, float(model.total(values, n)), exact=False)
    cdf = np.cumsum(np.exp(logs - logs.max()))
    assert uniformity_p_value(np.interp(drawn, grid, cdf / cdf[-1])) >= FALSE_FAIL


@pytest.mark.parametrize("counts", [(3, 5, 2), (10, 0, 0)])
def test_lattice_draws_follow_the_enumerated_law(counts: tuple[int, ...]) -> None:
    model = DirichletCategorical(("a", "b", "c"), (1.0, 2.0, 0.7))
    plan = plan_of(Ops(), model, COMPLETE, Decimal(5), n_records=10)
    sampler = replace(require_type(plan.steps[0].law, SimplexSampler), cover=SharesCover(3, 20, 2))
    points = [(i, j, 20 - i - j) for i in range(2, 17) for j in range(2, 19 - i) if 20 - i - j >= 2]
    power = float(sampler.likelihood_power)
    exponents = [a - 1 + power * c for a, c in zip(model.concentration, counts, strict=True)]
    masses = np.array([math.prod((k / 20) ** e for k, e in zip(point, exponents, strict=True)) for point in points])
    index = {point: i for i, point in enumerate(points)}
    drawn = [index[tuple(round(x * 20) for x in point)] for point in sampler.draw(counts, 4000)]  # type: ignore[index]
    assert_follows(drawn, np.arange(len(points)), masses / masses.sum())


def log_law(sampler: ScalarSampler, total: int) -> Floats:
    weights = sampler.weights([total])
    logs = np.log(np.array(weights_of(weights), dtype=float))
    return np.asarray(logs - np.logaddexp.reduce(logs))


def largest_divergence(laws: list[Floats], order: float) -> float:
    """The largest Renyi divergence of two laws that follow each other, in both directions."""
    pairs = [pair for p, q in itertools.pairwise(laws) for pair in ((p, q), (q, p))]
    return max(float(np.logaddexp.reduce(order * p + (1 - order) * q)) / (order - 1) for p, q in pairs)


def test_the_exact_curve_is_the_maximum_over_all_neighbors() -> None:
    """On a support that is not symmetric, so that the two directions differ."""
    sampler = replace(sampler_of(COIN, support=(0.02, 0.5)), n_records=12, n_cells=64)
    laws = [log_law(sampler, total) for total in range(sampler.n_records + 1)]
    for order, value in exact_curve(sampler):
        exact = largest_divergence(laws, float(order))
        assert exact <= float(value) <= exact + 1e-8


@pytest.mark.parametrize(
    ("model", "support", "expected"),
    [
        (COIN, (0.1, 0.9), 2 * math.log(9)),
        (NormalMean(-2.0, 2.0, 1.5, 0.0, 1.0), (-7.0, 7.0), 4 * 2 * 7 / 1.5),
        (GammaPoisson(6, 1.0, 1.0), (1.0, 10.0), 6 * math.log(10)),
        (GammaExponential(0.1, 1.0, 1.0), (0.1, 1.0), 0.09),
        (BetaGeometric(6, 1.0, 1.0), (0.2, 0.9), 6 * math.log(8)),
        (BetaGeometric(49, 1.0, 1.0), None, 49 * math.log(9.8)),
    ],
)
def test_the_range_of_every_family(model: Any, support: tuple[float, float] | None, expected: float) -> None:
    plan = plan_of(Ops(), model, COMPLETE, Decimal("0.01"), n_records=10, support=support)
    assert plan.parameters["range"] == pytest.approx(expected)
    assert plan.parameters["likelihood_power"] == pytest.approx(0.01 / expected)


def test_k_draws_share_epsilon_and_cost_k_curves() -> None:
    one = plan_of(Ops(), COIN, COMPLETE, Decimal("0.1"), n_records=50)
    ten = plan_of(Ops(), COIN, COMPLETE, Decimal(1), n_records=50, draws=10)
    assert ten.parameters["likelihood_power"] == pytest.approx(one.parameters["likelihood_power"])
    assert ten.guarantee.epsilon == 1
    assert ten.guarantee.rdp(Decimal(8)) <= 10 * one.guarantee.rdp(Decimal(8))


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (COIN, {"support": (0.9, 0.1)}, "low < high"),
        (COIN, {"support": (0.0, 0.9)}, "strictly inside"),
        (COIN, {"support": (0.1, 1.0)}, "strictly inside"),
        (COIN, {"epsilon": Decimal("1e-12"), "draws": 100_000}, "exact draws need more"),
        (COIN, {"n_records": 0}, "at least 1"),
        (GammaPoisson(6, 1.0, 1.0), {}, "truncated"),
        (SHARES, {"support": (0.333, 1 - 2 * 0.333)}, "too narrow: it holds no point"),
        # far from zero the terms of a log density cancel, and next to one rounding destroys 1 - theta
        (NormalMean(1e9, 1e9 + 1, 1.0, 1e9, 1.0), {"support": (1e9, 1e9 + 1)}, "too large"),
        (NormalMean(0.0, 1.0, 1.0, 1e12, 1e-3), {"support": (0.0, 1.0)}, "too large"),
        (COIN, {"n_records": 100_000, "support": (0.5, 1 - 1e-15)}, "too large"),
    ],
)
def test_invalid_requests_are_refused(model: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        plan_of(Ops(), model, **{**plan_arguments(COMPLETE, Decimal(1), n_records=100), **changes})


def test_a_support_next_to_zero_is_allowed() -> None:
    plan_of(Ops(), COIN, COMPLETE, Decimal(1), n_records=100_000, support=(1e-15, 0.5))


def test_a_curve_carries_the_error_of_its_floats() -> None:
    model = NormalMean(2000.0, 2001.0, 1.0, 2000.0, 1.0)
    plan = plan_of(Ops(), model, COMPLETE, Decimal("0.5"), n_records=1)
    sampler = require_type(plan.steps[0].law, ScalarSampler)
    laws = [log_law(sampler, code) for code in (0, 1 << 20)]
    for order in (2.0, 8.0):
        assert largest_divergence(laws, order) <= float(plan.guarantee.rdp(Decimal(order)))


@pytest.mark.slow
def test_the_moments_of_a_lattice_are_those_of_its_law_where_shares_are_cut() -> None:
    """Many records and categories rarer than the least share: the mode is far from that of each coordinate alone."""
    for counts in [(4_800, 4_800, 400), (5, 3, 0)]:
        sampler = SimplexSampler(SharesCover(3, 20, 2), (1.0, 2.0, 0.5), Decimal("0.7"), "likelihood")
        lattice = sampler.lattice(counts)
        points = [(i, j, 20 - i - j) for i in range(2, 17) for j in range(2, 19 - i)]
        law = np.array([float(probability(lattice, point)) for point in points])
        shares = np.array([point[0] / 20 for point in points])
        mean = float(law @ shares)
        assert law.sum() == pytest.approx(1.0)
        assert sampler.moments(counts)[0] == pytest.approx(mean, abs=1e-9)
        assert sampler.moments(counts)[1] == pytest.approx(math.sqrt(law @ (shares - mean) ** 2), abs=1e-9)


@pytest.mark.slow
def test_sixty_four_shares_are_drawn_in_their_proportion() -> None:
    """The largest vector: exact to 30 digits by symmetry, its first share by its marginal law (false-fail 1e-9)."""
    counts = (40, *range(20), *([10] * 43))
    model = DirichletCategorical(tuple(map(str, range(64))), (1.0,) * 64)
    plan = plan_of(Ops(), model, COMPLETE, Decimal(3), n_records=sum(counts))
    sampler = require_type(plan.steps[0].law, SimplexSampler)
    drawn = sampler.lattice(counts).draw(36)
    assert {sum(point) for point in drawn} == {sampler.cover.resolution}
    assert min(map(min, drawn)) >= sampler.cover.least
    mean, sd = sampler.moments(counts)
    first = np.array(drawn)[:, 0] / sampler.cover.resolution
    assert abs(first.mean() - mean) <= stats.norm.isf(FALSE_FAIL / 2) * sd / 6
    with pytest.raises(SpecError, match="at most 64"):
        plan_of(Ops(), DirichletCategorical(tuple(map(str, range(65))), (1.0,) * 65), COMPLETE, Decimal(1), n_records=9)
