"""Gibbs posteriors: plans and charges, refusals, and a release from end to end."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.coefficient_law import CoefficientLaw
from dpbayes_cli.core.columns import Column, NumericColumn, RecordPolicy
from dpbayes_cli.core.design import Design, DesignMatrix, DesignRows, Feature
from dpbayes_cli.core.langevin import Langevin
from dpbayes_cli.core.losses import HuberLoss, LogisticLoss, ProbitLoss, QuantileLoss, SmoothHingeLoss
from dpbayes_cli.core.plan import Plan
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import ExactEvidence
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.models.huber_regression import HuberRegression
from dpbayes_cli.models.logistic_regression import LogisticRegression
from dpbayes_cli.models.probit_regression import ProbitRegression
from dpbayes_cli.models.quantile_regression import QuantileRegression
from dpbayes_cli.models.svm import Svm
from dpbayes_cli.privacy.kinds import GaussianDP
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.workflow.verification import EARLIER_CHAIN
from tests.conftest import Cli, Result
from tests.plans import plan_of

A = NumericColumn("a", 0.0, 10.0, 1 << 16)
DESIGN = Design((Feature(A), Feature(Column("b", ("u", "v", "w")))), norm=1.0)
PRIOR = CoefficientLaw.common(DESIGN.width, 1.0)
CLASS, NUMBER = Column("y", ("0", "1")), NumericColumn("y", 0.0, 1.0, 1 << 16)
MODELS: dict[str, ConvexLossModel] = {
    "logistic-regression": LogisticRegression(DESIGN, CLASS, LogisticLoss(), PRIOR),
    "probit-regression": ProbitRegression(DESIGN, CLASS, ProbitLoss(), PRIOR),
    "huber-regression": HuberRegression(DESIGN, NUMBER, HuberLoss(1.345, 0.1), PRIOR),
    "quantile-regression": QuantileRegression(DESIGN, NUMBER, QuantileLoss(0.7, 0.5, 0.1), PRIOR),
    "svm": Svm(DESIGN, CLASS, SmoothHingeLoss(0.5), PRIOR),
}
REPLACE, ADD_REMOVE = RecordPolicy(Neighbors.REPLACE_ONE), RecordPolicy(Neighbors.ADD_REMOVE)
LARGEST_PLAN = {"mu", "likelihood_power", "tau", "step_size", "n_steps", "draws", "calibration", "sensitivity",
                "smoothness", "row_norm", "width", "left_of_start", "variance_inflation", "memory"}  # fmt: skip


def planned(mechanism: str = "gibbs-posterior", model: str = "logistic-regression", **asked: Any) -> Plan:
    asked = {"policy": REPLACE, "n_records": 1000, **asked}
    exact: dict[str, Any] = {
        k: Decimal(v) if k in {"epsilon", "delta", "rho", "mu", "order"} else v for k, v in asked.items()
    }
    return plan_of(mechanism_type(mechanism)(), MODELS[model], **exact)


def true_mu(plan: Plan, model: str, n: int) -> float:
    """Return the cost of a plan's chain, recomputed from slope, curvature and rows of norm sqrt(2)."""
    chain = require_type(plan.final_step.law, Langevin)
    slope, curvature = {
        "logistic-regression": (1.0, 0.25), "probit-regression": (1.0, 1.0 / math.sqrt(2.0 * math.pi)),
        "huber-regression": (13.45, 100.0), "quantile-regression": (7.0, 100.0), "svm": (1.0, 2.0),
    }[model]  # fmt: skip
    with mpmath.workdps(40):
        beta, tau, step_size, root = (mpmath.mpf(x) for x in (chain.likelihood_power, chain.tau, chain.step_size, 2.0))
        d, m = 2 * beta * slope * mpmath.sqrt(root), beta * curvature * 2 * n + tau
        c = max(abs(1 - step_size * tau), abs(1 - step_size * m))
        assert c < 1
        power = c**chain.n_steps
        each = step_size * d * d / 2 * (1 + c) * (1 - power) / ((1 - c) * (1 + power))
        return float(mpmath.sqrt(each * plan.final_step.draws))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "asked",
    [
        {"mu": "0.5"},
        {"rho": "0.02", "draws": 7},
        {"epsilon": "1", "delta": "1e-6"},
        {"epsilon": "0.1", "delta": "1e-5", "draws": 3},
        {"epsilon": "1", "delta": "1e-6", "calibration": "minami"},
        {"epsilon": "2", "delta": "1e-5", "draws": 4, "calibration": "minami"},
        {"epsilon": "0.1", "order": "8", "calibration": "geumlek"},
        {"epsilon": "0.1", "order": "8", "likelihood_power": 0.3, "calibration": "geumlek"},
        {"mu": "0.5", "likelihood_power": 0.01},
        {"mu": "0.5", "n_steps": 1},
        {"mu": "0.5", "n_steps": 50, "step_size": 1e-5},
        {"mu": "5", "n_steps": 3, "step_size": 0.01},
    ],
    ids=str,
)
def test_the_charge_is_the_cost_of_the_chain_and_within_the_request(model: str, asked: dict[str, Any]) -> None:
    plan = planned(model=model, **asked)
    guarantee = require_type(plan.guarantee, GaussianDP)
    assert float(guarantee.mu) == pytest.approx(true_mu(plan, model, 1000), rel=1e-7)
    assert float(guarantee.mu) >= true_mu(plan, model, 1000)
    if "mu" in asked:
        assert guarantee.mu <= Decimal(asked["mu"])
    elif "rho" in asked:
        assert guarantee.rho <= Decimal(asked["rho"])
    elif "order" in asked:
        assert guarantee.rdp(Decimal(asked["order"])) <= Decimal(asked["epsilon"])
    else:
        epsilon, delta = Decimal(asked["epsilon"]), Decimal(asked["delta"])
        assert guarantee.delta_at(epsilon) <= delta
        assert guarantee.statement(delta).epsilon <= epsilon


