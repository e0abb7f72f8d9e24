"""The study of synthetic tables: intervals without privacy, records that follow the law, and claims that can fail."""

from __future__ import annotations

import numpy as np
import pytest

from dpbayes_cli.experiments.results import PointOutcome, Result, Results
from dpbayes_cli.experiments.study import build_study
from dpbayes_cli.experiments.synthetic import Synthetic, SyntheticCase
from tests.experiments.studies import SYNTHETIC, changed

CASE = SyntheticCase(n=2000, slopes=(1.0, 0.0))


def study_of(document: object) -> Synthetic:
    study = build_study(document)  # type: ignore[arg-type]
    assert isinstance(study, Synthetic)
    return study


def test_records_follow_the_regression() -> None:
    """The mean counts of 200 data sets, within five standard errors."""
    counts = CASE.draw_counts(200, np.random.default_rng(1))
    assert (counts[:, :2].sum(axis=1) == 2000).all()
    outcomes = counts[:, 6:].reshape(-1, 4, 2).mean(axis=0)
    np.testing.assert_allclose(outcomes.sum(axis=1), 500.0, atol=5.0 * np.sqrt(2000 * 0.1875 / 200))
    odds = outcomes[:, 1] / outcomes[:, 0]
    np.testing.assert_allclose(odds, [1.0, 1.0, np.e, np.e], rtol=5.0 * 2.5 / np.sqrt(500 * 200))


def test_intervals_without_privacy_have_the_width_of_the_likelihood() -> None:
    """The standard errors of both slopes at the true cells; the posterior means of 20 trials vary by about 1 %."""
    document = changed(changed(changed(SYNTHETIC, "trials", "20"), "draws", "600"), "methods", ["non-private"])
    study = study_of(changed(document, "cases", {"toy": {"n": "2000", "slopes": ["1", "0"]}}))
    (point,) = study.grid()
    design = np.array([[1, a, b] for a in (0, 1) for b in (0, 1)])
    shares = 1.0 / (1.0 + np.exp(-design[:, 1].astype(float)))
    variances = np.linalg.inv(design.T @ (500.0 * (shares * (1.0 - shares))[:, None] * design)).diagonal()
    expected = 2 * 1.96 * np.sqrt(variances[1:]).mean()
    assert study.run(point).measures["width"] == pytest.approx(expected, rel=0.04)


def test_methods_share_a_release() -> None:
    points = [point for point in study_of(SYNTHETIC).grid() if point.epsilon == 1.0]
    assert len({point.digest for point in points}) == len(points) == 4
    assert len({str(point.noise_seed(epsilon="1").entropy) for point in points}) == 1


def claims_at(coverage: dict[str, float], width: float) -> list[bool]:
    study = study_of(SYNTHETIC)
    results = []
    for point in study.grid():
        share = coverage.get(point["method"], 0.95)
        wide = width if point["method"] == "analyze" else 1.0
        trials = {"coverage": np.full(2, share), "width": np.array([wide, wide + 1e-3]), "records": np.full(2, 400.0)}
        outcome = PointOutcome.averaged(trials, ("coverage", "width"))
        results.append(Result(point, outcome.measures, {name: values.tolist() for name, values in trials.items()}))
    return [claim.holds for claim in study.claims(Results(results))]


def test_claims_hold_and_fail_with_the_numbers() -> None:
    assert claims_at({"plug-in": 0.5}, 0.8) == [True, True, True, True]
    assert claims_at({"plug-in": 0.86}, 1.2) == [True, True, False, False]
    assert claims_at({"plug-in": 0.5, "analyze": 0.91, "rubin": 0.985}, 0.8) == [False, False, True, True]


def test_every_table_needs_another_draw() -> None:
    with pytest.raises(Exception, match="each of the 4 tables needs another draw"):
        study_of(changed(SYNTHETIC, "draws", "3"))
