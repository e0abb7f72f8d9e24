"""A study of logistic regression: its file, laws, and chains."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments import NOT_PRIVATE
from dpbayes_cli.experiments.logistic_laws import LogisticLaw, Price, divergences_of_range, law_at, restricted_range
from dpbayes_cli.experiments.logistic_regression import LogisticRegressions
from dpbayes_cli.experiments.studies import build_study, read_study
from dpbayes_cli.experiments.unit_rows import UnitRows
from dpbayes_cli.privacy.conversions import bounded_range_rdp, gaussian_delta
from dpbayes_cli.privacy.noisy_descent import descent_mu, minami_likelihood_power, mu_of_statement
from tests.conftest import ROOT, Cli
from tests.experiments import studies

CONFIG = ROOT / "configs" / "experiments" / "logistic-regression.yaml"
METHODS = ["true-posterior", "rdp-concentrated", "rdp-diffuse", "ops", "gdp-langevin", "minami-langevin"]


def write_records(place: Path, n: int = 240) -> None:
    """Write a file of a number, a text and a class that depends on both."""
    rng = np.random.default_rng(1)
    number, text = rng.random(n).round(3), rng.choice(["a", "b", "c"], n)
    score = expit(6.0 * (number - 0.5) + 1.5 * (text == "a"))
    frame = pd.DataFrame({"number": number, "text": text, "y": np.where(rng.random(n) < score, "yes", "no")})
    frame.to_csv(place / "records.csv", index=False)


CASE: dict[str, Any] = {
    "train": "records.csv",
    "n_train": "160",
    "beta": "0.01",
    "target": {"column": "y", "values": ["no", "yes"], "impute": "no"},
    "features": {
        "number": {"lower": "0", "upper": "1", "impute": "0.5"},
        "text": {"values": ["a", "b", "c"], "impute": "b"},
    },
}
TINY: dict[str, Any] = {
    "study": "logistic-regression",
    "name": "tiny",
    "seed": "4",
    "trials": "5",
    "orders": ["1", "10"],
    "epsilon": ["0.1", "100"],
    "epsilon_at_delta": ["1"],
    "metropolis_steps": "20",
    "methods": METHODS,
    "cases": {"split": CASE},
}


def study_of(place: Path, **changes: Any) -> LogisticRegressions:
    return require_type(build_study({**TINY, **changes}, place), LogisticRegressions)


@pytest.fixture(scope="module")
def place_with_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("records")
    write_records(place)
    return place


def run(out: Path, place: Path, jobs: int = 1, **changes: Any) -> Path:
    """Run and publish the tiny study."""
    studies.run(study_of(place, **changes), out, jobs)
    return out


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures, which ``whole`` has already drawn."""
    monkeypatch.setattr(LogisticRegressions, "figures", lambda *_: {})


@pytest.fixture(scope="module")
def whole(place_with_records: Path) -> Path:
    return run(place_with_records / "whole", place_with_records)


# --- from the file to the results ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_figures")
def test_the_command_runs_the_study_and_takes_it_up(dpbayes: Cli, place: Path) -> None:
    write_records(place)
    Path("tiny.yaml").write_text(json.dumps({**TINY, "methods": ["ops", "gdp-langevin"]}), encoding="utf-8")
    asked = ("experiment", "tiny.yaml", "--trials", "3", "--case", "split", "--jobs", "1", "-v")
    done = dpbayes(*asked, "--json")
    assert done.json["stamp"] == NOT_PRIVATE
    rows = done.json["results"]
    assert len(rows) == 2 * 2 * 2 + 1
    assert {row["trials"] for row in rows} == {3}
    lost = sorted((place / "experiment-tiny" / "cells").iterdir())[0]
    before = json.loads(lost.read_bytes())
    lost.unlink()
    again = dpbayes(*asked)
    assert again.err.count(f" of {len(list(lost.parent.iterdir()))}: ") == 1
    assert {**json.loads(lost.read_bytes()), "seconds": 0} == {**before, "seconds": 0}


def test_every_file_says_that_it_is_not_private(whole: Path) -> None:
    files = [path for path in whole.rglob("*") if path.is_file()]
    assert {"results.csv", "trials.csv", "summary.md", "study.yaml"} < {path.name for path in files}
    assert all(NOT_PRIVATE in path.read_text(encoding="utf-8") for path in files)
    for name in ("test-error.svg", "negative-log-likelihood.svg"):
        assert f">{NOT_PRIVATE}<" in (whole / name).read_text(encoding="utf-8")


