"""A classification study: its file, what it measures against known answers, and planted bugs that it must see."""

from __future__ import annotations

import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbayes_cli.base.errors import SourceError, SpecError
from dpbayes_cli.core.plan import Sampler
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.classification import Classification
from dpbayes_cli.experiments.file_records import POLICY
from dpbayes_cli.experiments.network_posteriors import MECHANISMS, NetworkRecords, plan_of, posteriors
from dpbayes_cli.experiments.plots import figure_files, stamped_panels
from dpbayes_cli.experiments.restricted_rows import draw_restricted, draw_truncated_beta, table_power
from dpbayes_cli.experiments.results import PointOutcome, mean_difference
from dpbayes_cli.experiments.store import study_yaml
from dpbayes_cli.experiments.studies import build_study, read_study
from dpbayes_cli.mechanisms.ops import Ops
from dpbayes_cli.privacy.laws.discrete_laplace import DiscreteLaplace
from dpbayes_cli.privacy.parities import n_bits
from dpbayes_cli.spec.yaml_reader import parse_yaml
from tests import plans
from tests.conftest import ROOT, Cli
from tests.experiments import studies

FALSE_FAIL = 1e-6
NAIVE_BAYES = ROOT / "configs" / "experiments" / "naive-bayes.yaml"
METHODS = ["non-private", "laplace", "laplace-naive", "fourier-laplace", "fourier-naive", "ops"]
BINARY = {"values": ["0", "1"]}
FEATURES: dict[str, Any] = {
    "model": "naive-bayes",
    "n_train": "60",
    "n_test": "80",
    "domain": {"target": "y", "variables": {"y": BINARY, "a": BINARY, "b": {"values": ["r", "s", "t"]}, "c": BINARY}},
}
CHAIN: dict[str, Any] = {
    "model": "bayes-net",
    "n_train": "60",
    "n_test": "80",
    "domain": {
        "target": "c",
        "variables": {
            "a": BINARY,
            "b": {**BINARY, "parents": ["a"]},
            "c": {**BINARY, "parents": ["a", "b"]},
            "d": {**BINARY, "parents": ["b", "c"]},
        },
    },
}
TINY: dict[str, Any] = {
    "study": "classification",
    "name": "tiny",
    "seed": "3",
    "trials": "4",
    "draws": "20",
    "epsilon": ["1", "20"],
    "methods": METHODS,
    "cases": {"features": FEATURES, "chain": CHAIN},
}


def files_case(train: Path, test: Path) -> dict[str, Any]:
    """A case of two columns of files, every cell of which has a stand-in."""
    columns = {"y": {"values": ["no", "yes"], "impute": "no"}, "x": {"values": ["0", "1"], "impute": "0"}}
    domain = {"target": "y", "variables": columns}
    return {"model": "naive-bayes", "train": str(train), "test": str(test), "domain": domain}


def study_of(**changes: Any) -> Classification:
    return require_type(build_study({**TINY, **changes}), Classification)


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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the tiny study, run through the command line's parts on one process."""
    return run(tmp_path_factory.mktemp("studies") / "whole")[0]


def run(out: Path, jobs: int = 1, **changes: Any) -> tuple[Path, list[str]]:
    """Run and publish the tiny study; return where, and the cells that were computed."""
    study = study_of(**changes)
    return out, [study.label(point) for point in studies.run(study, out, jobs)]


# --- from the file to the results ------------------------------------------------------------------------------------


