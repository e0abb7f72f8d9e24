"""What every registered model and mechanism must keep, tested before its author writes a line."""

from __future__ import annotations

import inspect
import itertools
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest

from dpbayes_cli.contracts import BoundedStatistics, LatentCounts, Mechanism, Model, NoisyStatistics, Payload, Request
from dpbayes_cli.errors import SpecError
from dpbayes_cli.grammar import normal_cell, parse_number
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.problems import NoisySums
from dpbayes_cli.registry import mechanism_names, mechanism_type, model_names, model_type, serves
from dpbayes_cli.statistic import (
    AnyColumn,
    Cells,
    Column,
    CountAt,
    Expression,
    NumericColumn,
    ProductOf,
    RecordPolicy,
    Statistic,
    Statistics,
)

INVALID = "no level at all"
DOMAINS: dict[str, list[dict[str, Any]]] = {
    "beta-geometric": [{"upper": 3}, {"upper": 4, "out_of_bounds": "drop"}],
    "beta-bernoulli": [{}, {"success": "yes", "failure": "no"}],
    "dirichlet-categorical": [{"categories": ["a", "b"]}, {"categories": ["a", "b", "c", "d"]}],
    "gamma-exponential": [{"upper": 2.5}, {"upper": 2.5, "out_of_bounds": "drop"}],
    "gamma-poisson": [{"upper": 1}, {"upper": 7}],
    "multivariate-normal": [{"columns": {c: {"lower": -1.0, "upper": 3.0} for c in "abc"[:d]}} for d in (1, 2, 3)],
    "normal": [{"lower": -3.0, "upper": 1.5}, {"lower": 0.0, "upper": 1.5, "out_of_bounds": "drop"}],
    "normal-mean": [{"lower": -3.0, "upper": 1.5, "variance": 2.0}],
}
"""Small domains to enumerate; a new model adds a line."""

REQUESTS: dict[str, dict[str, Any]] = {
    "gaussian": {"rho": Decimal("0.1")},
    "laplace": {"epsilon": Decimal("0.5")},
    "map": {"epsilon": Decimal("0.5"), "draws": 3},
    "ops": {"epsilon": Decimal("0.5"), "draws": 3},
    "rdp-concentrated": {"epsilon": Decimal("0.5"), "draws": 3},
    "rdp-diffuse": {"epsilon": Decimal("0.5"), "draws": 3},
    "rdp-direct": {"order": Decimal("1.1"), "draws": 3},
}
"""What each mechanism is asked for; a new mechanism adds a line."""

INSTANCES = [(name, domain) for name in model_names() for domain in DOMAINS[name]]
PAIRS = [
    (mechanism, name, domain)
    for mechanism in mechanism_names()
    for name, domain in INSTANCES
    if serves(mechanism_type(mechanism), model_type(name))
    and (mechanism_type(mechanism).post_processing or domain.get("out_of_bounds") != "drop")
]
RELATIONS = [
    (Neighbors.REPLACE_ONE, False),
    (Neighbors.REPLACE_ONE, True),
    (Neighbors.ADD_REMOVE, False),
    (Neighbors.ADD_REMOVE, True),
]


def build(name: str, domain: dict[str, Any]) -> Model:
    kind = model_type(name)
    return kind.build(msgspec.convert(domain, kind.domain_type), msgspec.convert({}, kind.prior_type))