def test_the_tables_hold_what_the_trials_say(whole: Path) -> None:
    results, trials = pd.read_csv(whole / "results.csv"), pd.read_csv(whole / "trials.csv")
    assert len(results) == 1 + 2 * 2 * 4 + 2
    keys = ["case", "price", "epsilon", "method"]
    by_cell = trials.groupby(keys, dropna=False)[["error", "nll"]].mean().sort_index()
    pd.testing.assert_frame_equal(by_cell, results.set_index(keys).sort_index()[["error", "nll"]])
    assert trials.groupby("trial")["commonest"].nunique().eq(1).all(), "all methods see the same records"
    same = results[(results["epsilon"] == 100) & (results["price"] == "order 1")].set_index("method")
    assert same.loc["rdp-diffuse", "error"] == same.loc["rdp-concentrated", "error"], "both are the true posterior"


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_the_numbers_depend_on_neither_processes_nor_order(
    whole: Path, place_with_records: Path, tmp_path: Path
) -> None:
    methods = METHODS[::-1]
    other = run(tmp_path / "other", place_with_records, 2, methods=methods, epsilon=["100", "0.1"], orders=["10", "1"])
    keys = ["case", "price", "epsilon", "method"]
    first, second = (pd.read_csv(out / "results.csv").sort_values(keys, ignore_index=True) for out in (whole, other))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_more_trials_begin_with_the_same_records(place_with_records: Path) -> None:
    few, many = (
        study.records_of(study.grid()[0])
        for study in (study_of(place_with_records, trials=trials) for trials in ("2", "4"))
    )
    assert np.array_equal(few.x, many.x[:2])
    assert few.x.shape[1] + few.test_x.shape[1] == 240
    assert not np.array_equal(many.x[0], many.x[1])


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"orders": ["0.5"]}, ""),
        ({"delta": "0"}, ""),
        ({"methods": ["opps"]}, "methods"),
        ({"cases": {"one": {**CASE, "test": "records.csv"}}}, "cases.one"),
        ({"cases": {"one": {**CASE, "n_train": "240"}}}, "n_train"),
        ({"cases": {"one": {**CASE, "target": {"column": "y", "impute": "no"}}}}, "cases.one.target"),
        ({"cases": {"one": {**CASE, "features": {"number": {"lower": "0", "upper": "1"}}}}}, "cases.one"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], where: str, place_with_records: Path) -> None:
    with pytest.raises(SpecError) as error:
        study_of(place_with_records, **changes).grid()
    assert where in error.value.message


# --- laws ------------------------------------------------------------------------------------------------------------

N, TAU = 1000, 4.0


def law_of(method: str, price: Price | None, place: Path, most: int = 1 << 20) -> LogisticLaw:
    """The law of a method with the prior precision 4 of 1,000 records."""
    model = study_of(place).cases["split"].model(N)
    return law_at(method, price, replace(model, precision=TAU), N, most)


def mu_of(chain: LogisticLaw) -> float:
    """The price of a chain: see ``descent_mu``."""
    power, smoothness = chain.likelihood_power, chain.likelihood_power * N / 4.0 + TAU
    return descent_mu(
        2.0 * power, require_type(chain.step_size, float), require_type(chain.n_steps, int), TAU, smoothness
    )