def test_the_command_runs_a_study_and_takes_it_up(dpbayes: Cli, place: Path) -> None:
    Path("tiny.yaml").write_text(json.dumps(TINY), encoding="utf-8")
    done = dpbayes("experiment", "tiny.yaml", "--trials", "2", "--case", "features", "--jobs", "1", "--json", "-v")
    assert (done.json["stamp"], done.json["study"]) == (NOT_PRIVATE, "tiny")
    assert len(done.json["results"]) == 1 + 2 * 5, "one cell is enough where nothing is private"
    assert {row["trials"] for row in done.json["results"]} == {2}
    assert "11 of 11: features, epsilon 20, ops" in done.err
    lost = sorted((place / "experiment-tiny" / "cells").iterdir())[3]
    before = lost.read_bytes()
    lost.unlink()
    again = dpbayes("experiment", "tiny.yaml", "--trials", "2", "--case", "features", "--jobs", "1", "-v")
    assert again.err.count(" of 11: ") == 1
    first, second = (json.loads(content) for content in (before, lost.read_bytes()))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert again.out.splitlines()[0] == NOT_PRIVATE


def test_every_file_says_that_it_is_not_private(whole: Path) -> None:
    files = [path for path in whole.rglob("*") if path.is_file()]
    assert len(files) == 2 * 11 + 6
    assert all(NOT_PRIVATE in path.read_text(encoding="utf-8") for path in files)
    for name in ("accuracy.svg", "cell-error.svg"):
        assert f">{NOT_PRIVATE}<" in (whole / name).read_text(encoding="utf-8")


def test_a_row_of_panels_may_be_short() -> None:
    drawn: list[str] = []
    figure = stamped_panels([("a",), ("b",), ("c",)], 2, lambda _, name: drawn.append(name), "three")
    text = figure_files({"three": figure}, ("svg",))["three.svg"].decode()
    assert (drawn, text.count('id="patch_')) == (["a", "b", "c"], 1 + 3 * 5)


def test_the_tables_hold_what_the_trials_say(whole: Path) -> None:
    results, trials = pd.read_csv(whole / "results.csv"), pd.read_csv(whole / "trials.csv")
    assert (len(results), len(trials)) == (22, 88)
    keys = ["case", "epsilon", "method"]
    by_cell = trials.groupby(keys, dropna=False)[["accuracy", "released_error", "cell_error"]]
    merged = results.set_index(keys).sort_index()
    pd.testing.assert_frame_equal(by_cell.mean().sort_index(), merged[["accuracy", "released_error", "cell_error"]])
    errors = by_cell.std(ddof=1)["accuracy"].sort_index() / 2.0
    np.testing.assert_allclose(merged["accuracy_se"], errors, atol=1e-12)
    assert merged["cell_error"].notna().sum() == 2 * 2 * 2, "of the naive methods alone"
    same = trials.groupby(["case", "trial"])["majority"].nunique()
    assert same.eq(1).all(), "all methods and prices see the same records"


def test_the_summary_says_who_wins(whole: Path) -> None:
    text = (whole / "summary.md").read_text(encoding="utf-8")
    for case in ("features", "chain"):
        assert f"## {case}\n" in text
        assert f"| {case}: consistent tables from the Fourier domain predict no better than noisy counts. | " in text
    for measure in ("released_error", "cell_error"):
        assert text.count(f"**`fourier-naive` less `laplace-naive`, `{measure}`**: ") == 2


@pytest.mark.slow
def test_the_numbers_depend_on_neither_processes_nor_order(whole: Path, tmp_path: Path) -> None:
    other, _ = run(tmp_path / "other", jobs=2, methods=list(reversed(METHODS)), epsilon=["20", "1"])
    keys = ["case", "epsilon", "method"]
    first, second = (
        pd.read_csv(io.BytesIO((out / "results.csv").read_bytes())).sort_values(keys, ignore_index=True)
        for out in (whole, other)
    )
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_more_trials_begin_with_the_same_records() -> None:
    few, many = (Alone(FEATURES, "non-private", trials=trials).records for trials in ("2", "5"))
    assert np.array_equal(few.counts, many.counts[:2])


