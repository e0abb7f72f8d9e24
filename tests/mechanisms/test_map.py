"""MAP: the charge by exhaustion, on the integers that the draws use; permute-and-flip by the subset formula."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.core.options import SelectionKind
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.section import require_type
from dpbayes_cli.mechanisms.map import GridEstimate, Map, ModeEstimate, SharesEstimate
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SharesCover
from dpbayes_cli.mechanisms.samplers.tempering import DrawRequest, Tempering, calibrate_power
from dpbayes_cli.models.beta_bernoulli import BetaBernoulli
from dpbayes_cli.models.dirichlet_categorical import DirichletCategorical
from dpbayes_cli.models.families.capabilities import OneParameterFamily
from dpbayes_cli.privacy.grid import GRID_SLACK
from dpbayes_cli.privacy.kinds import BoundedRange, PureDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.permute_and_flip import FlipWeights, flip_law, flip_weights, permute_and_flip
from tests.conftest import often
from tests.exact_laws import probability, weights_of
from tests.mechanisms.log_ratios import worst
from tests.mechanisms.one_parameter import ONE_PARAMETER, sums
from tests.plans import plan_arguments, plan_of
from tests.statistical import assert_follows

COIN = BetaBernoulli("1", "0", 1.0, 1.0)
SLOW = pytest.mark.slow
SELECTIONS: tuple[SelectionKind, ...] = ("exponential", "permute-and-flip")
COMPLETE = RecordPolicy(Neighbors.REPLACE_ONE, "0")


def subset_law(weights: list[int]) -> list[Fraction]:
    """The law of permute-and-flip: all coins are flipped, and one of the winners is taken at random."""
    coins = [Fraction(weight, max(weights)) for weight in weights]
    law = [Fraction(0)] * len(coins)
    for winners in itertools.product((False, True), repeat=len(coins)):
        probability = math.prod((p if won else 1 - p for p, won in zip(coins, winners, strict=True)), start=Fraction(1))
        for i, won in enumerate(winners):
            if won:
                law[i] += probability / sum(winners)
    assert sum(law) == 1
    return law


def on_cells(plan: Plan, n_cells: int) -> GridEstimate:
    """The planned sampler on few cells: the midpoints of the outer cells are the ends of the support, to 1e-9."""
    sampler = require_type(plan.steps[0].law, GridEstimate)
    low, high = sampler.law.support[0] + 1e-9, sampler.law.support[1] - 1e-9
    half = (high - low) / (2 * (n_cells - 1))
    return replace(sampler, law=replace(sampler.law, support=(low - half, high + half), n_cells=n_cells))


def grid_laws(sampler: GridEstimate, n: int) -> tuple[dict[Any, list[Fraction]], list[tuple[Any, Any]]]:
    """The exact laws of all data sets of n records, and all ordered pairs of neighbors."""
    _, _, steps = sampler.law.model.grid
    totals, cells = sums(sampler.law.model, n), range(sampler.law.n_cells)
    laws = {}
    for total in totals:
        if sampler.selection == "exponential":
            weights = weights_of(sampler.law.weights([total]))
            laws[total] = [Fraction(weight, sum(weights)) for weight in weights]
        else:
            flips = sampler.coin_weights([total])
            laws[total] = subset_law([flips.weight(cell) for cell in cells])
    return laws, [(a, b) for a in totals for b in totals if a != b and abs(a - b) <= steps]


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("epsilon", often(["100", "0.1", "1", "20"], 4))
@pytest.mark.parametrize(("model", "support"), ONE_PARAMETER)
def test_no_pair_of_neighbors_exceeds_the_charge(
    model: OneParameterFamily, support: tuple[float, float] | None, epsilon: str, selection: SelectionKind
) -> None:
    """Exhaustively on 2 and 5 cells for n <= 3, in exact rationals, likelihood powers above one included."""
    for n, n_cells in itertools.product((1, 3), (2, 5)):
        request = plan_arguments(COMPLETE, Decimal(epsilon), n_records=n, support=support, selection=selection)
        plan = plan_of(Map(), model, **request)
        laws, pairs = grid_laws(on_cells(plan, n_cells), n)
        largest, widest = worst(laws, pairs)
        charged = plan.guarantee.epsilon
        assert largest <= charged
        if selection == "exponential":
            assert widest <= charged
            if Decimal(epsilon) * n <= 40:  # beyond, the constant holds ratios back
                assert widest >= charged * Decimal("0.99")


@pytest.mark.parametrize("epsilon", ["0.1", "1", "20"])
def test_permute_and_flip_attains_its_charge_and_exceeds_the_range(epsilon: str) -> None:
    """Two cells: (1, exp(-e)) becomes (1, 1), so that one probability grows by exp(e), and the other falls."""
    plan = plan_of(Map(), COIN, COMPLETE, Decimal(epsilon), n_records=2, selection="permute-and-flip")
    largest, widest = worst(*grid_laws(on_cells(plan, 2), 2))
    assert Decimal(epsilon) * Decimal("0.99999") <= largest <= Decimal(epsilon)
    assert widest > plan.guarantee.epsilon  # why it is not charged as bounded range


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "40"])
@pytest.mark.parametrize(("k", "cover"), [(2, SharesCover(2, 9, 1)), (3, SharesCover(3, 5, 1))])
def test_no_pair_of_neighbors_exceeds_the_charge_on_the_lattice(
    k: int, cover: SharesCover, epsilon: str, selection: SelectionKind
) -> None:
    model = DirichletCategorical(tuple("abc"[:k]), (1.0, 2.0, 0.5)[:k])
    points = [tuple(row) for row in (cover.points() + cover.least).tolist()]
    assert len(points) == cover.n_points <= 8
    for n in (1, 3):
        request = plan_arguments(COMPLETE, Decimal(epsilon), n_records=n, selection=selection)
        plan = plan_of(Map(), model, **request)
        law = require_type(plan.steps[0].law, SharesEstimate)
        tempering = calibrate_power(DrawRequest(Decimal(epsilon), n), cover.spread, GRID_SLACK, None)
        sampler = replace(law, law=replace(law.law, cover=cover, likelihood_power=tempering.likelihood_power))
        data = [c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n]
        laws = {}
        for counts in data:
            if selection == "exponential":
                lattice = sampler.law.lattice(counts)
                laws[counts] = [probability(lattice, point) for point in points]
            else:
                flips = sampler.coin_weights(counts)
                laws[counts] = subset_law([flips.weight(i) for i in range(len(points))])
        pairs = [(a, b) for a in data for b in data if sum(abs(x - y) for x, y in zip(a, b, strict=True)) == 2]
        largest, widest = worst(laws, pairs)
        charged = tempering.charged
        assert largest <= charged
        if selection == "exponential":
            assert charged * Decimal("0.999") <= widest <= charged  # no constant holds anything back


def flips_of(weights: list[float]) -> FlipWeights:
    logs = [math.log(weight) for weight in weights]
    return flip_weights(np.array(logs), lambda cell: Decimal(logs[cell]), 1e-9)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0, 1.0], [0.1, 1.0, 0.5, 0.9, 0.3, 0.01], [1e-9, 0.2, 1.0, 1.0, 0.7]])
def test_permute_and_flip_draws_follow_the_exact_law(weights: list[float]) -> None:
    """Chi-square against the subset formula on the integers that the draws use (false-fail 1e-9)."""
    flips = flips_of(weights)
    law = subset_law([flips.weight(cell) for cell in range(len(weights))])
    drawn = [permute_and_flip(flips) for _ in range(4_000)]
    assert_follows(drawn, np.arange(len(weights)), np.array(list(map(float, law))))
    assert flip_law(np.log(weights)) == pytest.approx(list(map(float, law)), abs=1e-9)


def test_the_law_in_floats_holds_for_wide_covers() -> None:
    """Two hundred cells, against the product polynomial by a Gauss rule of its full degree."""
    weights = [math.exp(-((i - 80) ** 2) / 900) for i in range(200)]
    law = flip_law(np.log(weights))
    for i in (0, 80, 100):
        nodes, node_weights = np.polynomial.legendre.leggauss(120)
        v = (nodes + 1) / 2
        values = np.prod([1 - p * v for j, p in enumerate(weights) if j != i], axis=0)
        assert law[i] == pytest.approx(weights[i] * float(values @ node_weights) / 2, abs=1e-10)


def test_the_best_cell_wins_every_coin() -> None:
    flips = flips_of([0.2, 1.0, 0.4])
    assert flips.weight(1) == flips.most
    assert [permute_and_flip(flips_of([1.0])) for _ in range(50)] == [0] * 50


def test_decimals_decide_between_scores_that_floats_cannot_tell_apart() -> None:
    scores = [Decimal("1e-20"), Decimal(0), Decimal("2e-20")]
    flips = flip_weights(np.zeros(3), lambda cell: scores[cell], 1e-9)
    assert flips.largest == scores[2]
    assert flips.weight(2) == flips.most > flips.weight(0) > flips.weight(1)


def test_only_the_exponential_choice_is_of_bounded_range() -> None:
    """Only the exponential choice has a curve and a range; permute-and-flip is charged pure epsilon."""
    request = plan_arguments(COMPLETE, Decimal(1), n_records=50, draws=4)
    exponential = plan_of(Map(), COIN, **request).guarantee
    assert isinstance(exponential, BoundedRange)
    assert exponential.parts == 4
    assert exponential.epsilon == 1
    assert exponential.points
    flipped = {**request, "selection": "permute-and-flip"}
    assert plan_of(Map(), COIN, **flipped).guarantee == PureDP(Decimal(1))
    shares = DirichletCategorical(("a", "b"), (1.0, 1.0))
    assert isinstance(plan_of(Map(), shares, **request).guarantee, BoundedRange)
    assert plan_of(Map(), shares, **flipped).guarantee == PureDP(Decimal(1))


def test_the_slack_is_taken_off_before_the_likelihood_power() -> None:
    tempering = calibrate_power(DrawRequest(Decimal(1), 2, draws=2), Decimal(4), GRID_SLACK, None)
    assert isinstance(tempering, Tempering)
    assert tempering.likelihood_power * 4 + GRID_SLACK <= Decimal("0.5")
    assert tempering.likelihood_power * 4 + GRID_SLACK > Decimal("0.5") - Decimal("1e-25")


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_estimate_approaches_the_mode(selection: SelectionKind) -> None:
    """At epsilon 900 the mode itself, to a cell; a sample of the posterior would be 0.03 away."""
    model = BetaBernoulli("1", "0", 3.0, 2.0)
    plan = plan_of(Map(), model, COMPLETE, Decimal(900), n_records=200, selection=selection)
    assert plan.parameters["likelihood_power"] > 100
    sampler = require_type(plan.steps[0].law, ModeEstimate)
    ((estimate,),) = sampler.draw([120], 1)
    mode = (120 + 2) / (200 + 3)
    assert abs(estimate - mode) < 0.03
    mean, sd = sampler.moments([120])
    assert abs(mean - mode) < 2e-3
    assert sd < 5e-3


def test_shares_rarer_than_the_least_do_not_hide_the_mode() -> None:
    """A coordinate alone has its mode elsewhere; the lattice's own mode is drawn even if all weights are tiny."""
    model = DirichletCategorical(tuple("abcde"), (1.0,) * 5)
    plan = plan_of(Map(), model, COMPLETE, Decimal(900), n_records=100_000)
    sampler = require_type(plan.steps[0].law, SharesEstimate)
    ((a, b, *rest),) = sampler.draw((45_000, 45_000, 5_000, 3_000, 2_000), 1)
    assert rest == pytest.approx([0.1, 0.1, 0.1], abs=2e-3)
    assert (a, b) == pytest.approx((0.35, 0.35), abs=0.01)
    assert sampler.moments((45_000, 45_000, 5_000, 3_000, 2_000))[0] == pytest.approx(0.35, abs=0.01)


