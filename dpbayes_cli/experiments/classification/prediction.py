"""Predict the classes of new records in every trial of a cell, and score the predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbayes_cli.experiments.cell import CellOutcome
from dpbayes_cli.experiments.classification.cell import ERRORS, SCORES, ClassificationCell
from dpbayes_cli.experiments.classification.posteriors import posteriors
from dpbayes_cli.experiments.classification.records import ClassificationRecords, model_of, records_of, target_of
from dpbayes_cli.experiments.means import standard_error
from dpbayes_cli.inference.predictive.classify import class_probabilities
from dpbayes_cli.inference.scores.class_scores import class_scores

if TYPE_CHECKING:
    from dpbayes_cli.base.numeric import Floats
    from dpbayes_cli.models.families.discrete_bayes_net import DiscreteBayesNet


def predict_cell(cell: ClassificationCell) -> CellOutcome:
    """Run all trials of a cell; equal cells give equal numbers, in any process.

    Raises:
        SpecError: no release can be planned.
        SourceError: a file cannot be read.
    """
    model = model_of(cell)
    records = records_of(cell, model)
    found = posteriors(cell, model, records)
    trials = _scored(model, records, found.draws)
    for name, tables in zip(ERRORS, (found.released, found.taken), strict=True):
        if tables is not None:
            trials[name] = np.abs(tables - records.counts).mean(axis=1)
    measures: dict[str, float | None] = dict.fromkeys(
        f"{name}{ending}" for name in (*SCORES, "majority", *ERRORS) for ending in ("", "_se")
    )
    for name, values in trials.items():
        measures[name], measures[f"{name}_se"] = float(values.mean()), standard_error(values)
    return CellOutcome(measures, trials)


def _scored(model: DiscreteBayesNet, records: ClassificationRecords, draws: Floats) -> dict[str, Floats]:
    """Return the scores of each trial, and how often the commonest class of the records learned from is right."""
    target = target_of(model)
    scores = [
        class_scores(class_probabilities(model.network, target, drawn, test), labels)
        for drawn, test, labels in zip(draws, records.tests, records.labels, strict=True)
    ]
    found = {name: np.array([getattr(each, name) for each in scores]) for name in SCORES}
    of_class = model.split(records.counts)[target].reshape(len(draws), -1, model.network.sizes[target]).sum(axis=1)
    commonest = of_class.argmax(axis=1)
    right = [float((labels[labels >= 0] == k).mean()) for labels, k in zip(records.labels, commonest, strict=True)]
    return {**found, "majority": np.array(right)}
