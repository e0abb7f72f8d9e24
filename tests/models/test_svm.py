"""Svm: the loss of its domain, and scores in place of probabilities."""

from __future__ import annotations

from dpbayes_cli.core.losses import SmoothHingeLoss
from tests.models.losses import CLASS, predictor_of
from tests.plans import model_of


def test_the_domain_states_the_smoothing_and_predictions_are_scores() -> None:
    model = model_of("svm", {**CLASS, "smoothing": 0.1})
    assert (model.loss, model.precision) == (SmoothHingeLoss(0.1), 1.0)
    assert "a score above 0 means 'yes'" in predictor_of(model).note
