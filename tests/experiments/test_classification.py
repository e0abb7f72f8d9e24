"""A classification study: what it measures against known answers, and planted bugs that it must see."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments.classification import Classification
from dpbayes_cli.experiments.file_records import POLICY
from dpbayes_cli.experiments.network_posteriors import NetworkRecords, posteriors, table_power
from dpbayes_cli.experiments.results import PointOutcome
from dpbayes_cli.experiments.runner import study_yaml
from dpbayes_cli.experiments.study import build_study, read_study
from dpbayes_cli.experiments.truncated_draws import draw_restricted, draw_truncated_beta
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.spec.yaml_reader import parse_yaml
from tests import plans
from tests.experiments.studies import CLASSIFICATION, changed

FALSE_FAIL = 1e-6
FEATURES, CHAIN = (
    {key: value for key, value in CLASSIFICATION["cases"][name].items() if key not in {"epsilon", "trials"}}
    for name in ("features", "chain")
)
BINARY = {"values": ["0", "1"]}
CHAIN = changed(CHAIN, "domain", "variables", "d", {**BINARY, "parents": ["b", "c"]})


def study_of(**changes: Any) -> Classification:
    return require_type(build_study({**CLASSIFICATION, "trials": "4", "draws": "20", **changes}), Classification)


class Alone:
    """The one point of a study of one case, price and method."""

    def __init__(self, case: dict[str, Any], method: str, epsilon: str = "1", **changes: Any) -> None:
        self.study = study_of(cases={"one": case}, methods=[method], epsilon=[epsilon], **changes)
        (self.point,) = self.study.grid()
        self.model = self.study.cases["one"].network

    @property
    def records(self) -> NetworkRecords:
        return self.study.records_of(self.point)

    def run(self) -> PointOutcome:
        return self.study.run(self.point)


def mean(outcome: PointOutcome, measure: str) -> float:
    return require_type(outcome.measures[measure], float)


def test_more_trials_begin_with_the_same_records() -> None:
    few, many = (Alone(FEATURES, "non-private", trials=trials).records for trials in ("2", "5"))
    assert np.array_equal(few.counts, many.counts[:2])


def test_files_are_found_beside_the_study_and_counted_once_a_case(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("x,y\n" + "1,yes\n" * 30 + "0,no\n" * 50 + "?,no\n" * 20, encoding="ascii")
    (tmp_path / "test.csv").write_text("y,x\n" + "yes,1\n" * 6 + "no,0\n" * 3 + "?,0\n", encoding="ascii")
    columns = {"y": {"values": ["no", "yes"], "impute": "no"}, "x": {"values": ["0", "1"], "impute": "0"}}
    domain = {"target": "y", "variables": columns}
    case = {"model": "naive-bayes", "train": "train.csv", "test": "test.csv", "domain": domain}
    (tmp_path / "study.yaml").write_text(json.dumps({**CLASSIFICATION, "trials": "4", "cases": {"one": case}}))
    study = require_type(read_study(tmp_path / "study.yaml"), Classification)
    assert study.cases["one"].train == str(tmp_path / "train.csv")
    assert build_study(parse_yaml(study_yaml(study).decode())) == study, "the canonical file is found from anywhere"
    first = study.grid()[0]
    records = study.records_of(first)
    assert records.n_train == 100
    assert records.counts.tolist() == [[70, 30, 70, 0, 0, 30]] * 4
    assert records.labels[0].tolist() == [1] * 6 + [0] * 3 + [-1], "a label is taken as it is"
    assert (records.tests[0][:, 0] == -1).all()
    assert study.run(first).measures["accuracy"] == 1.0
    (tmp_path / "test.csv").write_text("y,x\nyes,1\n", encoding="ascii")
    assert study.grid()[0].digest != first.digest, "another file is another point"


def uninformative() -> Alone:
    """Features that say nothing about the class: no prediction is right more often than the commonest class."""
    prior = {"concentration": {"y": "5", "a": "5000", "b": "5000", "c": "5000"}}
    return Alone({**FEATURES, "prior": prior, "n_test": "400"}, "non-private", trials="10")


def test_labels_do_not_leak_into_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = uninformative().run()
    assert mean(trial, "accuracy") < mean(trial, "majority") + 0.05
    monkeypatch.setattr(
        "dpbayes_cli.experiments.network_posteriors.drop_labels", lambda codes, model: (codes, codes[:, model.target])
    )
    leaking = uninformative()
    records = leaking.records
    assert (records.tests[0][:, 0] >= 0).all(), "the planted bug is in"
    again = leaking.run()
    assert mean(again, "accuracy") == mean(trial, "accuracy"), "and classify never reads the target"
    monkeypatch.setattr(
        "dpbayes_cli.experiments.classification.class_probabilities",
        lambda network, target, draws, records: np.eye(network.sizes[target])[records[:, target]],
    )
    assert mean(uninformative().run(), "accuracy") > mean(trial, "majority") + 0.05


def test_the_non_private_posterior_is_the_conjugate_one() -> None:
    at = Alone(CHAIN, "non-private", draws="4000", trials="2")
    model, records = at.model, at.records
    draws = posteriors(at.point, model, records, 4000).draws
    for drawn, counts in zip(model.split(draws[0]), model.split(records.counts[0]), strict=True):
        shape = counts + 1.0
        total = shape.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(drawn.mean(axis=0), shape / total, atol=5.0 * 0.5 / 4000**0.5)
        np.testing.assert_allclose(drawn.sum(axis=-1), 1.0)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.3, 0.3), (40.0, 3.0), (3.0, 40.0), (2000.0, 9.0), (9.0, 2000.0)])
def test_truncated_beta_draws_have_their_law(a: float, b: float) -> None:
    """Kolmogorov-Smirnov against the law's own density, integrated on a fine grid."""
    rng, n = np.random.default_rng(5), 4000
    ends = np.full(n, 0.1), np.full(n, 0.9)
    drawn = draw_truncated_beta(np.full(n, a), np.full(n, b), *ends, rng)
    assert drawn.min() >= 0.1
    assert drawn.max() <= 0.9
    grid = np.linspace(0.1, 0.9, 400_001)
    log = (a - 1.0) * np.log(grid) + (b - 1.0) * np.log1p(-grid)
    cumulative = np.cumsum(np.exp(log - log.max()))
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cumulative / cumulative[-1])).pvalue >= FALSE_FAIL


