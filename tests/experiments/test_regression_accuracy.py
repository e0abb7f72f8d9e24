"""The study of accuracy: simulated releases have the noise of the price, and the peer is asked for or refused."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.special import expit

from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.section import require_type
from dpbayes_cli.experiments import regression_accuracy
from dpbayes_cli.experiments.regression_accuracy import RegressionAccuracy
from dpbayes_cli.experiments.results import Result, Results
from dpbayes_cli.experiments.study import DROPPED, build_study, plan_release
from dpbayes_cli.inference.derivatives.infer_derivatives import draw_roughly
from tests.experiments.studies import ACCURACY


def study_of(place: Path, **changes: Any) -> RegressionAccuracy:
    return require_type(build_study({**ACCURACY, **changes}, place), RegressionAccuracy)


def test_without_diffprivlib_its_method_is_refused(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    study = study_of(records, methods=["diffprivlib"])
    with pytest.raises(SpecError, match="diffprivlib is not installed"):
        study.run(study.grid()[0])


@pytest.mark.slow
def test_without_noise_the_posterior_is_that_of_the_exact_records(records: Path) -> None:
    """At epsilon 900 the noise is small beside the posterior; seeded, so that nothing is left to chance."""
    case = msgspec.structs.replace(study_of(records).cases["split"], precision=1.0)
    model, codes = case.model(), case.codes(case.train)
    cost = {"epsilon": Decimal(900), "delta": Decimal("1e-6")}
    step = plan_release("noisy-newton", model, DROPPED, len(codes), **cost).final_step
    rng = np.random.default_rng(1)
    seen = regression_accuracy.release_derivatives(step, codes, rng)
    draws = draw_roughly(seen, 600, rng)
    x = model.design.rows(codes[:, :-1])
    exact = regression_accuracy.exact_coefficients(model, codes)
    weight = expit(x @ exact) * (1.0 - expit(x @ exact))
    sd = np.sqrt(np.diag(np.linalg.inv((x.T * weight) @ x + np.eye(len(exact)))))
    assert np.abs((draws.mean(axis=0) - exact) / sd).max() < 0.2
    assert draws.std(axis=0) == pytest.approx(sd, rel=0.15)


def test_its_claims_name_the_points_that_decide(records: Path) -> None:
    study = study_of(records)
    errors = {"noisy-newton": 1.0, "gibbs-posterior": 2.0}
    results = Results(
        Result(point, {**dict.fromkeys(study.measures, 0.5), "error": errors.get(point["method"], 0.5)}, {})
        for point in study.grid()
    )
    (claim,) = study.claims(results)
    assert claim.says.startswith("split: coefficients of `noisy-newton` have at most 0.85 times")
    assert "0.500 at epsilon 1" in claim.measured
    assert claim.holds
