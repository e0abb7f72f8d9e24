"""Noisy Newton: exact integers of single records, sensitivities over all neighbors, and the law of what is released."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError, VerificationError
from dpbayes_cli.base.numeric import Integers
from dpbayes_cli.core import derivatives
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.derivatives import DerivativeMatrix, DerivativeRows, Point, point_of
from dpbayes_cli.core.design import Design, Feature
from dpbayes_cli.core.losses import CountLoss, CurvedLoss, LogisticLoss, ProbitLoss
from dpbayes_cli.core.model import Model
from dpbayes_cli.core.released import Payload
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.mechanisms.noisy_newton import PERCENT, NoisyNewton, n_rounds, sensitivities
from dpbayes_cli.mechanisms.samplers.stated_mu import MuOptions
from dpbayes_cli.privacy.conversions import gaussian_delta
from dpbayes_cli.privacy.laws import rounded_gaussian
from dpbayes_cli.privacy.laws.part_noise import PartNoise
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.privacy.secret_normals import rounded_normals
from dpbayes_cli.spec.release_spec import build_spec
from tests.conftest import Cli, often

NUMBER = NumericColumn("x", -1.0, 3.0, 8)
TEXT = Column("z", ("a", "b", "c"))
TARGET = Column("y", ("no", "yes"))
REPLACE, ADD = RecordPolicy(Neighbors.REPLACE_ONE), RecordPolicy(Neighbors.ADD_REMOVE)
SPEC = {
    "model": "logistic-regression",
    "mechanism": "noisy-newton",
    "domain": {
        "target": {"column": "y", "values": ["no", "yes"]},
        "features": {"x": {"lower": -1.0, "upper": 3.0}, "z": {"values": ["a", "b", "c"]}},
    },
    "privacy": {"mu": "1"},
}


LOSSES: tuple[CurvedLoss, ...] = (LogisticLoss(), ProbitLoss(), CountLoss(6), CountLoss(1))


def rows_of(
    *columns: Column | NumericColumn, policy: RecordPolicy = REPLACE, loss: CurvedLoss = LOSSES[0], **design: object
) -> DerivativeRows:
    full = Design(tuple(Feature(column) for column in columns), **design)  # type: ignore[arg-type]
    upper = loss.largest_outcome
    target = NumericColumn("y", 0.0, upper, upper, integers=True) if isinstance(loss, CountLoss) else TARGET
    prior = CoefficientLaw.common(full.width, 1.0)
    return DerivativeRows(design=full, target=target, loss=loss, prior=prior, policy=policy)


@pytest.fixture
def tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the tables of a point, which do not depend on records, once for all data sets."""
    monkeypatch.setattr(DerivativeRows, "tables", cache(DerivativeRows.tables))


def held(rows: DerivativeRows, *blocks: Integers) -> DerivativeMatrix:
    matrix = rows.hold(0)
    for block in blocks:
        matrix.take(block)
    return matrix


def random_codes(n: int, seed: int, *sizes: int) -> Integers:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(-(i == 0), size, n) for i, size in enumerate(sizes)], axis=1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("norm", "loss"), often([(0.7, LOSSES[0]), (None, LOSSES[0]), (None, LOSSES[2])], 2, several=True)
)
@pytest.mark.usefixtures("tables_once")
def test_a_records_integers_depend_on_the_record_alone(sparse: bool, norm: float | None, loss: CurvedLoss) -> None:
    wide = Column("w", tuple(map(str, range(40)))) if sparse else TEXT
    rows = rows_of(NUMBER, wide, norm=norm, loss=loss)
    assert rows.design.dense is not sparse
    codes = random_codes(120, 5, 9, len(wide.levels), loss.largest_outcome + 1)
    point = point_of(np.linspace(-3.0, 2.0, rows.width))
    whole = held(rows, codes).derivatives(point)
    shuffled = np.random.default_rng(6).permutation(codes)
    singles = np.sum([held(rows, codes[i : i + 1]).derivatives(point) for i in range(len(codes))], axis=0)
    assert held(rows, shuffled[:33], shuffled[33:]).derivatives(point) == whole == singles.tolist()


