"""Conformance tests of every registered model and mechanism, plug-ins included."""

from __future__ import annotations

import inspect
import itertools
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from dpbayes_cli.base.cell_grammar import normal_cell, parse_number
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import AnyColumn, Column, CutColumn, NumericColumn, RecordPolicy, has_stand_in, n_codes
from dpbayes_cli.core.design import DesignMatrix, DesignRows
from dpbayes_cli.core.encoded_records import CodedColumns, EncodedRecords
from dpbayes_cli.core.examples import Example
from dpbayes_cli.core.mechanism import Mechanism
from dpbayes_cli.core.model import BoundedStatistics, Model, NoisyStatistics
from dpbayes_cli.core.noisy_observation import NoisyCounts, NoisySequences, NoisySums, NoisyTables
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.record_law import LatentSums, RecordLaw
from dpbayes_cli.core.registry import mechanism_names, mechanism_type, model_names, model_type, supports
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.statistic import Cells, CountAt, ExactEvidence, Expression, ProductOf, Statistic
from dpbayes_cli.mechanisms.laplace import Laplace
from dpbayes_cli.models.families.capabilities import (
    ConjugatePosterior,
    NormalRegression,
    OneParameterFamily,
    floats,
)
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet
from dpbayes_cli.privacy.composition import parse_guarantee
from dpbayes_cli.privacy.conversions import laplace_rdp
from dpbayes_cli.privacy.neighbors import Neighbors
from tests.conftest import often
from tests.plans import example_of, plan_arguments, plan_of

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats, Integers

INVALID = "no level at all"


@dataclass(frozen=True)
class Instance:
    """A model on one of its examples."""

    kind: type[Model]
    example: Example
    label: str

    def build(self, *, complete: bool = False) -> Model:
        stated = self.example.complete if complete and self.example.complete is not None else self.example.domain
        kind = self.kind
        return kind.build(
            msgspec.convert(stated, kind.domain_type), msgspec.convert(self.example.prior, kind.prior_type)
        )

    def model_and_policy(self, relation: Neighbors, *, complete: bool) -> tuple[Model, RecordPolicy]:
        """The model, and a policy; ``complete``: every invalid cell has a stand-in."""
        model = self.build(complete=complete)
        by_policy = complete and self.example.complete is None
        return model, RecordPolicy(relation, cells(model.columns[0])[1] if by_policy else None)


def instances_of(kind: type[Model]) -> list[Instance]:
    return [Instance(kind, example, f"{kind.name}-{i}") for i, example in enumerate(kind.examples)]


ALL = [instance for name in model_names() for instance in instances_of(model_type(name))]
NOISY = [instance for instance in ALL if issubclass(instance.kind, NoisyStatistics)]
SERVED = [
    (mechanism_type(name), instance)
    for name in mechanism_names()
    for instance in ALL
    if supports(mechanism_type(name), instance.kind)
]
PAIRS = [(kind, instance) for kind, instance in SERVED if kind.post_processing or instance.example.drawn]
REFUSED = [pair for pair in SERVED if pair not in PAIRS]
TRANSFORMED = [
    (kind, instance)
    for kind, instance in PAIRS
    if kind.post_processing
    and kind.statistic is not Mechanism.statistic
    and issubclass(instance.kind, DiscreteBayesNet)
]
STATISTICS = [*TRANSFORMED, *((Laplace, instance) for instance in NOISY)]
"""All statistics: those of the models, and those that mechanisms derive from them."""


def label(item: object) -> str:
    if isinstance(item, Instance):
        return item.label
    return str(item.name if isinstance(item, type) and issubclass(item, Model | Mechanism) else item)


RELATIONS = [
    (Neighbors.REPLACE_ONE, False), (Neighbors.REPLACE_ONE, True), (Neighbors.ADD_REMOVE, False),
    (Neighbors.ADD_REMOVE, True),
]  # fmt: skip


