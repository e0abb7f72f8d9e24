"""Draws of networks, table by table: all neighboring data sets of a tiny network, on the laws that the draws use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic_values import count_cells
from dpbayes_cli.mechanisms.map import Map, SharesEstimate
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.mechanisms.samplers.dag_sampler import DagSampler
from dpbayes_cli.mechanisms.samplers.simplex_sampler import SimplexSampler
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.grid import EXACT
from dpbayes_cli.privacy.kinds import BoundedRange, PureDP
from dpbayes_cli.spec.release_spec import build_spec
from tests.conftest import often
from tests.exact_laws import probability
from tests.plans import plan_arguments, plan_of

N = 2


def build(weight: float = 1.0, values: int = 2) -> DiscreteBayesNet:
    variables: dict[str, Any] = {
        "c": {"values": ["0", "1"], "weight": str(weight)},
        "x": {"values": [str(k) for k in range(values)], "parents": ["c"]},
        "y": {"values": ["0", "1"], "parents": ["c", "x"]},
    }
    spec = build_spec({"model": "bayes-net", "domain": {"variables": variables}, "on_invalid": "impute:0"})
    return require_type(spec.build_model(), DiscreteBayesNet)


def request(epsilon: str, draws: int = 1) -> dict[str, Any]:
    spec = build_spec({"model": "bayes-net", "domain": {"variables": {"c": {"values": ["0", "1"]}}}})
    policy = replace(spec.policy, impute="0")
    return plan_arguments(policy, Decimal(epsilon), n_records=N, draws=draws)


@dataclass(frozen=True, eq=False)
class RowLaw:
    """The law of a row; the hash of large fractions takes long, so that caches know it by its identity."""

    shares: tuple[Fraction, ...]


@lru_cache(maxsize=4096)
def row_law(law: SimplexSampler, counts: tuple[int, ...]) -> RowLaw:
    lattice, cover = law.lattice(counts), law.cover
    return RowLaw(tuple(probability(lattice, [k + cover.least for k in point]) for point in cover.points().tolist()))


def laws_of(sampler: DagSampler, values: tuple[int, ...]) -> list[RowLaw]:
    laws, first = [], 0
    for law, rows, width in zip(sampler.laws, sampler.rows, sampler.widths, strict=True):
        row = law.law if isinstance(law, SharesEstimate) else require_type(law, SimplexSampler)
        for _ in range(rows):
            laws.append(row_law(row, values[first : first + width]))
            first += width
    return laws


@lru_cache(maxsize=4096)
def extremes(left: RowLaw, right: RowLaw) -> tuple[Decimal, Decimal]:
    """The ends of the log ratio of two laws, in 60 digits."""
    ratios = [a / b for a, b in zip(left.shares, right.shares, strict=True)]
    low, high = (
        EXACT.ln(EXACT.divide(Decimal(r.numerator), Decimal(r.denominator))) for r in (min(ratios), max(ratios))
    )
    return low, high


@lru_cache(maxsize=4096)
def divergence(left: RowLaw, right: RowLaw, order: float) -> float:
    p, q = (np.array([float(share) for share in law.shares]) for law in (left, right))
    return float(np.log((p**order * q ** (1.0 - order)).sum()) / (order - 1.0))


def neighbors(model: DiscreteBayesNet, sampler: DagSampler) -> Iterator[list[Any]]:
    """For all neighboring data sets of N records, the pairs of laws of the rows in which they differ."""
    statistic = model.statistic(request("1")["policy"])
    records = list(itertools.product(*(range(size) for size in model.network.sizes)))
    for others in itertools.combinations_with_replacement(records, N - 1):
        log_laws = {
            record: laws_of(sampler, count_cells(statistic, model.network.names, np.array([*others, record])))
            for record in records
        }
        for one, other in itertools.permutations(records, 2):
            yield [(a, b) for a, b in zip(log_laws[one], log_laws[other], strict=True) if a.shares != b.shares]


def worst(neighboring: list[list[Any]]) -> tuple[Decimal, Decimal]:
    """The largest log ratio and the largest range over neighboring data sets."""
    largest = widest = Decimal(0)
    for pairs in neighboring:
        low, high = (sum(side, Decimal(0)) for side in zip(*(extremes(*pair) for pair in pairs), strict=True))
        largest, widest = max(largest, high, -low), max(widest, high - low)  # rows are independent
    return largest, widest


@pytest.mark.parametrize(
    ("weight", "epsilon"),
    [(1.0, "6"), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((3.0, "0.3"), (1.0, "0.3"), (3.0, "6")))],
)
@pytest.mark.parametrize("mechanism", often([Ops, Map], 2))
def test_no_neighbors_are_told_apart_by_more_than_the_charge(mechanism: Any, weight: float, epsilon: str) -> None:
    model = build(weight)
    plan = plan_of(mechanism(), model, **request(epsilon))
    sampler = require_type(plan.final_step.law, DagSampler)
    neighboring = list(neighbors(model, sampler))
    largest, widest = worst(neighboring)
    charged = plan.guarantee.epsilon
    assert charged <= Decimal(epsilon)
    assert max(largest, widest) <= charged
    assert widest >= charged * Decimal("0.999"), "the charge is attained"
    cost = require_type(plan.guarantee, BoundedRange)
    assert charged <= sum(share * tables for share, tables in cost.shares) * Decimal("1.000000001")
    for order in (2.0, 32.0):
        farthest = max(sum(divergence(*pair, order) for pair in pairs) for pairs in neighboring)
        assert farthest <= cost.rdp(Decimal(order))
    assert cost.rdp(Decimal(2)) < Decimal("0.8") * cost.former.rdp(Decimal(2)), "tables are independent"


def test_the_guarantee_is_that_of_the_selection() -> None:
    model = build()
    assert isinstance(plan_of(Map(), model, **request("1")).guarantee, BoundedRange)
    flip = {**request("1"), "selection": "permute-and-flip"}
    assert isinstance(plan_of(Map(), model, **flip).guarantee, PureDP)


def test_draws_follow_the_laws_row_by_row() -> None:
    """The mean of each of seven rows, at 1e-6: a false failure of a run has probability below 1e-5."""
    model = build()
    sampler = require_type(plan_of(Ops(), model, **request("6")).final_step.law, DagSampler)
    statistic = model.statistic(request("1")["policy"])
    values = count_cells(statistic, model.network.names, np.array([[0, 1, 1], [1, 1, 0]]))
    drawn = np.array(sampler.draw(values, 1000))
    assert drawn.shape == (1000, sum(model.network.n_cells))
    moments = sampler.moments_by_row(values)
    assert [drawn.shape[1], *model.compared] == [14, *range(0, 14, 2)]
    assert sampler.moments(values) == moments[0]
    for row, law in enumerate(laws_of(sampler, values)):
        mass = np.array([float(p) for p in law.shares])
        assert np.abs(drawn[:, 2 * row : 2 * row + 2].sum(axis=1) - 1.0).max() < 1e-12
        grid = np.arange(len(mass))
        mean, sd = float(mass @ grid), float(np.sqrt(mass @ (grid - mass @ grid) ** 2))
        cover = require_type(sampler.laws[0], SimplexSampler).cover
        assert moments[row] == pytest.approx(((mean + cover.least) / cover.resolution, sd / cover.resolution))
        counts = drawn[:, 2 * row] * cover.resolution - cover.least
        assert stats.norm.sf(abs(counts.mean() - mean) / (sd / np.sqrt(1000))) > 1e-6


def test_more_values_than_are_drawn_exactly_are_refused() -> None:
    with pytest.raises(SpecError, match="65 probabilities"):
        plan_of(Ops(), build(values=65), **request("1"))