def cells(column: AnyColumn) -> list[str]:
    """The valid cells of a small domain: every level, or the bounds and what lies inside and beyond."""
    if isinstance(column, Column):
        return list(column.levels)
    middle = str(int(column.upper // 2)) if column.integers else repr((column.lower + column.upper) / 3)
    return [column.cell(0.0), column.cell(1.0), middle, "-1000000", "1000000"]


def records_of(model: Model) -> list[Cells]:
    """Valid records: of one column all of its cells; of several a sample of their product, the middles included."""
    if len(model.columns) == 1:
        return [(cell,) for cell in cells(model.columns[0])]
    numbers = [column for column in model.columns if isinstance(column, NumericColumn)]
    points = [[column.cell(share) for share in (0.0, 0.3, 0.5, 1.0)] for column in numbers]
    return list(itertools.product(*points))


def policy_of(model: Model, relation: Neighbors, *, complete: bool) -> RecordPolicy:
    return RecordPolicy(relation, cells(model.columns[0])[1] if complete else None)


def code_of(column: AnyColumn, cell: str) -> int | None:
    if isinstance(column, NumericColumn):
        number = parse_number(cell, integers=column.integers)
        return None if number is None else column.code(number)
    normal = [normal_cell(level) for level in column.levels]
    return normal.index(normal_cell(cell)) if normal_cell(cell) in normal else None


def contribution(statistic: Statistic, model: Model, policy: RecordPolicy, record: Cells | None) -> tuple[int, ...]:
    """What one record adds to the statistic, computed without the engine; None is an absent record."""
    if record is None:
        return (0,) * len(statistic.expressions)
    codes: dict[str, int] = {}
    for column, cell in zip(model.columns, record, strict=True):
        code = code_of(column, cell)
        dropped = isinstance(column, NumericColumn) and parse_number(cell, integers=column.integers) is not None
        if code is None and policy.impute is not None and not dropped:
            code = code_of(column, policy.impute)
        if code is None:
            return (0,) * len(statistic.expressions)
        codes[column.role] = code
    steps = {column.role: column.steps for column in model.columns if isinstance(column, NumericColumn)}

    def value(expression: Expression) -> int:
        if isinstance(expression, CountAt):
            return int(codes[expression.role] == expression.level)
        assert isinstance(expression, ProductOf)
        factors = [2 * codes[r] - steps[r] if expression.centred else codes[r] for r in expression.roles]
        return expression.weight * math.prod(factors)

    return tuple(map(value, statistic.expressions))


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
    witnesses = [statistic.witness, statistic.witness_l2 or statistic.witness]
    named = [cells for witness in witnesses for cells in (witness.record, witness.neighbor) if cells is not None]
    records = [*records_of(model), (INVALID,) * len(model.columns), *named]
    found = {record: contribution(statistic, model, policy, record) for record in (*records, None)}

    def change(pair: tuple[Cells | None, Cells | None]) -> int:
        return distance(found[pair[0]], found[pair[1]])

    def squared(pair: tuple[Cells | None, Cells | None]) -> int:
        return sum((a - b) ** 2 for a, b in zip(found[pair[0]], found[pair[1]], strict=True))

    others: list[Cells | None] = [None] if relation is Neighbors.ADD_REMOVE else [*records]
    pairs: list[tuple[Cells | None, Cells | None]] = [(record, other) for record in records for other in others]
    assert max(map(change, pairs)) == statistic.sensitivity_l1
    assert max(map(squared, pairs)) == statistic.sensitivity_l2_squared
    attained, attained_l2 = ((witness.record, witness.neighbor) for witness in witnesses)
    assert {attained, attained_l2} <= set(pairs)
    assert change(attained) == statistic.sensitivity_l1
    assert squared(attained_l2) == statistic.sensitivity_l2_squared


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
    assert isinstance(model, NoisyStatistics)
    policy = policy_of(model, relation, complete=complete)
    plan = mechanism_type("laplace")().plan(model, Request(policy, Decimal(1)))
    (step,) = plan.steps
    released = list(range(10, 10 + len(step.statistic.names)))
    n_records = None if relation is Neighbors.ADD_REMOVE else 100
    problem = model.problem(policy, released, step.noise, n_records)
    assert [value for value in problem.observed if value is not None] == released
    if isinstance(problem, NoisySums):
        points = problem.law.draw_prior(5, np.random.default_rng(0))
        mean, covariance = problem.law.moments(points)
        k = len(released)
        assert (mean.shape, covariance.shape) == ((5, k), (5, k, k))
        assert problem.law.parameters(points).shape == (5, len(model.parameters))
        assert np.isfinite(problem.law.log_prior(points)).all()
        last = step.statistic.expressions[-1]
        counts = isinstance(last, ProductOf) and not last.roles
        assert problem.valid == (last.weight if isinstance(last, ProductOf) and counts else 0)
    else:
        assert len(problem.observed) == len(problem.concentration)
    theta, values = model.simulated(policy, 20, np.random.default_rng(0))
    assert (len(theta), len(values)) == (len(model.parameters), len(released))
    expected = "unbounded" if relation is Neighbors.ADD_REMOVE else "known" if complete else "at-most"
    assert problem.total.kind == expected
    assert len(model.components) == len(model.parameters)
    if isinstance(model, LatentCounts):
        assert sum(model.predictive([1.0 / len(model.parameters)] * len(model.parameters)).values()) == pytest.approx(1)


def request_for(mechanism: str, model: Model) -> Request:
    policy = policy_of(model, Neighbors.REPLACE_ONE, complete=True)
    support = (0.5, 4.0) if model.parameters == ("rate",) else None
    return Request(policy, n_records=20, support=support, **REQUESTS[mechanism])


@pytest.mark.parametrize(("mechanism", "name", "domain"), PAIRS)
def test_a_plan_stays_within_what_was_asked_and_releases_what_it_planned(
    mechanism: str, name: str, domain: dict[str, Any]
) -> None:
    model = build(name, domain)
    kind = mechanism_type(mechanism)
    request = request_for(mechanism, model)
    plan = kind().plan(model, request)
    assert plan == kind().plan(model, request)
    assert parse_guarantee(plan.guarantee.serialize()) == plan.guarantee
    if request.rho is not None:
        assert plan.guarantee.rho <= request.rho
    elif request.epsilon is not None and kind.post_processing:
        assert plan.guarantee.epsilon == request.epsilon
    elif request.epsilon is not None:
        price = plan.guarantee.epsilon if mechanism in {"map", "ops"} else plan.guarantee.rdp(request.order)
        assert price <= request.epsilon
    (step,) = plan.steps
    values = tuple(5 for _ in step.statistic.names)
    payload = kind().release(plan, Statistics(values, 20))
    if isinstance(payload, Payload):
        assert payload.names == step.statistic.names
        assert payload.noise == step.noise
        assert all(isinstance(value, int) for value in payload.values)
    else:
        assert len(payload.values) == request.draws
        assert all(len(point) == len(model.parameters) for point in payload.values)


@pytest.mark.parametrize("mechanism", [m for m in mechanism_names() if not mechanism_type(m).post_processing])
def test_posterior_draws_need_every_record(mechanism: str) -> None:
    model = build("gamma-exponential", {"upper": 2.5, "out_of_bounds": "drop"})
    with pytest.raises(SpecError, match="complete"):
        mechanism_type(mechanism)().plan(model, request_for(mechanism, model))


@pytest.mark.parametrize(("mechanism", "name", "domain"), PAIRS)
def test_what_a_mechanism_needs_it_asks_for(mechanism: str, name: str, domain: dict[str, Any]) -> None:
    """Posterior draws need complete records of a public number; noise does not. None may be had by saying nothing."""
    model, kind = build(name, domain), mechanism_type(mechanism)
    request = request_for(mechanism, model)
    lacking = [
        replace(request, policy=RecordPolicy(Neighbors.REPLACE_ONE)),
        replace(request, policy=RecordPolicy(Neighbors.ADD_REMOVE, request.policy.impute)),
        replace(request, n_records=None),
    ]
    for incomplete in lacking:
        if not kind.needs_n:
            kind().plan(model, incomplete)
            continue
        with pytest.raises(SpecError):
            kind().plan(model, incomplete)
    if mechanism != "rdp-direct":
        with pytest.raises(SpecError):
            kind().plan(model, replace(request, epsilon=None, rho=None))


@pytest.mark.parametrize(("name", "domain"), [i for i in INSTANCES if serves(Laplace, model_type(i[0]))])
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
