"""The study of the calibration of regressions: its claims, its data, and, in slow tests, a tenth of it or all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas import read_csv

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import Column, NumericColumn
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments import regression_calibration
from dpbayes_cli.experiments.regression_calibration import Kind, RegressionCalibration, draw_codes
from dpbayes_cli.experiments.results import Claim, GridPoint, Result, Results
from dpbayes_cli.experiments.study import build_study, read_study
from tests.conftest import ROOT
from tests.experiments.studies import REGRESSIONS, run

CONFIGS = [
    ROOT / "configs" / "experiments" / f"{name}.yaml"
    for name in ("regression-calibration", "regression-calibration-wide", "regression-calibration-unusual")
]
GRID = [(config, point) for config in CONFIGS for point in read_study(config).grid()]


def study_of(**changes: Any) -> RegressionCalibration:
    return require_type(build_study({**REGRESSIONS, **changes}), RegressionCalibration)


def test_points_with_little_information_are_left_out() -> None:
    places = [(point.case, point["n"], point["method"]) for point in study_of().grid()]
    assert places[:2] == [("texts", 200, "noise-aware"), ("texts", 200, "naive")]
    assert len(places) == 5
    with pytest.raises(SpecError, match="least: n \\* epsilon"):
        study_of(least=1e6).grid()
    with pytest.raises(SpecError, match=r"cases\.wide: "):
        study_of(cases={"wide": {"model": "linear-regression", "kind": "categorical", "features": [20]}}).grid()


def claims_of(study: RegressionCalibration, values: dict[int, float], case: str) -> list[Claim]:
    """Return the claims about a case whose coverages are these for each number of records."""
    return list(
        study.claims(
            Results(
                Result(point, {"coverage": values[point["n"]], "coverage_se": 0.008}, {})
                for point in study.grid()
                if point.case == case
            )
        )
    )


def test_claims_allow_for_three_standard_errors_and_name_the_points_outside() -> None:
    study = study_of(n=[200, 1000, 2000], trials=4000)
    aware, naive = claims_of(study, {200: 0.92, 1000: 0.96, 2000: 0.84}, "texts")
    assert not aware.holds
    assert "outside: features 1, n 1000, epsilon 3: 0.960" in aware.measured
    assert "n 200," not in aware.measured
    assert aware.measured.endswith("outside, as plans say: none")
    assert "too narrow or too wide" in aware.why
    assert not naive.holds
    assert "n 2000," not in naive.measured


def test_points_of_which_plans_say_so_are_named_apart() -> None:
    """Plans say that intervals of few numbers are too wide beside much noise; they do not say too narrow."""
    numbers = {"numbers": {"model": "logistic-regression", "kind": "normal", "features": [3]}}
    study = study_of(n=[500, 20_000], cases=numbers, methods=["noise-aware"], trials=400)
    (told,) = claims_of(study, {500: 0.97, 20_000: 0.9}, "numbers")
    assert told.holds
    assert "outside: none; outside, as plans say: features 3, n 500" in told.measured
    for values in ({500: 0.9, 20_000: 0.97}, {500: 0.8, 20_000: 0.9}):
        (untold,) = claims_of(study, values, "numbers")
        assert not untold.holds
    few = study_of(n=[500, 20_000], cases=numbers, methods=["noise-aware"], trials=20)
    (unclear,) = claims_of(few, {500: 0.9, 20_000: 0.97}, "numbers")
    assert unclear.holds, "the error of 80 intervals is .03, whatever it is estimated to be"
    many = study_of(n=[*range(19_000, 20_000, 100)], cases=numbers, methods=["noise-aware"], trials=40)
    (wide,) = claims_of(many, dict.fromkeys(range(19_000, 20_000, 100), 0.97), "numbers")
    assert "outside: features 3, 10 points: 0.970 ± 0.003; outside, as plans say: none" in wide.measured


@pytest.mark.parametrize(
    ("kind", "mean", "sd"),
    [
        ("normal", 0.0, 0.27),
        ("narrow", 0.0, 0.36),
        ("skewed", -0.68, 0.25),
        ("zeros", -0.6, 0.6),
        ("at-bounds", 0.0, 1.0),
    ],
)
def test_numbers_have_the_law_of_their_kind(kind: Kind, mean: float, sd: float) -> None:
    """Of 4,000 records of 60 features; places and shares are drawn for each feature, and the seed is fixed."""
    columns = [NumericColumn(f"x{j}", -1.0, 1.0, 1000) for j in range(60)]
    codes = draw_codes([kind] * 60, columns, 4000, np.random.default_rng(1))
    scaled = codes / 500.0 - 1.0
    assert np.abs(scaled).max() <= 1.0
    assert scaled.mean() == pytest.approx(mean, abs=0.1)
    assert np.sqrt((scaled**2).mean() - scaled.mean() ** 2) == pytest.approx(sd, rel=0.15)


def test_correlated_numbers_have_correlations_of_about_ninety_percent() -> None:
    columns = [NumericColumn(f"x{j}", -1.0, 1.0, 1000) for j in range(6)]
    codes = draw_codes(["correlated"] * 6, columns, 4000, np.random.default_rng(1))
    correlations = np.asarray(np.corrcoef(codes.T))[np.triu_indices(6, 1)]
    assert 0.8 < correlations.min() < correlations.max() < 0.97


def test_texts_have_all_levels() -> None:
    column = Column("x0", ("a", "b", "c", "d"))
    codes = draw_codes(["categorical"], [column], 4000, np.random.default_rng(1))
    assert np.unique(codes).tolist() == [0, 1, 2, 3]


def test_a_run_with_more_trials_computes_only_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression_calibration, "_BLOCK", 2)
    monkeypatch.setattr(RegressionCalibration, "figures", lambda *_: {})
    cases = {name: {**REGRESSIONS["cases"][name], "methods": ["naive"]} for name in ("counts", "numbers")}

    def computed(trials: int) -> list[int]:
        study = study_of(trials=trials, n=[200], cases=cases)
        return [part.definition["first"] for part in run(study, tmp_path / "out")]

    def covered() -> list[list[float]]:
        rows = read_csv(tmp_path / "out" / "trials.csv")
        return [own["error"].tolist() for _, own in rows.groupby(["case", "method"])]

    assert sorted(set(computed(4))) == [0, 2]
    before = covered()
    assert set(computed(7)) == {4}, "the last block has three trials"
    assert [each[:4] for each in covered()] == before
    assert {len(set(each)) for each in covered()} == {7}


def named(values: Any) -> str:
    return "-".join(map(str, values.place.values())) if isinstance(values, GridPoint) else values.stem


def coverage(config: Path, point: GridPoint, trials: int) -> float:
    study = read_study(config, trials=trials, seed=1, cases=(point.case,))
    (own,) = [each for each in study.grid() if dict(each.place) == dict(point.place)]
    measures = study.run(own).measures
    print(dict(point.place), measures)
    return float(measures["coverage"] or 0.0)


@pytest.mark.slow
@pytest.mark.calibration
@pytest.mark.parametrize(("config", "point"), GRID[4::11], ids=named)
def test_a_tenth_of_the_study_is_calibrated(config: Path, point: GridPoint) -> None:
    """With at least 40 intervals a point only large errors show: .9 of 40 is below .65 with probability 1e-5."""
    assert coverage(config, point, 12 if point["features"] < 10 else 4) >= 0.65


@pytest.mark.calibration_full
@pytest.mark.parametrize(("config", "point"), GRID, ids=named)
def test_the_whole_study_is_calibrated(config: Path, point: GridPoint) -> None:
    """The standard error of 400 data sets is about .007, three of which are added to the requirement, .87 to .93.

    Where plans say that intervals are too narrow or too wide, .8 or .99 are allowed.
    """
    told = require_type(read_study(config), RegressionCalibration).told(point)
    low, high = 0.8 if "too narrow" in told else 0.85, 0.99 if "too wide" in told else 0.95
    assert low <= coverage(config, point, 400) <= high