def test_a_plan_states_the_calibrated_parameters() -> None:
    plan = planned(mu="0.5", draws=4, certificate="total-variation")
    assert plan.parameters.keys() == LARGEST_PLAN | {"certificate"}
    chain = require_type(plan.final_step.law, Langevin)
    parameters = plan.parameters
    assert (parameters["likelihood_power"], parameters["tau"], parameters["step_size"], parameters["n_steps"]) == (
        chain.likelihood_power, chain.tau, chain.step_size, chain.n_steps,
    )  # fmt: skip
    assert parameters["mu"] == float(plan.guarantee.mu) == pytest.approx(0.5, rel=2e-3)  # horizons are whole
    assert parameters["smoothness"] == pytest.approx(chain.likelihood_power * 0.25 * 2.0 * 1000 + 1.0)
    assert chain.step_size == pytest.approx(1.0 / parameters["smoothness"])
    assert parameters["sensitivity"] == pytest.approx(2.0 * chain.likelihood_power * math.sqrt(2.0))
    assert parameters["certificate"]["n_steps"] > 1e6
    assert math.log2(chain.grid) == int(math.log2(chain.grid))
    assert chain.grid <= 1.0 / math.sqrt(parameters["smoothness"]) / 1024.0
    assert f"{chain.n_steps} steps" in plan.how
    assert plan.warnings == ()
    assert "steps are few" in planned(mu="0.5", n_steps=2).warnings[0]
    long = planned(mu="5", n_steps=3, step_size=0.01, model="huber-regression")
    assert long.parameters["variance_inflation"] > 1e4
    assert any("is large" in warning for warning in long.warnings)


def test_the_largest_likelihood_power_is_found_or_a_stated_one_raises_the_precision() -> None:
    plan = planned(mu="0.5", n_steps=300)
    chain = require_type(plan.final_step.law, Langevin)
    assert float(plan.guarantee.mu) > 0.5 * (1.0 - 1e-8)
    assert 0.0 < chain.likelihood_power < 1.0
    untempered = planned(mu="100")
    assert untempered.parameters["likelihood_power"] == 1.0
    assert float(untempered.guarantee.mu) < 100.0
    assert untempered.parameters["tau"] == 1.0
    chain = require_type(planned(mu="0.5", likelihood_power=0.5).final_step.law, Langevin)
    assert chain.likelihood_power == 0.5
    assert chain.tau > 1.0
    assert require_type(planned(mu="0.5", likelihood_power=1e-3).final_step.law, Langevin).tau == 1.0