def test_a_law_far_beyond_an_end_crowds_there() -> None:
    shape = np.array([[50_000.0, 1.0], [1.0, 50_000.0]])
    rows = draw_restricted(shape, 0.1, np.random.default_rng(6))
    np.testing.assert_allclose(rows, [[0.9, 0.1], [0.1, 0.9]], atol=1e-3)
    assert np.isfinite(rows).all()


def test_rows_of_several_values_have_their_law() -> None:
    """Three values: against draws of the whole law of which those inside are kept."""
    rng, shape = np.random.default_rng(7), np.array([6.0, 2.0, 3.0])
    rows = draw_restricted(np.tile(shape, (3000, 1)), 0.1, rng)
    assert rows.min() >= 0.1 - 1e-12
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    kept = rng.dirichlet(shape, 20_000)
    kept = kept[(kept >= 0.1).all(axis=1)]
    for k in range(3):
        assert stats.ks_2samp(rows[:, k], kept[:, k]).pvalue >= FALSE_FAIL


def test_a_power_pays_for_the_range_of_a_table() -> None:
    assert table_power(1.0, 2) == pytest.approx(1.0 / (2.0 * np.log(9.0)))
    assert table_power(1.0, 10) == pytest.approx(1.0 / (2.0 * np.log(0.55 / 0.05)))
    assert table_power(100.0, 2) == 1.0


def test_the_idealized_draws_are_those_of_the_mechanism() -> None:
    """The exact sampler draws on a lattice: its points are spread over their cells. False fail 1e-6 a cell."""
    at = Alone(CHAIN, "ops", "60")
    model, n = at.model, 60
    counts = at.records.counts[0]
    plan = plans.plan_of(Ops(), model, POLICY, Decimal(60), n_records=n)
    exact = np.array(require_type(plan.final_step.law, Sampler).draw(counts.tolist(), 400))
    repeated = NetworkRecords(n, np.tile(counts, (4000, 1)), (), ())
    floats = posteriors(at.point, model, repeated, 1).draws[:, 0]
    assert plan.parameters["tables"]["c"]["likelihood_power"] == pytest.approx(table_power(15.0, 2), rel=0.02)
    resolution = plan.parameters["tables"]["c"]["resolution"]
    spread = np.random.default_rng(8)
    for k in range(0, exact.shape[1], 2):
        a, b = (part[:, k] + spread.random(len(part)) / resolution for part in (exact, floats))
        assert stats.ks_2samp(a, b).pvalue >= FALSE_FAIL