def test_moments_are_those_of_the_draws() -> None:
    """Both choices on an enumerated lattice: mean within 6 standard errors of 400 draws."""
    model = DirichletCategorical(tuple("abc"), (1.0, 2.0, 1.0))
    for selection in SELECTIONS:
        request = plan_arguments(COMPLETE, Decimal(3), n_records=20, selection=selection)
        sampler = require_type(plan_of(Map(), model, **request).steps[0].law, SharesEstimate)
        first = np.array(sampler.draw((10, 6, 4), 400))[:, 0]
        mean, sd = sampler.moments((10, 6, 4))
        assert abs(first.mean() - mean) < 6.1 * sd / 20
        assert first.std() == pytest.approx(sd, rel=0.25)


def test_a_lattice_that_cannot_be_enumerated_is_refused_with_the_alternative() -> None:
    model = DirichletCategorical(tuple("abcdefgh"), (1.0,) * 8)
    request = plan_arguments(COMPLETE, Decimal(1), n_records=1000, selection="permute-and-flip")
    with pytest.raises(SpecError, match="permute-and-flip") as refused:
        plan_of(Map(), model, **request)
    assert "--selection exponential" in str(refused.value.hint)
    plan_of(Map(), model, **{**request, "selection": "exponential"})


def test_only_midpoints_of_cells_inside_the_support_are_possible() -> None:
    sampler = on_cells(plan_of(Map(), COIN, **plan_arguments(COMPLETE, Decimal(1), n_records=20)), 9)
    (draw,) = sampler.draw([7], 1)
    assert sampler.is_possible(draw)
    assert not sampler.is_possible((draw[0] + 1e-6,))
    assert not sampler.is_possible((sampler.law.support[1] + 1.0,))
