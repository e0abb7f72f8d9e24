"""What every registered model and mechanism must keep, tested before its author writes a line."""

from __future__ import annotations

import inspect
import itertools
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from dpbayes_cli.contracts import (
    BoundedStatistics,
    LatentCounts,
    Mechanism,
    Model,
    RecordPolicy,
    Request,
    Statistic,
    Statistics,
)
from dpbayes_cli.grammar import normal_cell
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.registry import mechanism_names, mechanism_type, model_names, model_type, serves

INVALID = "no level at all"
DOMAINS: dict[str, list[dict[str, Any]]] = {
    "beta-bernoulli": [{}, {"success": "yes", "failure": "no"}],
    "dirichlet-categorical": [{"categories": ["a", "b"]}, {"categories": ["a", "b", "c", "d"]}],
}
"""Small domains to enumerate; a new model adds a line."""

INSTANCES = [(name, domain) for name in model_names() for domain in DOMAINS[name]]
RELATIONS = [
    (Neighbors.REPLACE_ONE, False),
    (Neighbors.REPLACE_ONE, True),
    (Neighbors.ADD_REMOVE, False),
    (Neighbors.ADD_REMOVE, True),
]


def build(name: str, domain: dict[str, Any]) -> Model:
    kind = model_type(name)
    return kind.build(msgspec.convert(domain, kind.domain_type), msgspec.convert({}, kind.prior_type))


def policy_of(model: Model, relation: Neighbors, *, complete: bool) -> RecordPolicy:
    (column,) = model.columns
    return RecordPolicy(relation, column.levels[-1] if complete else None)


def contribution(statistic: Statistic, model: Model, policy: RecordPolicy, cell: str | None) -> tuple[int, ...]:
    """What one record adds to the statistic, computed without the engine; None is an absent record."""
    (column,) = model.columns
    if cell is None:
        return (0,) * len(statistic.expressions)
    normal = [normal_cell(level) for level in column.levels]
    text = normal_cell(cell)
    if text not in normal and policy.impute is not None:
        text = normal_cell(policy.impute)
    return tuple(int(text in normal and normal.index(text) == expression.level) for expression in statistic.expressions)