@pytest.mark.parametrize("loss", LOSSES)
def test_released_derivatives_are_those_of_the_log_likelihood(loss: CurvedLoss) -> None:
    rows, top = rows_of(NUMBER, TEXT, loss=loss), loss.largest_outcome
    codes = random_codes(2000, 7, 9, 3, top + 1)
    codes = codes[codes[:, 0] >= 0]
    points = [point_of(np.array(b)) for b in ([0.0] * 5, [1.0, -2.0, 0.5, 0.0, 2.0])]
    values = [value for point in points for value in held(rows, codes).derivatives(point)]
    seen = rows.observation(values, [1.0] * len(values), points, len(codes))
    x, y = rows.design.rows(codes[:, :2]), codes[:, 2].astype(float)
    for b, gradient, hessian in zip(seen.points, seen.gradients, seen.hessians, strict=True):
        t = x @ b
        assert np.abs(gradient + x.T @ loss.slope(t, y)).max() < 2e-3 * top * len(y)
        assert np.abs(hessian - (x.T * loss.curvature(t)) @ x).max() < 2e-3 * top * len(y)
    assert np.allclose(seen.gradient_sds, [rows.largest_slope(point) / (1 << 25) for point in points])


@pytest.mark.parametrize("policy", [REPLACE, ADD, RecordPolicy(Neighbors.REPLACE_ONE, contributions=3)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.usefixtures("tables_once")
def test_sensitivities_hold_for_all_neighbors_and_are_attained(policy: RecordPolicy, loss: CurvedLoss) -> None:
    """Without an intercept, the rows (1, 1) and (1, -1) are orthogonal, and attain the bound of the Hessian."""
    other = NumericColumn("v", 0.0, 1.0, 2)
    rows = rows_of(NUMBER, other, policy=policy, loss=loss, intercept=False)
    gradient_bound, hessian_bound = sensitivities(rows)
    cells = [np.array([codes]) for codes in itertools.product((0, 1, 4, 8), (0, 1, 2), (0, loss.largest_outcome))]
    k, largest = policy.contributions, np.zeros(2)
    for point in (Point((0, 0)), point_of(np.array([0.3, -1.5])), point_of(np.array([20.0, 20.0]))):
        each = k * np.array([held(rows, cell).derivatives(point) for cell in cells], dtype=object)
        absent = policy.neighbors is Neighbors.ADD_REMOVE
        changes = list(each) if absent else [*each, *(a - b for a, b in itertools.combinations(each, 2))]
        for change in changes:
            g1, g2, h11, h22, h12 = map(int, change)
            squares = g1**2 + g2**2, h11**2 + h22**2 + 2 * h12**2  # the last entry is in the matrix twice
            assert squares[0] <= gradient_bound
            assert squares[1] <= hessian_bound
            largest = np.maximum(largest, np.array(squares, dtype=float) / (gradient_bound, hessian_bound))
    assert largest.min() > 1.0 - 1e-9


def test_a_row_is_never_longer_than_its_bound() -> None:
    sizes: list[list[Column | NumericColumn]] = [[NUMBER], [NUMBER, TEXT], [NUMBER] * 7]
    for norm, columns in itertools.product((None, 0.3, 1.0, 1.2), sizes):
        rows = rows_of(*columns, norm=norm)
        codes = np.array([[8] * len(columns) + [1] if TEXT not in columns else [8, 2, 1]])
        (x, _), *_ = held(rows, codes).blocks
        length = int((x.astype(np.int64) ** 2).sum())
        assert 0.99 * rows.squared_norm <= length <= rows.squared_norm
        if norm is None:
            assert length == rows.squared_norm


@pytest.mark.parametrize(("n_records", "rounds"), [(40, 1), (400, 2), (None, 2)])
def test_the_noise_of_all_rounds_costs_the_stated_mu(n_records: int | None, rounds: int) -> None:
    spec = build_spec(SPEC)
    model, rows = spec.build_model(), NoisyNewton().rows(spec.build_model(), spec.policy)
    plan = NoisyNewton().plan(model, spec.policy, MuOptions(mu=Decimal(1)), n_records)
    noise, width = require_type(plan.final_step.noise, PartNoise), rows.width
    gradient, hessian = map(Fraction, sensitivities(rows))
    assert noise.sizes == (width, width, width * (width - 1) // 2) * rounds
    scales = [Fraction(law.scale) ** 2 for law in noise.laws]
    cost = sum(gradient / scales[i] + hessian / min(scales[i + 1], 2 * scales[i + 2]) for i in range(0, 3 * rounds, 3))
    assert 1 - Fraction(1, 10**9) < cost <= 1
    assert len(plan.final_step.statistic.names) == sum(noise.sizes)
    assert (plan.guarantee.kind, float(plan.guarantee.mu)) == ("gdp", 1.0)


def test_each_round_has_noise_of_its_own(short_searches: None, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[int]] = []
    draw = rounded_normals

    def recorded(scale: float, size: int) -> list[int]:
        drawn.append(draw(scale, size))
        return drawn[-1]

    monkeypatch.setattr("dpbayes_cli.privacy.laws.rounded_gaussian.rounded_normals", recorded)
    spec = build_spec(SPEC)
    model: Model = spec.build_model()
    plan = NoisyNewton().plan(model, spec.policy, MuOptions(mu=Decimal(1)))
    matrix = held(require_type(plan.final_step.rows, DerivativeRows), random_codes(300, 8, 1 << 16, 3, 2))
    released = NoisyNewton().release(plan, ExactEvidence((), 300, design=matrix))
    exact = [value for point in released.points for value in matrix.derivatives(point)]
    noise = [value for numbers in drawn for value in numbers]
    assert require_type(released, Payload).values == tuple(map(sum, zip(exact, noise, strict=True)))
    assert len(drawn) == 3 * 2
    assert len(set(noise)) > 0.99 * len(noise)  # scales of about 2^25: equal numbers are rare
    assert released.points[0] == (0,) * matrix.rows.design.width
    law = require_type(released.noise, PartNoise)
    seen = NoisyNewton().observation(model, spec.policy, released.values, law, 300, released.points)
    assert len(seen.points) == 2


@pytest.mark.parametrize(
    "policy",
    often([ADD, RecordPolicy(Neighbors.REPLACE_ONE, contributions=3), RecordPolicy(Neighbors.ADD_REMOVE, "no", 3)], 2),
)
def test_points_do_not_depend_on_a_private_number_of_records(
    policy: RecordPolicy, short_searches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes_cli.privacy.laws.rounded_gaussian.rounded_normals", lambda _scale, size: [0] * size)
    model = build_spec(SPEC).build_model()
    plan = NoisyNewton().plan(model, policy, MuOptions(mu=Decimal(10)))
    matrix = held(require_type(plan.final_step.rows, DerivativeRows), random_codes(60, 9, 1 << 16, 3, 2))
    released = [NoisyNewton().release(plan, ExactEvidence((), n, design=matrix)) for n in (60, 90)]
    assert released[0] == released[1]


@pytest.mark.parametrize("loss", [LOSSES[0], CountLoss(2)])
@pytest.mark.parametrize("policy", often([ADD, REPLACE], 2))
def test_one_coefficient_with_tiny_integers_never_exceeds_gaussian_dp(
    policy: RecordPolicy, loss: CurvedLoss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hockey-stick divergences of one round by enumeration, over all neighbors, at two points."""
    monkeypatch.setattr(derivatives, "ONE", 4)
    monkeypatch.setattr(derivatives, "TOP", 4)
    monkeypatch.setattr(derivatives, "_LARGEST_PREDICTOR", 64)
    monkeypatch.setattr("dpbayes_cli.mechanisms.noisy_newton.TOP", 4)
    rows = rows_of(NUMBER, policy=policy, loss=loss, intercept=False)
    mu_squared = Fraction(1, 2)
    laws = [
        rounded_gaussian.RoundedGaussian.calibrate(change, Decimal(float(mu_squared))) for change in sensitivities(rows)
    ]
    mu = math.sqrt(2 * float(mu_squared))
    cells = [np.array([codes]) for codes in itertools.product((0, 3, 8), range(loss.largest_outcome + 1))]
    worst = 0.0
    for point in ((3,), (-40,)):
        each = [np.zeros(2, dtype=int), *(np.array(held(rows, cell).derivatives(point)) for cell in cells)]
        pairs = itertools.permutations(each, 2) if policy is REPLACE else [(a, each[0]) for a in each[1:]]
        for change in {tuple(np.abs(a - b).tolist()) for a, b in pairs}:
            differences, masses = [], []
            for law, shift in zip(laws, change, strict=True):
                z = np.arange(-law.radius(30.0), law.radius(30.0) + 1)
                masses.append(np.exp(law.log_pmf(z)))
                differences.append(law.log_pmf(z) - law.log_pmf(z - shift))
            total, mass = np.add.outer(*differences), np.multiply.outer(*masses)
            for epsilon in (0.0, 0.5, 2.0):
                delta = float((mass * -np.expm1(np.minimum(epsilon - total, 0.0))).sum())
                assert delta <= gaussian_delta(mu, epsilon) * (1.0 + 1e-9) + 1e-12
                worst = max(worst, delta / gaussian_delta(mu, epsilon))
    assert worst > 0.5


def test_the_number_of_rounds_depends_on_no_private_number() -> None:
    model = build_spec(SPEC).build_model()
    for policy in (ADD, RecordPolicy(Neighbors.REPLACE_ONE, contributions=3)):
        plans = [NoisyNewton().plan(model, policy, MuOptions(mu=Decimal(1)), n) for n in (None, 40, 40_000)]
        assert len({plan.final_step.noise for plan in plans}) == 1
    assert [n_rounds(5, 0.5, n) for n in (499, 500, None)] == [1, 2, 2]
    assert all(sum(map(sum, shares)) == 100 for shares in PERCENT.values())


def test_a_bundle_without_its_points_is_refused() -> None:
    model = build_spec(SPEC).build_model()
    noise = NoisyNewton().plan(model, REPLACE, MuOptions(mu=Decimal(1))).final_step.noise
    size = len(NoisyNewton().released_names(model, REPLACE, [(0,) * 5] * 2))
    for points in ([], [(0,) * 5], [(0,) * 4] * 2, [(1,) * 5] * 2, [(0,) * 5, (1 << 20,) * 5]):
        with pytest.raises(VerificationError, match="points"):
            NoisyNewton().observation(model, REPLACE, [0] * size, noise, 100, points)


def test_two_costs_and_wide_designs_are_refused() -> None:
    model = build_spec(SPEC).build_model()
    with pytest.raises(SpecError, match="state one of"):
        NoisyNewton().plan(model, REPLACE, MuOptions(mu=Decimal(1), epsilon=Decimal(1), delta=Decimal("1e-6")))
    wide = {"x": {"values": [str(i) for i in range(300)]}}
    stated = {**SPEC, "domain": {**SPEC["domain"], "features": wide}}  # type: ignore[dict-item]
    with pytest.raises(SpecError, match="301 columns"):
        NoisyNewton().plan(build_spec(stated).build_model(), REPLACE, MuOptions(mu=Decimal(1)))


def test_a_number_that_no_derivatives_and_noise_lead_to_is_found(
    dpbayes: Cli, place: Path, short_searches: None
) -> None:
    (place / "d.csv").write_text("x,z,y\n" + "1,a,no\n-1,b,yes\n3,c,no\n" * 20)
    (place / "s.yaml").write_text(json.dumps({**SPEC, "data": "d.csv", "inference": {"method": "naive", "samples": 9}}))
    dpbayes("budget", "open", "d", "--mu", "1").exits(0)
    stated = dpbayes("release", "--spec", "s.yaml", "--dry-run", "--json").json["statistics"]
    dpbayes("release", "--spec", "s.yaml", "--out", "out").exits(0)
    document = json.loads((place / "out" / "release.json").read_text())
    released = [(each["name"], each["noise_scale"]) for each in document["statistics"]]
    assert [(each["name"], each["noise_scale"]) for each in stated] == released
    document["statistics"][0]["value"] *= 1000
    (place / "out" / "release.json").write_text(json.dumps(document))
    impossible = [
        text for text in dpbayes("verify", "out", "--json").exits(7).err.splitlines() if "is impossible" in text
    ]
    assert len(impossible) == 1, "the other numbers are possible"