def test_k_draws_cost_the_root_of_k() -> None:
    one, nine = planned(mu="0.2"), planned(mu="0.6", draws=9)
    power = one.parameters["likelihood_power"]
    assert nine.parameters["likelihood_power"] == pytest.approx(power, rel=1e-3)  # horizons differ a little
    each = require_type(nine.final_step.law, Langevin)
    again = planned("rdp-direct", n_steps=each.n_steps)
    many = planned("rdp-direct", n_steps=each.n_steps, draws=9)
    assert float(many.guarantee.mu) == pytest.approx(3.0 * float(again.guarantee.mu), rel=1e-12)
    assert nine.final_step.draws == 9


def test_the_exact_curve_allows_more_than_the_papers_rule() -> None:
    asked = {"epsilon": "1", "delta": "1e-6"}
    ours, theirs = planned(**asked), planned(**asked, calibration="minami")
    assert ours.parameters["likelihood_power"] > 1.2 * theirs.parameters["likelihood_power"]
    assert theirs.parameters["corollary_8"]["confirmed_by_theorem_7"]
    beyond = planned(epsilon="2", delta="1e-5", calibration="minami", model="logistic-regression")
    assert not beyond.parameters["corollary_8"]["confirmed_by_theorem_7"]


@pytest.mark.parametrize(
    ("asked", "where", "words"),
    [
        ({"epsilon": "1"}, "privacy.delta", "no pure epsilon"),
        ({}, "privacy", "state one of"),
        ({"mu": "0.5", "rho": "0.1"}, "privacy", "state one of"),
        ({"mu": "0.5", "delta": "1e-6"}, "privacy", "state one of"),
        ({"mu": "0.5", "policy": ADD_REMOVE, "n_records": None}, "sampling.max_records", "private"),
        ({"mu": "0.5", "max_records": 2000}, "sampling.max_records", "public"),
        ({"mu": "0.5", "n_records": None}, "records", "was not stated"),
        ({"mu": "0.5", "n_records": 0}, "records", "at least 1"),
        ({"mu": "0.5", "step_size": 3.0}, "sampling.step_size", "must be below"),
        ({"mu": "1e-13"}, "privacy", "too small"),
        ({"mu": "1e-10"}, "privacy", "double precision"),
        (
            {"epsilon": "1", "delta": "1e-6", "likelihood_power": 0.1, "calibration": "minami"},
            "privacy",
            "needs epsilon and delta",
        ),
        ({"epsilon": "1", "delta": "1e-6", "calibration": "geumlek"}, "privacy", "at an order"),
        ({"mu": "0.5", "certificate": "total-variation", "gamma": 0.6}, "sampling.certificate", "Proposition 13"),
        ({"mu": "0.5", "gamma": 0.1}, "sampling.gamma", "no certificate is requested"),
        ({"mu": "0.5", "order": "8"}, "privacy.order", "Geumlek"),
    ],
    ids=str,
)
def test_requests_without_a_guarantee_are_refused(asked: dict[str, Any], where: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as refused:
        planned(**asked)
    assert refused.value.where == where


def test_a_public_limit_replaces_a_private_number_of_records() -> None:
    """Under add-remove an added record may push another one out: both gradients count."""
    private = planned(mu="0.5", policy=ADD_REMOVE, n_records=None, max_records=1000)
    public = planned(mu="0.5")
    assert private.parameters == public.parameters
    assert require_type(private.final_step.rows, DesignRows).max_records == 1000
    assert require_type(public.final_step.rows, DesignRows).max_records is None


def test_draws_are_those_of_the_planned_chain() -> None:
    plan = planned(mu="0.5", draws=3)
    matrix = DesignMatrix(require_type(plan.final_step.rows, DesignRows), 1000)
    rng = np.random.default_rng(1)
    matrix.take(np.column_stack([rng.integers(0, 1 << 16, 1000), rng.integers(0, 3, 1000), rng.integers(0, 2, 1000)]))
    drawn = mechanism_type("gibbs-posterior")().release(plan, ExactEvidence((), 1000, design=matrix))
    values = np.asarray(getattr(drawn, "values"))  # noqa: B009 - of draws
    assert values.shape == (3, 5)
    grid = require_type(plan.final_step.law, Langevin).grid
    assert (values / grid == np.round(values / grid)).all()
    assert len(np.unique(values[:, 0])) == 3


@pytest.mark.parametrize(
    "asked",
    [{"mu": "1"}, {"mu": "1", "n_steps": 3}, {"epsilon": "2", "delta": "1e-5", "calibration": "minami"}],
    ids=str,
)
def test_draws_of_neighbors_are_as_far_apart_as_is_charged_and_no_farther(asked: dict[str, Any]) -> None:
    """The whole way, from the plan to secret numbers, where the cost is exact: one record, pulling either way.

    Residuals stay beyond the threshold, so that draws are normal and their means mu standard deviations apart; 40,000
    of each tell mu within 0.05 (false-fail 3e-9), where half the noise or another start would be off by 0.1 or more.
    """
    design, prior = Design((Feature(A),), intercept=False), CoefficientLaw.common(1, 40.0)
    model = HuberRegression(design, NUMBER, HuberLoss(1.0, 0.05), prior)
    exact: dict[str, Any] = {k: Decimal(v) if k in {"epsilon", "delta", "mu"} else v for k, v in asked.items()}
    mechanism = mechanism_type("gibbs-posterior")()
    plan = plan_of(mechanism, model, REPLACE, n_records=1, **exact)
    rows, mu, size = require_type(plan.final_step.rows, DesignRows), float(plan.guarantee.mu), 40_000
    drawn = []
    for target in (1 << 16, 0, -1):
        matrix = DesignMatrix(rows, 1)
        matrix.take(np.array([[1 << 16, target]]))
        drawn.append(require_type(plan.final_step.law, Langevin).draw(matrix, size)[:, 0])
    one, other, none = drawn
    error = 6.2 * math.sqrt((2.0 + mu * mu / 4.0) / size)
    assert abs((one.mean() - other.mean()) / one.std() - mu) < error
    assert abs((one.mean() - none.mean()) / one.std() - mu / 2.0) < error
    assert abs(one.std() / other.std() - 1.0) < 6.2 / math.sqrt(size)


SPEC = """
model: {model}
mechanism: {mechanism}
data: d.csv
domain:
  target: {{column: y, values: ['0', '1']}}
  features:
    a: {{lower: 0, upper: 10}}
    b: {{values: [u, v, w]}}
"""


@pytest.fixture
def records(place: Path) -> Path:
    """A file of 200 records, some of them invalid."""
    rng = np.random.default_rng(6)
    lines = [
        f"{rng.uniform(-2, 12):.2f},{rng.choice(list('uvwx'))},{rng.choice(['0', '1', '1', '?'])}" for _ in range(200)
    ]
    path = place / "d.csv"
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n", encoding="ascii")
    (place / "spec.yaml").write_text(SPEC.format(model="logistic-regression", mechanism="gibbs-posterior"))
    return path


def test_a_release_from_end_to_end_is_charged_once_and_replayed(dpbayes: Cli, records: Path) -> None:
    assert dpbayes("budget", "open", "d", "--rho", "1").code == 0
    asked = ["release", "--spec", "spec.yaml", "--mu", "0.5", "--draws", "3", "--n-steps", "40"]
    first = dpbayes(*asked, "--out", "out", "--json").json
    document = json.loads(Path("out/release.json").read_text())
    assert first["statistics"] == []
    assert first["guarantee"]["kind"] == "gdp"
    assert Decimal("0.874") < Decimal(first["remaining"]["rho"]) < Decimal("0.87500001")
    assert len(document["draws"]) == 3
    assert len(document["draws"][0]) == 5
    assert document["parameters"]["n_steps"] == 40
    assert document["sensitivity_l1"] is None
    assert document["n_records"] == 200
    assert any("as it runs in double precision" in each for each in document["assumptions"])
    records.write_bytes(b"")
    again = dpbayes(*asked, "--out", "copy", "--json").json
    assert again["replayed"]
    assert Path("copy/release.json").read_bytes() == Path("out/release.json").read_bytes()
    assert dpbayes("report", "out").code == 0
    assert dpbayes("infer", "out", "--samples", "9").code == 3


@pytest.mark.parametrize(("sentence", "code"), [(EARLIER_CHAIN, 0), ("All is well.", 7)])
def test_a_bundle_of_an_earlier_chain_verifies_but_for_its_tail(
    dpbayes: Cli, records: Path, monkeypatch: pytest.MonkeyPatch, sentence: str, code: int
) -> None:
    dpbayes("budget", "open", "d", "--mu", "1")
    with monkeypatch.context() as earlier:
        earlier.setattr(Langevin, "assumptions", (sentence,))
        dpbayes("release", "--spec", "spec.yaml", "--mu", "0.5", "--n-steps", "5", "--out", "out")
    done = dpbayes("verify", "out")
    assert done.code == code
    assert ("far tail" in done.err) is (code == 0)


def test_every_account_but_a_pure_one_can_pay(dpbayes: Cli, records: Path) -> None:
    asked = ["release", "--spec", "spec.yaml", "--mu", "0.3", "--n-steps", "5"]
    for name, total in {
        "z": ["--rho", "1"],
        "a": ["--epsilon", "3", "--delta", "1e-6"],
        "r": ["--rdp", "1", "--order", "8"],
    }.items():
        dpbayes("budget", "open", name, *total, "--separate-population", "--reason", "a test")
        assert dpbayes(*asked, "--dataset", name, "--out", name).code == 0
    left = dpbayes("budget", "show", "r", "--json").json["accounts"][0]["remaining"]["rdp(8)"]
    assert Decimal("0.64") <= Decimal(left) < Decimal("0.6400001")
    dpbayes("budget", "open", "p", "--epsilon", "3", "--separate-population", "--reason", "a test")
    refused = dpbayes(*asked, "--dataset", "p", "--out", "p")
    assert (refused.code, "pure epsilon" in refused.err) == (5, True)
    assert not Path("p").exists()


def said(done: Result) -> str:
    """Return the messages without identifiers, times and the name of the bundle."""
    return re.sub(r"[0-9a-f]{16,}|20\d\d-\d\d-\d\dT[\d:]+Z|out\d+", "#", done.err)


@pytest.mark.parametrize("kind", ["one more", "all invalid"])
def test_under_add_remove_no_output_reveals_the_number_of_records(dpbayes: Cli, records: Path, kind: str) -> None:
    dpbayes("budget", "open", "d", "--rho", "1", "--neighbors", "add-remove")
    with Path("spec.yaml").open("a") as spec:
        spec.write("sampling: {max_records: 150, n_steps: 5}\nprivacy: {neighbors: add-remove, mu: 0.1}\n")
    first = dpbayes("release", "--spec", "spec.yaml", "--out", "one")
    assert first.code == 0
    text = records.read_text()
    records.write_text(text + "1,u,1\n" if kind == "one more" else "a,b,y\n" + "x,x,x\n" * 7)
    second = dpbayes("release", "--spec", "spec.yaml", "--fresh", "--out", "two")
    assert second.code == 0
    one, two = (json.loads(Path(name, "release.json").read_text()) for name in ("one", "two"))
    assert one["n_records"] is None
    assert said(first) == said(second)
    for key in ("parameters", "guarantee", "assumptions", "inference", "spec"):
        assert one[key] == two[key]


CELLS = ["5,u,1", "", "x,x,x", "1e400,u,1", "5,u", '"', "\x00"]


def test_no_record_changes_messages_or_the_amount_written(dpbayes: Cli, records: Path, ledger_path: Path) -> None:
    """Whatever a cell holds: the same messages, exit code, files, and plan; draws are finite."""
    text, seen = records.read_text(), set()
    for i, record in enumerate(CELLS):
        records.write_text(text + record + "\n")
        ledger_path.unlink(missing_ok=True)
        dpbayes("budget", "open", "d", "--rho", "1")
        asked = ["release", "--spec", "spec.yaml", "--mu", "0.5", "--n-steps", "3", "-v", "--out", f"out{i}"]
        done = dpbayes(*asked)
        document = json.loads(Path(f"out{i}/release.json").read_text())
        assert all(map(math.isfinite, document["draws"][0]))
        names = sorted(path.name for path in Path(f"out{i}").iterdir())
        spoken = said(done)
        seen.add((done.code, spoken, *names, json.dumps(document["parameters"]), json.dumps(document["guarantee"])))
    assert len(seen) == 1