def test_a_point_is_defined_by_what_its_numbers_depend_on() -> None:
    base = Alone(FEATURES, "laplace").point
    (renamed,) = study_of(cases={"other": FEATURES}, methods=["laplace"], epsilon=["1"]).grid()
    same = [renamed, Alone({**FEATURES, "trials": "4"}, "laplace").point]
    assert {each.digest for each in same} == {base.digest}
    others = [
        Alone(FEATURES, "laplace-naive"),
        Alone(FEATURES, "laplace", "2"),
        Alone({**FEATURES, "n_test": "81"}, "laplace"),
        Alone({**FEATURES, "prior": {"concentration": "2"}}, "laplace"),
        Alone(FEATURES, "laplace", draws="21"),
        Alone({**FEATURES, "trials": "3"}, "laplace"),
    ]
    assert len({base.digest, *(each.point.digest for each in others)}) == 7
    assert base.data_seed().entropy == others[0].point.data_seed().entropy, "the same records"


# --- records from files ----------------------------------------------------------------------------------------------


def test_files_are_found_beside_the_study_and_counted_once_a_case(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("x,y\n" + "1,yes\n" * 30 + "0,no\n" * 50 + "?,no\n" * 20, encoding="ascii")
    (tmp_path / "test.csv").write_text("y,x\n" + "yes,1\n" * 6 + "no,0\n" * 3 + "?,0\n", encoding="ascii")
    case = files_case(Path("train.csv"), Path("test.csv"))
    (tmp_path / "study.yaml").write_text(json.dumps({**TINY, "cases": {"one": case}}), encoding="utf-8")
    study = require_type(read_study(tmp_path / "study.yaml"), Classification)
    assert study.cases["one"].train == str(tmp_path / "train.csv")
    assert build_study(parse_yaml(study_yaml(study).decode())) == study, "the canonical file is found from anywhere"
    first = study.grid()[0]
    found = study.records_of(first)
    assert found.n_train == 100
    assert found.counts.tolist() == [[70, 30, 70, 0, 0, 30]] * 4
    assert found.labels[0].tolist() == [1] * 6 + [0] * 3 + [-1], "a label is taken as it is"
    assert (found.tests[0][:, 0] == -1).all()
    assert study.run(first).measures["accuracy"] == 1.0
    (tmp_path / "test.csv").write_text("y,x\nyes,1\n", encoding="ascii")
    assert study.grid()[0].digest != first.digest, "another file is another point"


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "where", "hint"),
    [
        ({"repeats": "3"}, "repeats", ""),
        ({"study": "classify"}, "study", "classification"),
        ({"n": ["10"]}, "n", ""),
        ({"methods": ["laplas"]}, "methods", ""),
        ({"methods": ["ops", "ops"]}, "", ""),
        ({"cases": {"one": {**FEATURES, "n_tests": "3"}}}, "cases.one.n_tests", "'n_test'"),
        ({"cases": {"one": {**FEATURES, "train": "a.csv"}}}, "cases.one", ""),
        ({"cases": {"one": {**FEATURES, "n_test": None}}}, "cases.one", ""),
        ({"cases": {"one": {**FEATURES, "epsilon": ["0"]}}}, "cases.one", ""),
        ({"cases": {"one": {**FEATURES, "domain": {**FEATURES["domain"], "target": "z"}}}}, "cases.one.domain", ""),
        ({"cases": {"one": {**FEATURES, "model": "beta-bernoulli", "domain": {}}}}, "cases.one.model", "bayes-net"),
        (
            {"cases": {"one": {**CHAIN, "domain": {"variables": CHAIN["domain"]["variables"]}}}},
            "cases.one.domain.target",
            "target: NAME",
        ),
        (
            {"cases": {"one": {**FEATURES, "n_train": None, "n_test": None, "train": "a", "test": "b"}}},
            "cases.one.domain.variables.y",
            "impute",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], where: str, hint: str) -> None:
    with pytest.raises(SpecError) as error:
        study_of(**changes).grid()
    assert where in error.value.message
    assert hint in error.value.hint


