"""Predict what is held out in every trial of a cell: the log-likelihood of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.experiments.cell import Outcome
from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.posteriors import Prediction, power_of, predictions
from dpbayes_cli.experiments.hmm.records import Trial, trials_of
from dpbayes_cli.experiments.means import standard_error

if TYPE_CHECKING:
    from dpbayes_cli.numeric import Floats


def run_trials(cell: HmmCell) -> Outcome:
    """Run all trials of a cell; equal cells give equal numbers, in any process.

    Raises:
        SpecError: what is held out leaves nothing to learn from, or nothing to predict.
        SourceError: the file cannot be read.
    """
    trials = trials_of(cell)
    values = np.array([log_likelihood(*pair) for pair in zip(trials, predictions(cell, trials), strict=True)])
    measures = {
        "power": power_of(cell),
        "log_likelihood": float(values.mean()),
        "log_likelihood_se": standard_error(values),
    }
    return Outcome(measures, {"log_likelihood": values, "n_test": np.array([float(t.n_test) for t in trials])})


def log_likelihood(trial: Trial, prediction: Prediction) -> float:
    """Return the log-likelihood of what is held out, a record.

    The records of a cell share its state: their likelihood is the mean over states of the product of their emissions,
    and over draws, cell by cell. Cells without records add nothing.
    """
    cells = sum(
        each @ np.log(np.maximum(emission, 1e-300)).swapaxes(1, 2)
        for each, emission in zip(trial.test, prediction.emissions, strict=True)
    )
    with np.errstate(divide="ignore"):
        joint = np.asarray(cells) + np.log(prediction.states[:, trial.held])
    return float(_log_mean(_log_sum(joint)).sum() / trial.n_test)


def _log_sum(values: Floats) -> Floats:
    """Return the log of the sum of exponentials over states, shape (n_draws, n_cells)."""
    return np.asarray(np.logaddexp.reduce(values, axis=2))


def _log_mean(values: Floats) -> Floats:
    """Return the log of the mean of exponentials over draws, shape (n_cells,)."""
    return np.asarray(np.logaddexp.reduce(values, axis=0) - np.log(len(values)))