def cells(column: AnyColumn) -> list[str]:
    """The valid cells of a small domain: every level, or numbers at, between and beyond the bounds."""
    if isinstance(column, Column):
        return list(column.levels)
    if isinstance(column, CutColumn):
        return ["-1e9", *map(repr, column.cuts)]
    middle = str(int(column.upper // 2)) if column.integers else repr((column.lower + column.upper) / 3)
    return [column.cell(0.0), column.cell(1.0), middle, "-1000000", "1000000"]


def records_of(model: Model) -> list[Cells]:
    """All cells of one column; all products of several discrete columns, invalid cells included.

    If some of several columns are numbers: a sample of the valid products, the middles included.
    """
    if len(model.columns) == 1:
        return [(cell,) for cell in cells(model.columns[0])]
    if not any(isinstance(column, NumericColumn) for column in model.columns):
        return list(itertools.product(*([*cells(column), INVALID] for column in model.columns)))
    return list(
        itertools.product(
            *(
                [column.cell(share) for share in (0.0, 0.3, 0.5, 1.0)]
                if isinstance(column, NumericColumn)
                else cells(column)
                for column in model.columns
            )
        )
    )


def code_of(column: AnyColumn, cell: str) -> int | None:
    if isinstance(column, CutColumn):
        number = parse_number(cell)
        return None if number is None else sum(cut <= number for cut in column.cuts)
    if isinstance(column, NumericColumn):
        number = parse_number(cell, integers=column.integers)
        return None if number is None else column.code(number)
    normal = [normal_cell(level) for level in column.levels]
    return normal.index(normal_cell(cell)) if normal_cell(cell) in normal else None


def contribution(statistic: Statistic, model: Model, policy: RecordPolicy, record: Cells | None) -> tuple[int, ...]:
    """What one record adds to the statistic, without an engine; None is the absent record."""
    if statistic.tables:
        return counted(statistic, model, policy, record)
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
        factors = [2 * codes[r] - steps[r] if expression.centered else codes[r] for r in expression.roles]
        return expression.weight * math.prod(factors)

    return tuple(map(value, statistic.expressions))


def counted(statistic: Statistic, model: Model, policy: RecordPolicy, record: Cells | None) -> tuple[int, ...]:
    """What one record adds to tables: 1 in each table whose cells (or, for whole records, all cells) are valid."""
    codes: dict[str, int] = {}
    for column, cell in zip(model.columns, record or (), strict=record is not None):
        stands_in = getattr(column, "impute", None) or policy.impute
        code = code_of(column, cell)
        code = code_of(column, stands_in) if code is None and stands_in is not None else code
        if code is not None:
            codes[column.role] = code
    dropped = statistic.whole_records and len(codes) < len(model.columns)
    tables = []
    for table in statistic.tables:
        tables.append(np.zeros(table.shape, dtype=np.int64))
        if not dropped and codes.keys() >= set(table.roles):
            tables[-1][tuple(codes[role] for role in table.roles)] = 1
    if statistic.transform is not None:
        return tuple(map(int, statistic.transform.coefficients(tables)))
    return tuple(int(count) for table in tables for count in table.ravel())


@pytest.mark.parametrize(("relation", "complete"), RELATIONS)
@pytest.mark.parametrize(("mechanism", "instance"), STATISTICS, ids=label)
def test_the_sensitivity_is_never_exceeded_and_attained_by_the_witness(
    mechanism: type[Mechanism], instance: Instance, relation: Neighbors, complete: bool
) -> None:
    """Brute force over all pairs of records of a small domain, the invalid record and the absent record included."""
    model, policy = instance.model_and_policy(relation, complete=complete)
    statistic = mechanism().statistic(model, policy)
    witnesses = [statistic.witness, statistic.witness_l2 or statistic.witness]
    named = [cells for witness in witnesses for cells in (witness.record, witness.neighbor) if cells is not None]
    records: list[Cells | None] = list(dict.fromkeys([*records_of(model), (INVALID,) * len(model.columns), *named]))
    absent = contribution(statistic, model, policy, None)
    assert absent == (0,) * len(statistic.names)
    assert len(absent) == len(set(statistic.names))
    contributions = np.array([contribution(statistic, model, policy, record) for record in records])
    others: list[Cells | None] = [None] if relation is Neighbors.ADD_REMOVE else records
    changes = np.abs(contributions[:, None] - (np.array([absent]) if others == [None] else contributions))
    norms, squares = changes.sum(axis=-1), (changes**2).sum(axis=-1)
    assert norms.max() == statistic.sensitivity_l1 >= 1
    assert squares.max() == statistic.sensitivity_l2_squared
    attained, attained_l2 = ((records.index(w.record), others.index(w.neighbor)) for w in witnesses)
    assert norms[attained] == statistic.sensitivity_l1
    assert squares[attained_l2] == statistic.sensitivity_l2_squared
    for part, own in zip(statistic.parts, _cells_of(statistic), strict=True):  # parts get noise of different scales
        assert changes[..., own].sum(axis=-1).max() == part.sensitivity_l1
        assert (changes[..., own] ** 2).sum(axis=-1).max() == part.sensitivity_l2_squared
    if statistic.parts:
        assert sum(part.size for part in statistic.parts) == len(absent)
        assert sum(part.sensitivity_l1 for part in statistic.parts) == statistic.sensitivity_l1
        assert sum(part.sensitivity_l2_squared for part in statistic.parts) == statistic.sensitivity_l2_squared
    assert changes.max() == statistic.largest_change
    for epsilon in ("0.3", "4"):
        _check_curve(plan_of(mechanism(), model, policy, Decimal(epsilon)), changes.reshape(-1, len(absent)))


def _check_curve(plan: Plan, changes: Integers, *, all_changes: bool = True) -> None:
    """No change costs more than the plan's curve; one attains it unless only a sum of products bounds them."""
    (step,) = plan.steps
    sizes, index = np.unique(changes, return_inverse=True)
    columns, scales = index.reshape(changes.shape).T, step.noise.scales(changes.shape[1])
    products = any(isinstance(each, ProductOf) and len(each.roles) > 1 for each in step.statistic.expressions)
    for order in ("1.1", "2", "32"):
        costs = {
            b: np.array([laplace_rdp(z, float(order), b) if z else 0.0 for z in sizes.tolist()]) for b in {*scales}
        }
        divergences = sum(costs[scale][column] for column, scale in zip(columns, scales, strict=True))
        stated = float(plan.guarantee.rdp(Decimal(order)))
        assert divergences.max() <= stated * (1.0 + 1e-12)
        assert products or not all_changes or divergences.max() >= stated * (1.0 - 1e-9)


@pytest.mark.parametrize(("relation", "complete"), often(RELATIONS, 2, several=True))
@pytest.mark.parametrize(("mechanism", "instance"), STATISTICS, ids=label)
def test_the_sensitivity_of_units_is_never_exceeded_and_attained_by_the_witness(
    mechanism: type[Mechanism], instance: Instance, relation: Neighbors, complete: bool
) -> None:
    """Brute force over all pairs of units of at most two records, or over a random sample of pairs."""
    model, policy = instance.model_and_policy(relation, complete=complete)
    policy = replace(policy, contributions=2)
    statistic = mechanism().statistic(model, policy)
    witnesses = [statistic.witness, statistic.witness_l2 or statistic.witness]
    named = [cells for witness in witnesses for cells in (witness.record, witness.neighbor)]
    records = [*records_of(model), (INVALID,) * len(model.columns), *named, None]
    single = {contribution(statistic, model, policy, record) for record in records}
    contributions = np.array(sorted(single), dtype=object)
    sums = np.unique(
        np.array([a + b for a, b in itertools.combinations_with_replacement(contributions, 2)], float), axis=0
    )
    is_sample = len(sums) > _MAX_SUMS
    if is_sample:
        kept = np.random.default_rng(0).choice(len(sums), _MAX_SUMS, replace=False)
        doubled = [[2.0 * v for v in contribution(statistic, model, policy, record)] for record in named]
        sums = np.concatenate([sums[kept], doubled])
    others = np.zeros((1, sums.shape[1])) if relation is Neighbors.ADD_REMOVE else sums
    change = np.abs(sums[:, None] - others)
    assert change.sum(axis=2).max() == statistic.sensitivity_l1
    assert (change**2).sum(axis=2).max() == statistic.sensitivity_l2_squared
    for part, cells in zip(statistic.parts, _cells_of(statistic), strict=True):
        assert change[:, :, cells].sum(axis=2).max() <= part.sensitivity_l1
        assert (change[:, :, cells] ** 2).sum(axis=2).max() <= part.sensitivity_l2_squared
    plan = plan_of(mechanism(), model, policy, Decimal(2))
    _check_curve(plan, change.reshape(-1, change.shape[2]), all_changes=not is_sample)


_MAX_SUMS = 250


def _cells_of(statistic: Statistic) -> list[slice]:
    ends = list(itertools.accumulate(part.size for part in statistic.parts))
    return [slice(end - part.size, end) for end, part in zip(ends, statistic.parts, strict=True)]


@pytest.mark.parametrize(("relation", "complete"), RELATIONS)
@pytest.mark.parametrize("instance", NOISY, ids=label)
def test_observation_fits_the_statistic(instance: Instance, relation: Neighbors, complete: bool) -> None:
    model, policy = instance.model_and_policy(relation, complete=complete)
    assert isinstance(model, NoisyStatistics)
    plan = plan_of(Laplace(), model, policy, Decimal(1))
    (step,) = plan.steps
    released = list(range(10, 10 + len(step.statistic.names)))
    n_records = None if relation is Neighbors.ADD_REMOVE else 100
    observation = model.observation(policy, released, step.noise, n_records)
    theta, values = model.simulated(policy, 20, np.random.default_rng(0))
    assert (len(theta), len(values)) == (len(model.parameters), len(released))
    assert len(model.components) == len(model.parameters)
    expected = "unbounded" if relation is Neighbors.ADD_REMOVE else "known" if complete else "at-most"
    if isinstance(observation, NoisyTables):
        assert [value for table in observation.tables for value in table.observed.ravel().tolist()] == released
        check_tables(model, observation, policy, expected)
        return
    if isinstance(observation, NoisySequences):
        assert [value for counts in observation.observed for value in counts.ravel().tolist()] == released
        assert observation.complete is complete
        assert {law for law in observation.noises if law is not None} == {step.noise}
        return
    assert isinstance(observation, NoisyCounts | NoisySums)
    assert [value for value in observation.observed if value is not None] == released
    if isinstance(observation, NoisySums):
        check_law(observation.law, len(released), len(model.parameters))
        last = step.statistic.expressions[-1]
        counts = isinstance(last, ProductOf) and not last.roles
        assert observation.valid == (last.weight if isinstance(last, ProductOf) and counts else 0)
    else:
        assert isinstance(observation, NoisyCounts)
        assert len(observation.observed) == len(observation.concentration)
    assert observation.total.kind == expected
    if isinstance(observation, NoisyCounts):
        assert sum(model.predictive([1.0 / len(model.parameters)] * len(model.parameters)).values()) == pytest.approx(1)


def check_law(law: RecordLaw | LatentSums, n_components: int, n_parameters: int) -> None:
    """The shapes of what a law returns at points, which are finite."""
    rng = np.random.default_rng(0)
    if isinstance(law, RecordLaw):
        points = law.draw_prior(5, rng)
        mean, covariance = law.moments(points)
        assert (mean.shape, covariance.shape) == ((5, n_components), (5, n_components, n_components))
        assert law.parameters(points).shape == (5, n_parameters)
        assert np.isfinite(law.log_prior(points)).all()
        return
    points, totals = 0.1 * rng.standard_normal((5, law.dimension)), np.full(5, 100.0)
    log_prior, sums, _ = law.evaluate(points, totals)
    assert np.isfinite(log_prior).all()
    assert sums.shape == (5, n_components)
    assert law.draw_parameters(points, totals, rng).shape == (5, n_parameters)


def check_tables(model: Model, observation: NoisyTables, policy: RecordPolicy, expected: str) -> None:
    """One table for each variable, in its shape; a table whose columns all have stand-ins counts every record."""
    assert isinstance(model, DiscreteBayesNet)
    for i, (table, family) in enumerate(zip(observation.tables, model.network.families, strict=True)):
        rows, values = math.prod(model.network.shape(i)[:-1]), model.network.sizes[i]
        assert table.observed.shape == table.concentration.shape == (rows, values)
        assert table.row_concentration.shape == (rows,)
        whole = all(has_stand_in(policy, model.variables[j]) for j in family)
        assert table.total.kind == (
            "known" if expected == "at-most" and whole and observation.scope is None else expected
        )
        assert table.margin is None or table.margin.shape == (rows,)


def request_for(mechanism: type[Mechanism], instance: Instance) -> tuple[Model, dict[str, Any]]:
    model, policy = instance.model_and_policy(Neighbors.REPLACE_ONE, complete=True)
    example = example_of(mechanism, instance.kind)
    costs = {name: Decimal(cost) for name, cost in example["privacy"].items()}
    sampling = example.get("sampling", {})
    if "support" in mechanism.options_for(instance.kind).__struct_fields__:
        sampling["support"] = instance.example.support
    return model, plan_arguments(policy, n_records=20, **costs, **sampling)


def takes_long(mechanism: type[Mechanism], instance: Instance) -> bool:
    """Whether draws are made of another example than the model's first, or from a cover or a curve that takes long."""
    another = instance.example is not instance.kind.examples[0]
    curve = mechanism.name in {"rdp-direct", "rdp-concentrated"} and issubclass(instance.kind, DiscreteBayesNet)
    return not mechanism.post_processing and (another or curve or issubclass(instance.kind, NormalRegression))


@pytest.mark.parametrize(
    ("mechanism", "instance"),
    [pytest.param(*pair, marks=pytest.mark.slow) if takes_long(*pair) else pair for pair in PAIRS],
    ids=label,
)
@pytest.mark.usefixtures("short_searches")
def test_plan_stays_within_the_request_and_release_follows_the_plan(
    mechanism: type[Mechanism], instance: Instance
) -> None:
    model, request = request_for(mechanism, instance)
    plan = plan_of(mechanism(), model, **request)
    assert plan == plan_of(mechanism(), model, **request)
    guarantee, epsilon = plan.guarantee, request["epsilon"]
    assert parse_guarantee(guarantee.serialize()) == guarantee
    if "rho" in request:
        assert guarantee.rho <= request["rho"]
    elif epsilon is not None and "delta" in request:
        assert guarantee.statement(request["delta"]).epsilon <= epsilon
    elif epsilon is not None and mechanism.post_processing:
        assert guarantee.epsilon == epsilon
    elif epsilon is not None:
        pure = guarantee.epsilon.is_finite()
        assert (guarantee.epsilon if pure else guarantee.rdp(Decimal(2))) <= epsilon
    (step,) = plan.steps
    evidence = ExactEvidence(tuple(5 for _ in step.statistic.names), 20)
    if step.rows is not None:
        evidence = replace(evidence, design=rows_of(step.rows, 20))
    payload = mechanism().release(plan, evidence)
    if isinstance(payload, Payload):
        assert payload.names == step.statistic.names
        assert payload.noise == step.noise
        assert all(isinstance(value, int) for value in payload.values)
    else:
        assert len(payload.values) == request["draws"]
        assert all(len(point) == len(model.parameters) for point in payload.values)


DRAWN = [each for each in ALL if each.example.drawn]
CONJUGATE = [i for i in DRAWN if issubclass(i.kind, ConjugatePosterior) and issubclass(i.kind, OneParameterFamily)]


@pytest.mark.parametrize("r", [1.0, 0.6])
@pytest.mark.parametrize("instance", CONJUGATE, ids=label)
def test_renyi_divergence_matches_the_tempered_density(instance: Instance, r: float) -> None:
    """By quadrature of the model's own likelihood and prior, at the extreme sums of neighbors."""
    model, n = instance.build(), 3
    assert isinstance(model, OneParameterFamily)
    assert isinstance(model, ConjugatePosterior)
    family = model.family(n)
    order = min(2.0, (1.0 + family.order_max(r, 1.0)) / 2.0)
    theta, log_width = quadrature(model.parameter_range)
    (a, b), prior = model.natural(theta, floats()), model.log_prior(theta, floats())
    _, _, steps = model.grid

    def log_density(code: int) -> Floats:
        logs = prior + r * (float(model.total([code], n)) * a + n * b) + log_width
        return np.asarray(logs - logsumexp(logs))

    worst = 0.0
    for others in (0, (n - 1) * steps // 2, (n - 1) * steps):
        ends = [log_density(others + code) for code in (0, steps)]
        for p, q in (ends, reversed(ends)):
            worst = max(worst, float(logsumexp(order * p + (1.0 - order) * q)) / (order - 1.0))
    assert family.divergence(order, r, 1.0) == pytest.approx(worst, rel=1e-6)


def quadrature(parameter_range: tuple[float, float]) -> tuple[Floats, Floats]:
    """Points of a parameter and their log widths, evenly spaced in its logit, its logarithm or itself."""
    y = np.linspace(-36.0, 36.0, 40_001)
    low, high = parameter_range
    if math.isinf(low):
        return y, np.zeros_like(y)
    if math.isinf(high):
        return low + np.exp(y), y
    return low + (high - low) * expit(y), log_expit(y) + log_expit(-y)


def rows_of(rows: DesignRows | CodedColumns, n_records: int) -> DesignMatrix | EncodedRecords:
    """Rows or codes of random records; one record of rows is invalid."""
    rng, matrix = np.random.default_rng(2), rows.hold(n_records)
    codes = np.stack([rng.integers(n_codes(column), size=n_records) for column in rows.columns], axis=1)
    if isinstance(rows, DesignRows):
        codes[0, 0] = -1
    matrix.take(codes)
    return matrix


@pytest.mark.parametrize(("mechanism", "instance"), REFUSED, ids=label)
def test_posterior_draws_from_other_examples_are_refused(mechanism: type[Mechanism], instance: Instance) -> None:
    model, request = request_for(mechanism, instance)
    with pytest.raises(SpecError) as refused:
        plan_of(mechanism(), model, **request)
    assert refused.value.hint


@pytest.mark.parametrize(("mechanism", "instance"), PAIRS, ids=label)
def test_plan_requires_what_the_mechanism_needs(mechanism: type[Mechanism], instance: Instance) -> None:
    """Posterior draws need complete records and a public record count; noise does not. Both need a stated cost."""
    model, request = request_for(mechanism, instance)
    lacking = [
        (instance.build(), {**request, "policy": RecordPolicy(Neighbors.REPLACE_ONE)}),
        (model, {**request, "policy": RecordPolicy(Neighbors.ADD_REMOVE, request["policy"].impute)}),
        (model, {**request, "n_records": None}),
    ]
    for subject, incomplete in lacking:
        counted = incomplete["policy"].neighbors is Neighbors.REPLACE_ONE and incomplete["n_records"] is not None
        if not mechanism.needs_n or (isinstance(subject, ConvexLossModel) and counted):
            plan_of(mechanism(), subject, **incomplete)
            continue
        with pytest.raises(SpecError):
            plan_of(mechanism(), subject, **incomplete)
    unpriced: dict[str, Any] = dict.fromkeys({"epsilon", "rho"} & mechanism.example["privacy"].keys())
    if unpriced:
        with pytest.raises(SpecError):
            plan_of(mechanism(), model, **{**request, **unpriced})


@pytest.mark.parametrize("name", model_names())
def test_prediction_is_finite_for_any_draw(name: str) -> None:
    """A prediction from a paid draw must not fail on its value: the command would fail every time."""
    model = instances_of(model_type(name))[0].build()
    for value in (0.0, 5e-324, 1e-300, 1.0, 1e300):
        predicted = model.predictive([value] * len(model.parameters))
        assert all(math.isfinite(number) for number in predicted.values()), value


@pytest.mark.parametrize("instance", NOISY, ids=label)
def test_prior_quantiles_are_those_of_simulated_parameters(instance: Instance) -> None:
    """A share of 200 draws that is 4.5 sd from its expectation fails: with probability 7e-6 per parameter and level."""
    levels = np.array([0.2, 0.5, 0.9])
    model, policy = instance.model_and_policy(Neighbors.REPLACE_ONE, complete=True)
    assert isinstance(model, NoisyStatistics)
    quantiles = model.prior_quantiles(levels)
    if quantiles is None:
        pytest.skip("the prior of the reported parameters has no closed form")
    rng = np.random.default_rng(1)
    draws = np.array([model.simulated(policy, 1, rng)[0] for _ in range(200)])
    assert quantiles.shape == (len(model.parameters), len(levels))
    shares = (draws[:, :, None] <= quantiles).mean(axis=0)
    far = np.abs(shares - levels) > 4.5 * np.sqrt(levels * (1 - levels) / len(draws))
    assert not (far & np.isfinite(quantiles)).any(), dict(zip(model.parameters, shares.tolist(), strict=True))


@pytest.mark.parametrize("instance", ALL, ids=label)
def test_findings_are_about_reported_parameters(instance: Instance) -> None:
    model = instance.build()
    findings = model.findings("c", [0.5] * len(model.parameters))
    assert 1 <= len(findings.facts) <= 4
    assert all(0 <= fact.parameter < len(model.parameters) for fact in findings.facts)
    assert all(math.isfinite(fact.convert(0.5)) for fact in findings.facts)


@pytest.mark.parametrize("name", model_names())
def test_every_model_has_examples_and_states_its_prior(name: str) -> None:
    kind = model_type(name)
    assert kind.examples
    served = any(supports(mechanism, kind) for mechanism, _ in SERVED if not mechanism.post_processing)
    assert kind.examples[0].drawn or not served, "draws must be possible from the first example"
    assert kind.prior_type.__module__ == kind.__module__, "a model states its default prior in its own file"


@pytest.mark.parametrize(
    "subject", [model_type(n) for n in model_names()] + [mechanism_type(n) for n in mechanism_names()], ids=label
)
def test_info_is_complete_and_releases_state_their_cost(subject: type[Model] | type[Mechanism]) -> None:
    for field in ("releases", "guarantee", "assumptions", "source", "corrections", "prefer_when"):
        assert len(getattr(subject.info, field)) > 20, field
    priced = subject.statistic if issubclass(subject, BoundedStatistics) else subject
    text = inspect.getdoc(priced) or ""
    assert "Privacy:" in text
    assert "Source:" in text