def test_what_cannot_be_priced_or_read_is_refused_at_the_start(tmp_path: Path) -> None:
    weighted = {**FEATURES["domain"]["variables"], "a": {**BINARY, "weight": "2"}}
    case = {**FEATURES, "domain": {"target": "y", "variables": weighted}}
    with pytest.raises(SpecError, match=r"^cases\.one: .*fourier-laplace, epsilon 1"):
        Alone(case, "fourier-naive")
    with pytest.raises(SourceError, match=r"cannot read .*missing\.csv"):
        Alone(files_case(tmp_path / "missing.csv", tmp_path / "missing.csv"), "laplace")


# --- what is measured ------------------------------------------------------------------------------------------------

CLEAR_CASE = {**FEATURES, "n_train": "400", "n_test": "200", "prior": {"concentration": "0.3"}}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[1:])
def test_nothing_private_predicts_better_than_what_is_not(method: str) -> None:
    """At epsilon 0.1 the noise hides 400 records; at 1,000 there is next to none."""
    exact = Alone(CLEAR_CASE, "non-private", trials="60").run()
    noisy = Alone(CLEAR_CASE, method, "0.1", trials="60").run()
    lost = mean_difference(exact.trials["accuracy"].tolist(), noisy.trials["accuracy"].tolist())
    assert lost.value > 4.0 * lost.error > 0.0
    assert mean(exact, "accuracy") > mean(exact, "majority") + 0.05
    generous = Alone(CLEAR_CASE, method, "1000", trials="60").run()
    near = mean_difference(exact.trials["accuracy"].tolist(), generous.trials["accuracy"].tolist())
    assert abs(near.value) < 0.02 or method == "ops", "ops keeps its truncation and one draw at any price"


def uninformative() -> Alone:
    """Features that say nothing about the class: no prediction is right more often than the commonest class."""
    prior = {"concentration": {"y": "5", "a": "5000", "b": "5000", "c": "5000"}}
    return Alone({**FEATURES, "prior": prior, "n_test": "400"}, "non-private", trials="10")


def test_labels_do_not_leak_into_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = uninformative().run()
    assert mean(found, "accuracy") < mean(found, "majority") + 0.05
    monkeypatch.setattr(
        "dpbayes_cli.experiments.network_posteriors.unlabelled", lambda codes, target: (codes, codes[:, target])
    )
    leaking = uninformative()
    records = leaking.records
    assert (records.tests[0][:, 0] >= 0).all(), "the planted bug is in"
    again = leaking.run()
    assert mean(again, "accuracy") == mean(found, "accuracy"), "and classify never reads the target"
    monkeypatch.setattr(
        "dpbayes_cli.experiments.classification.class_probabilities",
        lambda network, target, draws, records: np.eye(network.sizes[target])[records[:, target]],
    )
    assert mean(uninformative().run(), "accuracy") > mean(found, "majority") + 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("method", "cells"), [("laplace-naive", 16), ("fourier-naive", 16)])
