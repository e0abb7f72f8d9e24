"""Langevin chains on public data: the default number of steps forgets the start; one private draw predicts income."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_cli.core.design import DesignMatrix, DesignRows
from dpbayes_cli.core.langevin import Gradient, Langevin
from dpbayes_cli.core.section import require_type
from dpbayes_cli.inference.diagnostics import diagnose
from dpbayes_cli.mechanisms.gibbs_posterior import GibbsPosterior
from dpbayes_cli.models.families.convex_loss import ConvexLossModel
from dpbayes_cli.sources.code_readers import CodeReader
from dpbayes_cli.sources.location import locate
from dpbayes_cli.spec.release_spec import ReleaseSpec, build_spec
from dpbayes_cli.spec.yaml_reader import read_spec_file
from dpbayes_cli.workflow.release_data import source_of
from tests.conftest import ROOT, SAMPLE_DATA
from tests.core.test_langevin import everything

pytestmark = pytest.mark.slow

LENGTHS = ("length", "diameter", "height")
WEIGHTS = ("whole_weight", "shucked_weight", "viscera_weight", "shell_weight")
ABALONE: dict[str, Any] = {
    "model": "huber-regression",
    "mechanism": "gibbs-posterior",
    "privacy": {"epsilon": "1", "delta": "1e-6"},
    "prior": {"precision": "10"},
    "domain": {
        "target": {"column": "rings", "lower": "0", "upper": "30"},
        "scale": "15",
        "features": {
            **{name: {"lower": "0", "upper": "1"} for name in LENGTHS},
            **{name: {"lower": "0", "upper": "3"} for name in WEIGHTS},
            "sex": {"values": ["M", "F", "I"]},
        },
    },
}


def read(spec: ReleaseSpec, path: Path, n_records: int) -> DesignMatrix:
    model = require_type(spec.build_model(), ConvexLossModel)
    matrix = DesignMatrix(DesignRows(model.design, model.target), n_records)
    with closing(source_of(spec.source, locate(str(path)))) as source:
        source.check(matrix.rows.columns, list(model.column_names))
        source.read(CodeReader(matrix.rows.columns, spec.policy, matrix.take))
    return matrix


def test_the_default_horizon_forgets_its_start() -> None:
    """R-hat of the last iterates of 4 x 64 independent runs, each 64 from a start three prior sds away; fixed seed.

    At a tenth of the horizon it is above 1.2: the check sees a short one.
    """
    spec, n = build_spec(ABALONE), 4177
    law = require_type(GibbsPosterior().plan(spec.build_model(), spec.policy, spec.options, n).steps[0].law, Langevin)
    matrix, rng = read(spec, SAMPLE_DATA / "abalone.csv.gz", n), np.random.default_rng(1)
    directions = rng.normal(size=(law.width, 4))
    w = np.repeat(3.0 / np.sqrt(law.tau) * directions / np.linalg.norm(directions, axis=0), 64, axis=1)
    r_hats = {}
    with ExitStack() as stack:
        gradient = Gradient(matrix, law.loss, stack)
        for step in range(1, law.n_steps + 1):
            noise = np.sqrt(2.0 * law.step_size) * rng.normal(size=w.shape)
            w = w - law.step_size * (law.likelihood_power * gradient(w) + law.tau * w) + noise
            if step in {law.n_steps // 10, law.n_steps}:
                r_hats[step] = float(diagnose(w.T.reshape(4, 64, law.width))[0].max())
    print(f"R-hat: {r_hats}")
    assert r_hats[law.n_steps] <= 1.05
    assert r_hats[law.n_steps // 10] > 1.2


def test_one_private_draw_predicts_income_nearly_as_well_as_the_posterior_without_privacy() -> None:
    """At (3, 1e-6): within one point of the mode without privacy; draws lie within 0.2 points of each other."""
    from scipy.optimize import minimize

    spec, n = build_spec(read_spec_file(ROOT / "configs" / "releases" / "adult-logistic-regression.yaml")), 32_561
    model = require_type(spec.build_model(), ConvexLossModel)
    law = require_type(GibbsPosterior().plan(model, spec.policy, spec.options, n).steps[0].law, Langevin)
    train, test = (read(spec, SAMPLE_DATA / f"adult_{part}.csv.gz", n) for part in ("train", "test"))
    (x, y), (new, truth) = everything(train), everything(test)

    def potential(w: Any) -> tuple[float, Any]:
        t = x @ w
        return float(model.loss.value(t, y).sum() + law.tau / 2.0 * w @ w), x.T @ model.loss.slope(t, y) + law.tau * w

    mode = minimize(potential, np.zeros(law.width), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    rng = np.random.default_rng(2)
    (drawn,) = replace(law).draw(train, 1, lambda shape: rng.normal(size=shape))
    without, private = (float(((new @ w > 0.0) == (truth > 0.5)).mean()) for w in (mode, drawn))
    print(f"Adult: one private draw {private:.4f}, the mode without privacy {without:.4f}")
    assert private >= without - 0.01
