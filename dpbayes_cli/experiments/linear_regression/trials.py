"""Learn from a part of the records in every trial of a cell, and predict the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dpbayes_cli.base.canonical import canonical_json
from dpbayes_cli.base.errors import SpecError
from dpbayes_cli.core.columns import RecordPolicy
from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.file_records import read_codes
from dpbayes_cli.experiments.linear_regression.ball import ball_radius, draw_in_ball, likelihood_power
from dpbayes_cli.experiments.linear_regression.cell import LinearCell
from dpbayes_cli.experiments.linear_regression.study import LinearCase
from dpbayes_cli.experiments.means import standard_error
from dpbayes_cli.privacy.neighbors import Neighbors

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats

POLICY = RecordPolicy(Neighbors.REPLACE_ONE)
"""Every column has a stand-in, so that records are complete and their number is public."""


@dataclass(frozen=True)
class LinearTrial:
    """What one trial learns from and predicts.

    Attributes:
        numbers: what is learned from, in the units of the file, the target first.
        x, y: the same as rows of norm 1 at most and targets in [-1, 1].
        test_x, test_y: what is predicted.
    """

    numbers: Floats
    x: Floats
    y: Floats
    test_x: Floats
    test_y: Floats


def run_trials(cell: LinearCell) -> CellOutcome:
    """Run all trials of a cell; equal cells give equal numbers, in any process.

    Raises:
        SpecError: there are too few records.
        SourceError: a file cannot be read.
    """
    trials = trials_of(cell)
    if cell.method == "noise-aware":
        from dpbayes_cli.experiments.linear_regression.noise_aware import coefficients

        found, power = coefficients(cell, [trial.numbers for trial in trials]), None
    else:
        found, power = _drawn(cell, trials)
    scale = cell.case.half_range**2
    measured = {
        "mse": np.array([_mse(t.test_x @ w - t.test_y) for t, w in zip(trials, found, strict=True)]) * scale,
        "mean_mse": np.array([_mse(t.y.mean() - t.test_y) for t in trials]) * scale,
    }
    measures: dict[str, float | None] = {"power": power}
    for name, values in measured.items():
        measures[name], measures[f"{name}_se"] = float(values.mean()), standard_error(values)
    return CellOutcome(measures, measured)


def _mse(away: Floats) -> float:
    return float(np.square(away).mean())


def _drawn(cell: LinearCell, trials: list[LinearTrial]) -> tuple[Floats, float]:
    """Return each trial's coefficients, and the power of the likelihood: the mean of the posterior, or one draw.

    The mean is that of the whole posterior; a draw is from the tempered one within the ball.
    """
    variance, sd = float(cell.prior_variance), cell.case.residual_sd / cell.case.half_range
    width = trials[0].x.shape[1]
    radius = ball_radius(variance, width)
    power = 1.0 if cell.epsilon is None else likelihood_power(float(cell.epsilon), radius, sd)
    weight = power / sd**2
    precision = np.array([weight * (t.x.T @ t.x) + np.eye(width) / variance for t in trials])
    moments = np.array([weight * (t.x.T @ t.y) for t in trials])
    mean = np.linalg.solve(precision, moments[:, :, None])[:, :, 0]
    if cell.epsilon is None:
        return mean, power
    return draw_in_ball(mean, precision, radius, np.random.default_rng(cell.noise_seed())), power


def trials_of(cell: LinearCell) -> list[LinearTrial]:
    """Return what the trials learn from and predict; more trials begin with the same.

    Raises:
        SpecError: there are too few records.
        SourceError: the file cannot be read.
    """
    numbers = _numbers(canonical_json(msgspec.to_builtins(cell.case)))
    rows = rows_of(cell.case, numbers)
    target = cell.case.columns[0]
    y = (numbers[:, 0] - (target.lower + target.upper) / 2.0) / cell.case.half_range
    n = round(cell.train_share * len(y))
    if not 1 <= n < len(y):
        raise SpecError(f"{len(y)} records cannot be parted", where=f"cases.{cell.name}.records")
    found = []
    for seed in cell.data_seed().spawn(cell.trials):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:n], order[n:]
        found.append(LinearTrial(numbers[train], rows[train], y[train], rows[test], y[test]))
    return found


def rows_of(case: LinearCase, numbers: Floats) -> Floats:
    """Return rows of norm 1 at most: an intercept and scaled numbers, divided by the root of the width."""
    ends = np.array([(column.lower, column.upper) for column in case.columns[1:]])
    scaled = (2.0 * numbers[:, 1:] - ends.sum(axis=1)) / (ends[:, 1] - ends[:, 0])
    whole = np.column_stack([np.ones(len(numbers)), scaled])
    return np.asarray(whole / np.sqrt(whole.shape[1]))


@lru_cache(maxsize=4)
def _numbers(key: bytes) -> Floats:
    """Return the numbers of a case's file, clamped to their bounds, the target first, shape (n, n_features + 1)."""
    case = msgspec.convert(msgspec.json.decode(key), LinearCase)
    codes = read_codes(case.records, case.columns, POLICY)
    return np.column_stack([column.lower + codes[:, i] * column.step for i, column in enumerate(case.columns)])