def distance(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    return sum(abs(a - b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(("relation", "complete"), RELATIONS)
@pytest.mark.parametrize(("name", "domain"), INSTANCES)
def test_the_sensitivity_is_never_exceeded_and_attained_by_the_witness(
    name: str, domain: dict[str, Any], relation: Neighbors, complete: bool
) -> None:
    """Brute force over all pairs of records of a small domain, the invalid record and the absent record included."""
    model = build(name, domain)
    assert isinstance(model, BoundedStatistics)
    policy = policy_of(model, relation, complete=complete)
    statistic = model.statistic(policy)
    (column,) = model.columns
    records = [*column.levels, INVALID]
    if relation is Neighbors.REPLACE_ONE:
        pairs: list[tuple[str | None, str | None]] = list(itertools.product(records, records))
    else:
        pairs = [(record, None) for record in records]

    def change(pair: tuple[str | None, str | None]) -> int:
        left, right = (contribution(statistic, model, policy, cell) for cell in pair)
        return distance(left, right)

    assert max(map(change, pairs)) == statistic.sensitivity_l1
    witness = (statistic.witness.record, statistic.witness.neighbor)
    assert witness in pairs
    assert change(witness) == statistic.sensitivity_l1


@pytest.mark.parametrize(("name", "domain"), INSTANCES)
def test_a_halved_sensitivity_is_caught(name: str, domain: dict[str, Any]) -> None:
    model = build(name, domain)
    assert isinstance(model, BoundedStatistics)
    policy = policy_of(model, Neighbors.REPLACE_ONE, complete=False)
    statistic = model.statistic(policy)
    halved = statistic.sensitivity_l1 // 2
    record, neighbor = statistic.witness.record, statistic.witness.neighbor
    attained = distance(
        contribution(statistic, model, policy, record), contribution(statistic, model, policy, neighbor)
    )
    assert attained > halved


@pytest.mark.parametrize(("relation", "complete"), RELATIONS)
@pytest.mark.parametrize(("name", "domain"), INSTANCES)
def test_statistics_are_minimal_named_and_distinct(
    name: str, domain: dict[str, Any], relation: Neighbors, complete: bool
) -> None:
    model = build(name, domain)
    assert isinstance(model, BoundedStatistics)
    statistic = model.statistic(policy_of(model, relation, complete=complete))
    assert len(statistic.names) == len(statistic.expressions) == len(set(statistic.names))
    assert statistic.sensitivity_l1 >= 1


@pytest.mark.parametrize(("relation", "complete"), RELATIONS)
@pytest.mark.parametrize(("name", "domain"), INSTANCES)
def test_the_inference_problem_fits_the_statistic(
    name: str, domain: dict[str, Any], relation: Neighbors, complete: bool
) -> None:
    model = build(name, domain)
    assert isinstance(model, LatentCounts)
    policy = policy_of(model, relation, complete=complete)
    plan = mechanism_type("laplace")().plan(model, Request(policy, Decimal(1)))
    (step,) = plan.steps
    released = list(range(10, 10 + len(step.statistic.names)))
    n_records = None if relation is Neighbors.ADD_REMOVE else 100
    problem = model.noisy_counts(policy, released, step.noise, n_records)
    assert [value for value in problem.observed if value is not None] == released
    assert len(problem.observed) == len(problem.concentration)
    expected = "unbounded" if relation is Neighbors.ADD_REMOVE else "known" if complete else "at-most"
    assert problem.total.kind == expected
    assert len(model.categories) == len(model.parameters)
    assert sum(model.predictive([1.0 / len(model.parameters)] * len(model.parameters)).values()) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3"])
@pytest.mark.parametrize(("name", "domain"), INSTANCES)
@pytest.mark.parametrize("mechanism", mechanism_names())
def test_a_plan_spends_what_was_asked_and_releases_what_it_planned(
    mechanism: str, name: str, domain: dict[str, Any], epsilon: str
) -> None:
    model = build(name, domain)
    kind = mechanism_type(mechanism)
    if not serves(kind, type(model)):
        pytest.skip("this mechanism does not serve this model")
    plan = kind().plan(model, Request(RecordPolicy(Neighbors.REPLACE_ONE), Decimal(epsilon)))
    assert plan.guarantee.epsilon == Decimal(epsilon)
    assert plan == kind().plan(model, Request(RecordPolicy(Neighbors.REPLACE_ONE), Decimal(epsilon)))
    (step,) = plan.steps
    payload = kind().release(plan, Statistics(tuple(5 for _ in step.statistic.names), 10))
    assert payload.names == step.statistic.names
    assert payload.noise == step.noise
    assert all(isinstance(value, int) for value in payload.values)


@pytest.mark.parametrize(("name", "domain"), INSTANCES)
def test_a_plan_adds_noise(name: str, domain: dict[str, Any]) -> None:
    """At epsilon 0.001 a component is released without noise with probability below 1e-3; ten in a row below 1e-30."""
    plan = Laplace().plan(build(name, domain), Request(RecordPolicy(Neighbors.REPLACE_ONE), Decimal("0.001")))
    exact = tuple(100 for _ in plan.steps[0].statistic.names)
    assert any(Laplace().release(plan, Statistics(exact, 1000)).values != exact for _ in range(10))


@pytest.mark.parametrize(
    "subject", [model_type(n) for n in model_names()] + [mechanism_type(n) for n in mechanism_names()]
)
def test_every_card_is_complete_and_every_release_says_its_price(subject: type[Model] | type[Mechanism]) -> None:
    for field in ("releases", "guarantee", "assumptions", "source", "corrections", "prefer_when"):
        assert len(getattr(subject.card, field)) > 20, field
    priced = subject.statistic if issubclass(subject, BoundedStatistics) else subject
    text = inspect.getdoc(priced) or ""
    assert "Privacy:" in text
    assert "Source:" in text