def test_the_released_tables_have_the_noise_that_was_paid_for(
    method: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean absolute error over 200 trials lies within 15 % of the law's, without noise it is zero."""
    at = Alone(FEATURES, method, trials="200")
    assert at.records.counts.shape == (200, cells)
    (step,) = plan_of(MECHANISMS[method], "1", at.model, 60)[1].steps
    expected = step.noise.scale
    if method == "fourier-naive":  # a cell of a table of b bits: 2 / 2^b times a sum of 2^b - 1 noises with signs
        network = at.model.network
        entries = [1 << sum(n_bits(network.sizes[v]) for v in family) for family in network.families]
        spread = [2.0 / size * math.sqrt(size - 1.0) for size in entries]
        mean_spread = math.fsum(s * n for s, n in zip(spread, network.n_cells, strict=True)) / cells
        expected *= mean_spread * 2.0 / np.pi**0.5
    found = at.run()
    assert mean(found, "released_error") == pytest.approx(expected, rel=0.15)
    assert mean(found, "cell_error") < mean(found, "released_error"), "what is possible is nearer"
    monkeypatch.setattr(DiscreteLaplace, "simulate", lambda law, rng, size: np.zeros(size, dtype=np.int64))
    silent = at.run()
    assert mean(silent, "released_error") == pytest.approx(0.0, abs=1e-9)
    assert mean(silent, "cell_error") == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_fourier_wins_on_overlapping_tables() -> None:
    """Twelve binary variables, each after the one before it: a variable's own parity is noised once for two tables."""
    variables = {f"v{i}": {**BINARY, "parents": [f"v{i - 1}"] if i else []} for i in range(12)}
    case = {**CHAIN, "n_train": "500", "domain": {"target": "v5", "variables": variables}}
    fourier, laplace = (Alone(case, method, "5", trials="20").run() for method in ("fourier-naive", "laplace-naive"))
    for measure in ("released_error", "cell_error"):
        won = mean_difference(fourier.trials[measure].tolist(), laplace.trials[measure].tolist())
        assert won.sign(3.0) == -1, (measure, won)


def test_the_non_private_posterior_is_the_conjugate_one() -> None:
    at = Alone(CHAIN, "non-private", draws="4000", trials="2")
    model, records = at.model, at.records
    found = posteriors(at.point, model, records, 4000).draws
    for drawn, counts in zip(model.split(found[0]), model.split(records.counts[0]), strict=True):
        shape = counts + 1.0
        total = shape.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(drawn.mean(axis=0), shape / total, atol=5.0 * 0.5 / 4000**0.5)
        np.testing.assert_allclose(drawn.sum(axis=-1), 1.0)


# --- who wins --------------------------------------------------------------------------------------------------------


def test_differences_are_paired() -> None:
    """Trials that differ much from each other, and by 0.1 between the methods: unpaired nothing would be seen."""
    base = np.linspace(0.0, 1.0, 11)
    jitter = np.where(np.arange(11) % 2, 0.01, -0.01)
    found = mean_difference((base + 0.1 + jitter).tolist(), base.tolist())
    reference = stats.ttest_rel(base + 0.1 + jitter, base)
    assert found.value == pytest.approx(0.1, abs=0.002)
    assert found.value / found.error == pytest.approx(float(reference.statistic))
    assert found.sign(3.0) == 1
    assert found._replace(value=-found.value).sign(3.0) == -1
    assert mean_difference(base.tolist(), base.tolist()).sign(3.0) == 0
    assert found._replace(error=found.value / 3.0).sign(3.0) == 0
    with pytest.raises(ValueError, match="zip"):
        mean_difference([1.0, 2.0], [1.0])


# --- posterior sampling ----------------------------------------------------------------------------------------------


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


# --- the study of the paper ------------------------------------------------------------------------------------------


OFTEN, SELDOM = ("one-parent",), ("sixteen-features", "two-parents", "three-parents", "adult")


@pytest.mark.parametrize("case", [*OFTEN, *(pytest.param(case, marks=pytest.mark.slow) for case in SELDOM)])
def test_the_study_of_the_paper_runs(case: str, dpbayes: Cli) -> None:
    """The whole is planned, and one price of it is run."""
    study = require_type(read_study(NAIVE_BAYES), Classification)
    assert len(study.grid()) == 5 * 26
    cases = {name: msgspec.structs.replace(each, epsilon=("1",)) for name, each in study.cases.items()}
    Path("one.yaml").write_bytes(study_yaml(msgspec.structs.replace(study, cases=cases)))
    done = dpbayes("experiment", "one.yaml", "--trials", "2", "--case", case, "--jobs", "1", "--json", "--out", "out")
    rows = done.json["results"]
    assert [row["method"] for row in rows] == METHODS
    assert {row["trials"] for row in rows} == {2}
    assert all(row["accuracy"] > 0.4 for row in rows)
    assert rows[0]["accuracy"] > rows[0]["majority"]


def test_the_paper_has_sixteen_features_and_fifty_records() -> None:
    study = require_type(read_study(NAIVE_BAYES), Classification)
    case = study.cases["sixteen-features"]
    assert (len(case.domain["variables"]), case.n_train, study.trials) == (17, 50, 100)
    assert case.prior == {"concentration": 1.0}