@pytest.mark.parametrize("order", ["1", "2", "100"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.3"])
def test_a_law_has_the_divergence_that_was_asked_for(order: str, epsilon: str, place_with_records: Path) -> None:
    """Exact draws: order (2 T)^2 / (2 tau) under the power T. A chain: order mu^2 / 2, mu of ``descent_mu``."""
    place, price = place_with_records, Price(epsilon, order=order)
    for method in ("rdp-diffuse", "rdp-concentrated"):
        law = law_of(method, price, place)
        power = law.likelihood_power
        assert float(order) * (2.0 * power) ** 2 / (2.0 * law.tau) == pytest.approx(float(epsilon))
        assert law.tau == TAU if method == "rdp-diffuse" else power == 1.0
    chain = law_of("gdp-langevin", price, place)
    cost = float(order) * mu_of(chain) ** 2 / 2.0
    assert cost == pytest.approx(float(epsilon), rel=0.05), "horizons are whole numbers"
    assert cost <= float(epsilon)
    exact = law_of("rdp-diffuse", price, place)
    assert chain.likelihood_power >= exact.likelihood_power * (1.0 - 1e-6), "a chain costs no more than exact draws"
    assert law_of("gdp-langevin", price, place, 4).n_steps == 4


def test_the_two_rules_at_a_delta(place_with_records: Path) -> None:
    price = Price("1", delta="0.000001")
    gdp, minami = (law_of(f"{name}-langevin", price, place_with_records) for name in ("gdp", "minami"))
    assert minami.likelihood_power == pytest.approx(minami_likelihood_power(1.0, 1e-6, 1.0, TAU))
    exact = mu_of_statement(1.0, 1e-6) * math.sqrt(TAU) / 2.0
    assert exact / minami.likelihood_power == pytest.approx(1.27, abs=0.01), "what the exact curve alone gains"
    assert gdp.likelihood_power >= exact * (1.0 - 1e-6)
    assert gaussian_delta(mu_of(gdp), 1.0) <= 1e-6


def test_restricted_draws_pay_by_the_smaller_curve(place_with_records: Path) -> None:
    for order in (1.5, 10.0):
        assert min(divergences_of_range(0.7, order)) == pytest.approx(bounded_range_rdp(0.7, order))
    near = [min(divergences_of_range(0.7, 1.0 + gap)) for gap in (0.0, 1e-7)]
    assert near[0] == pytest.approx(near[1], rel=1e-5)
    assert divergences_of_range(0.7, 1.0)[0] == pytest.approx(divergences_of_range(0.7, 1.0 + 1e-6)[0], rel=1e-4)
    for epsilon, order in ((0.1, 1.0), (20.0, 1.0), (20.0, 100.0)):
        assert min(divergences_of_range(restricted_range(epsilon, order), order)) == pytest.approx(epsilon)
    law = law_of("ops", Price("20", order="100"), place_with_records)
    assert law.radius == N / TAU, "c / beta"
    assert 2.0 * law.likelihood_power * require_type(law.radius, float) == pytest.approx(restricted_range(20.0, 100.0))


# --- rows and chains --------------------------------------------------------------------------------------------------


def test_rows_are_those_of_the_paper(place_with_records: Path) -> None:
    design = require_type(study_of(place_with_records).cases["split"].model(N).design, UnitRows)
    rows = design.rows(np.array([[0, 0], [1 << 16, 2]]))
    np.testing.assert_allclose(rows, [[-0.5, 0.5, -0.5, -0.5], [0.5, -0.5, -0.5, 0.5]])
    odd = design.rows(np.array([[1 << 15, 1]]))
    np.testing.assert_allclose(odd, np.array([[0.0, -0.5, 0.5, -0.5]]) / math.sqrt(0.75))
    assert design.row_norm == 1.0
    assert study_of(place_with_records).cases["split"].model(N).curvature(N, 2).slope == 1.0


def test_a_released_chain_is_near_its_posterior(place_with_records: Path) -> None:
    """With next to no step error its negative log-likelihood is that of exact draws within 5 standard errors."""
    study = study_of(place_with_records, trials="60", methods=["true-posterior", "gdp-langevin"], epsilon=["100"])
    exact, chain = map(study.run, study.grid()[:2])
    away = chain.trials["nll"] - exact.trials["nll"]
    assert abs(away.mean()) <= 5.0 * away.std() / math.sqrt(60) + 0.01
    assert float(str(exact.measures["error"])) < float(str(exact.measures["commonest"]))


def test_the_study_of_the_paper_is_valid() -> None:
    study = require_type(read_study(CONFIG), LogisticRegressions)
    grid = study.grid()
    assert {name: case.n_learned for name, case in study.cases.items()} == {"abalone": 2784, "adult": 32_561}
    assert len(grid) == 2 * (1 + 3 * 7 * 4 + 4 * 2)
    assert {case.beta for case in study.cases.values()} == {0.001}
    longest = max(point.details["n_steps"] or 0 for point in grid)
    assert longest < study.langevin_steps, "no horizon is cut"
