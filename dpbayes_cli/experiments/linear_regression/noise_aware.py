"""Noise-aware inference from second moments with Laplace noise."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbayes_cli.core.columns import NumericColumn, RecordPolicy
from dpbayes_cli.core.model import NoisyStatistics
from dpbayes_cli.core.options import EpsilonOptions
from dpbayes_cli.core.registry import mechanism_type
from dpbayes_cli.core.section import require_type
from dpbayes_cli.core.statistic import evaluate
from dpbayes_cli.experiments.linear_regression.cell import LinearCell
from dpbayes_cli.inference.batch import draw_many
from dpbayes_cli.privacy.neighbors import Neighbors
from dpbayes_cli.spec.release_spec import build_spec

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

_POLICY = RecordPolicy(Neighbors.REPLACE_ONE, impute="0")
"""Cells have stand-ins already: records are complete."""


def coefficients(cell: LinearCell, numbers: Sequence[Floats]) -> Floats:
    """Release noisy second moments in every trial, and return the posterior means of the rows' coefficients.

    Args:
        cell: the cell.
        numbers: what each trial learns from, in the units of the file, the target first.

    Returns:
        Shape (n_trials, n_features + 1), the intercept first.
    """
    spec = build_spec(document(cell))
    model = require_type(spec.build_model(), NoisyStatistics)
    mechanism = mechanism_type("laplace")()
    n = len(numbers[0])
    plan = mechanism.plan(model, _POLICY, EpsilonOptions(epsilon=Decimal(str(cell.epsilon))), n)
    (step,) = plan.steps
    columns = [require_type(column, NumericColumn) for column in model.columns]
    exact = np.array([evaluate(step.statistic, columns, each) for each in numbers])
    rng = np.random.default_rng(cell.noise_seed())
    noisy = exact + step.noise.simulate(rng, exact.shape)
    observations = [mechanism.observation(model, _POLICY, row, step.noise, n) for row in noisy.tolist()]
    draws = draw_many(observations, "noise-aware", cell.draws, rng)
    return scaled_coefficients(cell, draws[:, :, : len(columns)].mean(axis=1))


def document(cell: LinearCell) -> dict[str, Any]:
    """Return the spec: the known variance, and priors of the slopes that are those of the rows' coefficients.

    A coefficient of a row of width d has the prior variance v: the slope of a number with half range h and a target
    with half range H has (v / d) (H / h)^2, which is variance / (slope_strength deviation^2) with deviation h.
    """
    case, width = cell.case, len(cell.case.columns)
    strength = (case.residual_sd / case.half_range) ** 2 * width / float(cell.prior_variance)
    target, *features = case.columns
    deviations = {column.role: (column.upper - column.lower) / 2.0 for column in features}
    return {
        "model": "linear-regression",
        "domain": {
            "target": {"column": target.role, "lower": target.lower, "upper": target.upper},
            "features": {column.role: {"lower": column.lower, "upper": column.upper} for column in features},
            "variance": case.residual_sd**2,
        },
        "prior": {"deviation": deviations, "strength": strength, "slope_strength": strength},
    }


def scaled_coefficients(cell: LinearCell, means: Floats) -> Floats:
    """Return intercepts and slopes in the units of the file as coefficients of the rows, and of targets in [-1, 1]."""
    target, *features = cell.case.columns
    middles = np.array([(column.lower + column.upper) / 2.0 for column in features])
    halves = np.array([(column.upper - column.lower) / 2.0 for column in features])
    level = means[:, 0] + means[:, 1:] @ middles - (target.lower + target.upper) / 2.0
    whole = np.column_stack([level, means[:, 1:] * halves]) / cell.case.half_range
    return np.asarray(whole * np.sqrt(whole.shape[1]))
