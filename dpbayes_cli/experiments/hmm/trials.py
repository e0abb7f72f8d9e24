"""Predict what is held out in every trial of a cell: the log-likelihood of a record."""

from __future__ import annotations

import numpy as np

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.hmm.cell import HmmCell
from dpbayes_cli.experiments.hmm.posteriors import HeldOutPrediction, power_of, predictions
from dpbayes_cli.experiments.hmm.records import HmmTrial, trials_of
from dpbayes_cli.experiments.means import standard_error
from dpbayes_cli.inference.sequences.state_paths import held_out_log_likelihood


def run_trials(cell: HmmCell) -> CellOutcome:
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
    return CellOutcome(measures, {"log_likelihood": values, "n_test": np.array([float(t.n_test) for t in trials])})


def log_likelihood(trial: HmmTrial, prediction: HeldOutPrediction) -> float:
    """Return the log-likelihood of what is held out, a record."""
    counts = np.concatenate(trial.test, axis=1)
    emissions = np.concatenate(prediction.emissions, axis=2)
    return held_out_log_likelihood(counts, emissions, prediction.states[:, trial.held]) / trial.n_test
