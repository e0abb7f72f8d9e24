"""Predictors with a predictive law: a known law replaces the model's, and is tested from features to scores."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from dpbayes_cli.bundle.read import read_bundle
from dpbayes_cli.core.columns import Column
from dpbayes_cli.core.predictor import IntervalPredictor
from dpbayes_cli.models.huber_regression import HuberRegression
from dpbayes_cli.prediction.records import predictor
from dpbayes_cli.spec.release_spec import build_spec
from tests.commands.regressions import patients, release_regression
from tests.conftest import Cli
from tests.statistical import FALSE_FAIL

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

SD = 3.0


def center(features: Floats) -> Floats:
    """Return the mean with which ``patients`` generates the number, from an age and the code of a kind."""
    return 20.0 + (features[:, 0] - 50.0) / 3.0 + 3.0 * features[:, 1]


@dataclass(frozen=True)
class TrueLaw(IntervalPredictor):
    """The law with which ``patients`` generates the number, apart from a few clamped ones."""

    sd: ClassVar[float] = SD

    def intervals(self, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        mean = center(features)
        return mean, np.full(len(mean), self.sd), mean[:, None] + self.sd * stats.norm.ppf(levels)

    def feature_log_densities(self, features: Floats, targets: Floats) -> Floats | None:
        return np.asarray(stats.norm.logpdf(targets, center(features), self.sd))


class NarrowLaw(TrueLaw):
    """A law with too small a variance."""

    sd: ClassVar[float] = 0.8 * SD


def plant(monkeypatch: pytest.MonkeyPatch, law: type[TrueLaw]) -> None:
    def predictor(model: HuberRegression, column: int, draws: Floats) -> TrueLaw:
        return law(model.columns, model.column_names, column, draws)

    monkeypatch.setattr(HuberRegression, "predictor", predictor)


@pytest.fixture
def bundle(dpbayes: Cli, place: Path) -> Path:
    return release_regression(dpbayes, patients(place / "patients.csv"), "huber-regression")


def features_of(data: Path) -> Any:
    cells = [line.split(",") for line in data.read_text().splitlines()[1:]]
    return np.array([[min(max(float(age), 0.0), 100.0), float("uvw".index(kind))] for _, age, kind, _ in cells])


def test_numbers_are_printed_with_their_law_and_no_records_have_null_scores(
    dpbayes: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, TrueLaw)
    new = patients(Path("new.csv"), 50, seed=2)
    mean = center(features_of(new))
    done = dpbayes("predict", bundle, new)
    header, *rows = [line.split(",") for line in done.out.splitlines()]
    assert header == ["record", "days", "sd[days]", "q05[days]", "q95[days]"]
    printed = np.array([[float(cell) for cell in row[1:]] for row in rows])
    z = stats.norm.ppf(0.95) * SD
    expected = np.column_stack([mean, np.full(50, SD), mean - z, mean + z])
    np.testing.assert_allclose(printed, expected, atol=1e-3)  # ages are rounded to 1 in 65,536 of their range
    document = dpbayes("predict", bundle, new, "--json").json["predictions"]
    assert list(document[0]) == ["prediction", "sd", "q05", "q95"]
    np.testing.assert_allclose([[each[key] for key in each] for each in document], printed, rtol=1e-8)
    Path("cells.csv").write_text("kind,age\n?,50\nu,\n")
    assert dpbayes("predict", bundle, "cells.csv").out.splitlines()[1] == "1,,,,"
    assert dpbayes("predict", bundle, "cells.csv", "--json").json["predictions"][0]["sd"] is None
    Path("none.csv").write_text("kind,age,days\n")
    scores = dpbayes("evaluate", bundle, "none.csv", "--json").json
    assert all(scores[key] is None for key in ("rmse", "coverage", "mean_width", "log_density"))


@pytest.mark.parametrize("law", [TrueLaw, NarrowLaw])
def test_laws_are_scored_by_coverage_width_and_density(
    dpbayes: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch, law: type[TrueLaw]
) -> None:
    """The true law covers 0.9, by a binomial test at a false-fail rate of 1e-9.

    The one that is too sure covers 0.81: of 3,000 records that is 16 standard deviations less.
    """
    plant(monkeypatch, law)
    n = 3000
    new = patients(Path("new.csv"), n, seed=3)
    with new.open("a") as file:
        file.write("no,50,?,3\nno,50,u,\n")
    scores = dpbayes("evaluate", bundle, new, "--json").json
    assert [scores[key] for key in ("scored", "without_label", "without_prediction")] == [n, 1, 1]
    p_value = float(stats.binomtest(round(scores["coverage"] * n), n, 0.9).pvalue)
    assert (p_value >= FALSE_FAIL) == (law is TrueLaw)
    assert scores["interval"] == 0.9
    assert scores["mean_width"] == pytest.approx(2 * stats.norm.ppf(0.95) * law.sd)
    y = np.array([float(line.split(",")[3]) for line in new.read_text().splitlines()[1 : n + 1]])
    new.write_text("\n".join(new.read_text().splitlines()[: n + 1]) + "\n")
    mean = center(features_of(new))
    assert scores["log_density"] == pytest.approx(np.mean(stats.norm.logpdf(y, mean, law.sd)), abs=1e-4)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)), abs=1e-4)
    shown = dpbayes("evaluate", bundle, new).out
    assert all(text in shown for text in ("coverage", "of the 90% interval", "mean width", "log density"))


def test_features_have_the_units_of_the_file_and_the_order_of_the_columns() -> None:
    """Also if the target is the first column."""
    columns = {name: {"lower": low, "upper": high} for name, low, high in (("a", 0, 10), ("b", -5, 5), ("c", 0, 1))}
    spec = build_spec({"model": "multivariate-normal", "domain": {"columns": columns}, "privacy": {"epsilon": "1"}})
    model = spec.build_model()
    seen: list[Any] = []

    class First(IntervalPredictor):
        def intervals(self, features: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
            seen.append(features)
            return features[:, 0], features[:, 1], np.tile(features[:, :1], (1, len(levels)))

    predictor = First(model.columns, model.column_names, 0, np.zeros((1, 1)))
    steps = [column.steps for column in model.columns if not isinstance(column, Column)]  # type: ignore[union-attr]
    codes = np.array([[-1, 0, steps[2]], [3, steps[1], 0], [3, -1, 0], [3, 5, -1]])
    predicted = predictor.predict(codes)
    np.testing.assert_allclose(seen[0], [[-5.0, 1.0], [5.0, 0.0]])
    np.testing.assert_array_equal(predicted.values, [-5.0, 5.0, math.nan, math.nan])
    assert predicted.quantiles.shape == (4, 2)
    assert predictor.log_densities(codes, np.zeros(4)) is None


def test_a_predictor_uses_the_draws_of_the_bundle(bundle: Path) -> None:
    draws = json.loads((bundle / "release.json").read_text())["draws"]
    np.testing.assert_array_equal(predictor(read_bundle(bundle), None).draws, draws)
